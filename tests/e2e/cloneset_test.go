// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestCloneSetVictims scales in without names: who serves nobody goes first, then who costs the least, then who shares a node.
func TestCloneSetVictims(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 7, limits.Rules{}, scenario.CloneLimits("100%", "0"), scenario.CloneTemplate(func(t *corev1.PodTemplateSpec) {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: t.Labels},
		}}
	}))
	s.Done()
	names := s.Names(scenario.Staying)
	broken, cheap, dear := names[2], names[4], names[0]
	s.Annotate("controller.kubernetes.io/pod-deletion-cost", "-5", scenario.Named(cheap))
	s.Annotate("controller.kubernetes.io/pod-deletion-cost", "100", scenario.Named(dear))
	s.Annotate(simnode.NotReady, "true", scenario.Named(broken))
	s.Observed("one is broken", func(is v1beta1.CloneSetStatus) error {
		if is.ReadyReplicas != 6 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
	s.Update(scenario.CloneReplicas(6))
	s.Rests("the broken one has gone", scenario.Number(6, "there", scenario.Staying), scenario.Number(0, "broken", scenario.Named(broken)))
	s.Update(scenario.CloneReplicas(5))
	s.Rests("the cheap one has gone", scenario.Number(5, "there", scenario.Staying), scenario.Number(0, "cheap", scenario.Named(cheap)))
	crowd := func() int {
		on := map[string]int{}
		for _, p := range s.All(scenario.Staying) {
			on[p.Spec.NodeName]++
		}
		return slices.Max(slices.Collect(maps.Values(on)))
	}
	s.Update(scenario.CloneReplicas(4))
	s.Rests("four are left, the dear one among them", scenario.Number(4, "there", scenario.Staying), scenario.Number(1, "dear", scenario.Named(dear)))
	if got := crowd(); got != 1 {
		t.Errorf("%d pods share a node, though only two of seven did", got)
	}
	s.Update(scenario.CloneReplicas(0))
	s.Rests("nobody is left", scenario.Number(0, "there", scenario.Staying))
}

// TestCloneSetNamedAndReplaced names pods without lowering replicas: they are replaced under maxUnavailable, and the list is emptied.
func TestCloneSetNamedAndReplaced(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 4, limits.Rules{})
	before := identitiesWhenDone(s)
	named := s.Names(scenario.Staying)[1:3]
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"scaleStrategy": map[string]any{"podsToDelete": named}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Kubectl("patch", "clone", "web", "--type=merge", "--patch", string(patch)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Await("both are replaced", scenario.Number(2, "new", newComers(before)), scenario.Number(4, "there", scenario.Staying))
	s.Observed("the list is empty again", func(v1beta1.CloneSetStatus) error { return listIsEmpty(s) })
	s.Done()
	if out, err := s.Kubectl("patch", "clone", "web", "--type=merge", "--patch", `{"spec":{"scaleStrategy":{"podsToDelete":["web-other"]}}}`); err == nil {
		t.Errorf("a pod that is not there was accepted: %s", out)
	}
}

// TestCloneSetGrowthThatIsLimited has pods that never serve: the limit stops creating, not deleting.
func TestCloneSetGrowthThatIsLimited(t *testing.T) {
	t.Parallel()
	limit := func(set *v1beta1.CloneSet) { set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(2)) }
	s := scenario.StartClones(t, env, 4, limits.Rules{}, waitToServe, limit)
	s.Rests("two are created", scenario.Number(2, "there", scenario.Staying))
	before := s.Identities()
	s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(s.Names(scenario.Staying)[0]))
	s.Await("one of them is replaced", scenario.Number(1, "new", newComers(before)), scenario.Number(2, "there", scenario.Staying))
	for range 2 {
		s.Serve(scenario.Staying)
		s.Await("more are created", scenario.Number(4, "there", scenario.Staying))
	}
	s.Serve(scenario.Staying)
	s.Done()
}

