// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// stays fails the test when the statement stops to hold within a moment.
func stays(t *testing.T, s *scenario.Scenario, what string, check func(map[int]corev1.Pod) error) {
	t.Helper()
	s.Consistently(scenario.Quiet, what, func(context.Context) error { return check(s.ByOrdinal()) })
}

func TestOrderedReady(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{}, scenario.OrderedReady, scenario.Sim(simnode.ReadyDelay, "never"), scenario.Held)
	for o := range 3 {
		s.AwaitOrdinals(upTo(o + 1)...)
		s.Await(fmt.Sprintf("pod %d runs", o), func(pods map[int]corev1.Pod) error {
			if p := pods[o]; p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", p.Status.Phase)
			}
			return nil
		})
		stays(t, s, "nothing is created above a pod that is not ready", func(pods map[int]corev1.Pod) error {
			if len(pods) != o+1 {
				return fmt.Errorf("there are %d pods", len(pods))
			}
			return nil
		})
		s.Annotate(simnode.ReadyDelay, "0s", o)
	}
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2))
	for _, o := range []int{2, 1, 0} {
		s.AwaitUpdating(scenario.V2, o)
		s.Release(o)
	}
	s.Done()
	s.Kept(before, 1)
	s.Annotate(simnode.HangTerminate, "true", 2)
	s.Update(scenario.Replicas(1))
	s.Await("pod 2 is going", func(pods map[int]corev1.Pod) error {
		if p := pods[2]; p.DeletionTimestamp == nil {
			return fmt.Errorf("pod 2 stays")
		}
		return nil
	})
	stays(t, s, "pod 1 waits for pod 2 to be gone", func(pods map[int]corev1.Pod) error {
		if p, found := pods[1]; !found || p.DeletionTimestamp != nil {
			return fmt.Errorf("pod 1 is going")
		}
		return nil
	})
	s.Unannotate(simnode.HangTerminate, 2)
	s.AwaitOrdinals(0)
}

func TestCanaryThenRelease(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 5, limits.Rules{}, scenario.MaxUnavailable("2"))
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2), scenario.Partition(4))
	s.AwaitImage(scenario.V2, 4)
	s.AwaitReady(upTo(5)...)
	progressing := s.AwaitCondition(v1beta1.StatefulSetProgressing, corev1.ConditionFalse)
	if progressing.Reason != v1beta1.ReasonPartitionReached {
		t.Errorf("the condition Progressing is %+v", progressing)
	}
	// A lost pod comes back at the revision the partition keeps for it.
	pods := s.ByOrdinal()
	s.Delete(1)
	s.Await("pod 1 is replaced", replaced(pods, 1))
	s.AwaitReady(upTo(5)...)
	s.AwaitImage(scenario.V2, 4)
	before["web-1"] = s.Identities()["web-1"]
	s.Update(scenario.Partition(0))
	s.Done()
	s.Kept(before, 1)
}

func TestPaused(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 4, limits.Rules{}, scenario.Held)
	s.Done()
	s.Update(scenario.Image(scenario.V2))
	s.AwaitUpdating(scenario.V2, 3)
	s.Update(paused(true))
	s.Revision()
	s.Release(3) // what is under way goes on
	s.AwaitReady(upTo(4)...)
	stays(t, s, "no other pod is updated", func(pods map[int]corev1.Pod) error {
		for o := range 3 {
			if p := pods[o]; p.Spec.Containers[0].Image != scenario.V1 {
				return fmt.Errorf("pod %d is", o)
			}
		}
		return nil
	})
	s.Update(scenario.Replicas(5)) // scaling goes on, too
	s.AwaitReady(upTo(5)...)
	s.Update(paused(false))
	s.Release(upTo(4)...)
	s.Done()
}

