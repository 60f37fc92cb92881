// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestCloneSetExamples are the examples of how a CloneSet behaves, each with the numbers of pods at every step.
func TestCloneSetExamples(t *testing.T) {
	t.Parallel()
	for name, example := range map[string]func(*testing.T){
		"canary by new pods":                      canaryByNewPods,
		"surge and in place":                      surgeInPlace,
		"specified one by one":                    specifiedOneByOne,
		"specified with surge":                    specifiedWithSurge,
		"growing slowly":                          growingSlowly,
		"pods at the preDelete hook are excluded": preparingDeleteIsExcluded,
		"pods at the preDelete hook are counted":  preparingDeleteIsCounted,
		"on delete":                               cloneSetOnDelete,
		"shrinking by name":                       shrinkingByName,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); example(t) })
	}
}

// waitToServe is a change: new pods become ready when the test lets them; see Clones.Serve.
func waitToServe(set *v1beta1.CloneSet) { scenario.CloneSim(simnode.ReadyDelay, "never")(set) }

// held is scenario.Held for CloneSets.
func held(set *v1beta1.CloneSet) { scenario.CloneSim(simnode.RestartDelay, "never")(set) }

// started waits for the first pods of a set with waiting pods, and lets them serve.
func started(s *scenario.Clones, replicas int) {
	s.Await("the pods exist", scenario.Number(replicas, "there", scenario.Staying))
	s.Serve(scenario.Staying)
	s.Done()
}

// newComers is the sort of pods not there before.
func newComers(before map[string]scenario.Identity) scenario.Sort {
	return func(p *corev1.Pod) bool { _, old := before[p.Name]; return !old && scenario.Staying(p) }
}

func both(v1, v2 int) func([]corev1.Pod) error {
	return scenario.All(scenario.Number(v1, "v1", scenario.WithImage(scenario.V1)), scenario.Number(v2, "v2", scenario.WithImage(scenario.V2)))
}