// TestCloneSetClaims gives each pod its claim. They go with pods that the set deletes; those of pods that others delete are kept where the
// set says so, for a pod of the same name.
func TestCloneSetClaims(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("reuse %t", reuse), func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 3, limits.Rules{}, scenario.CloneClaims(class, "1Gi"), func(set *v1beta1.CloneSet) {
				set.Spec.ScaleStrategy.EnablePVCReuse = reuse
			})
			s.Done()
			before := claimsOf(t, s)
			s.Eventually("each pod has its claim", func(context.Context) error { return claimsFit(t, s) })

			lost := s.All(scenario.Staying)[0]
			claim := "data-" + lost.Name
			s.Delete(scenario.Named(lost.Name))
			s.Eventually("the pod is replaced and its claim "+map[bool]string{true: "kept", false: "gone"}[reuse], func(context.Context) error {
				now := claimsOf(t, s)
				again := s.Pod(lost.Name)
				if kept := now[claim] == before[claim]; kept != reuse {
					return fmt.Errorf("the claims were %v and are %v", before, now)
				}
				if same := again != nil && again.UID != lost.UID; same != reuse {
					return fmt.Errorf("the pod of the same name is %v", again)
				}
				return claimsFit(t, s)
			})
			s.Done()

			// In place nothing happens to claims; a pod that the set replaces takes its claim along.
			kept := claimsOf(t, s)
			s.Update(scenario.CloneImage(scenario.V2))
			s.Done()
			if now := claimsOf(t, s); !maps.Equal(now, kept) {
				t.Errorf("an update in place changed the claims from %v to %v", kept, now)
			}
			s.Update(scenario.ClonePolicy(shared.RecreatePods), scenario.CloneImage(scenario.V3))
			s.Done()
			s.Eventually("all claims are new", func(context.Context) error {
				for name := range claimsOf(t, s) {
					if _, old := kept[name]; old {
						return fmt.Errorf("claim %s is still there", name)
					}
				}
				return claimsFit(t, s)
			})
			s.Update(scenario.CloneReplicas(1))
			s.Eventually("claims go with the pods", func(context.Context) error {
				if n := len(claimsOf(t, s)); n != 1 {
					return fmt.Errorf("there are %d", n)
				}
				return claimsFit(t, s)
			})
			deleteSet(t, s)
			s.Eventually("everything has gone", func(context.Context) error {
				if n, pods := len(claimsOf(t, s)), s.Pods(); n+len(pods) > 0 {
					return fmt.Errorf("there are %d claims and %d pods", n, len(pods))
				}
				return nil
			})
		})
	}
}

// claimsOf are the claims of a set by name.
func claimsOf(t *testing.T, s *scenario.Clones) map[string]types.UID {
	t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := s.Client.List(t.Context(), list, client.InNamespace(s.Name())); err != nil {
		t.Fatal(err)
	}
	all := map[string]types.UID{}
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].UID
	}
	return all
}

// claimsFit says that there is just one claim for each pod, with its instance ID.
func claimsFit(t *testing.T, s *scenario.Clones) error {
	t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := s.Client.List(t.Context(), list, client.InNamespace(s.Name())); err != nil {
		return err
	}
	pods := s.Pods()
	if len(list.Items) != len(pods) {
		return fmt.Errorf("there are %d claims for %d pods", len(list.Items), len(pods))
	}
	for _, p := range pods {
		id := p.Labels[shared.LabelInstanceID]
		if p.Name != "web-"+id || !slices.ContainsFunc(list.Items, func(c corev1.PersistentVolumeClaim) bool {
			return c.Name == "data-"+p.Name && c.Labels[shared.LabelInstanceID] == id
		}) {
			return fmt.Errorf("pod %s with instance ID %q has no claim", p.Name, id)
		}
	}
	return nil
}

