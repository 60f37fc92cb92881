// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// asking is how long one question to the runtime about a container may take.
const asking = 10 * time.Second

// probe is one probe of one container.
type probe struct {
	*prober
	cancel               context.CancelFunc
	uid, container, name string
	pod                  *corev1.Pod
	// redefined signals a possibly new period.
	redefined chan struct{}
	// id and started are the last seen container and its start; runtime has it. Only run
	// uses them.
	id      string
	runtime cri.Runtime
	started time.Time

	mu      sync.Mutex
	machine *probing.Machine
	spec    corev1.Probe
	ip      string
}

// state is the result to report.
func (p *probe) state() appsv1alpha1.ContainerProbeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine.State()
}

// redefine makes the probe go on as it is asked for now.
func (p *probe) redefine(spec *corev1.Probe, ip string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ip = ip
	if equality.Semantic.DeepEqual(&p.spec, spec) {
		return
	}
	p.machine.Redefine(spec, now)
	p.spec = *spec.DeepCopy()
	select {
	case p.redefined <- struct{}{}:
	default: // it will look anyway
	}
}

func (p *probe) current() (corev1.Probe, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.spec.DeepCopy(), p.ip
}

// run tries the probe once in each period. When the daemon has just begun, the first tries of all probes are spread over their periods.
func (p *probe) run(ctx context.Context) {
	spec, _ := p.current()
	period := periodOf(&spec)
	wait := time.Duration(0)
	if p.Clock.Since(p.begun) < period {
		wait = time.Duration(p.spread() * float64(period))
	}
	last := p.Clock.Now().Add(wait - period)
	for {
		timer := p.Clock.NewTimer(max(period-p.Clock.Since(last), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.redefined:
			timer.Stop()
			spec, _ = p.current()
			period = periodOf(&spec)
			continue
		case <-timer.C():
		}
		last = p.Clock.Now()
		release := p.slots.Take(ctx, p.pod.Namespace)
		if release == nil {
			return
		}
		p.try(ctx)
		release()
	}
}

func periodOf(spec *corev1.Probe) time.Duration {
	return time.Duration(max(spec.PeriodSeconds, 1)) * time.Second
}

// try runs the probe if due, and returns the changes.
func (p *probe) try(ctx context.Context) {
	before := p.state()
	container, err := p.look(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.note(before, func(m *probing.Machine, now time.Time) {
			m.End(probing.Outcome{Error: "asking for the container: " + err.Error()}, now)
		})
		return
	}
	due := false
	p.note(before, func(m *probing.Machine, now time.Time) { due = m.Begin(container, p.container, now) })
	if !due {
		return
	}
	spec, ip := p.current()
	before = p.state()
	begun := p.Clock.Now()
	outcome := p.carryOut(ctx, &spec, ip, container.ID)
	if ctx.Err() != nil {
		return
	}
	p.Metrics.Probes.WithLabelValues(handlerOf(&spec), resultOf(&outcome)).Observe(p.Clock.Since(begun).Seconds())
	p.note(before, func(m *probing.Machine, now time.Time) {
		if equality.Semantic.DeepEqual(p.spec.ProbeHandler, spec.ProbeHandler) { // else it is the outcome of what was asked for before
			m.End(outcome, now)
		}
	})
}

// note records the outcome and returns the changes.
func (p *probe) note(before appsv1alpha1.ContainerProbeState, change func(*probing.Machine, time.Time)) {
	p.mu.Lock()
	change(p.machine, p.Clock.Now())
	after := p.machine.State()
	p.mu.Unlock()
	if equality.Semantic.DeepEqual(before, after) {
		return
	}
	p.Enqueue()
	if before.State == after.State {
		return
	}
	marker, name, _ := probing.SplitKey(p.name)
	switch after.State {
	case appsv1alpha1.ProbeSucceeded:
		p.Events.Eventf(p.pod, nil, corev1.EventTypeNormal, "KruiseProbeSucceeded", "Probe", "Probe %s of PodProbeMarker %s succeeded", name, marker)
	case appsv1alpha1.ProbeFailed:
		p.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "KruiseProbeFailed", "Probe", "Probe %s of PodProbeMarker %s failed", name, marker)
	case appsv1alpha1.ProbeUnknown:
	}
}

// look asks the runtime for the newest container of the name.
func (p *probe) look(ctx context.Context) (probing.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	from, err := p.from(ctx)
	if err != nil {
		return probing.Container{}, err
	}
	p.runtime = from
	containers, err := from.ListContainers(ctx, p.uid)
	if err != nil {
		return probing.Container{}, err
	}
	found, ok := cri.Newest(containers)[p.container]
	if !ok {
		return probing.Container{}, nil
	}
	is := probing.Container{Found: true, ID: found.ID, Running: found.Running}
	if is.Running && p.id != found.ID {
		status, err := from.ContainerStatus(ctx, found.ID)
		switch {
		case errors.Is(err, cri.ErrNotFound):
			return probing.Container{}, nil
		case err != nil:
			return probing.Container{}, err
		}
		p.id, p.started = found.ID, status.Started
	}
	if is.Started = found.Created; p.id == found.ID {
		is.Started = p.started
	}
	return is, nil
}

// from returns the pod's container runtime.
func (p *probe) from(ctx context.Context) (cri.Runtime, error) {
	pod := &corev1.Pod{}
	err := p.Client.Get(ctx, client.ObjectKeyFromObject(p.pod), pod, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	if string(pod.UID) != p.uid {
		pod = &corev1.Pod{} // it is not known yet, or gone
	}
	return p.RuntimeOf(ctx, p.Client, pod), nil
}

func handlerOf(spec *corev1.Probe) string {
	switch {
	case spec.Exec != nil:
		return "exec"
	case spec.HTTPGet != nil:
		return "httpGet"
	}
	return "tcpSocket"
}

func resultOf(o *probing.Outcome) string {
	switch {
	case o.Error != "":
		return "error"
	case o.Success:
		return "success"
	}
	return "failure"
}
