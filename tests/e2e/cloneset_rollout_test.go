// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

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

// TestStatusOfTheNodeDoesNotDelayUpdateInPlace updates pods on nodes that write a pod's
// status as soon as it goes out of service, before the operator writes the image.
func TestStatusOfTheNodeDoesNotDelayUpdateInPlace(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 12, limits.Rules{}, scenario.CloneLimits("4", "0"), scenario.CloneSim(simnode.ReportGates, "true"))
	before := identitiesWhenDone(s)
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	s.Update(scenario.CloneImage(scenario.V2))
	s.Done()
	s.Await("all have the image and none is new", scenario.Number(12, "updated", scenario.WithImage(scenario.V2)), scenario.Number(0, "new", newComers(before)))
	byOperator := audit.ByUser(operator.ServiceAccountUser)
	events, err := log.Next(func(e *auditv1.Event) bool {
		return byOperator(e) && e.ObjectRef != nil && e.ObjectRef.Namespace == s.Namespace.Name
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := audit.Count(events)
	images := counts.Sum(func(r audit.Request) bool { return r.Verb == "patch" && r.Resource == "pods" })
	refused := counts.Sum(func(r audit.Request) bool {
		return r.Verb == "patch" && r.Resource == "pods" && r.Code != http.StatusOK
	})
	if images != 12 || refused != 0 {
		t.Errorf("%d patches of images for 12 pods, %d of them refused:\n%s", images, refused, counts)
	}
}

// TestCloneSetInPlaceOnlyStalls gives the set a template InPlaceOnly cannot bring to the
// pods.
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

// TestCloneSetOrder updates four pods one at a time, in the order of priorities and
// scattering.
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
		// The order is made again after each pod, so the one in the middle may be a little off.
		if len(at) != 3 || at[0] != 1 || at[1] < 4 || at[1] > 7 || at[2] != 10 {
			t.Errorf("the pods of the rack were updated at %v, want 1, about 6, and 10", at)
		}
	})
}

// movedInTurn updates the set one pod at a time and returns the order of its held pods.
func movedInTurn(s *scenario.Clones, n int) []string {
	// Pods and sets are watched apart: labels of pods may be seen after the new image.
	s.Update(scenario.CloneImage(scenario.V2), scenario.ClonePaused(true))
	s.Observed("the new image", func(v1beta1.CloneSetStatus) error { return nil })
	s.Update(scenario.ClonePaused(false))
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
	before := identitiesWhenDone(s)
	if err := scenario.ReadyFor(s.Pods(), 2*time.Second); err != nil {
		t.Errorf("the set counts its pods as available too soon: %v", err)
	}
	began := time.Now()
	s.Update(scenario.CloneImage(scenario.V2))
	s.Done()
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("three pods, one at a time, were available for 2 s each after %s", took)
	}
	s.Kept(before, 1)
}

// TestCloneSetScaledInARollout acts as a HorizontalPodAutoscaler: it reads the selector and
// replicas from the scale subresource and changes replicas during moves.
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
