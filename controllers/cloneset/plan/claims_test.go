// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

func (w *simulation) claimNames() string {
	var names []string
	for _, claim := range w.Claims {
		names = append(names, claim.Name)
	}
	return strings.Join(names, " ")
}

func TestClaimsOfANewPod(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data", "logs"))
	w.expect("claims", w.claimNames(), "data-web-p01 logs-web-p01")
	claim := w.Claim("data-web-p01")
	w.expect("instance ID", claim.Labels[shared.LabelInstanceID], "p01")
	w.expect("selector label", claim.Labels["app"], "web")
	owner := claim.OwnerReferences[0]
	if len(claim.OwnerReferences) != 1 || owner.Kind != "CloneSet" || owner.UID != w.set.UID || !ptr.Deref(owner.Controller, false) {
		t.Errorf("owners %+v", claim.OwnerReferences)
	}
	w.expect("volume", w.Pods[0].Spec.Volumes[0].PersistentVolumeClaim.ClaimName, "data-web-p01")
}

// A pod waited for ever for a claim that somebody had deleted before the pod was bound to a node. One that runs keeps what it has mounted.
func TestAClaimThatAPendingPodLacksIsMadeAgain(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"))
	w.Claims = nil
	w.expectActions("")
	w.Pods[0].Status.Phase = corev1.PodPending
	w.expectActions("1 CreateClaim ClaimMissing")
	action := w.Plan.Actions[0]
	claim, ok := action.Object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Name != "data-"+w.Pods[0].Name || claim.OwnerReferences[0].UID != w.set.UID || claim.Labels[shared.LabelInstanceID] == "" {
		t.Errorf("it creates %+v", action.Object)
	}
}

func TestClaimsGoWithPodsThatTheSetDeletes(t *testing.T) {
	for name, enable := range map[string]func(*simulation){"without reuse": func(*simulation) {}, "with reuse": reuse} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, claimTemplates("data"), enable)
			w.rest(ask("p01"))
			w.expect("after a deletion", w.claimNames(), "data-web-p02 data-web-p03 data-web-p04")
			w.rest(replicas(2))
			w.expect("after scaling in", len(w.Claims), 2)
			w.rest(image("2"))
			w.expect("after an update", len(w.Claims), 2)
			w.expect("pods", w.at("2"), 2)
		})
	}
}

func TestClaimsGoWithAPodOnlyOnceItIsDeleted(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"), hooks(shared.Lifecycle{PreDelete: hook("hold")}))
	w.rest(replicas(1))
	for _, claim := range w.Claims {
		if claim.OwnerReferences[0].Kind != "CloneSet" {
			t.Errorf("claim %s belongs to %s while its pod waits at its preDelete hook", claim.Name, claim.OwnerReferences[0].Kind)
		}
	}
	w.Users = true
	w.rest()
	w.expect("claims", w.claimNames(), "data-"+w.Pods[0].Name)
}

func TestClaimsOfPodsThatOthersDelete(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"))
	w.move("p01", podsettest.DeletePod)
	w.rest()
	w.expect("claims without reuse", w.claimNames(), "data-web-p02 data-web-p03")

	w = newSimulation(t, 2, claimTemplates("data"), reuse)
	w.move("p01", podsettest.DeletePod)
	w.move("p01", podsettest.FinishDeletion)
	w.rest()
	w.expect("claims with reuse", w.claimNames(), "data-web-p01 data-web-p02")
	w.expectPods("p01:1, p02:1")
}

func TestANewPodWaitsForTheClaimsOfATerminatingOne(t *testing.T) {
	deleted := func(ago time.Duration) func(*simulation) {
		return change("p01", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(podsettest.Now().Add(-ago))) })
	}
	w := newSimulation(t, 2, claimTemplates("data"), reuse)
	w.do(deleted(0))
	w.Pass()
	w.expect("while it terminates", w.actions(), "")
	_, held := w.Plan.HeldFor(noteClaimsReturning)
	w.expect("held", held, true)
	w.expect("recheck", w.Plan.RecheckAfter > 0, true)
	w.do(func(w *simulation) { w.set.Spec.Replicas = ptr.To[int32](3) })
	w.Pass()
	w.expect("a pod for which nothing comes back", w.actions(), "1 Create ScaleOut 1")

	w = newSimulation(t, 2, claimTemplates("data"), reuse)
	w.do(deleted(0), change("p01", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }))
	w.Pass()
	w.expect("while it is still there with all containers ended", w.actions(), "")

	w = newSimulation(t, 2, claimTemplates("data"), reuse)
	w.do(deleted(overdue))
	w.Pass()
	w.expect("when it is overdue", w.actions(), "1 Create ScaleOut 1")
}

