// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe carries out the probes in the node's NodePodProbe and writes their results.
// Package probing of the engine interprets series of tries.
//
// Its promises:
//
//   - Each probe of each container is tried by itself, once in its period. Changed times and thresholds take effect with the next try.
//   - At most 16 tries run at a time, plus 4 for each namespace: hanging probes delay only
//     their own namespace. At most 20 commands start in a second. Further probes wait, so
//     their period gets longer.
//   - The status is written soon after a state changes; for messages alone once a minute at
//     most; at rest never.
//   - After a restart of the daemon it continues from the stored states: unchanged states are not reported again.
//   - Events report changed states. Output of commands is written to the status and nowhere else.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

const (
	// messageInterval is the least time between writes for messages alone.
	messageInterval = time.Minute
	// tries is how many probes are tried at the same time, ownTries how many more of each namespace.
	tries    = 16
	ownTries = 4
	// commands is how many commands are begun in a second.
	commands = 20
)

// key names a probe: its pod's UID and its name.
type key struct{ uid, name string }

// prober is the worker of a node.
type prober struct {
	host    host.Host
	client  client.Client
	trigger *host.Trigger
	slots   chan struct{}
	limit   flowcontrol.RateLimiter
	begun   time.Time
	// spread is a random share of 1.
	spread func() float64

	// writes and told are the last writes of the status and of a message; said is the
	// status written, of id. Only the pass uses them.
	writes host.Writes
	told   time.Time
	said   *appsv1alpha1.NodePodProbeStatus
	id     types.UID

	mu     sync.Mutex
	probes map[key]*probe
	// own are the slots by namespace with probes.
	own      map[string]chan struct{}
	lifetime context.Context
}

// Setup adds the prober to the daemon.
func Setup(h host.Host) error {
	p := &prober{
		host: h, client: h.Manager.GetClient(), trigger: host.NewTrigger(&appsv1alpha1.NodePodProbe{}, h.Node), slots: make(chan struct{}, tries),
		limit: flowcontrol.NewTokenBucketRateLimiter(commands, commands), begun: h.Clock.Now(), spread: rand.Float64,
		probes: map[key]*probe{}, own: map[string]chan struct{}{},
	}
	return h.AddController("probe", p.trigger, controller.Options{Reconciler: p}, p.live)
}

// live lets probes begin, until the daemon ends.
func (p *prober) live(lifetime context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifetime = lifetime
}

// Reconcile begins and ends probes, and writes the changes.
func (p *prober) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name != p.host.Node {
		return reconcile.Result{}, nil
	}
	stored := &appsv1alpha1.NodePodProbe{}
	err := p.client.Get(ctx, client.ObjectKey{Name: p.host.Node}, stored)
	if apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil {
		p.sync(&appsv1alpha1.NodePodProbe{}) //nolint:contextcheck // nothing is begun
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the node's probes: %w", err)
	}
	if p.id != stored.UID {
		p.id, p.said = stored.UID, nil
	}
	p.sync(stored) //nolint:contextcheck // a probe outlives the pass that begins it
	status := p.statusOf(stored)
	before := &stored.Status
	if p.said != nil {
		before = p.said // the cache may not show it yet
	}
	wait := p.pause(before, &status)
	if wait < 0 || wait > 0 {
		return reconcile.Result{RequeueAfter: max(wait, 0)}, nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": stored.UID}, "status": map[string]any{"podProbeStatuses": status.PodProbeStatuses}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rendering the status: %w", err)
	}
	err = p.client.Status().Patch(ctx, &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: stored.Name}}, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: host.Settling}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	now := p.host.Clock.Now()
	p.writes.Note(now)
	p.told, p.said = now, &status
	ctrl.LoggerFrom(ctx).V(1).Info("Status written", "pods", len(status.PodProbeStatuses))
	return reconcile.Result{}, nil
}

// pause is how long the write of a status has to wait; negative when there is nothing to write.
func (p *prober) pause(before, after *appsv1alpha1.NodePodProbeStatus) time.Duration {
	if len(before.PodProbeStatuses) == 0 && len(after.PodProbeStatuses) == 0 || equality.Semantic.DeepEqual(before.PodProbeStatuses, after.PodProbeStatuses) {
		return -1
	}
	if slices.Equal(urgentStates(before), urgentStates(after)) {
		if since := p.host.Clock.Since(p.told); since < messageInterval {
			return messageInterval - since
		}
	}
	return p.writes.Wait(p.host.Clock.Now())
}