func TestRollBackHalfWay(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 6, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Held)
	s.Done()
	first := s.Revision()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2))
	s.AwaitUpdating(scenario.V2, 4, 5)
	s.Release(5)
	s.AwaitUpdating(scenario.V2, 3, 4)
	s.Update(scenario.Image(scenario.V1))
	s.Release(upTo(6)...)
	set := s.Done()
	if set.Status.UpdateRevision != first {
		t.Errorf("the update revision is %s, want the first one, %s", set.Status.UpdateRevision, first)
	}
	s.AwaitImage(scenario.V1, upTo(6)...)
	after := s.Identities()
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		if before[name] != after[name] {
			t.Errorf("pod %s was not to be touched: it was %+v and is %+v", name, before[name], after[name])
		}
	}
	for name, id := range after {
		if id.UID != before[name].UID {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

func TestSeveralTemplatesInARow(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 8, limits.Rules{}, scenario.MaxUnavailable("3"), scenario.Sim(simnode.RestartDelay, "50ms"))
	s.Done()
	before := s.Identities()
	for i := range 12 {
		s.Update(scenario.Image(fmt.Sprintf("example/web:v%d", i+2)))
	}
	s.Done()
	s.AwaitImage("example/web:v13", upTo(8)...)
	for name, id := range s.Identities() {
		if id.UID != before[name].UID || id.IP != before[name].IP || id.Node != before[name].Node {
			t.Errorf("pod %s was %+v and is %+v", name, before[name], id)
		}
	}
	revisions := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(t.Context(), revisions); err != nil {
		t.Fatal(err)
	}
	for i := range revisions.Items {
		for j := range i {
			a, b := &revisions.Items[i], &revisions.Items[j]
			if a.Namespace == s.Name() && b.Namespace == s.Name() && a.Revision == b.Revision {
				t.Errorf("revisions %s and %s have the number %d", a.Name, b.Name, a.Revision)
			}
		}
	}
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{}, func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	})
	s.Done()
	before := s.ByOrdinal()
	s.Update(scenario.Image(scenario.V2))
	s.Revision()
	stays(t, s, "no pod moves by itself", kept(before, 0, 1, 2))
	s.Delete(1)
	s.Await("pod 1 is replaced", replaced(before, 1))
	s.AwaitReady(0, 1, 2)
	s.AwaitImage(scenario.V2, 1)
	if got := s.AwaitCondition(v1beta1.StatefulSetProgressing, corev1.ConditionFalse); got.Reason != v1beta1.ReasonOnDelete {
		t.Errorf("the condition Progressing is %+v", got)
	}
}

func env1(value string) scenario.Change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: value}}
	}
}

func TestInPlaceOnlyRefuses(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{})
	s.Done()
	before := s.Identities()
	// Admission refuses a template InPlaceOnly could not bring to the pods, even with a
	// changed policy.
	s.Update(env1("a"), paused(true))
	s.Update(scenario.Policy(shared.InPlaceOnly), paused(false))
	failed := s.AwaitCondition(v1beta1.StatefulSetFailedUpdatePod, corev1.ConditionTrue)
	if !strings.Contains(failed.Message, "env") || !strings.Contains(failed.Message, "in place") {
		t.Errorf("the condition does not say why: %+v", failed)
	}
	stalled := s.AwaitCondition(v1beta1.StatefulSetStalled, corev1.ConditionTrue)
	if stalled.Reason != v1beta1.ReasonInPlaceImpossible {
		t.Errorf("the condition Stalled is %+v", stalled)
	}
	s.Consistently(scenario.Quiet, "nothing is replaced", func(context.Context) error {
		if diff := cmp.Diff(before, s.Identities()); diff != "" {
			return fmt.Errorf("the pods (-before +now):\n%s", diff)
		}
		for o, p := range s.ByOrdinal() {
			if len(p.Spec.Containers[0].Env) > 0 || !environment.IsReady(&p) {
				return fmt.Errorf("pod %d was touched: env %v, conditions %+v", o, p.Spec.Containers[0].Env, p.Status.Conditions)
			}
		}
		return nil
	})
	s.Update(scenario.Policy(shared.InPlaceIfPossible))
	s.Done()
	if got := len(s.Identities()); got != 3 {
		t.Errorf("there are %d pods, want 3", got)
	}
	for name, id := range s.Identities() {
		if id.UID == before[name].UID {
			t.Errorf("pod %s was not replaced after the policy allowed it", name)
		}
	}
}

