// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// cloneHook is lifecycle for CloneSets.
func cloneHook(change func(*shared.Lifecycle)) scenario.CloneChange {
	return func(set *v1beta1.CloneSet) {
		set.Spec.Lifecycle = &shared.Lifecycle{}
		change(set.Spec.Lifecycle)
	}
}

// unhook takes the hook from pods, one after the other.
func unhook(t *testing.T, s *scenario.Clones, h handler, names ...string) {
	t.Helper()
	for _, name := range names {
		editPod(t, s.Namespace, h.clear, name)
	}
}

// deleteSet deletes the set with its pods. It waits for the garbage collector to learn the
// kind, up to half a minute after its creation: the pods of an earlier deletion are never
// collected.
func deleteSet(t *testing.T, s *scenario.Clones) {
	t.Helper()
	if err := s.Client.Delete(t.Context(), s.Set(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
}

func waiting(want int, state shared.LifecycleState) func([]corev1.Pod) error {
	return scenario.Number(want, string(state), scenario.Of(scenario.Staying, scenario.InState(state)))
}

func TestCloneSetPreDelete(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		s := scenario.StartClones(t, env, 4, limits.Rules{Regret: true}, scenario.CloneTemplate(h.template), scenario.CloneLimits("2", "0"),
			cloneHook(func(l *shared.Lifecycle) { l.PreDelete = h.hook() }))
		before := identitiesWhenDone(s)
		marks := h.hook().MarkPodNotReady
		ready := map[bool]int{true: 2, false: 4}[marks]

		// Scaled in: two pods wait at the hook, and serve unless the hook says otherwise.
		s.Update(scenario.CloneReplicas(2))
		s.Rests("two wait", waiting(2, shared.StatePreparingDelete), scenario.Number(ready, "ready", environment.IsReady))

		// Regretted: they come back, unless the hook's action cannot be undone.
		s.Update(scenario.CloneReplicas(4))
		gone := s.Names(scenario.InState(shared.StatePreparingDelete))
		if marks {
			s.Rests("they wait on", waiting(2, shared.StatePreparingDelete), scenario.Number(4, "there", scenario.Staying))
		} else {
			s.Await("they are back", waiting(0, shared.StatePreparingDelete), scenario.Number(4, "ready", environment.IsReady))
			s.Done()
			s.Kept(before, 0)
			s.Update(scenario.CloneReplicas(2))
			s.Await("two wait", waiting(2, shared.StatePreparingDelete))
			gone = s.Names(scenario.InState(shared.StatePreparingDelete))
		}

		// Released, the last one first: they go.
		unhook(t, s, h, gone[1], gone[0])
		s.Await("they are gone", scenario.Number(0, "there", scenario.Named(gone...)))
		s.Done()

		// A pod to be replaced waits, too; somebody deletes it meanwhile.
		one := s.Names(scenario.Staying)[0]
		s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(one))
		s.Await("it waits", waiting(1, shared.StatePreparingDelete))
		s.Delete(scenario.Named(one))
		unhook(t, s, h, one)
		s.Await("it is gone", scenario.Number(0, "there", scenario.Named(one)))
		s.Done()

		// The set is deleted: nobody waits for the hook. A finalizer holds its pod, as any finalizer does.
		one = s.Names(scenario.Staying)[0]
		s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(one))
		s.Await("it waits", waiting(1, shared.StatePreparingDelete))
		deleteSet(t, s)
		s.Await("all are going", scenario.Number(0, "there", scenario.Staying))
		unhook(t, s, h, s.Names(func(*corev1.Pod) bool { return true })...)
		s.Await("all are gone", scenario.Number(0, "left", func(*corev1.Pod) bool { return true }))
	})
}

func TestCloneSetInPlaceUpdateHook(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		s := scenario.StartClones(t, env, 4, limits.Rules{Regret: true}, scenario.CloneTemplate(h.template), scenario.CloneLimits("2", "0"),
			cloneHook(func(l *shared.Lifecycle) { l.InPlaceUpdate = h.hook() }))
		before := identitiesWhenDone(s)
		ready := map[bool]int{true: 2, false: 4}[h.hook().MarkPodNotReady]

		// Regretted while waiting: the pods go back without a restart.
		s.Update(scenario.CloneImage(scenario.V2))
		s.Rests("two wait", waiting(2, shared.StatePreparingUpdate), both(4, 0), scenario.Number(ready, "ready", environment.IsReady))
		s.Update(scenario.CloneImage(scenario.V1))
		s.Await("nobody waits", waiting(0, shared.StatePreparingUpdate))
		s.Done()
		s.Kept(before, 0)

		s.Update(scenario.CloneImage(scenario.V2))
		for len(s.Names(scenario.WithImage(scenario.V1))) > 0 {
			s.Await("two wait", waiting(2, shared.StatePreparingUpdate))
			two := s.Names(scenario.InState(shared.StatePreparingUpdate))
			// One is released and back before the other one; the other one waits all the time.
			for i, name := range []string{two[1], two[0]} {
				unhook(t, s, h, name)
				s.Await("it is updated", scenario.Number(1, "updated", scenario.Of(scenario.Named(name), scenario.WithImage(scenario.V2), scenario.InState(shared.StateUpdated))))
				if i == 0 {
					s.Rests("it is not available before its hook is back", waiting(1, shared.StateUpdated), waiting(1, shared.StatePreparingUpdate))
				}
			}
			for _, name := range two {
				editPod(t, s.Namespace, h.set, name)
			}
		}
		s.Done()
		s.Kept(before, 1)

		// Deleted while waiting.
		s.Update(scenario.CloneImage(scenario.V3))
		s.Await("two wait", waiting(2, shared.StatePreparingUpdate))
		deleteSet(t, s)
		s.Await("all are going", scenario.Number(0, "there", scenario.Staying))
		unhook(t, s, h, s.Names(func(*corev1.Pod) bool { return true })...)
		s.Await("all are gone", scenario.Number(0, "left", func(*corev1.Pod) bool { return true }))
	})
}

func TestCloneSetPreNormal(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		s := scenario.StartClones(t, env, 3, limits.Rules{}, cloneHook(func(l *shared.Lifecycle) { l.PreNormal = h.hook() }))
		s.Rests("all wait", waiting(3, shared.StatePreparingNormal), scenario.Number(3, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }))
		names := s.Names(scenario.Staying)
		for i, name := range []string{names[2], names[0], names[1]} {
			editPod(t, s.Namespace, h.set, name)
			s.Observed("so many are available", func(is v1beta1.CloneSetStatus) error {
				if int(is.AvailableReplicas) != i+1 {
					return fmt.Errorf("the status is %+v", is)
				}
				return nil
			})
		}
		s.Done()
		// A new pod of an update waits as well, and the others do for it.
		s.Update(scenario.ClonePolicy(shared.RecreatePods), scenario.CloneImage(scenario.V2))
		s.Rests("one is replaced", both(2, 1), waiting(1, shared.StatePreparingNormal))
		letGo(t, s)
	})
}