// TestCloneSetPolicies changes an image and an environment variable under each policy.
func TestCloneSetPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy           shared.PodUpdatePolicy
		image, variables int // how many of four pods are new afterwards; -1: refused
	}{
		{shared.RecreatePods, 4, 4},
		{shared.InPlaceIfPossible, 0, 4},
		{shared.InPlaceOnly, 0, -1},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 4, limits.Rules{}, scenario.ClonePolicy(tc.policy), scenario.CloneLimits("2", "0"))
			before := identitiesWhenDone(s)
			s.Update(scenario.CloneImage(scenario.V2))
			s.Done()
			s.Await("pods after a change of the image", both(0, 4), scenario.Number(tc.image, "new", newComers(before)))
			before = s.Identities()
			out, err := s.Kubectl("patch", "clone", "web", "--type=json", "--patch",
				`[{"op":"add","path":"/spec/template/spec/containers/0/env","value":[{"name":"MODE","value":"a"}]}]`)
			if tc.variables < 0 {
				if err == nil || !strings.Contains(out, "env") {
					t.Errorf("a template that cannot get to the pods: %v\n%s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			s.Done()
			s.Await("pods after a change of the environment", scenario.Number(tc.variables, "new", newComers(before)))
		})
	}
}

// TestCloneSetInPlaceOnlyStalls gets a template to the set that InPlaceOnly cannot bring to the pods.
func TestCloneSetInPlaceOnlyStalls(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 3, limits.Rules{})
	before := identitiesWhenDone(s)
	s.Update(scenario.ClonePaused(true), scenario.CloneTemplate(func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: "a"}}
	}))
	s.Update(scenario.ClonePolicy(shared.InPlaceOnly), scenario.ClonePaused(false))
	s.AwaitCondition(v1beta1.CloneSetStalled, corev1.ConditionTrue, v1beta1.ReasonInPlaceImpossible)
	s.AwaitCondition(v1beta1.CloneSetFailedUpdate, corev1.ConditionTrue, v1beta1.ReasonInPlaceImpossible)
	s.Rests("nothing is replaced", scenario.Number(0, "new", newComers(before)), scenario.Number(3, "ready", environment.IsReady))
	s.Update(scenario.ClonePolicy(shared.InPlaceIfPossible))
	s.Done()
	s.Await("all are replaced", scenario.Number(3, "new", newComers(before)))
	s.AwaitCondition(v1beta1.CloneSetStalled, corev1.ConditionFalse, "")
}

// TestCloneSetSurgeAndUnavailable replaces pods with both limits, in numbers and in percent.
func TestCloneSetSurgeAndUnavailable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		unavailable, surge string
		most, least        int // pods there and pods serving before the first new one serves
	}{{"1", "2", 12, 9}, {"0", "1", 11, 10}, {"25%", "15%", 12, 8}, {"30%", "0", 10, 7}} {
		t.Run(tc.unavailable+" and "+tc.surge, func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 10, limits.Rules{}, scenario.ClonePolicy(shared.RecreatePods), scenario.CloneLimits(tc.unavailable, tc.surge), waitToServe)
			started(s, 10)
			s.Update(scenario.CloneImage(scenario.V2))
			s.Rests("the limits are used up", scenario.Number(tc.most, "there", scenario.Staying),
				scenario.Number(tc.least, "serving", scenario.Of(scenario.Staying, environment.IsReady)))
			s.Eventually("all are replaced", func(ctx context.Context) error {
				s.Serve(scenario.WithImage(scenario.V2))
				pods, err := s.ListPods(ctx)
				if err != nil {
					return err
				}
				return scenario.All(both(0, 10), scenario.Number(10, "there", scenario.Staying))(pods)
			})
			s.Serve(scenario.Staying)
			s.Done()
			if verdict := s.Limits.Verify(); verdict.Created != 20 {
				t.Errorf("%d pods were created, want 20", verdict.Created)
			}
		})
	}
}

