// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// change begins the scenario: what happened before is not part of it.
func (w *simulation) change(steps ...func(*simulation)) {
	w.Begin()
	for _, step := range steps {
		step(w)
	}
}

// expect runs a pass and compares its actions.
func (w *simulation) expect(want ...string) {
	w.t.Helper()
	w.Pass()
	if diff := cmp.Diff(want, w.ActionLines()); diff != "" && len(want)+len(w.Plan.Actions) > 0 {
		w.t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// next lets the kubelets act, runs a pass and compares its actions.
func (w *simulation) next(want ...string) {
	w.t.Helper()
	w.Kubelets()
	w.expect(want...)
}

func (w *simulation) expectNames(want string) {
	w.t.Helper()
	if got := w.names(); got != want {
		w.t.Errorf("pods are %q, want %q", got, want)
	}
}

// expectOrder compares in which order something happened, by the lines of the log with a prefix.
func (w *simulation) expectOrder(prefix string, want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range strings.Split(w.Log(), "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			got = append(got, strings.Fields(rest)[0])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("order of %q (-want +got):\n%s\n%s", prefix, diff, w.Log())
	}
}

func (w *simulation) uidsByName() map[string]types.UID {
	uids := map[string]types.UID{}
	for _, pod := range w.Pods {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// Starts, scaling and rollouts, one for each field that decides about them.

func TestParallelStart(t *testing.T) {
	w := newSimulation(t, 300)
	w.Pass()
	if got := len(w.Plan.Actions); got != 300 {
		t.Fatalf("the first pass plans %d actions, want 300 creations", got)
	}
	w.Kubelets()
	unready(17)(w)
	w.Rest()
	if got := w.set.Status; got.Replicas != 300 || got.ReadyReplicas != 299 {
		t.Errorf("replicas %d, ready %d; want 300 and 299", got.Replicas, got.ReadyReplicas)
	}
}

func TestInPlaceWindow(t *testing.T) {
	w := newSimulation(t, 9, inPlace, maxUnavailable(3), running)
	w.Always = append(w.Always, atMostUnavailable(3))
	uids := w.uidsByName()
	w.change(image("2"))
	w.expect("Edit web-8 InPlaceUpdate Updating", "Edit web-7 InPlaceUpdate Updating", "Edit web-6 InPlaceUpdate Updating")
	w.Held["web-8"], w.Held["web-6"] = true, true
	w.next("Edit web-7 InPlaceFinished Normal")
	w.next("Edit web-5 InPlaceUpdate Updating")
	clear(w.Held)
	w.Rest()
	w.Golden()
	w.expectNames("0:2 1:2 2:2 3:2 4:2 5:2 6:2 7:2 8:2")
	if diff := cmp.Diff(uids, w.uidsByName()); diff != "" {
		t.Errorf("UIDs changed:\n%s", diff)
	}
	if got := w.set.Status; got.UpdatedReplicas != 9 || got.CurrentRevision != got.UpdateRevision {
		t.Errorf("status is not that of a finished rollout: %+v", got)
	}
}

func TestForeignOutage(t *testing.T) {
	heal := func(w *simulation) { clear(w.Held) }
	t.Run("two at a time", func(t *testing.T) {
		w := newSimulation(t, 6, inPlace, maxUnavailable(2), partition(1), running, unready(1))
		w.Always = append(w.Always, atMostUnavailable(2))
		w.change(image("2"))
		w.expect("Edit web-1 InPlaceUpdate Updating", "Edit web-5 InPlaceUpdate Updating")
		heal(w)
		w.Rest()
		w.Golden()
		w.expectNames("0:1 1:2 2:2 3:2 4:2 5:2")
	})
	t.Run("one at a time", func(t *testing.T) {
		w := newSimulation(t, 6, inPlace, partition(1), running, unready(1))
		w.Always = append(w.Always, atMostUnavailable(1))
		w.change(image("2"))
		w.expect("Edit web-1 InPlaceUpdate Updating")
		heal(w)
		w.Rest()
		w.Golden()
		w.expectOrder("Edit web-", "1", "1", "5", "5", "4", "4", "3", "3", "2", "2")
		w.expectNames("0:1 1:2 2:2 3:2 4:2 5:2")
	})
}

func TestReserveWithRange(t *testing.T) {
	t.Run("Parallel", func(t *testing.T) {
		w := newSimulation(t, 4, reserve(0, "2-3"), partition(1), running)
		w.expectNames("1:1 4:1 5:1 6:1")
		w.change(image("2"))
		w.Rest()
		w.expectOrder("Delete web-", "6", "5", "4")
		w.expectNames("1:1 4:2 5:2 6:2")
		w.change(reserve(0, "2-3", 5))
		w.expect("Create web-7 ScaleOut web-2", "Delete web-5 ScaleIn")
		w.Rest()
		w.expectNames("1:1 4:2 6:2 7:2")
	})
	t.Run("OrderedReady", func(t *testing.T) {
		w := newSimulation(t, 4, ordered, reserve(0, "2-3"), partition(1), running)
		w.change(reserve(0, "2-3", 5))
		w.expect("Create web-7 ScaleOut web-1")
		w.expect()
		w.next("Delete web-5 ScaleIn")
		w.Rest()
		w.Golden()
		w.expectNames("1:1 4:1 6:1 7:1")
	})
}

func TestStartOrdinal(t *testing.T) {
	w := newSimulation(t, 2, func(w *simulation) { w.o.StartOrdinal = true }, running)
	w.change(replicas(3), func(w *simulation) { w.set.Spec.Ordinals = &appsv1beta1.StatefulSetOrdinals{Start: 4} })
	w.expect("Create web-4 ScaleOut web-1", "Create web-5 ScaleOut web-1", "Create web-6 ScaleOut web-1", "Delete web-1 ScaleIn", "Delete web-0 ScaleIn")
	w.Rest()
	w.expectNames("4:1 5:1 6:1")
	if got := w.pod(4).Labels[shared.LabelPodIndex]; got != "4" {
		t.Errorf("pod index is %q, want 4", got)
	}
}

func TestRateLimitedStart(t *testing.T) {
	w := newSimulation(t, 20, scaleMaxUnavailable(3))
	w.expect("Create web-0 ScaleOut web-1", "Create web-1 ScaleOut web-1", "Create web-2 ScaleOut web-1")
	w.Held["web-0"], w.Held["web-2"] = true, true
	w.next("Create web-3 ScaleOut web-1")
	clear(w.Held)
	w.Rest()
	w.Golden()
	if got := len(w.Pods); got != 20 {
		t.Errorf("there are %d pods, want 20", got)
	}
}

func TestSpecifiedDelete(t *testing.T) {
	t.Run("all ready", func(t *testing.T) {
		w := newSimulation(t, 5, running)
		w.Always = append(w.Always, atMostUnavailable(1))
		w.change(specified(1, 3))
		w.Rest()
		w.Golden()
		w.expectOrder("Delete web-", "3", "1")
	})
	t.Run("the lower one is not ready", func(t *testing.T) {
		w := newSimulation(t, 5, running, unready(1))
		w.change(specified(1, 3))
		w.expect("Delete web-1 SpecifiedDelete")
		w.Rest()
		w.Golden()
		w.expectOrder("Delete web-", "1", "3")
	})
}

// A user scaled in, at once out again, and changed the template: the plan let go of the claim and deleted its pod together, the first
// request was refused, and the garbage collector took the data.
func TestDataOfAPodThatIsWantedAgainIsKept(t *testing.T) {
	w := newSimulation(t, 2, storage("1Gi"), retention("Delete", "Retain"), running)
	w.change(replicas(1))
	w.expect("EditClaim data-web-1 ClaimOwners")
	w.change(replicas(2))
	w.change(image("2"))
	for range 3 { // the server refuses the patch of the claim
		plan := Plan(Parse(w.set, w.o), w.snapshot())
		outcome := planning.Outcome{Failures: []planning.Failure{{Step: podset.StepEditClaim, Slot: "1", Message: "no"}}}
		for _, action := range plan.Actions {
			if action.Step != podset.StepEditClaim {
				t.Fatalf("%s is planned while the claim would go with its pod", podsettest.ActionLine(action))
			}
		}
		if plan.RecheckAfter != afterClaims {
			t.Errorf("the plan is repeated after %v, want %v", plan.RecheckAfter, afterClaims)
		}
		status := Status(Parse(w.set, w.o), w.snapshot(), plan, outcome)
		c, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.StatefulSetReconciling)
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "web-1 waits: it is replaced when its volume claims") {
			t.Errorf("condition %+v does not say what the pod waits for", c)
		}
	}
	w.Rest()
	w.expectNames("0:2 1:2")
	if claim := w.Claim("data-web-1"); claim == nil || len(claim.OwnerReferences) > 0 {
		t.Errorf("claim of the pod: %+v", claim)
	}
}

// The claim of a template that was dropped went with a pod that was replaced, although the pod was wanted again.
func TestDataOfADroppedTemplateIsKeptWithAPodThatIsWantedAgain(t *testing.T) {
	w := newSimulation(t, 2, storage("1Gi"), retention("Delete", "Retain"), running)
	w.change(replicas(1))
	w.expect("EditClaim data-web-1 ClaimOwners")
	w.change(replicas(2), func(w *simulation) { w.set.Spec.VolumeClaimTemplates = nil })
	w.change(image("2"))
	w.Rest()
	w.expectNames("0:2 1:2")
	if claim := w.Claim("data-web-1"); claim == nil || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
		t.Errorf("claim of the pod: %+v", claim)
	}
}

// A user scaled in and out again while the pod was terminating, and its data was gone.
func TestDataOfAPodThatIsWantedAgainWhileItTerminatesIsKept(t *testing.T) {
	w := newSimulation(t, 3, storage("1Gi"), retention("Delete", "Retain"), running)
	uid := w.Claim("data-web-2").UID
	w.change(replicas(2))
	w.expect("EditClaim data-web-2 ClaimOwners")
	w.expect("Delete web-2 ScaleIn")
	w.change(replicas(3))
	w.expect("EditClaim data-web-2 ClaimOwners")
	w.Rest()
	w.expectNames("0:1 1:1 2:1")
	if claim := w.Claim("data-web-2"); claim == nil || claim.UID != uid || claim.DeletionTimestamp != nil {
		t.Errorf("claim of the pod: %+v", claim)
	}
}

// An update took six of ten pods, and scaleStrategy let them come back two at a time.
func TestAnUpdateTakesNoMorePodsThanTheScaleLimitLetsComeBack(t *testing.T) {
	w := newSimulation(t, 10, maxUnavailable("60%"), scaleMaxUnavailable("20%"), running)
	w.Always = append(w.Always, atMostUnavailable(2))
	w.change(image("2"))
	w.Rest()
	w.expectNames("0:2 1:2 2:2 3:2 4:2 5:2 6:2 7:2 8:2 9:2")
}

// A claim template was removed while a partition kept pods that mount it, and those that were lost could not be created again.
func TestAPodOfTheEarlierRevisionGetsTheClaimsOfItsRevision(t *testing.T) {
	for name, policy := range map[string]func(*simulation){"Parallel": inPlace, "OrderedReady": ordered} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, storage("1Gi"), retention("Delete", "Delete"), policy, partition(2), running)
			w.change(image("2"), env, func(w *simulation) { w.set.Spec.VolumeClaimTemplates = nil })
			w.Rest()
			w.expectNames("0:1 1:1 2:2-env")
			if len(w.pod(2).Spec.Volumes) > 0 {
				t.Errorf("the updated pod has volumes %v", w.pod(2).Spec.Volumes)
			}
			w.RemovePod("web-0")
			w.RemovePod("web-1")
			w.RemoveClaim("data-web-1")
			w.Rest()
			w.expectNames("0:1 1:1 2:2-env")
			for _, o := range []int{0, 1} {
				claim := fmt.Sprintf("data-web-%d", o)
				if !claims.Mounts(&w.pod(o).Spec, claim) || w.Claim(claim) == nil || !claims.OwnedBy(w.Claim(claim), "set-uid") {
					t.Errorf("pod %d: %v, %+v", o, w.pod(o).Spec.Volumes, w.Claim(claim))
				}
			}
			w.change(replicas(1))
			w.Rest()
			if w.Claim("data-web-1") != nil || w.Claim("data-web-0") == nil {
				t.Errorf("claims after scaling in: %v", w.String())
			}
		})
	}
}

