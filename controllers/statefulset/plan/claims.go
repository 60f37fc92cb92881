// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

const (
	// reasonClaimMissing creates a missing claim of a pending pod.
	reasonClaimMissing = "ClaimMissing"
	// reasonClaimOwners gives a claim the owners of the retention policy.
	reasonClaimOwners = "ClaimOwners"
	// reasonClaimGrow expands a claim to the size of its template.
	reasonClaimGrow = "ClaimGrow"

	noteClaimGrowing = "ClaimGrowing"
	noteClaimOwned   = "ClaimOwned"
)

// afterClaims is when to plan again after writes of claims before a deletion: no event tells of it.
const afterClaims = 100 * time.Millisecond

// keepClaims corrects the claims of existing pods: their owners always, and a pending pod gets
// missing claims. Claims of all surplus pods get the owners of their deletion, whatever their turn:
// another pod may be lost before. A terminating pod with a wanted ordinal gives its claims back:
// they go with it otherwise.
func (p *planner) keepClaims() {
	for _, pod := range p.surplus {
		p.fixOwners(pod, true)
	}
	for _, pod := range p.pods {
		p.fixOwners(pod, false)
		if pod.Terminating {
			p.letGo(pod)
			continue
		}
		p.holdStuck(pod)
		if pod.Object.Status.Phase != corev1.PodPending {
			continue
		}
		for _, claim := range p.owned(p.draft.ClaimsAt(p.Claims, pod.Revision).Awaited(pod.Object, p.missing)) {
			p.act(podset.CreateClaim(pod.Slot, claim, reasonClaimMissing), "create", "SuccessfulCreate", "FailedCreate", pod.Object.Name)
		}
	}
}

// act plans an action for a claim of a pod. Its events have these reasons.
func (p *planner) act(action planning.Action, verb, success, failure, pod string) {
	what := fmt.Sprintf("%s Claim %s Pod %s in StatefulSet %s", verb, action.Object.GetName(), pod, p.Set.Name)
	action.Success = planning.Event{Reason: success, Message: what + " success"}
	action.Failure = planning.Event{Warning: true, Reason: failure, Message: what + " failed error"}
	p.draft.Act(action)
}

// existing yields the set's claim templates with an existing claim of the pod.
func (p *planner) existing(pod string, yield func(template, claim *corev1.PersistentVolumeClaim)) {
	p.existingOf(p.Claims, pod, yield)
}

// existingOf is existing for claim templates of another revision.
func (p *planner) existingOf(of claims.Template, pod string, yield func(template, claim *corev1.PersistentVolumeClaim)) {
	for i := range of.Claims {
		template := &of.Claims[i]
		if claim := p.s.Claims[claims.Name(template.Name, pod)]; claim != nil {
			yield(template, claim)
		}
	}
}

// FormerClaims are the names of a pod's mounted claims from dropped templates.
func FormerClaims(spec *Spec, pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim == nil || volume.PersistentVolumeClaim.ClaimName != claims.Name(volume.Name, pod.Name) ||
			slices.ContainsFunc(spec.Claims.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == volume.Name }) {
			continue
		}
		names = append(names, volume.PersistentVolumeClaim.ClaimName)
	}
	return names
}

// missing: there is no claim of this name.
func (p *planner) missing(claim string) bool { return p.s.Claims[claim] == nil }

// owned gives new claims the policy's owners.
func (p *planner) owned(created []*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	for _, claim := range created {
		if p.Options.AutoDeletePVC {
			claim.OwnerReferences, _ = p.Retention.Owners(claim, claims.Owned{Set: p.setReference()}, false)
		}
	}
	return created
}

// claimsGoing: a claim for an ordinal's pod is about to be deleted, so the pod must not be created
// yet.
func (p *planner) claimsGoing(o int, pod string) bool {
	going := false
	p.existingOf(p.draft.ClaimsAt(p.Claims, p.revisionFor(o).Name), pod, func(_, claim *corev1.PersistentVolumeClaim) {
		going = going || claims.Stale(claim, pod, "")
	})
	return going
}