// TestCloneSetOrder updates four pods one at a time, in the order that priorities and scattering ask for.
func TestCloneSetOrder(t *testing.T) {
	t.Parallel()
	weights := func(r *scenario.Rolling) {
		r.PriorityStrategy = &shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{
			{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
			{Weight: 20, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}},
		}}
	}
	keys := func(r *scenario.Rolling) {
		r.PriorityStrategy = &shared.UpdatePriorityStrategy{OrderPriority: []shared.UpdatePriorityOrderTerm{{OrderedKey: "rank"}}}
	}
	scatter := func(r *scenario.Rolling) { r.ScatterStrategy = []shared.UpdateScatterTerm{{Key: "rack", Value: "a"}} }
	for name, tc := range map[string]struct {
		rolling func(*scenario.Rolling)
		labels  []map[string]string
		want    []int // the pods' positions; -1: any of those left
	}{
		"weights": {weights, []map[string]string{nil, {"zone": "a"}, nil, {"canary": "true"}}, []int{3, 1, -1, -1}},
		"keys":    {keys, []map[string]string{{"rank": "n-1"}, {"rank": "n-9"}, {"rank": "n-10"}, {"rank": "n-3"}}, []int{2, 1, 3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 4, limits.Rules{}, scenario.CloneRolling(tc.rolling), held)
			s.Done()
			names := s.Names(scenario.Staying)
			for i, labels := range tc.labels {
				for key, value := range labels {
					s.Label(key, value, scenario.Named(names[i]))
				}
			}
			for i, moved := range movedInTurn(s, 4) {
				if want := tc.want[i]; want >= 0 && moved != names[want] {
					t.Errorf("update %d was of %s, want %s", i, moved, names[want])
				}
			}
		})
	}
	t.Run("scattered", func(t *testing.T) {
		t.Parallel()
		s := scenario.StartClones(t, env, 10, limits.Rules{}, scenario.CloneRolling(scatter), held)
		s.Done()
		matching := s.Names(scenario.Staying)[3:6]
		s.Label("rack", "a", scenario.Named(matching...))
		var at []int
		for i, moved := range movedInTurn(s, 10) {
			if slices.Contains(matching, moved) {
				at = append(at, i+1)
			}
		}
		// The order is made anew after each pod, so the one in the middle may be a little off.
		if len(at) != 3 || at[0] != 1 || at[1] < 4 || at[1] > 7 || at[2] != 10 {
			t.Errorf("the pods of the rack were updated at %v, want 1, about 6, and 10", at)
		}
	})
}

// movedInTurn updates the set and returns the names of its held pods in the order of their update, which is one at a time.
func movedInTurn(s *scenario.Clones, n int) []string {
	s.Update(scenario.CloneImage(scenario.V2))
	var order []string
	for range n {
		edited := scenario.Edited(scenario.V2)
		s.Await("the next one is edited", scenario.Number(1, "being edited", edited))
		next := s.Names(edited)
		order = append(order, next...)
		s.Release(scenario.Named(next...))
		s.Await("it serves", scenario.Number(1, "serving", scenario.Of(scenario.Named(next...), environment.IsReady, scenario.GateOpen)))
	}
	s.Done()
	return order
}