func TestWhenScaledDelete(t *testing.T) {
	w := newSimulation(t, 3, storage("1Gi"), retention("Delete", "Retain"), running)
	w.Held["data-web-1"] = true
	w.change(replicas(1))
	w.Rest()
	w.expectNames("0:1")
	if w.Claim("data-web-0") == nil || w.Claim("data-web-2") != nil || w.Claim("data-web-1").DeletionTimestamp == nil {
		t.Errorf("claims: %v", w.String())
	}
	replicas(3)(w)
	w.expect("Create web-2 ScaleOut web-1")
	w.expect()
	if got := w.HeldReasons(); !slices.Contains(got, "ClaimBeingDeleted") {
		t.Errorf("notes are %v, want ClaimBeingDeleted", got)
	}
	w.RemoveClaim("data-web-1")
	w.Rest()
	w.Golden()
	w.expectNames("0:1 1:1 2:1")
}

func TestResize(t *testing.T) {
	w := newSimulation(t, 3, storage("10Gi"), partition(2), func(w *simulation) {
		w.o.AutoResizePVC = true
		w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	}, running)
	w.Held["data-web-2"] = true
	w.change(image("2"), storage("20Gi"))
	w.expect("EditClaim data-web-2 ClaimGrow")
	w.next()
	if got := w.set.Status.VolumeClaims; got[0].CompatibleReplicas != 1 || got[0].CompatibleReadyReplicas != 0 {
		t.Errorf("while the claim grows, its status is %+v", got)
	}
	clear(w.Held)
	w.Kubelets()
	w.next("Delete web-2 Outdated")
	w.Rest()
	w.Golden()
	w.expectNames("0:1 1:1 2:2")
	want := []appsv1beta1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 1, CompatibleReadyReplicas: 1}}
	if diff := cmp.Diff(want, w.set.Status.VolumeClaims); diff != "" {
		t.Errorf("volume claims (-want +got):\n%s", diff)
	}
}

