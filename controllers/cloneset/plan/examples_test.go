// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

func TestCanaryByReplacingPods(t *testing.T) {
	w := newSimulation(t, 10, maxUnavailable("30%"))
	w.do(partition(4), image("2"))
	w.Pass()
	w.expect("first pass", w.actions(), "3 Delete Outdated")
	for w.Kubelets() && w.at("1") == 10 {
	}
	w.expectActions("3 Create ScaleOut 2")
	w.rest()
	w.expect("updated", w.at("2"), 6)
	w.expect("kept", w.at("1"), 4)
	w.expect("expectedUpdatedReplicas", w.set.Status.ExpectedUpdatedReplicas, int32(6))
	w.expect("currentRevision", w.set.Status.CurrentRevision, "web-1")
	w.expect("fewest available", w.minAvailable, 7)
	w.expect("most pods", w.maxPods, 10)
	w.rest(partition(0))
	w.expect("currentRevision", w.set.Status.CurrentRevision, "web-2")
}

func TestSurgeInPlace(t *testing.T) {
	w := newSimulation(t, 8, inPlace, maxSurge("25%"), maxUnavailable("20%"))
	w.do(image("2"))
	w.Pass()
	w.expect("first pass", w.actions(), "2 Create ScaleOut 2, 1 Edit InPlaceUpdate")
	w.expectActions("")
	w.rest()
	kept := 0
	for i := 1; i <= 8; i++ {
		if w.Pod(fmt.Sprintf("web-p%02d", i)) != nil {
			kept++
		}
	}
	w.expect("updated", w.at("2"), 8)
	w.expect("pods", len(w.Pods), 8)
	w.expect("pods that were kept", kept, 6)
	w.expect("most pods", w.maxPods, 10)
	w.expect("fewest available", w.minAvailable, 7)
}

func TestDeletionsThatUsersAskFor(t *testing.T) {
	w := newSimulation(t, 5, maxUnavailable(1))
	w.do(ask("p01", "p02"))
	w.Pass()
	w.expect("first pass", w.actions(), "1 Delete SpecifiedDelete")
	w.expect("held", w.held(), "MaxUnavailable")
	w.rest()
	w.expectPods("p03:1, p04:1, p05:1, p06:1, p07:1")
	w.expect("fewest available", w.minAvailable, 4)

	w = newSimulation(t, 5, maxUnavailable(1), maxSurge(1))
	w.do(ask("p01", "p02"), crash("p05"))
	w.Pass()
	w.expect("first pass with a surge", w.actions(), "1 Create ScaleOut 1")
	w.Kubelets()
	w.Pass()
	w.expect("before it is available", w.at("1"), 6)
	w.Kubelets()
	w.Pass()
	w.expect("when it is available", w.actions(), "1 Delete SpecifiedDelete")
	w.rest()
	w.expectPods("p03:1, p04:1, p05:1, p06:1, p07:1")
}

func TestPartitionInPercent(t *testing.T) {
	for _, tc := range []struct {
		replicas  int
		partition any
		kept      int
	}{{7, "50%", 4}, {4, "99%", 3}, {1, "99%", 1}, {5, 9, 5}} {
		w := newSimulation(t, tc.replicas, inPlace, partition(tc.partition))
		w.rest(image("2"))
		w.expect(fmt.Sprintf("kept by %v of %d", tc.partition, tc.replicas), w.at("1"), tc.kept)
		w.expect("expectedUpdatedReplicas", int(w.set.Status.ExpectedUpdatedReplicas), tc.replicas-tc.kept)
	}
}

func TestGrowingIsLimited(t *testing.T) {
	w := newSimulation(t, 2)
	w.do(replicas(12), scaleMaxUnavailable("25%"))
	w.Pass()
	w.expect("first pass", w.actions(), "3 Create ScaleOut 1")
	w.expect("held", w.held(), noteScaleUpLimited)
	for range 100 {
		w.Kubelets()
		w.Pass()
		if missing := len(w.Pods) - w.available(); missing > 3 {
			t.Fatalf("%d pods are unavailable:\n%s", missing, w)
		}
	}
	w.expect("pods", w.available(), 12)
}

