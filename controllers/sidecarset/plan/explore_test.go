// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// pairOfSets are two sets' images for the same pods.
type pairOfSets struct{ logs, mesh int8 }

// sets returns the two sets explored: logs has container agent,
// mesh has container proxy. Each lets one pod be unavailable.
func (p pairOfSets) sets() []*appsv1beta1.SidecarSet {
	logs := newSet(fmt.Sprintf("agent:v%d", p.logs))
	mesh := newSet(fmt.Sprintf("proxy:v%d", p.mesh))
	mesh.Name, mesh.UID, mesh.Spec.Containers[0].Name = "mesh", "uid-mesh", "proxy"
	return []*appsv1beta1.SidecarSet{logs, mesh}
}

// podOfBoth is a pod injected by both sets.
func podOfBoth(t testing.TB, name string, p pairOfSets) *corev1.Pod {
	t.Helper()
	sets := p.sets()
	pod, other := newPod(t, name, sets[0]), newPod(t, name, sets[1])
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: sets[1].Spec.Containers[0].Image})
	pod.Annotations[shared.AnnotationSidecarSetInjectedList] = "logs,mesh"
	for _, key := range []string{shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage} {
		all := map[string]json.RawMessage{}
		for _, text := range []string{pod.Annotations[key], other.Annotations[key]} {
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[key] = string(text)
	}
	return run(pod, true)
}

// specs are the parsed sets of a pair, each parsed once.
func specs(t testing.TB) func(pairOfSets) []*plan.Spec {
	known := map[pairOfSets][]*plan.Spec{}
	for logs := range int8(2) {
		for mesh := range int8(2) {
			p := pairOfSets{logs + 1, mesh + 1}
			for _, set := range p.sets() {
				known[p] = append(known[p], parse(t, set))
			}
		}
	}
	return func(p pairOfSets) []*plan.Spec { return known[p] }
}

// withinLimit holds while no set takes ready pods out of service beyond its maxUnavailable of 1.
func withinLimit(of func(pairOfSets) []*plan.Spec) podsettest.Invariant[pairOfSets] {
	return podsettest.Invariant[pairOfSets]{Name: "each set keeps its limit", Check: func(e podsettest.Event[pairOfSets]) error {
		for _, spec := range of(e.Before.Set) {
			container := spec.Containers[0].Name
			taken, unavailable := 0, 0
			for _, pod := range snapshot(spec, e.Before.Pods).Pods {
				edited := slices.ContainsFunc(e.Actions, func(a planning.Action) bool {
					return podset.PodOf(a).Name == pod.Object.Name && podsettest.EditOf(a).Images[container] != ""
				})
				switch {
				case pod.Updated && !pod.Available:
					unavailable++
				case edited && pod.Available:
					taken++
				}
			}
			if taken > 0 && taken+unavailable > 1 {
				return fmt.Errorf("SidecarSet %s takes %d ready pods beside %d that are not available", spec.Set.Name, taken, unavailable)
			}
		}
		return nil
	}}
}