// 1. Ten pods, four of them kept by the partition, three at a time.
func canaryByNewPods(t *testing.T) {
	s := scenario.StartClones(t, env, 10, limits.Rules{}, scenario.ClonePolicy(shared.RecreatePods), scenario.CloneLimits("30%", "0"), waitToServe)
	started(s, 10)
	first := s.Set().Status.CurrentRevision
	s.Update(scenario.CloneImage(scenario.V2), scenario.ClonePartition("4"))
	s.Rests("three are replaced", both(7, 3))
	s.Serve(scenario.WithImage(scenario.V2))
	s.Rests("three more are", both(4, 6))
	s.Serve(scenario.WithImage(scenario.V2))
	set := s.Observed("the canary is available", func(is v1beta1.CloneSetStatus) error {
		if is.UpdatedAvailableReplicas != 6 || is.AvailableReplicas != 10 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
	if is := set.Status; is.ExpectedUpdatedReplicas != 6 || is.CurrentRevision != first || is.UpdateRevision == first {
		t.Errorf("the status is %+v; the first revision was %s", is, first)
	}
	s.Rests("four stay", both(4, 6))
	if verdict := s.Limits.Verify(); verdict.Taken != 6 || verdict.Peak > 3 || verdict.Created != 10+6 {
		t.Errorf("the verdict is %+v", verdict)
	}
}

// 2. Two new pods beside eight old ones; then the old are edited, and the last two leave.
func surgeInPlace(t *testing.T) {
	s := scenario.StartClones(t, env, 8, limits.Rules{}, scenario.CloneLimits("20%", "25%"), waitToServe, held)
	started(s, 8)
	before := s.Identities()
	s.Update(scenario.CloneImage(scenario.V2))
	added := newComers(before)
	s.Rests("two are added and one is edited", scenario.Number(10, "there", scenario.Staying), scenario.Number(2, "added", added),
		scenario.Number(1, "edited", scenario.Of(scenario.WithImage(scenario.V2), scenario.Not(added))))
	s.Serve(added)
	s.Rests("three are edited at a time", scenario.Number(10, "there", scenario.Staying), scenario.Number(3, "being edited", scenario.Edited(scenario.V2)))
	s.Release(scenario.Staying)
	s.Done()
	s.Rests("eight are left", both(0, 8), scenario.Number(8, "there", scenario.Staying))
	kept := 0
	for name, id := range s.Identities() {
		if was, old := before[name]; old {
			kept++
			if id.UID != was.UID || id.Restarts != was.Restarts+1 {
				t.Errorf("pod %s was %+v and is %+v", name, was, id)
			}
		}
	}
	if kept != 6 {
		t.Errorf("%d pods were kept, want 6", kept)
	}
}

// 3. Pods to be replaced go as far as maxUnavailable lets them.
func specifiedOneByOne(t *testing.T) {
	s := scenario.StartClones(t, env, 5, limits.Rules{}, waitToServe)
	started(s, 5)
	before := s.Identities()
	asked := scenario.Named(s.Names(scenario.Staying)[:2]...)
	s.Label(shared.LabelSpecifiedDelete, "true", asked)
	remaining := scenario.Of(scenario.Staying, asked)
	s.Rests("one is replaced", scenario.Number(1, "asked to go", remaining), scenario.Number(5, "there", scenario.Staying))
	s.Serve(newComers(before))
	s.Await("the other one follows", scenario.Number(0, "asked to go", remaining), scenario.Number(5, "there", scenario.Staying))
	s.Serve(newComers(before))
	s.Done()
	s.Await("three are the old ones", scenario.Number(2, "new", newComers(before)))
}

// 3. With a surge the replacement comes first, and a pod broken by another hand counts.
func specifiedWithSurge(t *testing.T) {
	s := scenario.StartClones(t, env, 5, limits.Rules{}, scenario.CloneLimits("1", "1"), waitToServe)
	started(s, 5)
	before, names := s.Identities(), s.Names(scenario.Staying)
	s.Annotate(simnode.NotReady, "true", scenario.Named(names[4]))
	s.Observed("one is broken", func(is v1beta1.CloneSetStatus) error {
		if is.ReadyReplicas != 4 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
	asked := scenario.Named(names[:2]...)
	s.Label(shared.LabelSpecifiedDelete, "true", asked)
	remaining := scenario.Of(scenario.Staying, asked)
	s.Rests("a sixth pod is created and none deleted", scenario.Number(2, "asked to go", remaining), scenario.Number(6, "there", scenario.Staying))
	s.Serve(newComers(before))
	s.Rests("one goes, and another one is created", scenario.Number(1, "asked to go", remaining), scenario.Number(6, "there", scenario.Staying))
	s.Serve(newComers(before))
	s.Await("both have gone", scenario.Number(0, "asked to go", remaining), scenario.Number(5, "there", scenario.Staying))
	s.Unannotate(simnode.NotReady, scenario.Named(names[4]))
	s.Done()
}

// TestCloneSetPartition is example 4: how many pods a partition keeps.
func TestCloneSetPartition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		replicas  int32
		partition string
		keep      int
	}{{7, "50%", 4}, {4, "99%", 3}, {1, "99%", 1}, {200, "0.6%", 2}, {5, "9", 5}, {4, "100%", 4}, {3, "33.3%", 1}} {
		t.Run(fmt.Sprintf("%s of %d", tc.partition, tc.replicas), func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, tc.replicas, limits.Rules{}, scenario.CloneLimits("50%", "0"))
			before := identitiesWhenDone(s)
			s.Update(scenario.CloneImage(scenario.V2), scenario.ClonePartition(tc.partition))
			moved := int(tc.replicas) - tc.keep
			s.Observed("the partition is reached", func(is v1beta1.CloneSetStatus) error {
				if int(is.UpdatedAvailableReplicas) != moved || int(is.ExpectedUpdatedReplicas) != moved || is.AvailableReplicas != tc.replicas {
					return fmt.Errorf("the status is %+v, want %d moved", is, moved)
				}
				return nil
			})
			s.Rests("the others stay", both(tc.keep, moved))
			s.Update(scenario.ClonePartition("0"))
			s.Done()
			s.Kept(before, 1)
		})
	}
}

func identitiesWhenDone(s *scenario.Clones) map[string]scenario.Identity {
	s.Done()
	return s.Identities()
}

// 5. Growing from 2 to 12 pods, three unavailable at most.
func growingSlowly(t *testing.T) {
	s := scenario.StartClones(t, env, 2, limits.Rules{}, waitToServe)
	started(s, 2)
	s.Update(scenario.CloneReplicas(12), func(set *v1beta1.CloneSet) {
		set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromString("25%"))
	})
	unready := scenario.Of(scenario.Staying, scenario.Not(environment.IsReady))
	s.Rests("three are created", scenario.Number(3, "not ready", unready), scenario.Number(5, "there", scenario.Staying))
	s.Eventually("an event says why", func(ctx context.Context) error { return eventOf(ctx, s, "ScaleUpLimited") })
	for total := 6; total <= 12; total++ {
		s.Serve(scenario.Named(s.Names(unready)[0]))
		s.Await("the next one is created", scenario.Number(3, "not ready", unready), scenario.Number(total, "there", scenario.Staying))
	}
	s.Serve(scenario.Staying)
	s.Done()
}