func TestAnInstanceIDIsReusedOnlyWhenNoPodHasIt(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"), reuse)
	w.move("p01", podsettest.Evict)
	w.rest()
	w.expect("pods", w.pods(), "p01:1, p02:1, p03:1")
	w.expect("claims", w.claimNames(), "data-web-p01 data-web-p02 data-web-p03")
}

func TestAClaimThatIsBeingDeletedIsNotReused(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data"), reuse)
	w.move("p01", podsettest.DeletePod)
	w.move("p01", podsettest.FinishDeletion)
	w.Claims[0] = w.Claims[0].DeepCopy()
	w.Claims[0].DeletionTimestamp = ptr.To(w.set.CreationTimestamp)
	w.rest()
	w.expectPods("p02:1")
}

func TestClaimsWithoutAPodAreDeletedUnlessReused(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data"))
	stray := w.Claims[0].DeepCopy()
	stray.Name, stray.Labels[shared.LabelInstanceID] = "data-web-zzzzz", "zzzzz"
	foreign := stray.DeepCopy()
	foreign.Name, foreign.OwnerReferences = "other", nil
	w.Claims = []*corev1.PersistentVolumeClaim{w.Claims[0], stray, foreign}
	w.expectActions("1 DeleteClaim ClaimUnused")
	w.do(reuse)
	w.expectActions("")
}

func TestFreshSlotsAvoidPodsAndClaims(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data"))
	stray := w.Claims[0].DeepCopy()
	stray.Name, stray.Labels[shared.LabelInstanceID] = "data-web-p02", "p02"
	stray.OwnerReferences = nil
	w.Claims = append(w.Claims, stray)
	w.do(replicas(2))
	s := w.snapshot()
	s.FreshSlots = func(yield func(planning.Slot) bool) {
		for _, slot := range []planning.Slot{"p01", "p02", "p03", "p03"} {
			if !yield(slot) {
				return
			}
		}
	}
	plan := Plan(Parse(w.set, w.o), s)
	var slots []planning.Slot
	for _, a := range plan.Actions {
		if a.Step == podset.StepCreate {
			slots = append(slots, a.Slot)
		}
	}
	if len(slots) != 1 || slots[0] != "p03" {
		t.Errorf("created %v", slots)
	}
}

// A finalizer, a quota or a policy may keep a claim that nobody uses from being deleted. That must not cost a replica.
func TestAPodIsReplacedAlthoughTheUnusedClaimOfAnotherCannotBeDeleted(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data"))
	w.move("p01", podsettest.DeletePod)
	w.move("p01", podsettest.FinishDeletion)
	unused(w, "gone1")
	w.expectActions("1 Create ScaleOut 1, 2 DeleteClaim ClaimUnused")
	w.expect("held", w.held(), "")
}

// Somebody took the owner reference of a pod, or changed its instance ID, to look at it in peace; its claims were deleted under it.
func TestClaimsStayWithAPodThatIsNotTheSetsAnyMore(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"))
	w.RemovePod("web-p01") // from the set's view
	s := w.snapshot()
	s.Taken = map[planning.Slot]bool{"p01": true}
	w.Plan = Plan(Parse(w.set, w.o), s)
	w.expect("planned", w.actions(), "1 Create ScaleOut 1")
	w.expect("held", w.held(), noteClaimsInUse)
	w.expect("recheck", w.Plan.RecheckAfter, takenRecheck)
	w.do(reuse)
	w.Plan = Plan(Parse(w.set, w.o), s)
	for _, a := range w.Plan.Actions {
		if a.Slot == "p01" {
			t.Errorf("%s uses the instance ID of a pod that exists", podsettest.ActionLine(a))
		}
	}

	w = newSimulation(t, 1, claimTemplates("data"))
	unused(w, "gone1")
	w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
	if deletion := w.Plan.Actions[0]; deletion.IfAbsent == nil || deletion.IfAbsent.Name != "web-gone1" || deletion.IfAbsent.Namespace != "shop" {
		t.Errorf("%s does not depend on the pod web-gone1 being absent: %+v", podsettest.ActionLine(deletion), deletion.IfAbsent)
	}
}