// TestCloneSetPaused pauses and goes on, in place and with new pods and a surge.
func TestCloneSetPaused(t *testing.T) {
	t.Parallel()
	t.Run("in place", func(t *testing.T) {
		t.Parallel()
		s := scenario.StartClones(t, env, 4, limits.Rules{}, held)
		s.Done()
		s.Update(scenario.CloneImage(scenario.V2))
		s.Await("one is edited", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
		s.Update(scenario.ClonePaused(true))
		s.Observed("the pause", func(v1beta1.CloneSetStatus) error { return nil })
		s.Release(scenario.WithImage(scenario.V2)) // what is under way goes on
		s.Await("it serves", scenario.Number(4, "ready", environment.IsReady))
		s.Rests("no other one is edited", both(3, 1))
		s.Update(scenario.CloneReplicas(6))
		s.Await("scaling goes on", scenario.Number(6, "ready", environment.IsReady))
		before := s.Identities()
		s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(s.Names(scenario.WithImage(scenario.V1))[0]))
		s.Await("so do deletions", scenario.Number(1, "new", newComers(before)), scenario.Number(6, "ready", environment.IsReady))
		s.Update(scenario.ClonePaused(false))
		s.Await("the update goes on", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
		s.Release(scenario.Staying)
		s.Done()
	})
	t.Run("with a surge", func(t *testing.T) {
		t.Parallel()
		s := scenario.StartClones(t, env, 4, limits.Rules{}, scenario.ClonePolicy(shared.RecreatePods), scenario.CloneLimits("0", "2"), waitToServe)
		started(s, 4)
		s.Update(scenario.ClonePaused(true), scenario.CloneImage(scenario.V2))
		s.Observed("the pause", func(v1beta1.CloneSetStatus) error { return nil })
		s.Rests("nothing surges", both(4, 0))
		s.Update(scenario.ClonePaused(false))
		s.Rests("two are added", both(4, 2))
		s.Update(scenario.ClonePaused(true))
		s.Rests("none serves in place of the old ones", both(4, 2))
		s.Serve(scenario.WithImage(scenario.V2))
		s.Rests("pods beyond replicas leave, the old ones first", both(2, 2))
		s.Update(scenario.ClonePaused(false))
		s.Eventually("all are replaced", func(ctx context.Context) error {
			s.Serve(scenario.WithImage(scenario.V2))
			pods, err := s.ListPods(ctx)
			if err != nil {
				return err
			}
			return both(0, 4)(pods)
		})
		s.Serve(scenario.Staying)
		s.Done()
	})
}

// TestCloneSetRollBack takes a template back half way: in place, and with new pods.
func TestCloneSetRollBack(t *testing.T) {
	t.Parallel()
	t.Run("in place", func(t *testing.T) {
		t.Parallel()
		s := scenario.StartClones(t, env, 6, limits.Rules{}, scenario.CloneLimits("2", "0"), held)
		before := identitiesWhenDone(s)
		first := s.Set().Status.UpdateRevision
		s.Update(scenario.CloneImage(scenario.V2))
		s.Rests("two are edited", scenario.Number(2, "being edited", scenario.Edited(scenario.V2)))
		moved := scenario.Named(s.Names(scenario.WithImage(scenario.V2))...)
		s.Update(scenario.CloneImage(scenario.V1))
		s.Release(scenario.Staying)
		if set := s.Done(); set.Status.UpdateRevision != first {
			t.Errorf("the update revision is %s, want the first one, %s", set.Status.UpdateRevision, first)
		}
		s.Await("all have the first image", both(6, 0))
		for name, id := range s.Identities() {
			was := before[name]
			if touched := moved(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); !touched && id != was || id.UID != was.UID {
				t.Errorf("pod %s was %+v and is %+v", name, was, id)
			}
		}
	})
	t.Run("with new pods", func(t *testing.T) {
		t.Parallel()
		s := scenario.StartClones(t, env, 6, limits.Rules{}, scenario.ClonePolicy(shared.RecreatePods), scenario.CloneLimits("2", "1"), waitToServe)
		started(s, 6)
		first := s.Set().Status.UpdateRevision
		s.Update(scenario.CloneImage(scenario.V2))
		s.Rests("three are new", both(4, 3))
		s.Update(scenario.CloneImage(scenario.V1))
		s.Eventually("all have the first image", func(ctx context.Context) error {
			s.Serve(scenario.WithImage(scenario.V1))
			pods, err := s.ListPods(ctx)
			if err != nil {
				return err
			}
			return both(6, 0)(pods)
		})
		s.Serve(scenario.Staying)
		if set := s.Done(); set.Status.UpdateRevision != first {
			t.Errorf("the update revision is %s, want the first one, %s", set.Status.UpdateRevision, first)
		}
	})
}

// TestCloneSetSeveralTemplates changes the template faster than pods follow.
func TestCloneSetSeveralTemplates(t *testing.T) {
	t.Parallel()
	for _, policy := range []shared.PodUpdatePolicy{shared.InPlaceIfPossible, shared.RecreatePods} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			surge := map[bool]string{true: "0", false: "2"}[policy == shared.InPlaceIfPossible]
			s := scenario.StartClones(t, env, 8, limits.Rules{}, scenario.ClonePolicy(policy), scenario.CloneLimits("3", surge),
				scenario.CloneSim(simnode.RestartDelay, "50ms"), scenario.CloneSim(simnode.TerminateDelay, "50ms"))
			before := identitiesWhenDone(s)
			for i := range 10 {
				s.Update(scenario.CloneImage(fmt.Sprintf("example/web:v%d", i+2)))
			}
			s.Done()
			s.Await("all have the last image", scenario.Number(8, "updated", scenario.WithImage("example/web:v11")), scenario.Number(8, "there", scenario.Staying))
			if policy == shared.InPlaceIfPossible {
				s.Await("none was replaced", scenario.Number(0, "new", newComers(before)))
			}
		})
	}
}