// eventOf is true if the set has an event with the reason.
func eventOf(ctx context.Context, s *scenario.Clones, reason string) error {
	events := &corev1.EventList{}
	if err := s.Client.List(ctx, events, client.InNamespace(s.Name())); err != nil {
		return err
	}
	var others []string
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.Kind == "CloneSet" {
			if e.Reason == reason {
				return nil
			}
			others = append(others, e.Reason)
		}
	}
	return fmt.Errorf("there are only %v", slices.Compact(others))
}

// 6. A pod waiting for its preDelete hook.
func preparingDelete(t *testing.T, exclude bool, check func(s *scenario.Clones, before map[string]scenario.Identity)) {
	t.Helper()
	s := scenario.StartClones(t, env, 3, limits.Rules{}, scenario.CloneTemplate(finalizer().template), func(set *v1beta1.CloneSet) {
		set.Spec.ScaleStrategy.ExcludePreparingDelete = exclude
		set.Spec.Lifecycle = &shared.Lifecycle{PreDelete: &shared.LifecycleHook{FinalizersHandler: []string{hook}}}
	})
	before := identitiesWhenDone(s)
	one := s.Names(scenario.Staying)[0]
	s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(one))
	s.Await("it waits", scenario.Number(1, "waiting", scenario.InState(shared.StatePreparingDelete)))
	check(s, before)
	editPod(t, s.Namespace, finalizer().clear, one)
	s.Await("it is gone", scenario.Number(0, "there", scenario.Named(one)), scenario.Number(3, "there", scenario.Staying))
	s.Done()
	letGo(t, s)
}

func preparingDeleteIsCounted(t *testing.T) {
	preparingDelete(t, false, func(s *scenario.Clones, before map[string]scenario.Identity) {
		s.Rests("nobody takes its place yet", scenario.Number(0, "new", newComers(before)))
	})
}

func preparingDeleteIsExcluded(t *testing.T) {
	preparingDelete(t, true, func(s *scenario.Clones, before map[string]scenario.Identity) {
		s.Rests("one takes its place", scenario.Number(1, "new", newComers(before)), scenario.Number(4, "there", scenario.Staying))
		s.Observed("there are four", func(is v1beta1.CloneSetStatus) error {
			if is.Replicas != 4 {
				return fmt.Errorf("the status is %+v", is)
			}
			return nil
		})
	})
}

// letGo takes the hook from all pods, so the namespace can go.
func letGo(t *testing.T, s *scenario.Clones) {
	t.Helper()
	for _, name := range s.Names(func(*corev1.Pod) bool { return true }) {
		editPod(t, s.Namespace, finalizer().clear, name)
	}
}

// 7. With OnDelete pods move when their user deletes them.
func cloneSetOnDelete(t *testing.T) {
	s := scenario.StartClones(t, env, 5, limits.Rules{}, func(set *v1beta1.CloneSet) {
		set.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDeleteCloneSetUpdateStrategyType}
	})
	s.Done()
	s.Update(scenario.CloneImage(scenario.V2))
	s.Observed("nothing is updated", func(is v1beta1.CloneSetStatus) error {
		if is.CurrentRevision == is.UpdateRevision || is.UpdatedReplicas != 0 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
	s.Rests("no pod moves by itself", both(5, 0))
	s.Delete(scenario.Named(s.Names(scenario.Staying)[:2]...))
	s.Rests("new pods have the new image", both(3, 2))
	s.Await("they serve", scenario.Number(5, "ready", environment.IsReady))
	s.Update(scenario.CloneReplicas(3))
	s.Rests("old pods leave first", both(1, 2))
	s.Update(scenario.CloneReplicas(5))
	s.Rests("new pods have the new image", both(1, 4))
	// A pod to be replaced at its user's wish moves, too.
	s.Label(shared.LabelSpecifiedDelete, "true", scenario.WithImage(scenario.V1))
	s.Done()
}

// 8. Replicas lowered together with a name: only this pod goes.
func shrinkingByName(t *testing.T) {
	s := scenario.StartClones(t, env, 6, limits.Rules{})
	before := identitiesWhenDone(s)
	victim := s.Names(scenario.Staying)[3]
	s.Update(scenario.CloneReplicas(5), toDelete(victim))
	set := s.Observed("the list is empty again", func(v1beta1.CloneSetStatus) error { return listIsEmpty(s) })
	if *set.Spec.Replicas != 5 {
		t.Errorf("replicas are %d", *set.Spec.Replicas)
	}
	s.Done()
	delete(before, victim)
	s.Kept(before, 0)
}

func toDelete(names ...string) scenario.CloneChange {
	return func(set *v1beta1.CloneSet) { set.Spec.ScaleStrategy.PodsToDelete = names }
}

func listIsEmpty(s *scenario.Clones) error {
	if left := s.Set().Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
		return errors.New("podsToDelete still has " + strings.Join(left, ", "))
	}
	return nil
}