// An update took six of ten pods, and scaleStrategy let them come back two at a time.
func TestAnUpdateTakesNoMorePodsThanTheScaleLimitLetsComeBack(t *testing.T) {
	for name, change := range map[string]func(*simulation){"update": image("2"), "specified": ask("p01", "p02", "p03", "p04")} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 10, maxUnavailable("60%"), scaleMaxUnavailable("20%"))
			w.rest(change)
			w.expect("fewest available", w.minAvailable, 8)
			w.expect("pods", len(w.Pods), 10)
		})
	}
	w := newSimulation(t, 10, inPlace, maxUnavailable("60%"), scaleMaxUnavailable("20%"))
	w.rest(image("2"))
	w.expect("fewest available while all are updated in place", w.minAvailable, 4)
	w = newSimulation(t, 4, maxUnavailable(2))
	w.rest(image("2"), scaleMaxUnavailable(0))
	w.expect("available where none may be created", w.available(), 4)
	w.expect("condition", w.condition(appsv1beta1.CloneSetStalled), "True MaxUnavailableZero")
}

// A claim template was removed while a partition kept pods that mount it, and no further ones of them could be created.
func TestAPodOfTheEarlierRevisionGetsTheClaimsOfItsRevision(t *testing.T) {
	for _, then := range []func(*simulation){replicas(4), ask("p01", "p02")} {
		w := newSimulation(t, 2, claimTemplates("data"), partition("100%"))
		w.rest(image("2"), func(w *simulation) { w.set.Spec.VolumeClaimTemplates = nil })
		w.rest(then)
		w.expect("kept", w.at("1"), len(w.Pods))
		for _, pod := range w.Pods {
			if !claims.Mounts(&pod.Spec, "data-"+pod.Name) || w.Claim("data-"+pod.Name) == nil {
				t.Errorf("%s has volumes %v", pod.Name, pod.Spec.Volumes)
			}
		}
		w.rest(partition(0))
		w.expect("claims of updated pods", len(w.Claims), 0)
	}
}

// A canary that its partition held was forgotten when the set was scaled to 0 and back.
func TestACanaryIsNotForgottenWhenTheSetIsScaledTo0(t *testing.T) {
	for _, keep := range []any{2, "50%"} {
		w := newSimulation(t, 4, partition(keep))
		w.rest(image("2"))
		w.rest(replicas(0))
		w.rest(replicas(4))
		w.expect("kept", w.at("1"), 2)
		w.expect("updated", w.at("2"), 2)
	}
	w := newSimulation(t, 4, partition(2))
	w.rest(image("2"))
	w.rest(replicas(2), func(w *simulation) {
		for _, pod := range w.Pods {
			if pod.Labels[shared.LabelControllerRevisionHash] == "web-1" {
				w.set.Spec.ScaleStrategy.PodsToDelete = append(w.set.Spec.ScaleStrategy.PodsToDelete, pod.Name)
			}
		}
	})
	w.rest(replicas(4))
	w.expect("kept, whose pods the user had named", w.at("1"), 2)
	w = newSimulation(t, 4)
	w.rest(image("2"), replicas(0))
	w.rest(replicas(2))
	w.expect("updated, without a partition", w.at("2"), 2)
}

func TestGrowingThatIsLimitedStopsNoDeletion(t *testing.T) {
	w := newSimulation(t, 2)
	w.rest(image("2"), broken("2"), replicas(6), scaleMaxUnavailable(2), partition(2))
	w.expect("pods", len(w.Pods), 4)
	w.do(ask("p03"))
	w.Pass()
	if w.Pod("web-p03").DeletionTimestamp == nil {
		t.Errorf("the broken pod is not deleted:\n%s", w)
	}
}

func TestPodsAtTheirPreDeleteHookAreReplacedAtOnceWhenExcluded(t *testing.T) {
	w := newSimulation(t, 3, hooks(shared.Lifecycle{PreDelete: hook("hold")}))
	w.rest(ask("p01"))
	w.expectPods("p01:1 preparingDelete, p02:1, p03:1")
	w.set.Spec.ScaleStrategy.ExcludePreparingDelete = true
	w.rest()
	w.expectPods("p01:1 preparingDelete, p02:1, p03:1, p04:1")
	w.expect("status.replicas", w.set.Status.Replicas, int32(4))
	w.rest(change("p01", func(p *corev1.Pod) { delete(p.Labels, "hold") }))
	w.expectPods("p02:1, p03:1, p04:1")
}