func (p *planner) holdForClaims(names []string) {
	if len(names) == 0 {
		return
	}
	note := planning.Note{
		Reason:  noteClaimGoing,
		Message: fmt.Sprintf("%s to be created: volume claims of %s are still being deleted", podset.Waits(len(names)), podset.List(names)),
	}
	for _, name := range names {
		note.Slots = append(note.Slots, planning.Slot(name[len(p.Set.Name)+1:]))
	}
	p.draft.Hold(note)
}

// fixOwners gives the claims of a pod the retention policy's owners, and returns the keys of the
// writes. Surplus pods are condemned: their claims may have to go with them.
func (p *planner) fixOwners(pod *podset.Pod, condemned bool) []planning.RetryKey {
	return p.fixOwnersOf(p.draft.ClaimsAt(p.Claims, pod.Revision), pod.Slot, pod.Object, condemned)
}

func (p *planner) fixOwnersOf(of claims.Template, slot planning.Slot, pod *corev1.Pod, condemned bool) (edits []planning.RetryKey) {
	if !p.Options.AutoDeletePVC {
		return nil
	}
	who := claims.Owned{Set: p.setReference(), Pod: claims.PodReference(pod)}
	p.existingOf(of, pod.Name, func(_, claim *corev1.PersistentVolumeClaim) {
		patch, changed := p.Retention.PatchOwners(claim, who, condemned)
		if !changed {
			return
		}
		edits = append(edits, podset.EditClaimKey(claim))
		p.editClaim(slot, pod.Name, claim, patch, reasonClaimOwners)
	})
	return edits
}

// editClaim plans one patch of a claim; the first one of a pass wins.
func (p *planner) editClaim(slot planning.Slot, pod string, claim *corev1.PersistentVolumeClaim, patch planning.Change, why string) {
	if p.touched[claim.Name] {
		return
	}
	p.touched[claim.Name] = true
	edit := podset.EditClaim(slot, claim, patch, why)
	if why == reasonClaimGrow {
		p.act(edit, "resize", "SuccessfulResize", "FailedResize", pod)
		return
	}
	p.act(edit, "update", "SuccessfulUpdate", "FailedUpdate", pod)
}

// removeWanted removes a pod with a wanted ordinal, to be replaced with the same claims. It waits
// as long as a claim has the pod as its owner: the garbage collector would delete that claim with
// the pod. This is so for an ordinal wanted again after its claims were condemned. The claim is
// released first, and the pod deleted when the cache shows that.
func (p *planner) removeWanted(pod *podset.Pod, reason string) {
	var edits []planning.RetryKey
	if !pod.Terminating && !p.draft.HeldByPreDelete(pod) {
		edits = p.letGo(pod)
	}
	if len(edits) == 0 {
		if reason == podset.ReasonFinished {
			p.draft.RemoveFinished(pod, p.revisionAfter(pod).Name)
		} else {
			p.draft.Remove(pod, reason)
		}
		return
	}
	p.draft.Keep(pod)
	p.draft.Awaits(edits, afterClaims, false) // however long: the pod's data would be lost
	p.draft.Wait(pod, noteClaimOwned, "it is replaced when its volume claims no longer name it as their owner, since they would be deleted with it")
}

// letGo takes the pod from the owners of its claims, whatever the retention policy and its feature
// gate say, and returns the keys of the writes. Terminating claims are lost already. Claims of
// dropped templates hold data as well.
func (p *planner) letGo(pod *podset.Pod) (edits []planning.RetryKey) {
	disown := func(_, claim *corev1.PersistentVolumeClaim) {
		if claim.DeletionTimestamp != nil || !claims.OwnedBy(claim, pod.Object.UID) {
			return
		}
		edits = append(edits, podset.EditClaimKey(claim))
		p.editClaim(pod.Slot, pod.Object.Name, claim, claims.RemoveOwnerPatch(claim, pod.Object.UID), reasonClaimOwners)
	}
	p.existing(pod.Object.Name, disown)
	for _, name := range FormerClaims(p.Spec, pod.Object) {
		if claim := p.s.Claims[name]; claim != nil {
			disown(nil, claim)
		}
	}
	return edits
}