func TestRecreateWhenNeeded(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	s := scenario.Start(t, env, 4, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Claims(class, "1Gi"))
	s.Done()
	before := s.ByOrdinal()
	claim := s.Claim("data-web-3")
	s.Update(env1("a"), scenario.Image(scenario.V2))
	s.Done()
	s.Await("all are replaced", replaced(before, upTo(4)...))
	if now := s.Claim("data-web-3"); now == nil || now.UID != claim.UID {
		t.Errorf("the claim was not kept: %+v", now)
	}
}

func TestMetadataOnly(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 4, limits.Rules{}, scenario.MaxUnavailable("2"))
	s.Done()
	before := s.Identities()
	s.Label("mine", "kept", 2)
	s.Update(scenario.Sim("example.io/build", "77"), func(set *v1beta1.StatefulSet) {
		metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, "tier", "front")
	})
	s.Done()
	s.Kept(before, 0)
	for o, p := range s.ByOrdinal() {
		if p.Annotations["example.io/build"] != "77" || p.Labels["tier"] != "front" || o == 2 && p.Labels["mine"] != "kept" {
			t.Errorf("pod %d has labels %v and annotations %v", o, p.Labels, p.Annotations)
		}
	}
}

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 2, limits.Rules{}, func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: 3}
	})
	s.Done()
	before := s.Identities()
	began := time.Now()
	s.Update(scenario.Image(scenario.V2))
	revision := s.Revision()
	s.Await("pod 1 is out of service with the old image and the new revision", func(pods map[int]corev1.Pod) error {
		p := pods[1]
		if scenario.GateOpen(&p) || p.Spec.Containers[0].Image != scenario.V1 || p.Labels[shared.LabelControllerRevisionHash] != revision || p.Annotations[shared.AnnotationInPlaceGrace] == "" {
			return fmt.Errorf("gate %t, image %s, labels %v", scenario.GateOpen(&p), p.Spec.Containers[0].Image, p.Labels)
		}
		return nil
	})
	for _, ordinal := range []int{1, 0} {
		s.Await(fmt.Sprintf("pod %d is changed", ordinal), func(pods map[int]corev1.Pod) error {
			if p := pods[ordinal]; p.Spec.Containers[0].Image != scenario.V2 {
				return fmt.Errorf("the image is %s", p.Spec.Containers[0].Image)
			}
			return nil
		})
		// It was out of service no earlier than the update was asked for, or the pod before was changed.
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("the grace period of pod %d, 3 s, was over after %s", ordinal, took)
		}
		began = time.Now()
	}
	s.Done()
	s.Kept(before, 1)
}

func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{}, func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = ptr.To[int32](2)
	})
	s.AwaitReady(0, 1, 2)
	s.Done()
	if err := scenario.ReadyFor(s.Pods(), 2*time.Second); err != nil {
		t.Errorf("the set counts its pods as available too soon: %v", err)
	}
	before, began := s.Identities(), time.Now()
	s.Update(scenario.Image(scenario.V2))
	s.Done()
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("three pods, one at a time, were available for 2 s each after %s", took)
	}
	s.Kept(before, 1)
}

func TestUnorderedByPriority(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 5, limits.Rules{}, scenario.Held, scenario.Partition(1), func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.UnorderedUpdate = &v1beta1.UnorderedUpdateStrategy{PriorityStrategy: &shared.UpdatePriorityStrategy{
			WeightPriority: []shared.UpdatePriorityWeightTerm{
				{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
				{Weight: 20, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}},
			},
		}}
	})
	s.Done()
	before := s.Identities()
	s.Label("canary", "true", 1)
	s.Label("zone", "a", 0)
	// Pods and sets are watched apart: the labels may be seen after the new image.
	s.Update(scenario.Image(scenario.V2), scenario.Partition(5))
	s.Revision()
	s.Update(scenario.Partition(1))
	for _, next := range []int{1, 0, 4, 3} {
		s.AwaitUpdating(scenario.V2, next)
		s.Release(next)
	}
	s.AwaitReady(upTo(5)...)
	s.AwaitImage(scenario.V1, 2)
	s.Release(2)
	s.Update(scenario.Partition(0))
	s.Done()
	s.Kept(before, 1)
}

func TestImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 5, limits.Rules{}, scenario.MaxUnavailable("2"))
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image("example/unpullable:v2"))
	s.AwaitUpdating("example/unpullable:v2", 3, 4)
	stays(t, s, "the others go on serving", kept(s.ByOrdinal(), 0, 1, 2))
	s.AwaitReady(0, 1, 2)
	s.Update(scenario.Image(scenario.V3))
	s.Done()
	for name, id := range s.Identities() {
		if id.UID != before[name].UID {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

func TestCrashingPodsTakeTheFix(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Parallel", "OrderedReady"} {
		t.Run(strings.ToLower(policy), func(t *testing.T) {
			t.Parallel()
			s := scenario.Start(t, env, 4, limits.Rules{}, scenario.Held, func(set *v1beta1.StatefulSet) {
				set.Spec.PodManagementPolicy = appsv1.PodManagementPolicyType(policy)
			})
			s.Done()
			s.Annotate(simnode.CrashLoop, "true", 0)
			s.AwaitReady(1, 2, 3)
			s.Eventually("the operator has seen the crash", func(context.Context) error {
				if ready := s.Set().Status.ReadyReplicas; ready != 3 {
					return fmt.Errorf("%d pods are ready by the status", ready)
				}
				return nil
			})
			s.Update(scenario.Image(scenario.V2))
			s.AwaitUpdating(scenario.V2, 0)
			s.Unannotate(simnode.CrashLoop, 0)
			s.Release(upTo(4)...)
			s.Done()
		})
	}
}

func TestSameImageUnderTwoTags(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{}, scenario.Sim(simnode.ImageID, "sha256:5f1b9f8c1e0f4c0e9d8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e"), scenario.Sim(simnode.StatusImage, scenario.V1))
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2))
	s.Done()
	s.Kept(before, 1)
}

// launchPriority is in a container with a launch priority.
func launchPriority(n int) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "barrier"}, Key: fmt.Sprintf("p_%d", n), Optional: ptr.To(true),
	}}}}
}

func TestLaunchPriorities(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 2, limits.Rules{}, scenario.Held, func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "api", Image: "example/api:v1", Env: launchPriority(10)},
			{Name: "mesh", Image: "example/mesh:v1", Env: launchPriority(30)},
		}
	})
	s.Done()
	before := s.Identities()
	s.Update(func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Image = "example/api:v2"
		set.Spec.Template.Spec.Containers[1].Image = "example/mesh:v2"
	})
	images := func(ordinal int, want ...string) func(map[int]corev1.Pod) error {
		return func(pods map[int]corev1.Pod) error {
			p := pods[ordinal]
			if got := []string{p.Spec.Containers[0].Image, p.Spec.Containers[1].Image}; got[0] != want[0] || got[1] != want[1] {
				return fmt.Errorf("the images are %v, want %v", got, want)
			}
			return nil
		}
	}
	s.Await("mesh goes first", images(1, "example/api:v1", "example/mesh:v2"))
	stays(t, s, "api waits for mesh", images(1, "example/api:v1", "example/mesh:v2"))
	s.Annotate(simnode.RestartDelay, "mesh=0s,api=never", 1)
	s.Await("api follows", images(1, "example/api:v2", "example/mesh:v2"))
	stays(t, s, "the next pod waits", images(0, "example/api:v1", "example/mesh:v1"))
	s.Release(0, 1)
	s.Done()
	s.Kept(before, 2) // both containers
}

// TestPodsAreKilled deletes pods at random while a set is updated in place.
func TestPodsAreKilled(t *testing.T) {
	t.Parallel()
	seed := int64(sample.Day())
	t.Logf("%s=%d", sample.DayVariable, seed)
	random := rand.New(rand.NewSource(seed))
	s := scenario.Start(t, env, 20, limits.Rules{Foreign: true}, scenario.MaxUnavailable("25%"), scenario.Sim(simnode.RestartDelay, "100ms"), scenario.Sim(simnode.TerminateDelay, "50ms"))
	s.Done()
	for _, image := range []string{scenario.V2, scenario.V3, scenario.V1}[:sample.Number(1, 3)] {
		s.Update(scenario.Image(image))
		for range 8 {
			victim, before := random.Intn(20), s.ByOrdinal()
			s.Delete(victim)
			s.Await("it is replaced", replaced(before, victim))
		}
		s.Done()
		s.AwaitImage(image, upTo(20)...)
	}
}
