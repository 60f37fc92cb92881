// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// setState is the variable part of a set in a scenario.
type setState struct {
	Image, Partition, MaxUnavailable string
	Hot, Paused, NotUpdate           bool
}

func (w setState) set() *appsv1beta1.SidecarSet {
	changes := []func(*appsv1beta1.SidecarSet){partition(w.Partition), maxUnavailable(w.MaxUnavailable)}
	if w.Hot {
		changes = append(changes, hot)
	}
	if w.Paused {
		changes = append(changes, paused)
	}
	if w.NotUpdate {
		changes = append(changes, notUpdate)
	}
	return newSet(w.Image, changes...)
}

func step(t testing.TB) podsettest.Step[setState] {
	return func(w *podsettest.State[setState]) (planning.Plan, setState) {
		spec := parse(t, w.Set.set())
		return plan.Plan(spec, snapshot(spec, w.Pods)), w.Set
	}
}

type (
	state = podsettest.State[setState]
	act   = podsettest.Act[setState]
	event = podsettest.Event[setState]
)

// start makes pods injected by the set.
func start(t testing.TB, w setState, pods int) *state {
	s := &state{Set: w}
	for i := range pods {
		s.Pods = append(s.Pods, run(newPod(t, fmt.Sprintf("p%d", i), w.set()), true))
	}
	return s
}

func change(name string, to func(*setState)) act {
	return act{Name: name, Do: func(s *state) error { to(&s.Set); return nil }}
}

// images returns the wanted images of containers in a pod of this name.
func images(s *state, container string) []string {
	var all []string
	for _, pod := range s.Pods {
		for _, c := range pod.Spec.Containers {
			if c.Name == container {
				all = append(all, c.Image)
			}
		}
	}
	return all
}

func wantImages(container string, want ...string) func(*state) error {
	return func(s *state) error {
		if got := images(s, container); !slices.Equal(got, want) {
			return fmt.Errorf("container %s of the pods has images %v, want %v", container, got, want)
		}
		return nil
	}
}

// onlyOurs holds when nothing but the set's own containers changes.
func onlyOurs() podsettest.Invariant[setState] {
	return podsettest.Invariant[setState]{Name: "containers of others stay as they are", Check: func(e event) error {
		return wantImages("main", slices.Repeat([]string{"main:1"}, len(e.After.Pods))...)(e.After)
	}}
}

// oneServes holds while one container of each pair is ready, unchanged, with an image of the user's.
func oneServes() podsettest.Invariant[setState] {
	return podsettest.Invariant[setState]{Name: "a container of each pair serves", Check: func(e event) error {
		for _, pod := range e.After.Pods {
			if e.Before.Pod(pod.Name) == nil || !servedBy(e.Before.Pod(pod.Name)) {
				continue
			}
			if !servedBy(pod) {
				return fmt.Errorf("neither container of pod %s serves", pod.Name)
			}
		}
		return nil
	}}
}

// servedBy reports whether a container of the pair is ready and runs an image of the user's.
func servedBy(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if c.Name != "agent-1" && c.Name != "agent-2" || c.Image == "idle:1" {
			continue
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == c.Name && status.Ready && status.Image == c.Image {
				return true
			}
		}
	}
	return false
}