func TestPodsCalledBackFromTheirPreDeleteHookNeedNoReplacement(t *testing.T) {
	w := newSimulation(t, 3, hooks(shared.Lifecycle{PreDelete: hook("hold")}))
	w.set.Spec.ScaleStrategy.ExcludePreparingDelete = true
	w.rest(replicas(2))
	preparingDelete := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool {
		return p.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete)
	})
	w.expect("a pod waits at its preDelete hook", preparingDelete >= 0, true)
	w.do(replicas(3))
	w.Pass()
	w.expect("pods", len(w.Pods), 3)
	w.rest()
	w.expectPods("p01:1, p02:1, p03:1")
}

func TestOnDelete(t *testing.T) {
	w := newSimulation(t, 5, onDelete)
	w.rest(image("2"))
	w.expect("updated", w.at("2"), 0)
	w.expect("held", w.held(), podset.ReasonOnDelete)
	w.move("p01", podsettest.DeletePod)
	w.move("p02", podsettest.DeletePod)
	w.rest()
	w.expect("updated", w.at("2"), 2)
	w.rest(replicas(3))
	w.expectPods("p03:1, p06:2, p07:2")
	w.rest(replicas(5))
	w.expect("updated", w.at("2"), 4)
	w.expect("old", w.at("1"), 1)
}

func TestOnDeleteOfFewPodsLetsUsersDelete(t *testing.T) {
	w := newSimulation(t, 2, onDelete)
	w.rest(image("2"), ask("p01"))
	w.expectPods("p02:1, p03:2")
}

// The limit is that of the rolling update where the set has one, beside a type that updates nothing.
func TestOnDeleteWithALimit(t *testing.T) {
	for limit, want := range map[string]int{"0": 4, "40%": 3} {
		w := newSimulation(t, 5, onDelete, func(w *simulation) {
			w.set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateCloneSetStrategy{
				Partition: value(4), MaxSurge: value(2), MaxUnavailable: value(limit),
			}
		})
		w.rest(image("2"))
		w.expectPods("p01:1, p02:1, p03:1, p04:1, p05:1")
		w.rest(ask("p01"), ask("p02"), ask("p03"))
		w.expect("fewest available with maxUnavailable "+limit, w.minAvailable, want)
		w.expect("most pods", w.maxPods, 5)
		w.expectPods("p04:1, p05:1, p06:2, p07:2, p08:2")
	}
}

func TestPodsToDeleteSatisfyAScaleIn(t *testing.T) {
	w := newSimulation(t, 6)
	w.set.Spec.ScaleStrategy.PodsToDelete = []string{"web-p03"}
	w.rest(replicas(5))
	w.expectPods("p01:1, p02:1, p04:1, p05:1, p06:1")
	w.expect("podsToDelete", len(w.set.Spec.ScaleStrategy.PodsToDelete), 0)
}

func TestABadImageStopsAtTheLimitAndIsFixed(t *testing.T) {
	for _, policy := range []func(*simulation){inPlace, func(*simulation) {}} {
		w := newSimulation(t, 5, policy, maxUnavailable(2), broken("2"))
		w.rest(image("2"))
		w.expect("updated to the bad image", w.at("2"), 2)
		w.expect("available", w.available(), 3)
		w.rest(image("3"))
		w.expect("updated", w.at("3"), 5)
		w.expect("available", w.available(), 5)
		w.expect("fewest available", w.minAvailable, 3)
	}
}

func TestABadImageStopsAtTheLimitAlsoWhenAllPodsWereBroken(t *testing.T) {
	w := newSimulation(t, 5, inPlace, maxUnavailable(2))
	w.do(broken("1"), broken("2"))
	for _, pod := range slices.Clone(w.Pods) {
		w.move(strings.TrimPrefix(pod.Name, "web-"), podsettest.Crash)
	}
	w.rest(image("2"))
	w.expect("updated to the bad image", w.at("2"), 2)
	w.rest(image("3"))
	w.expect("updated", w.at("3"), 5)
}

