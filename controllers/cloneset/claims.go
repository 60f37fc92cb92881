// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

const (
	// reasonClaimOwners makes a claim go with its pod, or stay with the set.
	reasonClaimOwners = "ClaimOwners"
	// reasonClaimUnused deletes a claim that has no pod.
	reasonClaimUnused = "ClaimUnused"
)

// afterClaims is when to plan again after writing claims that a deletion waits for: no event tells of it.
const afterClaims = 100 * time.Millisecond

// retention is that of every CloneSet: a claim belongs to the set, and to its pod once that is on its way out.
func retention() claims.Retention { return claims.Retention{WhenScaled: true, WhenDeleted: true} }

// bySlot sorts the claims of the set under their instance IDs, in the order of their names. Claims that are terminating are left
// out, but keep their slot from being used.
func bySlot(set *appsv1beta1.CloneSet, all map[string]*corev1.PersistentVolumeClaim) map[podset.Slot][]*corev1.PersistentVolumeClaim {
	slots := map[podset.Slot][]*corev1.PersistentVolumeClaim{}
	for _, claim := range slices.SortedFunc(maps.Values(all), func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) }) {
		if id := claim.Labels[shared.LabelInstanceID]; id != "" && claim.Namespace == set.Namespace {
			slots[podset.Slot(id)] = append(slots[podset.Slot(id)], claim)
		}
	}
	return slots
}

// missingClaims are the claims of a slot that do not exist.
func (p *planner) missingClaims(slot podset.Slot, pod string) []*corev1.PersistentVolumeClaim {
	var missing []*corev1.PersistentVolumeClaim
	for _, claim := range p.claims.Wanted(pod) {
		if p.s.Claims[claim.Name] != nil {
			continue
		}
		claim.Labels[shared.LabelInstanceID] = string(slot)
		claim.OwnerReferences = []metav1.OwnerReference{p.controller()}
		missing = append(missing, claim)
	}
	return missing
}

// owned says that the set is an owner of the claim.
func (p *planner) owned(claim *corev1.PersistentVolumeClaim) bool {
	return ownedBy(claim, p.set.UID)
}

func ownedBy(claim *corev1.PersistentVolumeClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// reusable are the slots whose claims wait for another pod: no pod object has the slot, not even one that is on its way out, and
// none of its claims is about to be deleted.
func (p *planner) reusable() []podset.Slot {
	if !p.reuseClaims {
		return nil
	}
	var slots []podset.Slot
	for _, slot := range slices.Sorted(maps.Keys(p.claimsOf)) {
		if !p.existing[slot] && p.usable(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// usable says that all claims of a slot belong to the set, and that none of them is about to be deleted.
func (p *planner) usable(slot podset.Slot) bool {
	return !slices.ContainsFunc(p.claimsOf[slot], func(claim *corev1.PersistentVolumeClaim) bool {
		return !p.owned(claim) || claims.Stale(claim, p.podName(slot), "")
	})
}

// overdue is how long after its grace period a pod that somebody deleted is waited for: its node may be gone.
const overdue = 30 * time.Second

// returning is how many slots will be reusable in a moment: somebody has deleted their pods, and those are about to end. A new pod that
// does not wait for one of them would get claims without data. after is when the last of them counts as overdue.
func (p *planner) returning() (n int, after time.Duration) {
	if !p.reuseClaims {
		return 0, 0
	}
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		// A pod whose containers have all ended is there a moment longer.
		if pod.Object.DeletionTimestamp == nil || len(p.claimsOf[pod.Slot]) == 0 || !p.usable(pod.Slot) {
			continue
		}
		if left := pod.Object.DeletionTimestamp.Add(overdue).Sub(p.s.Now); left > 0 {
			n++
			after = max(after, left)
		}
	}
	return n, after
}

// keepClaims gives claims the owner that says what becomes of them.
//
//   - A claim of a pod that stays belongs to the set.
//   - A claim of a pod that is terminating or has finished goes with that pod, unless claims are reused.
//   - A claim without a pod is deleted, unless claims are reused.
//
// Those of a pod that this pass works at removing are left to remove.
func (p *planner) keepClaims() {
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		switch {
		case p.leaving[pod.Object.Name] && !p.pass.HeldFromDeletion(pod):
		case counts(pod):
			p.fixOwners(pod, false)
		case !p.reuseClaims:
			p.fixOwners(pod, true)
		}
	}
	for _, slot := range p.unusedClaims() {
		for _, claim := range p.claimsOf[slot] {
			if p.unused(claim) {
				p.pass.Act(podset.Action{
					Verb: podset.VerbDeleteClaim, Slot: slot, Claim: claim, Reason: reasonClaimUnused,
					Success: podset.Event{Reason: "SuccessfulDelete", Message: p.claimMessage("delete", claim.Name, "successful")},
					Failure: podset.Event{Warning: true, Reason: "FailedDelete", Message: p.claimMessage("delete", claim.Name, "failed error")},
				})
			}
		}
	}
}

// unusedClaims are the slots that have claims to delete, because no pod has the slot and claims are not reused.
func (p *planner) unusedClaims() []podset.Slot {
	if p.reuseClaims {
		return nil
	}
	var slots []podset.Slot
	for _, slot := range slices.Sorted(maps.Keys(p.claimsOf)) {
		if !p.existing[slot] && slices.ContainsFunc(p.claimsOf[slot], p.unused) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// unused says that a claim without a pod is the set's to delete, and not on its way out already.
func (p *planner) unused(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && p.owned(claim)
}

// handOver makes the claims of a pod go with it, and reports whether that has to be written first.
func (p *planner) handOver(pod *podset.Pod) bool { return p.fixOwners(pod, true) }

func (p *planner) fixOwners(pod *podset.Pod, condemned bool) bool {
	changing := false
	who := claims.Owned{Set: p.controller(), Pod: claims.PodReference(pod.Object)}
	for _, claim := range p.claimsOf[pod.Slot] {
		// A claim that neither the set nor this pod owns is somebody else's, or goes with an earlier pod.
		if claim.DeletionTimestamp != nil || !p.owned(claim) && !ownedBy(claim, pod.Object.UID) {
			continue
		}
		owners, changed := retention().Owners(claim, who, condemned)
		if !changed {
			continue
		}
		patch, err := claims.OwnersPatch(claim, owners)
		if err != nil {
			p.pass.Wait(pod, reasonClaimOwners, err.Error())
			continue
		}
		changing = true
		p.pass.Act(podset.Action{
			Verb: podset.VerbEditClaim, Slot: pod.Slot, Claim: claim, ClaimPatch: patch, Reason: reasonClaimOwners,
			Failure: podset.Event{Warning: true, Reason: "FailedUpdate", Message: p.claimMessage("update", claim.Name, "failed error")},
		})
	}
	return changing
}

func (p *planner) claimMessage(verb, claim, result string) string {
	return fmt.Sprintf("%s Claim %s in CloneSet %s %s", verb, claim, p.set.Name, result)
}