// TestCloneSetBadImage stops at maxUnavailable, says so by the deadline, and the fix reaches the broken pods.
func TestCloneSetBadImage(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 5, limits.Rules{}, scenario.CloneLimits("2", "0"), func(set *v1beta1.CloneSet) {
		set.Spec.ProgressDeadlineSeconds = ptr.To[int32](3)
	})
	before := identitiesWhenDone(s)
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionTrue, v1beta1.ReasonCloneSetAvailable)
	s.Update(scenario.CloneImage("example/unpullable:v2"))
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionTrue, v1beta1.ReasonCloneSetUpdated)
	s.Rests("two are broken", scenario.Number(2, "broken", scenario.Edited("example/unpullable:v2")), scenario.Number(3, "serving", environment.IsReady))
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionFalse, v1beta1.ReasonProgressDeadlineExceeded)
	s.Update(scenario.ClonePaused(true))
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionTrue, v1beta1.ReasonCloneSetPaused)
	s.Update(scenario.ClonePaused(false), scenario.CloneImage(scenario.V3), scenario.ClonePartition("3"))
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionTrue, v1beta1.ReasonProgressPartitionAvailable)
	s.Await("the broken ones are fixed", scenario.Number(5, "ready", environment.IsReady), scenario.Number(3, "v1", scenario.WithImage(scenario.V1)))
	s.Update(scenario.ClonePartition("0"))
	s.Done()
	s.AwaitCondition(v1beta1.CloneSetProgressing, corev1.ConditionTrue, v1beta1.ReasonCloneSetAvailable)
	s.Await("none was replaced", scenario.Number(0, "new", newComers(before)))
	s.Update(func(set *v1beta1.CloneSet) { set.Spec.ProgressDeadlineSeconds = nil })
	s.Observed("the condition is gone", func(is v1beta1.CloneSetStatus) error {
		if slices.ContainsFunc(is.Conditions, func(c v1beta1.CloneSetCondition) bool { return c.Type == v1beta1.CloneSetProgressing }) {
			return fmt.Errorf("the conditions are %+v", is.Conditions)
		}
		return nil
	})
}

func TestCloneSetMinReadySeconds(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 3, limits.Rules{}, func(set *v1beta1.CloneSet) { set.Spec.MinReadySeconds = 2 })
	s.Await("all are ready", scenario.Number(3, "ready", environment.IsReady))
	if got := s.Set().Status.AvailableReplicas; got != 0 {
		t.Errorf("%d pods are available as soon as they are ready", got)
	}
	before := identitiesWhenDone(s)
	began := time.Now()
	s.Update(scenario.CloneImage(scenario.V2))
	s.Done()
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("three pods, one at a time, were available for 2 s each after %s", took)
	}
	s.Kept(before, 1)
}

// TestCloneSetScaledInARollout is what a HorizontalPodAutoscaler does: it reads the selector and replicas from the scale subresource and
// changes replicas while pods are being moved.
func TestCloneSetScaledInARollout(t *testing.T) {
	t.Parallel()
	for _, policy := range []shared.PodUpdatePolicy{shared.InPlaceIfPossible, shared.RecreatePods} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 6, limits.Rules{}, scenario.ClonePolicy(policy), scenario.CloneLimits("1", "1"), scenario.ClonePartition("50%"),
				scenario.CloneSim(simnode.RestartDelay, "50ms"))
			s.Done()
			canary := func(replicas, old int) {
				t.Helper()
				s.Observed(fmt.Sprintf("%d pods, %d of them old", replicas, old), func(is v1beta1.CloneSetStatus) error {
					if int(is.AvailableReplicas) != replicas || int(is.Replicas) != replicas || int(is.UpdatedAvailableReplicas) != replicas-old {
						return fmt.Errorf("the status is %+v", is)
					}
					return nil
				})
				s.Rests("they stay so", both(old, replicas-old))
			}
			s.Update(scenario.CloneImage(scenario.V2))
			s.Await("the rollout has begun", func(pods []corev1.Pod) error {
				if scenario.Number(0, "v2", scenario.WithImage(scenario.V2))(pods) == nil {
					return errors.New("no pod is updated")
				}
				return nil
			})
			raw := fmt.Sprintf("/apis/apps.kruise.io/v1beta1/namespaces/%s/clonesets/web/scale", s.Name())
			out, err := s.Kubectl("get", "--raw", raw)
			if err != nil || !strings.Contains(out, `"selector":"app=web"`) {
				t.Fatalf("the scale subresource: %v\n%s", err, out)
			}
			scale := func(n int) {
				t.Helper()
				if out, err := s.Kubectl("scale", "clone/web", fmt.Sprintf("--replicas=%d", n)); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			scale(9)
			canary(9, 5)
			scale(4)
			canary(4, 2)
			if out, err := s.Kubectl("scale", "clonesets.v1alpha1.apps.kruise.io/web", "--replicas=6"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			canary(6, 3)
			s.Update(scenario.ClonePartition("0"))
			scale(8)
			s.Done()
			s.Await("all are updated", both(0, 8))
		})
	}
}