func scenarios(t testing.TB) []podsettest.Scenario[setState] {
	calm := setState{Image: "agent:v1", Partition: "0", MaxUnavailable: "1"}
	with := func(change func(*setState)) setState { w := calm; change(&w); return w }
	hotWorld := with(func(w *setState) { w.Hot = true })
	// at changes the set after an image is given to pods, before their kubelets begin.
	at := func(image string, change func(*setState)) func(*state) error {
		return func(s *state) error {
			s.Set.Image = image
			todo, _ := step(t)(s)
			for _, action := range todo.Actions {
				if err := podsettest.Apply(s, action); err != nil {
					return err
				}
			}
			change(&s.Set)
			return nil
		}
	}
	all := []podsettest.Scenario[setState]{
		{
			Name: "a new image reaches all pods, one after the other", Start: start(t, calm, 3),
			Acts: []act{change("image v2", func(w *setState) { w.Image = "agent:v2" })},
			End:  wantImages("agent", "agent:v2", "agent:v2", "agent:v2"),
		},
		{
			Name: "a partition keeps a pod until it is lowered", Start: start(t, with(func(w *setState) { w.Partition = "1"; w.MaxUnavailable = "100%" }), 3),
			Acts: []act{
				change("image v2", func(w *setState) { w.Image = "agent:v2" }),
				{Name: "the last pod has stayed", Do: func(s *state) error { return wantOld(s, 1) }},
				change("partition 0", func(w *setState) { w.Partition = "0" }),
			},
			End: wantImages("agent", "agent:v2", "agent:v2", "agent:v2"),
		},
		{
			Name: "a bad image stops, and the next one repairs it", Start: start(t, calm, 3), Cluster: podsettest.Cluster{NeverReady: []string{"agent:bad"}},
			Acts: []act{
				change("image bad", func(w *setState) { w.Image = "agent:bad" }),
				{Name: "only one pod has it", Do: func(s *state) error { return wantOld(s, 2) }},
				change("image v2", func(w *setState) { w.Image = "agent:v2" }),
			},
			End: wantImages("agent", "agent:v2", "agent:v2", "agent:v2"),
		},
		{
			Name: "pausing stops, and going on goes on", Start: start(t, with(func(w *setState) { w.Paused = true }), 2),
			Acts: []act{
				change("image v2", func(w *setState) { w.Image = "agent:v2" }),
				{Name: "nothing has moved", Do: func(s *state) error { return wantOld(s, 2) }},
				change("go on", func(w *setState) { w.Paused = false }),
			},
			End: wantImages("agent", "agent:v2", "agent:v2"),
		},
		{
			Name: "a hot upgrade changes containers by turns", Start: start(t, hotWorld, 2),
			Acts: []act{
				change("image v2", func(w *setState) { w.Image = "agent:v2" }),
				{Name: "the second container works", Do: wantImages("agent-2", "agent:v2", "agent:v2")},
				change("image v3", func(w *setState) { w.Image = "agent:v3" }),
			},
			End: func(s *state) error {
				if err := wantImages("agent-2", "idle:1", "idle:1")(s); err != nil {
					return err
				}
				return wantImages("agent-1", "agent:v3", "agent:v3")(s)
			},
		},
		{
			Name: "a hot upgrade that fails is repaired in the same container", Start: start(t, hotWorld, 1), Cluster: podsettest.Cluster{NotPulled: []string{"agent:bad"}},
			Acts: []act{
				change("image bad", func(w *setState) { w.Image = "agent:bad" }),
				{Name: "the first container serves", Do: wantImages("agent-1", "agent:v1")},
				change("image v3", func(w *setState) { w.Image = "agent:v3" }),
			},
			End: func(s *state) error {
				if err := wantImages("agent-1", "idle:1")(s); err != nil {
					return err
				}
				return wantImages("agent-2", "agent:v3")(s)
			},
		},
		{
			Name: "a hot upgrade that fails is taken back", Start: start(t, hotWorld, 1), Cluster: podsettest.Cluster{NotPulled: []string{"agent:bad"}},
			Acts: []act{
				change("image bad", func(w *setState) { w.Image = "agent:bad" }),
				change("image v1", func(w *setState) { w.Image = "agent:v1" }),
			},
			End: func(s *state) error {
				if err := wantImages("agent-2", "idle:1")(s); err != nil {
					return err
				}
				if got := s.Pods[0].Annotations[shared.AnnotationSidecarSetWorkingContainer]; got != `{"agent":"agent-1"}` {
					return fmt.Errorf("working: %s", got)
				}
				return wantImages("agent-1", "agent:v1")(s)
			},
		},
		{
			Name: "a hot upgrade whose image changes before the kubelet has begun", Start: start(t, hotWorld, 1),
			Acts: []act{{Name: "image v2, and v3 once the pod has it", Do: at("agent:v2", func(w *setState) { w.Image = "agent:v3" })}},
			End: func(s *state) error { // The kubelet may have been faster.
				got := append(images(s, "agent-1"), images(s, "agent-2")...)
				slices.Sort(got)
				if !slices.Equal(got, []string{"agent:v3", "idle:1"}) {
					return fmt.Errorf("the pair has %v", got)
				}
				return nil
			},
		},
		{
			Name: "a hot upgrade that is taken back before the kubelet has begun", Start: start(t, hotWorld, 1),
			Acts: []act{{Name: "image v2, and v1 once the pod has it", Do: at("agent:v2", func(w *setState) { w.Image = "agent:v1" })}},
			End: func(s *state) error {
				got := append(images(s, "agent-1"), images(s, "agent-2")...)
				slices.Sort(got)
				if !slices.Equal(got, []string{"agent:v1", "idle:1"}) {
					return fmt.Errorf("the pair has %v", got)
				}
				return nil
			},
		},
		{
			Name: "pausing lets a hot upgrade end", Start: start(t, hotWorld, 1),
			Acts: []act{{Name: "image v2, paused once the pod has it", Do: at("agent:v2", func(w *setState) { w.Paused = true })}},
			End: func(s *state) error {
				if err := wantImages("agent-1", "idle:1")(s); err != nil {
					return err
				}
				return wantImages("agent-2", "agent:v2")(s)
			},
		},
		{
			Name: "a deleted pod is not counted from then on, also when nothing is updated", Start: start(t, with(func(w *setState) { w.NotUpdate = true }), 3),
			Acts: []act{
				{Name: "three pods count", Do: counts(t, 3, 3, 3, 3)},
				{Name: "one is deleted", Do: inOrder(deletes("p2"), counts(t, 2, 2, 2, 2))},
				{Name: "it is gone", Do: counts(t, 2, 2, 2, 2)},
				{Name: "image v2, which reaches no pod", Do: inOrder(change("", func(w *setState) { w.Image = "agent:v2" }).Do, counts(t, 2, 0, 2, 0))},
				{Name: "another is deleted", Do: inOrder(deletes("p0"), counts(t, 1, 0, 1, 0))},
				{Name: "the last one crashes", Do: inOrder(moves("p1", podsettest.Crash), counts(t, 1, 0, 0, 0))},
				{Name: "and is deleted", Do: inOrder(deletes("p1"), counts(t, 0, 0, 0, 0))},
			},
			End: func(s *state) error { return errors.Join(counts(t, 0, 0, 0, 0)(s), wantImages("agent")(s)) },
		},
	}
	for i := range all {
		all[i].Step = step(t)
		all[i].Always = append(all[i].Always, onlyOurs(), podsettest.OneActionEach[setState]())
		if all[i].Start.Set.Hot {
			all[i].Always = append(all[i].Always, oneServes())
		}
	}
	return all
}

