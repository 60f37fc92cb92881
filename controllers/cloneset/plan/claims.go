// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

const (
	// reasonClaimOwners makes a claim go with its pod, or stay with the set.
	reasonClaimOwners = "ClaimOwners"
	// reasonClaimMissing creates a missing claim of a pending pod.
	reasonClaimMissing = "ClaimMissing"
	// reasonClaimUnused deletes a claim without a pod.
	reasonClaimUnused = "ClaimUnused"
)

// afterClaims is when to plan again after writes of claims before a deletion: no event tells of it.
const afterClaims = 100 * time.Millisecond

// retention is every CloneSet's: a claim belongs to the set, and to its pod during the pod's
// deletion.
func retention() claims.Retention { return claims.Retention{WhenScaled: true, WhenDeleted: true} }

// bySlot sorts the claims of the set under their instance IDs, in the order of their names.
// Terminating claims are left out, but keep their slot from being used.
func bySlot(set *appsv1beta1.CloneSet, all map[string]*corev1.PersistentVolumeClaim) map[planning.Slot][]*corev1.PersistentVolumeClaim {
	slots := map[planning.Slot][]*corev1.PersistentVolumeClaim{}
	for _, claim := range slices.SortedFunc(maps.Values(all), func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) }) {
		if id := claim.Labels[shared.LabelInstanceID]; id != "" && claim.Namespace == set.Namespace {
			slots[planning.Slot(id)] = append(slots[planning.Slot(id)], claim)
		}
	}
	return slots
}

// missing: there is no claim of this name.
func (p *planner) missing(claim string) bool { return p.s.Claims[claim] == nil }

// ofSlot marks new claims as a slot's.
func (p *planner) ofSlot(slot planning.Slot, created []*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	for _, claim := range created {
		claim.Labels[shared.LabelInstanceID] = string(slot)
		claim.OwnerReferences = []metav1.OwnerReference{p.Owner}
	}
	return created
}

// owned: the set is an owner of the claim.
func (p *planner) owned(claim *corev1.PersistentVolumeClaim) bool {
	return claims.OwnedBy(claim, p.Set.UID)
}

// reusable are the slots with claims for another pod: no pod object has the slot, not even a
// terminating one, and none of its claims is about to be deleted.
func (p *planner) reusable() []planning.Slot {
	if !p.EnablePVCReuse {
		return nil
	}
	var slots []planning.Slot
	for _, slot := range slices.Sorted(maps.Keys(p.claimsOf)) {
		if !p.existing[slot] && p.usable(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// usable: all claims of a slot belong to the set, and none of them is about to be deleted.
func (p *planner) usable(slot planning.Slot) bool {
	return !slices.ContainsFunc(p.claimsOf[slot], func(claim *corev1.PersistentVolumeClaim) bool {
		return !p.owned(claim) || claims.Stale(claim, p.podName(slot), "")
	})
}

// retriable is a candidate for a pod: without claims, or with those of an earlier try whose pod the
// server refused. No pod had the candidate yet, so they are empty. The same one again keeps claims
// from piling up during refusals, without a wait for anything. Claims unlike those of the pod's
// revision are left to be deleted.
func (p *planner) retriable(slot planning.Slot, rev revision.Revision) bool {
	if len(p.claimsOf[slot]) == 0 {
		return true
	}
	wanted := p.draft.ClaimsAt(p.Claims, rev.Name).Claims
	return p.usable(slot) && !slices.ContainsFunc(p.claimsOf[slot], func(claim *corev1.PersistentVolumeClaim) bool {
		return !slices.ContainsFunc(wanted, func(template corev1.PersistentVolumeClaim) bool {
			return claim.Name == claims.Name(template.Name, p.podName(slot)) && claims.Compare(claim, &template) == claims.Fits
		})
	})
}

// overdue is how long after its grace period a deleted pod is waited for: its node may be gone.
const overdue = 30 * time.Second

// returning is how many slots will be reusable in a moment: somebody has deleted their pods, and
// those are about to end. A new pod without such a wait would get claims without data. after is
// when the last of them counts as overdue.
func (p *planner) returning() (n int, after time.Duration) {
	if !p.EnablePVCReuse {
		return 0, 0
	}
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		// A pod is there a moment longer than its containers.
		if pod.Object.DeletionTimestamp == nil || !p.stay(pod) {
			continue
		}
		if left := pod.Object.DeletionTimestamp.Add(overdue).Sub(p.s.Now); left > 0 {
			n++
			after = max(after, left)
		}
	}
	return n, after
}

// stay: the claims of a terminating pod are for another one. The set has some of them, takes back
// the pod's, and none of them is foreign or about to be deleted.
func (p *planner) stay(pod *podset.Pod) bool {
	own := p.claimsOf[pod.Slot]
	return slices.ContainsFunc(own, p.remaining) && !slices.ContainsFunc(own, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.DeletionTimestamp != nil || !p.owned(claim) && !claims.OwnedBy(claim, pod.Object.UID) || claims.Stale(claim, pod.Object.Name, pod.Object.UID)
	})
}

// keepClaims gives claims the owner of their deletion.
//
//   - A claim of a staying pod belongs to the set, and is made again while the pod is pending.
//   - A claim of a terminating or finished pod goes with that pod, unless claims are reused. Then
//     all of them stay, or all go: the next pod would get empty volumes beside the others.
//   - A claim without a pod is deleted, unless claims are reused or this pass creates a pod for it.
//
// Claims of a pod in removal are left to remove.
func (p *planner) keepClaims() {
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		switch {
		case p.leaving[pod.Object.Name] && !p.draft.HeldByPreDelete(pod):
		case counts(pod):
			p.fixOwners(pod, p.claimsOf[pod.Slot], false)
			p.createAwaited(pod)
		case !p.EnablePVCReuse:
			p.fixOwners(pod, p.claimsOf[pod.Slot], true)
		case slices.ContainsFunc(p.claimsOf[pod.Slot], p.remaining):
			p.fixOwners(pod, p.claimsOf[pod.Slot], false)
		}
	}
	p.holdTaken()
	p.deleteUnused()
}

