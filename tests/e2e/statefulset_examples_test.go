// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// 1. A Parallel set starts all at once; one crashing pod delays no other.
func TestParallelStart(t *testing.T) {
	t.Parallel()
	// Pods start on the test's word, so it sees all of them before any is ready.
	s := scenario.Start(t, env, 40, limits.Rules{}, scenario.Sim(simnode.StartDelay, "never"))
	s.AwaitOrdinals(upTo(40)...)
	s.Annotate(simnode.CrashLoop, "true", 17)
	s.Annotate(simnode.StartDelay, "0s", upTo(40)...)
	s.AwaitReady(slices.DeleteFunc(upTo(40), func(o int) bool { return o == 17 })...)
	s.Unannotate(simnode.CrashLoop, 17)
	set := s.Done()
	if got := set.Status; got.Replicas != 40 || got.ReadyReplicas != 40 || got.AvailableReplicas != 40 {
		t.Errorf("the status is %+v", got)
	}
}

// 2. maxUnavailable is a sliding window from the highest ordinal down.
func TestInPlaceWindow(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 9, limits.Rules{}, scenario.MaxUnavailable("3"), scenario.Held)
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2))
	s.AwaitUpdating(scenario.V2, 6, 7, 8)
	s.Release(7)
	s.AwaitUpdating(scenario.V2, 5, 6, 8)
	s.Release(upTo(9)...)
	set := s.Done()
	s.Kept(before, 1)
	s.Eventually("the revisions are one", func(context.Context) error {
		set = s.Set()
		if set.Status.CurrentRevision != set.Status.UpdateRevision || set.Status.UpdatedReplicas != 9 || set.Status.CurrentReplicas != 9 {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
	if verdict := s.Limits.Verify(); verdict.Taken != 9 || verdict.Peak != 3 {
		t.Errorf("%d pods were taken out of service, at most %d at once; want 9 and 3", verdict.Taken, verdict.Peak)
	}
}

// 3. A pod broken anyway is moved first at no cost, and counts while broken.
func TestForeignOutage(t *testing.T) {
	t.Parallel()
	t.Run("two", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 6, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Partition(1), scenario.Held)
		s.Done()
		s.Annotate(simnode.CrashLoop, "true", 1)
		s.AwaitReady(0, 2, 3, 4, 5)
		s.Update(scenario.Image(scenario.V2))
		s.AwaitUpdating(scenario.V2, 1, 5)
		s.Release(1)
		s.Unannotate(simnode.CrashLoop, 1)
		s.AwaitUpdating(scenario.V2, 4, 5)
		s.Release(2, 3, 4, 5)
		s.AwaitImage(scenario.V2, 1, 2, 3, 4, 5)
		s.AwaitReady(upTo(6)...)
		s.AwaitImage(scenario.V1, 0)
	})
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 6, limits.Rules{}, scenario.Partition(1), scenario.Held)
		s.Done()
		s.Annotate(simnode.CrashLoop, "true", 1)
		s.AwaitReady(0, 2, 3, 4, 5)
		s.Update(scenario.Image(scenario.V2))
		s.AwaitUpdating(scenario.V2, 1)
		s.Release(1)
		s.Unannotate(simnode.CrashLoop, 1)
		for _, next := range []int{5, 4, 3, 2} {
			s.AwaitUpdating(scenario.V2, next)
			s.Release(next)
		}
		s.AwaitReady(upTo(6)...)
		s.AwaitImage(scenario.V1, 0)
		if verdict := s.Limits.Verify(); verdict.Peak != 1 {
			t.Errorf("at most %d pods were out of service at once, want 1", verdict.Peak)
		}
	})
}

// 4. Reserved ordinals are left out; reserving one of a running pod moves the pod.
func TestReservedOrdinals(t *testing.T) {
	t.Parallel()
	t.Run("parallel", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 4, limits.Rules{}, scenario.Reserve("0", "2-3"), scenario.Partition(1), scenario.Held)
		s.Done()
		s.AwaitOrdinals(1, 4, 5, 6)
		s.Update(scenario.Image(scenario.V2))
		for _, next := range []int{6, 5, 4} {
			s.AwaitUpdating(scenario.V2, next)
			s.Release(next)
		}
		s.AwaitReady(1, 4, 5, 6)
		s.AwaitImage(scenario.V1, 1)
		s.Update(scenario.Reserve("0", "2-3", "5"))
		s.AwaitOrdinals(1, 4, 6, 7)
		s.AwaitReady(1, 4, 6, 7)
		s.AwaitImage(scenario.V1, 1)
	})
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 4, limits.Rules{}, scenario.OrderedReady, scenario.Reserve("0", "2-3"), scenario.Sim(simnode.ReadyDelay, "never"))
		for _, next := range []int{1, 4, 5, 6} {
			s.Await(fmt.Sprintf("pod %d exists", next), exists(next))
			s.Annotate(simnode.ReadyDelay, "0s", next)
		}
		s.Done()
		s.Update(scenario.Reserve("0", "2-3", "5"))
		s.Await("pod 7 exists", exists(7))
		s.AwaitOrdinals(1, 4, 5, 6, 7) // 5 stays until 7 is available
		s.Annotate(simnode.ReadyDelay, "0s", 7)
		s.AwaitOrdinals(1, 4, 6, 7)
	})
}

func exists(ordinal int) func(map[int]corev1.Pod) error {
	return func(pods map[int]corev1.Pod) error {
		if _, found := pods[ordinal]; !found {
			return errors.New("not yet")
		}
		return nil
	}
}