// TestCloneSetTellsHowItIs looks at what kubectl and tools that wait for objects see.
func TestCloneSetTellsHowItIs(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 3, limits.Rules{}, waitToServe, held)
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionTrue, "")
	s.AwaitCondition(v1beta1.CloneSetAvailable, corev1.ConditionFalse, "")
	started(s, 3)
	for _, condition := range []string{"Available", "Reconciling=false", "Stalled=false"} {
		if out, err := s.Kubectl("wait", "--for=condition="+condition, "--timeout=10s", "clone/web"); err != nil {
			t.Errorf("kubectl wait: %v\n%s", err, out)
		}
	}
	s.Update(scenario.CloneImage(scenario.V2))
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionTrue, v1beta1.ReasonRollingOut)
	s.Await("one is edited", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
	s.AwaitCondition(v1beta1.CloneSetAvailable, corev1.ConditionTrue, "")
	s.Eventually("kubectl get shows the columns", func(context.Context) error {
		out, err := s.Kubectl("get", "clone", "web")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if header := strings.Join(strings.Fields(lines[0]), " "); header != "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE" {
			t.Fatalf("the columns are %s", header)
		}
		if row := strings.Join(strings.Fields(lines[1])[:7], " "); row != "web 3 1 0 0 2 3" {
			return fmt.Errorf("the row is %s", row)
		}
		return nil
	})
	s.Release(scenario.Staying)
	s.Done()
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionFalse, "")
	for _, reason := range []string{"SuccessfulCreate", "SuccessfulUpdatePodInPlace"} {
		s.Eventually("there is an event "+reason, func(ctx context.Context) error { return eventOf(ctx, s, reason) })
	}
}

// TestCloneSetIsLeftAlone has the annotation that keeps the operator away, in the middle of a rollout.
func TestCloneSetIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 4, limits.Rules{}, held)
	s.Done()
	s.Update(scenario.CloneImage(scenario.V2))
	s.Await("one is edited", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
	s.Update(func(set *v1beta1.CloneSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, shared.AnnotationPaused, "true")
	})
	s.Eventually("the set says that it is left alone", func(context.Context) error {
		for _, c := range s.Set().Status.Conditions {
			if c.Type == v1beta1.CloneSetStalled && c.Status == corev1.ConditionTrue && c.Reason == v1beta1.ReasonReconciliationPaused {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", s.Set().Status.Conditions)
	})
	s.Delete(scenario.Named(s.Names(scenario.WithImage(scenario.V1))[0]))
	s.Release(scenario.Staying)
	s.Rests("nobody takes the place of a pod that is gone, and no other one is edited", both(2, 1), scenario.Number(3, "left", func(*corev1.Pod) bool { return true }))
	s.Update(func(set *v1beta1.CloneSet) { delete(set.Annotations, shared.AnnotationPaused) })
	s.Release(scenario.Staying)
	s.Done()
	s.Await("all are updated", both(0, 4))
	s.AwaitCondition(v1beta1.CloneSetStalled, corev1.ConditionFalse, "")
}