// unused adds a claim as that of the set's first pod, for an instance ID that no pod has.
func unused(w *simulation, id string) *corev1.PersistentVolumeClaim {
	claim := w.Claim("data-web-p01").DeepCopy()
	claim.Name, claim.UID, claim.Labels[shared.LabelInstanceID] = "data-web-"+id, types.UID("uid-"+id), id
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.set, Kind())}
	w.PutClaim(claim)
	return claim
}

func TestClaimsDoNotPileUpWhilePodsAreRefused(t *testing.T) {
	begin := func() *simulation {
		w := newSimulation(t, 1, claimTemplates("data", "logs"))
		w.do(replicas(3))
		return w
	}
	created := func(w *simulation) (slots, claims []string) {
		w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
		for _, a := range w.Plan.Actions {
			if a.Step == podset.StepCreate {
				slots = append(slots, string(a.Slot))
				for _, claim := range podsettest.ClaimsOf(a) {
					claims = append(claims, claim.Name)
				}
			}
		}
		return slots, claims
	}
	cases := map[string]struct {
		left          func(claim *corev1.PersistentVolumeClaim) // how the claim that the last try left behind differs
		slots, claims []string
		deleted       bool
	}{
		"the same instance ID is tried again with the claims it has": {
			slots: []string{"p02", "p03"}, claims: []string{"logs-web-p02", "data-web-p03", "logs-web-p03"},
		},
		"not with a claim that another template made": {
			left: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			},
			slots: []string{"p03", "p04"}, claims: []string{"data-web-p03", "logs-web-p03", "data-web-p04", "logs-web-p04"}, deleted: true,
		},
		"not with a claim that is being deleted": {
			left:  func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(podsettest.Now())) },
			slots: []string{"p03", "p04"}, claims: []string{"data-web-p03", "logs-web-p03", "data-web-p04", "logs-web-p04"},
		},
		"not with a claim that is not the set's": {
			left:  func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = nil },
			slots: []string{"p03", "p04"}, claims: []string{"data-web-p03", "logs-web-p03", "data-web-p04", "logs-web-p04"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := begin()
			claim := unused(w, "p02")
			if tc.left != nil {
				tc.left(claim)
			}
			slots, claims := created(w)
			if !slices.Equal(slots, tc.slots) || !slices.Equal(claims, tc.claims) {
				t.Errorf("created pods %v with claims %v, want %v with %v", slots, claims, tc.slots, tc.claims)
			}
			if got := strings.Contains(w.actions(), "DeleteClaim"); got != tc.deleted {
				t.Errorf("planned %s; the claim is deleted: %v, want %v", w.actions(), got, tc.deleted)
			}
		})
	}
}

// While a quota refused pods that a partition keeps at a revision with a claim template that is gone, each try made another claim, and deleted the last one.
func TestClaimsOfTheEarlierRevisionAreTriedAgain(t *testing.T) {
	w := newSimulation(t, 1, claimTemplates("data"), partition("100%"))
	w.rest(image("2"), func(w *simulation) { w.set.Spec.VolumeClaimTemplates = nil })
	w.do(replicas(2))
	unused(w, "p02")
	w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
	if got := w.actions(); got != "1 Create ScaleOut 1" || w.Plan.Actions[0].Slot != "p02" {
		t.Errorf("planned %s for %s, want the pod of p02 with the claim it has", got, w.Plan.Actions[0].Slot)
	}
}

func TestClaimsOfOthersAreLeftAlone(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"))
	w.Claims[0] = w.Claims[0].DeepCopy()
	w.Claims[0].OwnerReferences = nil
	before := w.Claims[0].DeepCopy()
	w.rest(ask("p01"))
	w.expectPods("p02:1, p03:1")
	w.expect("claims", w.claimNames(), "data-web-p01 data-web-p02 data-web-p03")
	w.expect("the claim is as it was", equality.Semantic.DeepEqual(before, w.Claim("data-web-p01")), true)
}