// Scenarios that once got stuck.

func TestFixForACrashLoopingPodIsNotBlockedByPodsBeforeIt(t *testing.T) {
	w := newSimulation(t, 6, running, unready(0))
	w.change(image("fixed"))
	w.expect("Delete web-0 Outdated")
	w.Rest()
	w.Golden()
	w.expectNames("0:fixed 1:fixed 2:fixed 3:fixed 4:fixed 5:fixed")
}

func TestOrderedScaleInThroughHooks(t *testing.T) {
	drain := "example.io/drain"
	w := newSimulation(t, 4, ordered, hooks(shared.Lifecycle{PreDelete: finalizerHook(drain)}), running)
	for _, pod := range w.Pods {
		pod.Finalizers = []string{drain}
	}
	w.change(replicas(2))
	w.expect("Edit web-3 Hook PreparingDelete")
	w.next() // web-2 does not wait at its hook while web-3 does
	w.pod(3).Finalizers = nil
	w.next("Delete web-3 ScaleIn")
	w.next("Edit web-2 Hook PreparingDelete")
	w.pod(2).Finalizers = nil
	w.Rest()
	w.Golden()
	w.expectNames("0:1 1:1")
}

func TestOrderedRolloutOfABrokenImageCanBeFixed(t *testing.T) {
	w := newSimulation(t, 3, ordered, running)
	w.breaks("web:bad")
	w.change(image("bad"))
	w.Rest()
	w.expectNames("0:1 1:1 2:bad")
	image("good")(w)
	w.Rest()
	w.Golden()
	w.expectNames("0:good 1:good 2:good")
}