func TestABrokenPodDoesNotWaitBehindOneThatWaitsForIt(t *testing.T) {
	w := newSimulation(t, 3, inPlace, maxUnavailable(1))
	w.do(label("p01", "rank", "1"), label("p02", "rank", "2"), label("p03", "rank", "3"), crash("p01"), image("2"))
	w.rolling().PriorityStrategy = &shared.UpdatePriorityStrategy{OrderPriority: []shared.UpdatePriorityOrderTerm{{OrderedKey: "rank"}}}
	w.Pass()
	w.expect("first pass", w.actions(), "1 Edit InPlaceUpdate")
	w.expect("moved", revision.HashOf(w.Pod("web-p01").Labels[shared.LabelControllerRevisionHash]), "2")
	clear(w.Held)
	w.rest()
	w.expect("updated", w.at("2"), 3)
}

func TestPauseStopsUpdatesAlone(t *testing.T) {
	w := newSimulation(t, 4, maxUnavailable(1), maxSurge(1))
	w.rest(paused(true), image("2"))
	w.expectPods("p01:1, p02:1, p03:1, p04:1")
	w.expect("held", w.held(), podset.ReasonPaused)
	w.rest(ask("p01"), replicas(5))
	w.expectPods("p02:1, p03:1, p04:1, p05:2, p06:2")
	w.rest(paused(false))
	w.expect("updated", w.at("2"), 5)
}

func TestPartitionRaisedInTheMiddle(t *testing.T) {
	w := newSimulation(t, 4, inPlace, maxUnavailable(1))
	w.rest(image("2"), partition(1))
	w.rest(partition(3))
	w.expect("updated", w.at("2"), 3)
	w.o.PartitionRollback = true
	w.rest()
	w.expect("updated with the gate", w.at("2"), 1)
	w.expect("pods that were created", w.born, 4)
	w.expect("fewest available", w.minAvailable, 3)
}

// With CloneSetShortHash pods carry the hash alone. Those from before carry the full name, and are at the same revision.
func TestShortHashesBesideFullNames(t *testing.T) {
	revisions := func(w *simulation) string {
		var labels []string
		for _, pod := range w.Pods {
			revision, hash := pod.Labels[shared.LabelControllerRevisionHash], pod.Labels[shared.LabelPodTemplateHash]
			labels = append(labels, strings.TrimPrefix(pod.Name, "web-")+"="+revision+"/"+hash)
		}
		return strings.Join(labels, " ")
	}
	w := newSimulation(t, 2, inPlace, maxUnavailable(1))
	w.o.InPlace.ShortHash = true
	w.rest()
	w.expect("actions for pods from before", w.actions(), "")
	w.rest(replicas(3))
	w.expect("labels of a new pod", revisions(w), "p01=web-1/1 p02=web-1/1 p03=1/1")
	w.expect("updated pods in the status", w.set.Status.UpdatedReplicas, int32(3))
	w.rest(image("2"), partition(1))
	w.expect("labels of updated pods", strings.Count(revisions(w), "=2/2"), 2)
	w.rest(partition(0))
	w.expect("labels of all", revisions(w), "p01=2/2 p02=2/2 p03=2/2")
	w.expect("pods that were created", w.born, 3)

	w.o.InPlace.ShortHash = false
	w.rest(image("3"))
	w.expect("labels without the gate", revisions(w), "p01=web-3/3 p02=web-3/3 p03=web-3/3")
}

func TestDeletionThatIsNotWantedAnyMore(t *testing.T) {
	w := newSimulation(t, 3, hooks(shared.Lifecycle{PreDelete: hook("hold")}), maxUnavailable(1))
	w.rest(replicas(2))
	w.expect("pods", len(w.Pods), 3)
	w.expect("available", w.available(), 2)
	w.rest(replicas(3))
	w.expectPods("p01:1, p02:1, p03:1")
	w.expect("available", w.available(), 3)

	w.rest(image("2"))
	w.expect("available while one waits for the update", w.available(), 2)
	w.rest(image("1"))
	w.expectPods("p01:1, p02:1, p03:1")

	w.set.Spec.Lifecycle.PreDelete.MarkPodNotReady = true
	w.rest(replicas(2))
	w.rest(replicas(3))
	w.expect("available when the hook took the pod out of service", w.available(), 2)
}

