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
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	*host.Keeper
	slots *host.Slots
	limit flowcontrol.RateLimiter
	begun time.Time
	// spread is a random share of 1.
	spread func() float64
	// told is the last write of the status. Only the pass uses it.
	told time.Time

	mu     sync.Mutex
	probes map[key]*probe
}

// Setup adds the prober to the daemon.
func Setup(h host.Host) error {
	p := newProber(h, h.Manager.GetClient())
	return p.Start("probe", p)
}

func newProber(h host.Host, c client.Client) *prober {
	return &prober{
		Keeper: host.NewKeeper(h, c, &appsv1alpha1.NodePodProbe{}), slots: host.NewSlots(tries, ownTries),
		limit: flowcontrol.NewTokenBucketRateLimiter(commands, commands), begun: h.Clock.Now(), spread: rand.Float64, probes: map[key]*probe{},
	}
}

// Reconcile begins and ends probes, and writes the changes.
func (p *prober) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	stored := &appsv1alpha1.NodePodProbe{}
	there, err := p.Read(ctx, stored)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !there {
		stored = &appsv1alpha1.NodePodProbe{} // nothing is wanted
	}
	p.sync(ctx, stored)
	before, after := stored.Status.PodProbeStatuses, p.statusOf(stored)
	if !there || equality.Semantic.DeepEqual(before, after) {
		return reconcile.Result{}, nil
	}
	if left := messageInterval - p.Clock.Since(p.told); left > 0 && slices.Equal(urgentStates(before), urgentStates(after)) {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	written, result, err := p.Write(ctx, stored, map[string]any{"podProbeStatuses": after})
	if written {
		p.told = p.Clock.Now()
	}
	return result, err
}

// urgentState is written soon after it changes.
type urgentState struct {
	uid, name string
	state     appsv1alpha1.ProbeState
	trouble   bool
}

func urgentStates(pods []appsv1alpha1.PodProbeStatus) []urgentState {
	var states []urgentState
	for i := range pods {
		pod := &pods[i]
		for j := range pod.ProbeStates {
			state := &pod.ProbeStates[j]
			states = append(states, urgentState{pod.UID, state.Name, state.State, state.Error != ""})
		}
	}
	return states
}

// sync ends unwanted probes, begins new ones, and tells the others of changes.
func (p *prober) sync(ctx context.Context, stored *appsv1alpha1.NodePodProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[key]bool{}
	for i := range stored.Spec.PodProbes {
		pod := &stored.Spec.PodProbes[i]
		for j := range pod.Probes {
			spec := &pod.Probes[j]
			probing.Default(&spec.Probe) // a list of OpenKruise, or one written by hand, may leave numbers out
			at := key{pod.UID, spec.Name}
			wanted[at] = true
			if known := p.probes[at]; known != nil && known.container == spec.ContainerName {
				known.redefine(&spec.Probe, pod.IP, p.Clock.Now())
				continue
			} else if known != nil {
				known.cancel()
			}
			p.begin(ctx, at, pod, spec, stateOf(stored, at))
		}
	}
	for at, known := range p.probes {
		if !wanted[at] {
			known.cancel()
			delete(p.probes, at)
		}
	}
}

// begin begins a probe, from its stored result. It outlives the pass, and ends with the daemon.
func (p *prober) begin(ctx context.Context, at key, pod *appsv1alpha1.PodProbe, spec *appsv1alpha1.ContainerProbe, before *appsv1alpha1.ContainerProbeState) {
	ctx, cancel := context.WithCancel(ctx)
	of := &probe{
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
func (p *prober) statusOf(stored *appsv1alpha1.NodePodProbe) []appsv1alpha1.PodProbeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := []appsv1alpha1.PodProbeStatus{} // null would be no list
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
			status = append(status, of)
		}
	}
	probing.FitMessages(status)
	return status
}