func TestBrokenImageStopsAtTheLimitAndRollsBack(t *testing.T) {
	w := newSimulation(t, 5, inPlace, maxUnavailable(2), running)
	w.Always = append(w.Always, atMostUnavailable(2))
	w.breaks("web:bad")
	w.change(image("bad"))
	w.Rest()
	w.expectNames("0:1 1:1 2:1 3:bad 4:bad")
	image("1")(w)
	w.Rest()
	w.Golden()
	w.expectNames("0:1 1:1 2:1 3:1 4:1")
}

func TestHooksAroundAnUpdateInPlace(t *testing.T) {
	drain := "example.io/drain"
	hook := finalizerHook(drain)
	hook.MarkPodNotReady = true
	w := newSimulation(t, 1, inPlace, hooks(shared.Lifecycle{InPlaceUpdate: hook}), running)
	w.pod(0).Finalizers = []string{drain}
	w.change(image("2"))
	w.expect("Edit web-0 Hook PreparingUpdate")
	w.next()
	if readyNow(w.pod(0)) {
		t.Error("the pod is ready at its hook, which says markPodNotReady")
	}
	w.pod(0).Finalizers = nil
	w.next("Edit web-0 InPlaceUpdate Updating")
	w.next("Edit web-0 InPlaceFinished Updated")
	w.next()
	w.pod(0).Finalizers = []string{drain}
	w.Rest()
	w.Golden()
	if !readyNow(w.pod(0)) || w.set.Status.AvailableReplicas != 1 {
		t.Errorf("the pod is not back in service: %+v", w.pod(0).Status)
	}
}

func readyNow(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func TestGracePeriodBeforeAnUpdateInPlace(t *testing.T) {
	w := newSimulation(t, 2, inPlace, running, func(w *simulation) {
		w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: 15}
	})
	w.Always = append(w.Always, atMostUnavailable(1))
	w.change(image("2"))
	w.Rest()
	w.Golden()
	w.expectNames("0:2 1:2")
	if got := w.pod(0).Spec.Containers[0].Image; got != "web:2" {
		t.Errorf("image is %s", got)
	}
}

