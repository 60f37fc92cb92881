// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

func start(n int32) scenario.Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = &v1beta1.StatefulSetOrdinals{Start: n} }
}

// 5. ordinals.start moves the whole set.
func TestStartOrdinal(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 2, limits.Rules{StartOrdinal: true})
	s.AwaitOrdinals(0, 1)
	s.Done()
	s.Update(start(4), scenario.Replicas(3))
	s.AwaitOrdinals(4, 5, 6)
	s.Done()
	before := s.Identities()
	s.Update(scenario.Image(scenario.V2), scenario.Partition(1))
	s.AwaitImage(scenario.V2, 5, 6)
	s.AwaitReady(4, 5, 6)
	s.Update(scenario.Partition(0))
	s.Done()
	s.Kept(before, 1)
}

func resizing(set *v1beta1.StatefulSet) {
	set.Spec.VolumeClaimUpdateStrategy.Type = "OnPodRollingUpdate"
}

func size(want string) scenario.Change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(want)
	}
}

// capacity: claims have it, by ordinal.
func capacity(s *scenario.Scenario, want map[int]string) func(context.Context) error {
	return func(context.Context) error {
		for o, size := range want {
			claim := s.Claim(fmt.Sprintf("data-web-%d", o))
			if claim == nil {
				return fmt.Errorf("pod %d has no claim", o)
			}
			if got := claim.Status.Capacity[corev1.ResourceStorage]; got.String() != size {
				return fmt.Errorf("the claim of pod %d has %s, want %s", o, got.String(), size)
			}
		}
		return nil
	}
}

// 9. Claims grow pod by pod, together with the pods, as far as the partition lets them.
func TestClaimsGrow(t *testing.T) {
	t.Parallel()
	if err := env.Nodes.CreateStorageClass(t.Context(), "grows", storagev1.VolumeBindingImmediate, true); err != nil {
		t.Fatal(err)
	}
	s := scenario.Start(t, env, 3, limits.Rules{}, scenario.Claims("grows", "10Gi"), resizing)
	s.Done()
	before := s.Identities()
	for o := range 3 {
		hold(t, s, o, "never")
	}
	s.Update(size("20Gi"), scenario.Image(scenario.V2), scenario.Partition(2))
	s.Eventually("the claim of pod 2 is to grow", func(context.Context) error {
		if claim := s.Claim("data-web-2"); claim.Spec.Resources.Requests.Storage().String() != "20Gi" {
			return errors.New("not yet")
		}
		return nil
	})
	s.AwaitImage(scenario.V1, 0, 1, 2) // the pod waits for its claim
	hold(t, s, 2, "0s")
	s.AwaitImage(scenario.V2, 2)
	s.AwaitReady(0, 1, 2)
	s.Eventually("the claim of pod 2 has grown, the others have not", capacity(s, map[int]string{0: "10Gi", 1: "10Gi", 2: "20Gi"}))
	s.Eventually("the status says so", func(context.Context) error {
		claims := s.Set().Status.VolumeClaims
		want := v1beta1.VolumeClaimStatus{VolumeClaimName: "data", CompatibleReplicas: 1, CompatibleReadyReplicas: 1}
		if len(claims) != 1 || claims[0] != want {
			return fmt.Errorf("volumeClaims are %+v", claims)
		}
		return nil
	})
	hold(t, s, 0, "0s")
	hold(t, s, 1, "0s")
	s.Update(scenario.Partition(0))
	s.Done()
	s.Kept(before, 1)
	s.Eventually("all claims have grown", capacity(s, map[int]string{0: "20Gi", 1: "20Gi", 2: "20Gi"}))

	// Only the size: claims grow one after the other, and no pod restarts.
	s.Update(size("30Gi"))
	s.Eventually("all claims have grown", capacity(s, map[int]string{0: "30Gi", 1: "30Gi", 2: "30Gi"}))
	s.Done()
	s.Kept(before, 1)
}

// hold sets how long a claim takes to grow.
func hold(t *testing.T, s *scenario.Scenario, ordinal int, delay string) {
	t.Helper()
	claim := s.Claim(fmt.Sprintf("data-web-%d", ordinal))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, simnode.ExpandDelay, delay)
	if err := s.Client.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func resources(cpu, memory string) scenario.Change {
	return func(set *v1beta1.StatefulSet) {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		set.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
}

// Resources change in place: no restart, under maxUnavailable all the same.
func TestResources(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 4, limits.Rules{}, resources("100m", "64Mi"), scenario.MaxUnavailable("2"), scenario.Sim(simnode.ResizeDelay, "never"))
	s.Done()
	before := s.Identities()
	s.Update(resources("200m", "64Mi"))
	cpu := func(p *corev1.Pod) string { return p.Spec.Containers[0].Resources.Requests.Cpu().String() }
	moved := func(want int) func(map[int]corev1.Pod) error {
		return func(pods map[int]corev1.Pod) error {
			got := 0
			for _, p := range pods {
				if cpu(&p) == "200m" {
					got++
				}
			}
			if got != want {
				return fmt.Errorf("%d pods are changed, want %d", got, want)
			}
			return nil
		}
	}
	s.Await("two pods are being changed", moved(2))
	s.Consistently(half, "the others wait", func(context.Context) error { return moved(2)(s.ByOrdinal()) })
	s.Annotate(simnode.ResizeDelay, "0s", 0, 1, 2, 3)
	s.Done()
	s.Kept(before, 0)

	// Image and resources together.
	s.Update(resources("300m", "128Mi"), scenario.Image(scenario.V2))
	s.Done()
	s.Kept(before, 1)

	// The QoS class would change: replaced.
	s.Update(func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Resources.Limits = nil })
	s.Done()
	for name, id := range s.Identities() {
		if id.UID == before[name].UID {
			t.Errorf("pod %s was not replaced", name)
		}
	}
}

func TestResizeIsRefused(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 2, limits.Rules{}, resources("100m", "64Mi"))
	s.Done()
	before := s.Identities()
	s.Annotate(simnode.Resize, simnode.ResizeInfeasible, 0, 1)
	s.Update(resources("200m", "64Mi"))
	s.Await("pod 1 is asked", func(pods map[int]corev1.Pod) error {
		if p := pods[1]; p.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
			return errors.New("not yet")
		}
		return nil
	})
	stalled := s.AwaitCondition(v1beta1.StatefulSetStalled, corev1.ConditionTrue)
	if stalled.Reason != v1beta1.ReasonInPlaceBlocked || !strings.Contains(stalled.Message, "web-1 waits: the node can never give the new resources") {
		t.Errorf("Stalled is %+v, want the pod and the node's refusal", stalled)
	}
	if failed := s.AwaitCondition(v1beta1.StatefulSetFailedUpdatePod, corev1.ConditionTrue); failed.Reason != v1beta1.ReasonInPlaceBlocked {
		t.Errorf("FailedUpdatePod is %+v", failed)
	}
	s.Consistently(half, "pod 0 waits, and pod 1 is not replaced", func(context.Context) error {
		if p := s.ByOrdinal()[0]; p.Spec.Containers[0].Resources.Requests.Cpu().String() != "100m" {
			return errors.New("pod 0 is asked as well")
		}
		if diff := cmp.Diff(before, s.Identities()); diff != "" {
			return fmt.Errorf("the pods (-before +now):\n%s", diff)
		}
		return nil
	})
	s.Unannotate(simnode.Resize, 0, 1)
	s.Done()
	s.Kept(before, 0)
}