// deleteUnused deletes the claims without a pod, unless claims are reused.
func (p *planner) deleteUnused() {
	if p.EnablePVCReuse {
		return
	}
	for _, slot := range slices.Sorted(maps.Keys(p.claimsOf)) {
		for _, claim := range p.claimsOf[slot] {
			if p.existing[slot] || !p.remaining(claim) {
				continue
			}
			action := podset.DeleteClaim(slot, claim, reasonClaimUnused)
			action.IfAbsent = &planning.Reference{Kind: podset.KindPod(), Namespace: claim.Namespace, Name: p.podName(slot)}
			p.act(action, "delete", "Delete")
		}
	}
}

// createAwaited creates deleted claims of a pending pod: it would wait for them for ever.
func (p *planner) createAwaited(pod *podset.Pod) {
	if pod.Object.Status.Phase != corev1.PodPending {
		return
	}
	for _, claim := range p.ofSlot(pod.Slot, p.draft.ClaimsAt(p.Claims, pod.Revision).Awaited(pod.Object, p.missing)) {
		p.act(podset.CreateClaim(pod.Slot, claim, reasonClaimMissing), "create", "Create")
	}
}

// takenRecheck is how often the set looks again for the end of a foreign pod with claims of the
// set: no event tells.
const takenRecheck = time.Minute

// holdTaken notes that claims stay because of foreign pods under their name.
func (p *planner) holdTaken() {
	if len(p.s.Taken) == 0 || p.EnablePVCReuse {
		return
	}
	slots := slices.Sorted(maps.Keys(p.s.Taken))
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = p.podName(slot)
	}
	p.draft.Recheck(takenRecheck)
	p.draft.Hold(planning.Note{
		Reason:  noteClaimsInUse,
		Message: "volume claims stay as long as these pods exist, which are not pods of the set any more, or have lost their instance ID: " + podset.List(names),
		Slots:   slots,
	})
}

// remaining is a claim of the set, and not terminating.
func (p *planner) remaining(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && p.owned(claim)
}

// giveClaims gives a pod its claims before its deletion, and says whether the deletion waits. It
// does not wait for ever for refused ones: they stay the set's. Where claims are reused, the others
// stay with them, and the pod returns those it has.
func (p *planner) giveClaims(pod *podset.Pod) (waits bool) {
	give, takeBack := p.claimsOf[pod.Slot], []*corev1.PersistentVolumeClaim(nil)
	if p.EnablePVCReuse {
		if refused, others := p.refused(pod); len(refused) > 0 {
			give, takeBack = refused, others // those that are refused stay in the plan: otherwise their refusal would be forgotten
		}
	}
	edits := p.fixOwners(pod, give, true)
	if p.draft.Awaits(edits, afterClaims, true) || p.draft.Awaits(p.fixOwners(pod, takeBack, false), afterClaims, false) {
		return true
	}
	if len(edits) > 0 {
		p.leaveClaims(pod)
	}
	return false
}

// refused splits off the claims refused for too long to wait.
func (p *planner) refused(pod *podset.Pod) (refused, others []*corev1.PersistentVolumeClaim) {
	for _, claim := range p.claimsOf[pod.Slot] {
		changed := false
		if p.draft.GivesUp(podset.EditClaimKey(claim), true) {
			_, changed = p.reown(pod, claim, true)
		}
		if changed {
			refused = append(refused, claim)
		} else {
			others = append(others, claim)
		}
	}
	return refused, others
}

// fixOwners makes claims of a pod go with it, or stay with the set, and returns the keys of the
// writes.
func (p *planner) fixOwners(pod *podset.Pod, own []*corev1.PersistentVolumeClaim, condemned bool) (edits []planning.RetryKey) {
	for _, claim := range own {
		if patch, changed := p.reown(pod, claim, condemned); changed {
			edits = append(edits, podset.EditClaimKey(claim))
			p.act(podset.EditClaim(pod.Slot, claim, patch, reasonClaimOwners), "update", "")
		}
	}
	return edits
}

// reown is the patch for that, and whether there is something to change. A claim of neither is
// foreign, or goes with an earlier pod.
func (p *planner) reown(pod *podset.Pod, claim *corev1.PersistentVolumeClaim, condemned bool) (patch planning.Change, changed bool) {
	if !p.owned(claim) && !claims.OwnedBy(claim, pod.Object.UID) {
		return nil, false
	}
	return retention().PatchOwners(claim, claims.Owned{Set: p.Owner, Pod: claims.PodReference(pod.Object)}, condemned)
}

// leaveClaims tells, in the event about the deletion of a pod, about refused claims.
func (p *planner) leaveClaims(pod *podset.Pod) {
	fate := "are deleted when it is gone"
	if p.EnablePVCReuse {
		fate = "stay for another pod"
	}
	p.draft.AppendToEvent(pod, ", but its volume claims cannot be given to it, and "+fate)
}

// act plans an action for a claim. verb and event name it; without event, its success is silent.
func (p *planner) act(action planning.Action, verb, event string) {
	what := fmt.Sprintf("%s Claim %s in CloneSet %s", verb, action.Object.GetName(), p.Set.Name)
	if event != "" {
		action.Success = planning.Event{Reason: "Successful" + event, Message: what + " successful"}
	}
	action.Failure = planning.Event{Warning: true, Reason: "Failed" + cmp.Or(event, "Update"), Message: what + " failed error"}
	p.draft.Act(action)
}