func TestUpdateThroughHooks(t *testing.T) {
	w := newSimulation(t, 4, inPlace, maxUnavailable(1), maxSurge(1), hooks(shared.Lifecycle{InPlaceUpdate: hook("hold-update"), PreDelete: hook("hold-delete")}))
	w.Users = true
	w.rest(image("2"))
	w.expect("updated", w.at("2"), 4)
	w.expect("available", w.available(), 4)
	w.expect("most pods", w.maxPods, 5)
	w.expect("fewest available", w.minAvailable, 3)
}

func TestScaleInRightAfterTheStart(t *testing.T) {
	w := newSimulation(t, 5, minReady(9999))
	w.expect("available", w.available(), 0)
	w.rest(replicas(3))
	w.expect("pods", len(w.Pods), 3)
}

func TestScaleInKeepsServingPodsWhileOthersStart(t *testing.T) {
	w := newSimulation(t, 5, maxUnavailable(1))
	w.do(replicas(3), crash("p01", "p02"))
	w.rest()
	w.expectPods("p03:1, p04:1, p05:1")
}

func TestFinishedPodsAreReplacedAndLeftAlone(t *testing.T) {
	w := newSimulation(t, 2)
	w.move("p01", podsettest.Evict)
	evicted := w.Pod("web-p01").DeepCopy()
	w.rest()
	w.expect("pods", len(w.Pods), 3)
	w.expect("available", w.available(), 2)
	w.expect("status.replicas", w.set.Status.Replicas, int32(2))
	w.expect("the evicted pod is as it was", equality.Semantic.DeepEqual(evicted, w.Pod("web-p01")), true)
}

// An evicted pod is kept for its user to look at. What its last update waited for used to stall the set that had replaced it.
func TestAFinishedPodKeepsNothingWaiting(t *testing.T) {
	w := newSimulation(t, 2)
	w.o.InPlace.Resources = true
	pod := w.Pod("web-p01")
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	pod.Annotations = map[string]string{
		shared.AnnotationInPlaceState: `{"revision":"web-1","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":null,"updateResources":true}`,
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible})
	w.move("p01", podsettest.Evict)
	w.rest()
	w.expect("pods", len(w.Pods), 3)
	w.expect("held", w.held(), "")
	w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "False NotStalled")
	w.expect("failed update", w.condition(appsv1beta1.CloneSetFailedUpdate), "none")
}

func TestFinishedPodsGoWhenTheirUserAsks(t *testing.T) {
	named := func(w *simulation) { w.set.Spec.ScaleStrategy.PodsToDelete = []string{"web-p01"} }
	for _, wish := range []func(*simulation){named, ask("p01")} {
		w := newSimulation(t, 2)
		w.move("p01", podsettest.Evict)
		w.rest()
		w.do(wish)
		w.expectActions("1 Delete SpecifiedDelete")
		w.rest()
		w.expectPods("p02:1, p03:1")
		w.expect("podsToDelete", len(w.set.Spec.ScaleStrategy.PodsToDelete), 0)
	}
}

// The only pod that may be unavailable by scaleStrategy.maxUnavailable is the broken one, so no pod can be added; and with maxUnavailable 0 none could be
// moved without.
func TestAFixReachesABrokenPodThatLeavesNoRoomForASurge(t *testing.T) {
	for name, policy := range map[string]func(*simulation){"in place": inPlace, "by replacing": func(*simulation) {}} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, policy, maxUnavailable(0), maxSurge(1), scaleMaxUnavailable(1))
			w.do(broken("1"))
			w.move("p02", podsettest.Crash)
			w.rest()
			w.expect("available", w.available(), 2)
			w.rest(image("2"))
			w.expect("at the second image", w.at("2"), 3)
			w.expect("available", w.available(), 3)
			w.expect("fewest available", w.minAvailable >= 2, true)
		})
	}
}

// Pods that are out of service for a moment come back. While the one that was deleted cannot be created, they were deleted, too, one after the other.
func TestPodsThatMayComeBackAreNotReplacedWhileOthersAreMissing(t *testing.T) {
	w := newSimulation(t, 6, maxUnavailable(1), scaleMaxUnavailable(1))
	w.do(crash("p03", "p04", "p05", "p06"), image("2"))
	for range 5 {
		w.Pass()
	}
	deleted := 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp != nil {
			deleted++
		}
	}
	w.expect("deleted", deleted+6-len(w.Pods), 1)
}