// grows: a claim of the pod requests less than its template, or differs from it otherwise.
func (p *planner) grows(pod *podset.Pod) bool {
	grows := false
	p.existing(pod.Object.Name, func(template, claim *corev1.PersistentVolumeClaim) {
		grows = grows || claims.Compare(claim, template) != claims.Fits
	})
	return grows
}

// growing: a mounted claim lacks capacity asked for by it and its template.
func (p *planner) growing(pod *podset.Pod) bool {
	growing := false
	p.existing(pod.Object.Name, func(template, claim *corev1.PersistentVolumeClaim) {
		growing = growing || claims.Mounts(&pod.Object.Spec, claim.Name) && !claims.Grown(claim, template)
	})
	return growing
}

// storageClassRecheck is how often a set checks a storage class against growth again.
const storageClassRecheck = time.Minute

// cannotGrow: a claim of the pod can never get to its template. It notes why.
func (p *planner) cannotGrow(pod *podset.Pod) bool {
	stuck := false
	p.existing(pod.Object.Name, func(template, claim *corev1.PersistentVolumeClaim) {
		class := ptr.Deref(claim.Spec.StorageClassName, "")
		switch fit := claims.Compare(claim, template); {
		case fit == claims.Differs:
			stuck = true
			p.draft.Wait(pod, podset.ReasonClaimDiffers, fmt.Sprintf("volume claims made from %q have another storage class or access mode than their template, "+
				"which no update can change; delete them to have them made again", template.Name))
		case fit == claims.Grows && !p.s.Expandable[class]:
			stuck = true
			// No watch triggers a pass when a storage class changes: they change rarely, and a minute later is soon enough.
			p.draft.Recheck(storageClassRecheck)
			p.draft.Wait(pod, podset.ReasonClaimNotExpandable, fmt.Sprintf("storage class %q does not exist or does not let volume claims grow", class))
		}
	})
	return stuck
}

// holdStuck notes a claim of the pod with a size beyond its volume.
func (p *planner) holdStuck(pod *podset.Pod) {
	if !p.Resize {
		return
	}
	p.existing(pod.Object.Name, func(template, claim *corev1.PersistentVolumeClaim) {
		if fault, infeasible := claims.ResizeFault(claim); infeasible && !claims.Grown(claim, template) {
			p.draft.Wait(pod, podset.ReasonClaimStuck, fmt.Sprintf("the volume of a claim made from %q cannot grow: %s", template.Name, fault))
		}
	})
}

// growClaims asks for the growth of a pod's claims and reports whether the pod has to wait for it.
func (p *planner) growClaims(pod *podset.Pod) bool {
	waits, stuck, why := false, false, ""
	p.existing(pod.Object.Name, func(template, claim *corev1.PersistentVolumeClaim) {
		if claims.Compare(claim, template) == claims.Grows {
			waits = true
			p.editClaim(pod.Slot, pod.Object.Name, claim, claims.GrowPatch(claim, template, p.Set.Name), reasonClaimGrow)
			return
		}
		if !claims.Mounts(&pod.Object.Spec, claim.Name) || claims.Grown(claim, template) {
			return
		}
		waits = true
		fault, infeasible := claims.ResizeFault(claim)
		if stuck = stuck || infeasible; fault != "" {
			why = ": " + fault
		}
	})
	if !waits {
		return false
	}
	p.draft.Keep(pod)
	if !stuck { // otherwise keepClaims says so
		p.draft.Wait(pod, noteClaimGrowing, "its volume claims are growing"+why)
	}
	return true
}

// setReference owns claims without controlling them.
func (p *planner) setReference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: p.Owner.APIVersion, Kind: p.Owner.Kind, Name: p.Owner.Name, UID: p.Owner.UID}
}