// 6. scaleStrategy.maxUnavailable limits how many unavailable pods exist while the set grows.
func TestRateLimitedStart(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 20, limits.Rules{}, scenario.Sim(simnode.ReadyDelay, "never"), func(set *v1beta1.StatefulSet) {
		set.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(3))}
	})
	s.AwaitOrdinals(0, 1, 2)
	s.Annotate(simnode.ReadyDelay, "0s", 1)
	s.AwaitOrdinals(0, 1, 2, 3)
	s.AwaitReady(1)
	for next := 0; next < 20; next++ {
		s.Await(fmt.Sprintf("pod %d exists", next), exists(next))
		s.Annotate(simnode.ReadyDelay, "0s", next)
	}
	s.Done()
}

// 7. Pods labeled for deletion are replaced under maxUnavailable, from the highest down, broken ones at once.
func TestSpecifiedDelete(t *testing.T) {
	t.Parallel()
	label := func(s *scenario.Scenario, ordinals ...int) {
		t.Helper()
		// Both labels have to be seen at once: pause while writing them.
		s.Update(paused(true))
		s.Revision()
		s.Label(shared.LabelSpecifiedDelete, "true", ordinals...)
		s.Update(paused(false))
	}
	t.Run("one after the other", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 5, limits.Rules{}, scenario.Sim(simnode.ReadyDelay, "never"))
		s.AwaitOrdinals(upTo(5)...)
		s.Annotate(simnode.ReadyDelay, "0s", upTo(5)...)
		s.Done()
		before := s.ByOrdinal()
		label(s, 1, 3)
		s.Await("pod 3 is replaced", replaced(before, 3))
		s.Await("pod 1 is still there", kept(before, 0, 1, 2, 4))
		s.Annotate(simnode.ReadyDelay, "0s", 3)
		s.Await("pod 1 is replaced", replaced(before, 1))
		s.Annotate(simnode.ReadyDelay, "0s", 1)
		s.Done()
		s.Await("the others are kept", kept(before, 0, 2, 4))
	})
	t.Run("the broken one first", func(t *testing.T) {
		t.Parallel()
		s := scenario.Start(t, env, 5, limits.Rules{}, scenario.Sim(simnode.ReadyDelay, "never"))
		s.AwaitOrdinals(upTo(5)...)
		s.Annotate(simnode.ReadyDelay, "0s", upTo(5)...)
		s.Done()
		s.Annotate(simnode.NotReady, "true", 1)
		s.AwaitReady(0, 2, 3, 4)
		before := s.ByOrdinal()
		label(s, 1, 3)
		s.Await("pod 1 is replaced", replaced(before, 1))
		s.Await("pod 3 is still there", kept(before, 0, 2, 3, 4))
		s.Annotate(simnode.ReadyDelay, "0s", 1)
		s.Await("pod 3 is replaced", replaced(before, 3))
		s.Annotate(simnode.ReadyDelay, "0s", 3)
		s.Done()
	})
}

func paused(on bool) scenario.Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = on }
}

// replaced: another pod has the ordinal, and stays.
func replaced(before map[int]corev1.Pod, ordinals ...int) func(map[int]corev1.Pod) error {
	return func(pods map[int]corev1.Pod) error {
		for _, o := range ordinals {
			if p, found := pods[o]; !found || p.UID == before[o].UID || p.DeletionTimestamp != nil {
				return fmt.Errorf("pod %d is the old one or not there", o)
			}
		}
		return nil
	}
}

// kept: the same pods have the ordinals, and stay.
func kept(before map[int]corev1.Pod, ordinals ...int) func(map[int]corev1.Pod) error {
	return func(pods map[int]corev1.Pod) error {
		for _, o := range ordinals {
			if p := pods[o]; p.UID != before[o].UID || p.DeletionTimestamp != nil {
				return fmt.Errorf("pod %d is not the old one", o)
			}
		}
		return nil
	}
}

// 8. whenScaled Delete: claims go with unwanted ordinals before pods come back.
func TestClaimsGoWithScaledPods(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	s := scenario.Start(t, env, 3, limits.Rules{}, scenario.Claims(class, "1Gi"), retention(appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType))
	s.Done()
	claims := map[int]*corev1.PersistentVolumeClaim{}
	for o := range 3 {
		claims[o] = s.Claim(fmt.Sprintf("data-web-%d", o))
	}
	// A claim slow to delete.
	hold := claims[1].DeepCopy()
	hold.Finalizers = append(hold.Finalizers, "example.io/hold")
	if err := s.Client.Update(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	s.Update(scenario.Replicas(1))
	s.AwaitOrdinals(0)
	s.Eventually("the claim of pod 2 is gone and that of pod 1 going", func(context.Context) error {
		if c := s.Claim("data-web-1"); s.Claim("data-web-2") != nil || c == nil || c.DeletionTimestamp == nil {
			return errors.New("not yet")
		}
		return nil
	})
	s.Update(scenario.Replicas(3))
	s.AwaitReady(0, 2)
	s.AwaitOrdinals(0, 2)
	if now := s.Claim("data-web-0"); now == nil || now.UID != claims[0].UID || now.DeletionTimestamp != nil {
		t.Errorf("the claim of pod 0 is %+v", now)
	}
	for {
		held := s.Claim("data-web-1")
		held.Finalizers = slices.DeleteFunc(held.Finalizers, func(f string) bool { return f == "example.io/hold" })
		if s.Client.Update(t.Context(), held) == nil {
			break
		}
	}
	s.Done()
	if now := s.Claim("data-web-1"); now == nil || now.UID == claims[1].UID {
		t.Errorf("the claim of pod 1 is not a new one: %+v", now)
	}
}

func retention(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) scenario.Change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}