func TestThePartitionDoesNotKeepWhatAnEarlierUpdateBroke(t *testing.T) {
	w := newSimulation(t, 3, inPlace, maxUnavailable(1), partition(2), broken("2"))
	w.rest(image("2"))
	w.expect("broken", w.at("2"), 1)
	for _, pod := range w.Pods {
		if pod.Labels[shared.LabelControllerRevisionHash] == "web-1" {
			w.do(label(strings.TrimPrefix(pod.Name, "web-"), "tier", "canary"))
		}
	}
	w.rolling().PriorityStrategy = &shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{
		{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}},
	}}
	w.rest(image("3"))
	w.expect("broken", w.at("2"), 0)
	w.expect("repaired", w.at("3"), 1)
	w.expect("available", w.available(), 3)
}

func TestInPlaceOnlyRefuses(t *testing.T) {
	w := newSimulation(t, 2, inPlaceOnly)
	w.do(image("2"))
	w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	w.rest()
	w.expectPods("p01:1, p02:1")
	w.expectActions("")
	w.expect("held", w.held(), "InPlaceImpossible")
	w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "True InPlaceImpossible")
	w.expect("available", w.available(), 2)
	w.rest(inPlace)
	w.expect("replaced once the policy allows it", w.pods(), "p03:2, p04:2")
}

func TestInvalidSpecStopsEverythingButSettling(t *testing.T) {
	w := newSimulation(t, 3, inPlace, maxUnavailable(1))
	w.do(image("2"))
	w.Pass()
	w.expect("available while a pod is updated in place", w.available(), 2)
	w.rolling().MaxUnavailable = ptr.To(intstr.FromString("5"))
	w.rest(replicas(9))
	w.expect("pods", len(w.Pods), 3)
	w.expect("updated", w.at("2"), 1)
	w.expect("available", w.available(), 3)
	w.expect("held", w.held(), podset.ReasonInvalidSpec)
}

// A template that was stored without admission, with labels that the selector does not match: each pod was released as soon as it was there, and another one created.
func TestATemplateThatTheSelectorDoesNotMatchMakesNoPods(t *testing.T) {
	w := newSimulation(t, 3)
	w.set.Spec.Template.Labels = map[string]string{"app": "other"}
	w.rest(replicas(9))
	w.expectPods("p01:1, p02:1, p03:1")
	w.expect("held", w.held(), podset.ReasonInvalidSpec)
	w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "True InvalidSpec")
	w.expect("available", w.available(), 3)
}

func TestASetThatIsBeingDeletedPlansNothing(t *testing.T) {
	w := newSimulation(t, 3)
	w.set.DeletionTimestamp = ptr.To(w.Pods[0].CreationTimestamp)
	w.do(replicas(5))
	w.expectActions("")
}

func TestRevisionLabelsMayBeShort(t *testing.T) {
	w := newSimulation(t, 2)
	w.do(label("p01", shared.LabelControllerRevisionHash, "1"), change("p02", func(p *corev1.Pod) { delete(p.Labels, shared.LabelPodTemplateHash) }))
	w.Pass()
	w.expect("repaired", w.actions(), "1 Edit Repair")
	w.rest()
	w.expect("updatedReplicas", w.set.Status.UpdatedReplicas, int32(2))
}

func TestScaleInTakesTheMostCrowdedPlace(t *testing.T) {
	w := newSimulation(t, 4)
	for id, node := range map[string]string{"p01": "a1", "p02": "b1", "p03": "b2", "p04": "b3"} {
		w.do(change(id, func(p *corev1.Pod) { p.Spec.NodeName = node }))
	}
	w.set.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
	w.nodeLabel = func(node, _ string) string { return node[:1] }
	w.do(replicas(2), maxUnavailable(2))
	w.Pass()
	w.expect("first pass", w.actions(), "2 Delete ScaleIn")
	if w.Pod("web-p01").DeletionTimestamp != nil {
		t.Errorf("the only pod of its zone is deleted:\n%s", w)
	}
}