// refusedFor says that the server has refused what a step does to these objects at every try for so long.
func refusedFor(failing time.Duration, step planning.Step, names ...string) planning.Retries {
	return func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Second, Failing: failing}, key.Step == step && key.Namespace == "shop" && slices.Contains(names, key.Name)
	}
}

// A webhook of others refused to change the owners of claims, and their pods were never deleted.
func TestAPodIsDeletedAlthoughItsClaimsCannotBeGivenToIt(t *testing.T) {
	cases := map[string]struct {
		change       []func(*simulation)
		pod          string // p02 if empty
		deletion     string
		says, claims string
	}{
		"scaled in": {
			change: []func(*simulation){replicas(1)}, deletion: "1 Delete ScaleIn",
			says: "and are deleted when it is gone", claims: "data-web-p01",
		},
		"asked for": {
			change: []func(*simulation){ask("p02")}, deletion: "1 Delete SpecifiedDelete",
			says: "and are deleted when it is gone", claims: "data-web-p01 data-web-p03",
		},
		"outdated": {
			change: []func(*simulation){image("2"), partition(1)}, pod: "p01", deletion: "1 Delete Outdated",
			says: "and are deleted when it is gone", claims: "data-web-p02 data-web-p03",
		},
		"asked for, with reuse": {
			change: []func(*simulation){reuse, ask("p02")}, deletion: "1 Delete SpecifiedDelete",
			says: "and stay for another pod", claims: "data-web-p01 data-web-p02",
		},
	}
	for name, tc := range cases {
		pod := cmp.Or(tc.pod, "p02")
		for refused, what := range map[string]string{"data-web-" + pod: "its own", "": "those of all pods"} {
			t.Run(name+", "+what, func(t *testing.T) {
				w := newSimulation(t, 2, claimTemplates("data"))
				w.do(tc.change...)
				plan := func(retries planning.Retries) string {
					s := w.snapshot()
					s.Retries = retries
					w.Plan = Plan(Parse(w.set, w.o), s)
					return w.actions()
				}
				const edit = "1 EditClaim ClaimOwners"
				w.expect("at first", plan(nil), edit)
				w.expect("it looks soon", w.Plan.RecheckAfter, afterClaims)
				w.expect("refused for a while", plan(refusedFor(29*time.Second, podset.StepEditClaim, refused)), edit)
				w.expect("refused for long", plan(refusedFor(30*time.Second, podset.StepEditClaim, refused)), edit+", "+tc.deletion)
				for _, action := range w.Plan.Actions {
					if action.Step == podset.StepDelete && !strings.HasSuffix(action.Success.Message, tc.says) {
						t.Errorf("the event says %q, want that the claims stay %s", action.Success.Message, tc.says)
					}
				}
				w.move(pod, podsettest.DeletePod)
				w.move(pod, podsettest.FinishDeletion)
				w.rest()
				w.expect("claims", w.claimNames(), tc.claims)
			})
		}
	}
}

// The set looked again ten times a second as long as the server refused.
func TestAPodWaitsForTheNextTryWhenItsClaimsAreRefused(t *testing.T) {
	w := newSimulation(t, 2, claimTemplates("data"))
	w.do(replicas(1))
	s := w.snapshot()
	s.Retries = refusedFor(time.Second, podset.StepEditClaim, "data-web-p02")
	w.expect("recheck", Plan(Parse(w.set, w.o), s).RecheckAfter, time.Duration(0))
}