// counts checks the counters of a pass starting now.
func counts(t testing.TB, matched, updated, ready, both int32) func(*state) error {
	return func(s *state) error {
		_, status := planFor(t, s.Set.set(), s.Pods...)
		got := []int32{status.MatchedPods, status.UpdatedPods, status.ReadyPods, status.UpdatedReadyPods}
		if want := []int32{matched, updated, ready, both}; !slices.Equal(got, want) {
			return fmt.Errorf("matched, updated, ready and both are %v, want %v", got, want)
		}
		return nil
	}
}

func moves(pod string, move podsettest.Move) func(*state) error {
	return func(s *state) error { return podsettest.Do(s, podsettest.Cluster{}, pod, move) }
}

func deletes(pod string) func(*state) error { return moves(pod, podsettest.DeletePod) }

func inOrder(all ...func(*state) error) func(*state) error {
	return func(s *state) error {
		for _, do := range all {
			if err := do(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func wantOld(s *state, want int) error {
	old := 0
	for _, image := range images(s, "agent") {
		if image == "agent:v1" {
			old++
		}
	}
	if old != want {
		return fmt.Errorf("%d pods have the image v1, want %d", old, want)
	}
	return nil
}

func TestScenarios(t *testing.T) {
	for _, scenario := range scenarios(t) {
		t.Run(scenario.Name, func(t *testing.T) { podsettest.Run(t, scenario, 30) })
	}
}