func TestPodsThatPrepareForTheirUpdateMayCountAsUpdatedWhenScaling(t *testing.T) {
	for _, gate := range []bool{false, true} {
		w := newSimulation(t, 3, inPlace, maxUnavailable(1), hooks(shared.Lifecycle{InPlaceUpdate: hook("hold")}))
		w.rest(image("2"))
		w.o.PreparingUpdateAsUpdate = gate
		var preparing string
		for _, pod := range w.Pods {
			if pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingUpdate) {
				preparing = pod.Name
			}
		}
		w.do(replicas(2))
		w.Pass()
		w.expect("the preparing pod stays", w.Pod(preparing).DeletionTimestamp == nil, gate)
	}
}

func TestNoPodMovesToATemplateThatTheServerWouldRefuse(t *testing.T) {
	for name, change := range map[string][]func(*simulation){
		"by replacing":   {maxUnavailable(2)},
		"in place":       {maxUnavailable(2), inPlace},
		"to a partition": {maxUnavailable(2), partition(1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 4)
			w.do(change...)
			w.do(image("3"), faulty)
			w.rest()
			w.expect("at the faulty template", w.at("3"), 0)
			w.expect("available", w.available(), 4)
			_, held := w.Plan.HeldFor(podset.ReasonTemplateInvalid)
			w.expect("held", held, true)
			w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "True InvalidTemplate")
			w.expect("reconciling", w.condition(appsv1beta1.CloneSetReconciling), "False InvalidTemplate")
			w.expect("template", w.condition(appsv1beta1.CloneSetTemplateInvalid), "True InvalidTemplate")
			w.fault = ""
			w.rest()
			w.expect("pods at the repaired template", w.at("3") > 0, true)
			w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "False NotStalled")
		})
	}
}

func TestAFaultyTemplateStopsNothingElse(t *testing.T) {
	w := newSimulation(t, 4, maxUnavailable(1))
	w.do(image("2"), faulty, ask("p02"))
	w.Pass()
	w.expect("deletion", w.actions(), "1 Delete SpecifiedDelete")
	w.do(func(w *simulation) { w.set.Spec.Replicas = ptr.To[int32](6) })
	w.Pass()
	w.expect("creation", strings.Contains(w.actions(), "Create ScaleOut 2"), true)
}

// What was under way at the second template ends, and a lost pod is replaced at it. No pod moves on: its user wants the third.
func TestATemplateThatCannotBeRecordedStopsOnlyTheUpdate(t *testing.T) {
	for name, change := range map[string][]func(*simulation){
		"by replacing":                 {maxUnavailable(1)},
		"in place":                     {maxUnavailable(1), inPlace},
		"in place, with time to drain": {maxUnavailable(1), inPlace, drainFor(15)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3)
			w.do(change...)
			w.do(image("2"))
			w.Pass()
			before := w.at("1")
			w.move("p03", podsettest.Evict)
			w.do(image("3"), unrecorded)
			w.rest()
			w.Time = w.Time.Add(20 * time.Second)
			w.rest()
			w.expect("pods, with the evicted one", len(w.Pods), 4)
			w.expect("available", w.set.Status.AvailableReplicas, int32(3))
			w.expect("at the third template", w.at("3"), 0)
			w.expect("still at the first template", w.at("1") >= before-1, true)
			w.expect("the update revision", w.set.Status.UpdateRevision, "web-3")
			w.expect("the generation that the status is about", w.set.Status.ObservedGeneration, w.set.Generation)
			w.expect("updated", w.set.Status.UpdatedReplicas, int32(0))
			w.expect("the current revision", w.set.Status.CurrentRevision, "web-1")
			w.expect("failed", w.condition(appsv1beta1.CloneSetFailedUpdate), "True RequestFailed")
			w.expect("reconciling", w.condition(appsv1beta1.CloneSetReconciling), "True RequestFailed")
			w.Time = w.Time.Add(time.Minute)
			w.Pass()
			w.expect("stalled after a minute", w.condition(appsv1beta1.CloneSetStalled), "True RequestFailed")
			w.unrecorded = ""
			w.do(drainFor(0))
			w.rest()
			w.expect("at the third template once it is recorded", w.at("3"), 3)
			w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "False NotStalled")
		})
	}
}