// TestExploreTwoSets visits every state of two pods (three with make
// test-all), updated by two sets at once, with a crash anywhere.
func TestExploreTwoSets(t *testing.T) {
	of := specs(t)
	begin := pairOfSets{1, 1}
	start := &podsettest.State[pairOfSets]{Set: begin}
	pods := 2
	if sample.All() {
		pods = 3 // This takes a minute.
	}
	for i := range pods {
		start.Pods = append(start.Pods, podOfBoth(t, fmt.Sprintf("p%d", i), begin))
	}
	done := func(w *podsettest.State[pairOfSets]) error {
		for _, pod := range w.Pods {
			for _, spec := range of(w.Set) {
				want := spec.Containers[0]
				i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
				if pod.Spec.Containers[i].Image != want.Image {
					return fmt.Errorf("pod %s has %s, and %s is wanted", pod.Name, pod.Spec.Containers[i].Image, want.Image)
				}
			}
		}
		return nil
	}
	x := podsettest.Exploration[pairOfSets]{
		Start: []*podsettest.State[pairOfSets]{start},
		// The server takes one write to a version of a pod: the second set's follows later.
		Step: func(w *podsettest.State[pairOfSets]) (planning.Plan, pairOfSets) {
			var both planning.Plan
			for _, spec := range of(w.Set) {
				todo := plan.Plan(spec, snapshot(spec, w.Pods))
				for _, action := range todo.Actions {
					if !slices.ContainsFunc(both.Actions, func(a planning.Action) bool { return podset.PodOf(a).Name == podset.PodOf(action).Name }) {
						both.Actions = append(both.Actions, action)
					}
				}
				both.Held = append(both.Held, todo.Held...)
				both.Recheck(todo.RecheckAfter)
			}
			return both, w.Set
		},
		Faults: []podsettest.Move{podsettest.Crash},
		Budget: podsettest.Budget{Faults: 1, Edits: 2},
		Changes: func(w *podsettest.State[pairOfSets]) []podsettest.Change[pairOfSets] {
			var changes []podsettest.Change[pairOfSets]
			if w.Set.logs == 1 {
				changes = append(changes, podsettest.Change[pairOfSets]{Name: "agent v2", To: pairOfSets{2, w.Set.mesh}, Edit: true})
			}
			if w.Set.mesh == 1 {
				changes = append(changes, podsettest.Change[pairOfSets]{Name: "proxy v2", To: pairOfSets{w.Set.logs, 2}, Edit: true})
			}
			return changes
		},
		Always: []podsettest.Invariant[pairOfSets]{withinLimit(of), podsettest.OneActionEach[pairOfSets]()},
		Goal: func(w *podsettest.State[pairOfSets], todo planning.Plan) bool {
			return len(todo.Actions) == 0 && done(w) == nil
		},
		MaxStates: 400_000,
	}
	result := x.Run()
	t.Log(result)
	if result.Failure != "" || result.Cut > 0 {
		t.Errorf("%d states cut off\n%s", result.Cut, strings.TrimSpace(result.Failure))
	}
	if result.States < 1000 {
		t.Errorf("only %d states: this explores less than it says", result.States)
	}
}

// TestExploreHotUpgrade visits every state of a pod with up to three images, changed at any moment. In one
// run an image cannot be pulled, in another it never becomes ready. In a third all containers crash once, at
// any moment, even before the kubelet sees a change: there it is faster than the time to believe a restarted
// container has the new image.
func TestExploreHotUpgrade(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster        podsettest.Cluster
		crashes, edits int8
	}{
		"all images work":         {edits: 3},
		"one cannot be pulled":    {edits: 3, cluster: podsettest.Cluster{NotPulled: []string{"agent:v2"}}},
		"one never becomes ready": {edits: 3, cluster: podsettest.Cluster{NeverReady: []string{"agent:v2"}}},
		"containers crash":        {edits: 2, cluster: podsettest.Cluster{Clock: true, Prompt: true}, crashes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := tc.cluster
			begin := setState{Image: "agent:v1", Partition: "0", MaxUnavailable: "1", Hot: true}
			bad := len(cluster.NotPulled)+len(cluster.NeverReady) > 0
			x := podsettest.Exploration[setState]{
				Start: []*state{start(t, begin, 1)}, Step: step(t), Cluster: cluster,
				Faults: []podsettest.Move{podsettest.Crash},
				Budget: podsettest.Budget{Edits: tc.edits, Faults: tc.crashes},
				Changes: func(w *state) []podsettest.Change[setState] {
					var changes []podsettest.Change[setState]
					for _, image := range []string{"agent:v1", "agent:v2", "agent:v3"} {
						if image != w.Set.Image {
							to := w.Set
							to.Image = image
							changes = append(changes, podsettest.Change[setState]{Name: image, To: to, Edit: true})
						}
					}
					return changes
				},
				Always: []podsettest.Invariant[setState]{onlyOurs(), oneServes(), podsettest.OneActionEach[setState]()},
				Goal: func(w *state, todo planning.Plan) bool {
					if len(todo.Actions) > 0 {
						return false
					}
					got := append(images(w, "agent-1"), images(w, "agent-2")...)
					slices.Sort(got)
					// With a bad image neither the pod nor any container of this model becomes ready.
					return bad || slices.Equal(got, []string{w.Set.Image, "idle:1"}) && servedBy(w.Pods[0])
				},
				MaxStates: 400_000,
			}
			result := x.Run()
			t.Log(result)
			if result.Failure != "" || result.Cut > 0 {
				t.Errorf("%d states cut off\n%s", result.Cut, strings.TrimSpace(result.Failure))
			}
			if result.States < 100 {
				t.Errorf("only %d states: this explores less than it says", result.States)
			}
		})
	}
}