func TestMinReadySecondsPaceARollout(t *testing.T) {
	w := newSimulation(t, 3, minReady(30), running)
	w.Always = append(w.Always, atMostUnavailable(1))
	w.change(image("2"))
	w.Rest()
	w.Golden()
	w.expectNames("0:2 1:2 2:2")
}

func TestPodCalledBackFromItsPreDeleteHookIsDeletedByLabelInAnOrderedSet(t *testing.T) {
	drain := "example.io/drain"
	w := newSimulation(t, 3, ordered, hooks(shared.Lifecycle{PreDelete: finalizerHook(drain)}), running)
	w.pod(1).Finalizers = []string{drain}
	w.change(specified(1))
	w.expect("Edit web-1 Hook PreparingDelete")
	delete(w.pod(1).Labels, shared.LabelSpecifiedDelete)
	w.next("Edit web-1 Hook Normal")
	specified(1)(w)
	w.next("Edit web-1 Hook PreparingDelete")
	w.pod(1).Finalizers = nil
	w.next("Delete web-1 SpecifiedDelete")
	w.Rest()
	w.Golden()
}

// TestRandomWalk lets users, kubelets and passes act in random order and holds the limits at every step. In the end everything
// comes to rest where the spec wants it.
func TestRandomWalk(t *testing.T) {
	const walks, steps = 100, 60
	for seed := range uint64(walks) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seeded walk has to repeat
			w := newSimulation(t, 1+int32(random.IntN(8)))
			w.breaks("web:3")
			if random.IntN(3) == 0 {
				w.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
			} else {
				maxUnavailable(1 + random.IntN(3))(w)
				if random.IntN(3) == 0 {
					unordered(nil)(w)
				}
			}
			if random.IntN(2) == 0 {
				inPlace(w)
			}
			if random.IntN(4) == 0 {
				minReady(5)(w)
			}
			w.Always = append(w.Always, withinLimit(w))
			for range steps {
				w.disturb(random)
				w.Pass()
				for _, pod := range w.Pods {
					w.Held[pod.Name] = random.IntN(3) == 0
				}
				w.Kubelets()
			}
			clear(w.Held)
			w.rolling().Paused = false
			image("final")(w)
			if w.set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement || deref(w.rolling().Partition) > 0 {
				// These sets wait for pods that they may not move: those that the partition keeps, and two broken surplus ones.
				w.Cluster.NeverReady = nil
			}
			w.Rest()
			for _, pod := range w.snapshot().Pods {
				if pod.Unwanted != "" {
					t.Errorf("pod %s stayed: %s", pod.Object.Name, pod.Unwanted)
				}
			}
			if got := len(w.Pods); got != int(*w.set.Spec.Replicas) {
				t.Errorf("%d pods, want %d\n%s", got, *w.set.Spec.Replicas, w.Log())
			}
			old := 0
			for _, pod := range w.Pods {
				if pod.Labels[shared.LabelControllerRevisionHash] != "web-final" {
					old++
				}
			}
			if keep := int(min(deref(w.rolling().Partition), *w.set.Spec.Replicas)); old > keep {
				t.Errorf("%d pods are not at the last revision, the partition keeps %d\n%s\n%s", old, keep, w.names(), w.Log())
			}
		})
	}
}

func deref(v *int32) int32 {
	if v == nil {
		return 0
	}
	return *v
}

// disturb is something that a user or a node does.
func (w *simulation) disturb(random *rand.Rand) {
	ordinals := make([]int, 0, len(w.Pods))
	for _, pod := range w.Pods {
		ordinals = append(ordinals, ordinalOf(pod))
	}
	slices.Sort(ordinals)
	one := func(do func(...int) func(*simulation)) {
		if len(ordinals) > 0 {
			do(ordinals[random.IntN(len(ordinals))])(w)
		}
	}
	switch random.IntN(24) {
	case 0, 1:
		image(fmt.Sprint(1 + random.IntN(3)))(w)
	case 2:
		partition(int32(random.IntN(4)))(w)
	case 3:
		replicas(int32(random.IntN(8)))(w)
	case 4:
		one(specified)
	case 5:
		one(fail)
	case 6:
		one(gone)
	case 7:
		w.rolling().Paused = !w.rolling().Paused
	case 8:
		reserve(random.IntN(6), fmt.Sprintf("%d-%d", 2+random.IntN(3), 5))(w)
	}
}
