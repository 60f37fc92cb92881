// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Apply carries out one action on the world, as executor and API server do. An error is something that a planner that saw this
// world must not ask for.
func Apply[W any](w *World[W], action podset.Action) error {
	switch action.Verb {
	case podset.VerbCreate:
		return createPod(w, action)
	case podset.VerbDelete:
		pod := w.Pod(action.Pod.Name)
		if pod == nil {
			return fmt.Errorf("deleting pod %s, which does not exist", action.Pod.Name)
		}
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("deleting pod %s, which is being deleted already", pod.Name)
		}
		w.put(deleted(pod))
		return nil
	case podset.VerbEdit:
		return editPod(w, action.Pod.Name, action.Edit)
	case podset.VerbCreateClaim:
		for _, claim := range action.Claims {
			if w.Claim(claim.Name) != nil {
				return fmt.Errorf("creating claim %s, which exists", claim.Name)
			}
		}
		createClaims(w, action.Claims)
		return nil
	case podset.VerbEditClaim:
		return editClaim(w, action)
	case podset.VerbDeleteClaim:
		if w.Claim(action.Claim.Name) == nil {
			return fmt.Errorf("deleting claim %s, which does not exist", action.Claim.Name)
		}
		w.Claims = slices.DeleteFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == action.Claim.Name })
		return nil
	default:
		return fmt.Errorf("unknown verb %q", action.Verb)
	}
}

// Halves are what of an action is carried out when the controller dies between its requests, each as an action of its own.
func Halves(action podset.Action) []podset.Action {
	switch {
	case action.Verb == podset.VerbCreate:
		bare := action
		bare.Edit = edit.Edit{}
		halves := []podset.Action{bare}
		if len(action.Claims) > 0 {
			halves = append(halves, podset.Action{Verb: podset.VerbCreateClaim, Slot: action.Slot, Claims: action.Claims[:1], Reason: action.Reason})
		}
		return halves
	case action.Verb == podset.VerbEdit && len(action.Edit.Requests(action.Pod)) > 1:
		var halves []podset.Action
		conditions := edit.Edit{Conditions: action.Edit.Conditions, Fresh: action.Edit.Fresh}
		resources := edit.Edit{Conditions: action.Edit.Conditions, Resources: action.Edit.Resources, Fresh: action.Edit.Fresh}
		for _, first := range []edit.Edit{conditions, resources} {
			if first.IsZero() || len(first.Requests(action.Pod)) == len(action.Edit.Requests(action.Pod)) {
				continue
			}
			half := action
			half.Edit = first
			halves = append(halves, half)
		}
		return halves
	default:
		return nil
	}
}

func createPod[W any](w *World[W], action podset.Action) error {
	name := action.Pod.Name
	if w.Pod(name) != nil {
		return fmt.Errorf("creating pod %s, which exists", name)
	}
	createClaims(w, action.Claims)
	pod := action.Pod.DeepCopy()
	pod.UID = UIDOf(name)
	pod.Generation = 1
	pod.CreationTimestamp = metav1.NewTime(Now())
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	w.put(action.Edit.Apply(pod))
	return nil
}

func createClaims[W any](w *World[W], claims []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		if w.Claim(claim.Name) != nil {
			continue
		}
		claim = claim.DeepCopy()
		claim.UID = types.UID("uid-" + claim.Name)
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
		w.putClaim(claim)
	}
}

func deleted(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	now := metav1.NewTime(Now())
	pod.DeletionTimestamp = &now
	return pod
}

func editPod[W any](w *World[W], name string, e edit.Edit) error {
	pod := w.Pod(name)
	if pod == nil {
		return fmt.Errorf("editing pod %s, which does not exist", name)
	}
	if e.IsZero() {
		return fmt.Errorf("editing pod %s without a change", name)
	}
	w.put(e.Apply(pod))
	return nil
}

func editClaim[W any](w *World[W], action podset.Action) error {
	claim := w.Claim(action.Claim.Name)
	if claim == nil {
		return fmt.Errorf("editing claim %s, which does not exist", action.Claim.Name)
	}
	before, err := json.Marshal(claim)
	if err != nil {
		return fmt.Errorf("encoding claim %s: %w", claim.Name, err)
	}
	after, err := jsonpatch.MergePatch(before, action.ClaimPatch)
	if err != nil {
		return fmt.Errorf("patching claim %s: %w", claim.Name, err)
	}
	patched := &corev1.PersistentVolumeClaim{}
	if err := json.Unmarshal(after, patched); err != nil {
		return fmt.Errorf("decoding claim %s: %w", claim.Name, err)
	}
	w.putClaim(patched)
	return nil
}

// orphaned says that the claim has an owner that no longer exists, and none that does: the garbage collector removes it.
func orphaned[W any](w *World[W], claim *corev1.PersistentVolumeClaim) bool {
	gone := false
	for _, owner := range claim.OwnerReferences {
		exists := owner.Kind != "Pod" || slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.UID == owner.UID })
		if exists {
			return false
		}
		gone = true
	}
	return gone
}