// urgentState is written soon after it changes.
type urgentState struct {
	uid, name string
	state     appsv1alpha1.ProbeState
	trouble   bool
}

func urgentStates(s *appsv1alpha1.NodePodProbeStatus) []urgentState {
	var states []urgentState
	for i := range s.PodProbeStatuses {
		pod := &s.PodProbeStatuses[i]
		for j := range pod.ProbeStates {
			state := &pod.ProbeStates[j]
			states = append(states, urgentState{pod.UID, state.Name, state.State, state.Error != ""})
		}
	}
	return states
}

// sync ends unwanted probes, begins new ones, and tells the others of changes.
func (p *prober) sync(stored *appsv1alpha1.NodePodProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, namespaces := map[key]bool{}, map[string]bool{}
	for i := range stored.Spec.PodProbes {
		pod := &stored.Spec.PodProbes[i]
		namespaces[pod.Namespace] = true
		for j := range pod.Probes {
			spec := &pod.Probes[j]
			probing.Default(&spec.Probe) // a list of OpenKruise, or one written by hand, may leave numbers out
			at := key{pod.UID, spec.Name}
			wanted[at] = true
			if known := p.probes[at]; known != nil && known.container == spec.ContainerName {
				known.redefine(&spec.Probe, pod.IP, p.host.Clock.Now())
				continue
			} else if known != nil {
				known.cancel()
			}
			if p.lifetime != nil {
				p.begin(at, pod, spec, stateOf(stored, at))
			}
		}
	}
	for at, known := range p.probes {
		if !wanted[at] {
			known.cancel()
			delete(p.probes, at)
		}
	}
	maps.DeleteFunc(p.own, func(namespace string, _ chan struct{}) bool { return !namespaces[namespace] })
}

// begin begins a probe, from its stored result.
func (p *prober) begin(at key, pod *appsv1alpha1.PodProbe, spec *appsv1alpha1.ContainerProbe, before *appsv1alpha1.ContainerProbeState) {
	ctx, cancel := context.WithCancel(p.lifetime)
	own := p.own[pod.Namespace]
	if own == nil {
		own = make(chan struct{}, ownTries)
		p.own[pod.Namespace] = own
	}
	of := &probe{
		own:    own,
		prober: p, cancel: cancel, uid: pod.UID, container: spec.ContainerName, name: spec.Name,
		pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}},
		machine: probing.NewMachine(&spec.Probe, before), spec: *spec.Probe.DeepCopy(), ip: pod.IP, redefined: make(chan struct{}, 1),
	}
	p.probes[at] = of
	go of.run(ctx)
}

func stateOf(stored *appsv1alpha1.NodePodProbe, at key) *appsv1alpha1.ContainerProbeState {
	for i := range stored.Status.PodProbeStatuses {
		pod := &stored.Status.PodProbeStatuses[i]
		for j := range pod.ProbeStates {
			if pod.UID == at.uid && pod.ProbeStates[j].Name == at.name {
				return &pod.ProbeStates[j]
			}
		}
	}
	return nil
}

// statusOf is the wanted status: the known results of the list's probes, in order.
func (p *prober) statusOf(stored *appsv1alpha1.NodePodProbe) appsv1alpha1.NodePodProbeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := appsv1alpha1.NodePodProbeStatus{PodProbeStatuses: []appsv1alpha1.PodProbeStatus{}}
	for i := range stored.Spec.PodProbes {
		pod := &stored.Spec.PodProbes[i]
		of := appsv1alpha1.PodProbeStatus{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		for j := range pod.Probes {
			at := key{pod.UID, pod.Probes[j].Name}
			if known := p.probes[at]; known != nil {
				if state := known.state(); state.State != "" || state.Error != "" {
					state.Name = at.name
					of.ProbeStates = append(of.ProbeStates, state)
				}
			} else if before := stateOf(stored, at); before != nil {
				of.ProbeStates = append(of.ProbeStates, *before)
			}
		}
		if len(of.ProbeStates) > 0 {
			status.PodProbeStatuses = append(status.PodProbeStatuses, of)
		}
	}
	probing.FitMessages(status.PodProbeStatuses)
	return status
}