// The claims of one pod were kept in part, and the next pod got an old volume and an empty one.
func TestReusedClaimsStayTogether(t *testing.T) {
	const mark = "of-the-first-pod"
	begin := func(t *testing.T, failing *time.Duration) *simulation {
		t.Helper()
		w := newSimulation(t, 2, claimTemplates("data", "logs", "tmp"), reuse)
		for _, claim := range w.Claims {
			claim.Labels[mark] = "true"
		}
		refused := func(a planning.Action) bool {
			return a.Step == podset.StepEditClaim && a.Object.GetName() == "logs-web-p02"
		}
		w.Snapshot = func() podset.Snapshot {
			s := w.snapshot()
			s.Retries = refusedFor(*failing, podset.StepEditClaim, "logs-web-p02")
			return s
		}
		w.Step = func(s podset.Snapshot) planning.Plan {
			plan := Plan(Parse(w.set, w.o), s)
			plan.Actions = slices.DeleteFunc(plan.Actions, refused)
			return plan
		}
		return w
	}
	given := func(w *simulation) string {
		var names []string
		for _, claim := range w.Claims {
			if slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Pod" }) {
				names = append(names, claim.Name)
			}
		}
		return strings.Join(names, " ")
	}
	together := func(t *testing.T, w *simulation, pods string) {
		t.Helper()
		w.rest()
		w.expectPods(pods)
		for _, claim := range w.Claims {
			if claim.Labels[mark] == "" {
				t.Errorf("claim %s is a new one, beside others that are not", claim.Name)
			}
		}
		w.expect("claims", len(w.Claims), 6)
	}
	deleted := change("p02", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(podsettest.Now())) })
	outdated := func(w *simulation) { w.do(image("2"), label("p01", shared.LabelControllerRevisionHash, "web-2")) }
	for name, tc := range map[string]struct {
		remove func(*simulation)
		pods   string
	}{
		"asked for": {ask("p02"), "p01:1, p02:1"},
		"scaled in": {replicas(1), "p01:1, p02:1"},
		"outdated":  {outdated, "p01:2, p02:2"},
	} {
		t.Run(name, func(t *testing.T) {
			failing := 29 * time.Second
			w := begin(t, &failing)
			w.do(tc.remove)
			w.Pass()
			w.expect("claims that the pod gets", given(w), "data-web-p02 tmp-web-p02")
			w.Pass()
			w.expect("while one is refused", w.actions(), "")
			failing = 30 * time.Second
			w.Pass()
			w.expect("refused for long", w.actions(), "2 EditClaim ClaimOwners")
			w.expect("claims that the pod has", given(w), "")
			w.expect("it looks soon", w.Plan.RecheckAfter, afterClaims)
			w.Pass()
			if len(w.Plan.Actions) != 1 || w.Plan.Actions[0].Step != podset.StepDelete || !strings.HasSuffix(w.Plan.Actions[0].Success.Message, "stay for another pod") {
				t.Fatalf("then it plans %v", w.ActionLines())
			}
			w.do(replicas(2))
			together(t, w, tc.pods)
		})
	}
	t.Run("deleted by somebody else meanwhile", func(t *testing.T) {
		failing := time.Second
		w := begin(t, &failing)
		w.do(ask("p02"))
		w.Pass()
		w.expect("claims that the pod gets", given(w), "data-web-p02 tmp-web-p02")
		w.do(deleted)
		together(t, w, "p01:1, p02:1")
	})
	t.Run("not even the others can be taken back", func(t *testing.T) {
		w := newSimulation(t, 2, claimTemplates("data", "logs"), reuse)
		w.do(ask("p02"))
		w.Pass()
		claim := w.Claim("logs-web-p02").DeepCopy()
		claim.OwnerReferences = w.Claim("data-web-p01").OwnerReferences
		w.PutClaim(claim)
		for after, want := range map[time.Duration]string{29 * time.Second: "2 EditClaim ClaimOwners", 30 * time.Second: "2 EditClaim ClaimOwners, 1 Delete SpecifiedDelete"} {
			s := w.snapshot()
			s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
				failing := map[string]time.Duration{"logs-web-p02": time.Hour, "data-web-p02": after}
				return planning.Retry{Wait: time.Second, Failing: failing[key.Name]}, failing[key.Name] > 0
			}
			w.Plan = Plan(Parse(w.set, w.o), s)
			w.expect("planned", w.actions(), want)
		}
	})
	t.Run("a claim template is added", func(t *testing.T) {
		w := newSimulation(t, 2, claimTemplates("data"), reuse)
		w.do(claimTemplates("data", "logs"))
		w.do(deleted)
		w.rest()
		w.expectPods("p01:1, p02:1")
		w.expect("claims", w.claimNames(), "data-web-p01 data-web-p02 logs-web-p02")
	})
}