// With pods at their hook counted as updated, a surge was made for the only pod, taken away as one too many, and the pod called back from its hook:
// then all of it again, for ever. Exploration found it.
func TestAPodAtItsHookIsNotCalledBackByItsOwnSurge(t *testing.T) {
	asUpdated := func(w *simulation) { w.o.PreparingUpdateAsUpdate = true }
	w := newSimulation(t, 1, asUpdated, inPlace, maxUnavailable(1), maxSurge(1), hooks(shared.Lifecycle{InPlaceUpdate: hook("hold")}))
	w.do(image("2"))
	for range 20 {
		w.Pass()
		w.Kubelets()
	}
	w.expect("slots that were ever used are at most three", w.born <= 3, true)
	w.expect("held", w.held(), "Hook")
	w.Users = true
	w.rest()
	w.expect("updated", w.at("2"), 1)
	w.expect("pods", len(w.Pods), 1)
}

// A pod whose change the server always refused used up maxUnavailable. The others waited for ever.
func TestAPodThatIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*simulation)
		step   planning.Step
	}{
		"in place":     {inPlace, podset.StepEdit},
		"by replacing": {func(*simulation) {}, podset.StepDelete},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, tc.change, maxUnavailable(1))
			w.do(image("2"))
			s := w.snapshot()
			moved := func() []string {
				var pods []string
				for _, action := range Plan(Parse(w.set, w.o), s).Actions {
					if action.Step == tc.step {
						pods = append(pods, action.Object.GetName())
					}
				}
				return pods
			}
			before := moved()
			w.expect("pods that move", len(before), 1)
			s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
				return planning.Retry{Wait: time.Hour}, key == planning.RetryKey{Step: tc.step, Namespace: s.Pods[0].Object.Namespace, Name: before[0]}
			}
			after := moved()
			w.expect("pods that move after the refusal", len(after), 2)
			w.expect("the refused one is the last", after[1], before[0])
		})
	}
}

// A pod whose deletion the server always refused used up maxUnavailable. Others that were to go waited for ever.
func TestAPodWhoseDeletionIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	updated := func(id string) func(*simulation) { return label(id, shared.LabelControllerRevisionHash, "web-2") }
	cases := map[string]struct {
		change []func(*simulation)
		step   planning.Step
	}{
		"asked for": {[]func(*simulation){ask("p01", "p02")}, podset.StepDelete},
		"asked for, with a hook": {
			[]func(*simulation){hooks(shared.Lifecycle{PreDelete: hook("hold")}), label("p01", "hold", "yes"), label("p02", "hold", "yes"), ask("p01", "p02")},
			podset.StepEdit,
		},
		"scaled in": {
			[]func(*simulation){paused(true), image("2"), updated("p04"), updated("p05"), crash("p04", "p05"), replicas(3)}, podset.StepDelete,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 5, maxUnavailable(1))
			w.do(tc.change...)
			removed := func(retries planning.Retries) (tried, yielding []string) {
				s := w.snapshot()
				s.Retries = retries
				w.Plan = Plan(Parse(w.set, w.o), s)
				for _, action := range w.Plan.Actions {
					switch {
					case action.Step != tc.step:
					case w.Plan.Aside[action.RetryKey()]:
						yielding = append(yielding, action.Object.GetName())
					default:
						tried = append(tried, action.Object.GetName())
					}
				}
				return tried, yielding
			}
			refused := func(wait time.Duration, pod string) planning.Retries {
				return func(key planning.RetryKey) (planning.Retry, bool) {
					return planning.Retry{Wait: wait}, key == planning.RetryKey{Step: tc.step, Namespace: "shop", Name: pod}
				}
			}
			first, _ := removed(nil)
			w.expect("removed at first", len(first), 1)
			second, yielding := removed(refused(time.Hour, first[0]))
			w.expect("removed after the refusal", len(second) == 1 && second[0] != first[0], true)
			w.expect("what is not tried, but told of", strings.Join(yielding, " "), first[0])
			again, _ := removed(refused(0, first[0]))
			w.expect("removed when the next try is due", strings.Join(again, " "), first[0])
		})
	}
}
