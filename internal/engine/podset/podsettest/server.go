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
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Apply carries out one action on the state, as executor and API server do. An error is something that a planner that saw this
// state must not ask for.
func Apply[W any](w *State[W], action planning.Action) error {
	switch action.Step {
	case podset.StepCreate:
		return createPod(w, action)
	case podset.StepDelete:
		pod := w.Pod(podset.PodOf(action).Name)
		if pod == nil {
			return fmt.Errorf("deleting pod %s, which does not exist", podset.PodOf(action).Name)
		}
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("deleting pod %s, which is being deleted already", pod.Name)
		}
		w.put(deleted(pod))
		return nil
	case podset.StepEdit:
		return editPod(w, podset.PodOf(action).Name, EditOf(action))
	case podset.StepCreateClaim:
		for _, claim := range ClaimsOf(action) {
			if w.Claim(claim.Name) != nil {
				return fmt.Errorf("creating claim %s, which exists", claim.Name)
			}
		}
		createClaims(w, ClaimsOf(action))
		return nil
	case podset.StepEditClaim:
		return editClaim(w, action)
	case podset.StepDeleteClaim:
		if w.Claim(ClaimOf(action).Name) == nil {
			return fmt.Errorf("deleting claim %s, which does not exist", ClaimOf(action).Name)
		}
		w.Claims = slices.DeleteFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == ClaimOf(action).Name })
		return nil
	default:
		return fmt.Errorf("unknown step %q", action.Step)
	}
}

// Halves are what of an action is carried out when the controller dies between its requests, each as an action of its own.
func Halves(action planning.Action) []planning.Action {
	switch {
	case action.Step == podset.StepCreate:
		bare := action
		bare.Change = edit.Edit{}
		halves := []planning.Action{bare}
		if len(action.Before) > 0 {
			halves = append(halves, action.Before[0])
		}
		return halves
	case action.Step == podset.StepEdit && len(EditOf(action).Requests(podset.PodOf(action))) > 1:
		var halves []planning.Action
		conditions := edit.Edit{Conditions: EditOf(action).Conditions, Fresh: EditOf(action).Fresh}
		resources := edit.Edit{Conditions: EditOf(action).Conditions, Resources: EditOf(action).Resources, Fresh: EditOf(action).Fresh}
		for _, first := range []edit.Edit{conditions, resources} {
			if first.IsZero() || len(first.Requests(podset.PodOf(action))) == len(EditOf(action).Requests(podset.PodOf(action))) {
				continue
			}
			half := action
			half.Change = first
			halves = append(halves, half)
		}
		return halves
	default:
		return nil
	}
}

func createPod[W any](w *State[W], action planning.Action) error {
	name := podset.PodOf(action).Name
	if w.Pod(name) != nil {
		return fmt.Errorf("creating pod %s, which exists", name)
	}
	createClaims(w, ClaimsOf(action))
	pod := podset.PodOf(action).DeepCopy()
	pod.UID = UIDOf(name)
	pod.Generation = 1
	pod.CreationTimestamp = metav1.NewTime(Now())
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	w.put(EditOf(action).Apply(pod))
	return nil
}

func createClaims[W any](w *State[W], claims []*corev1.PersistentVolumeClaim) {
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

func editPod[W any](w *State[W], name string, e edit.Edit) error {
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

func editClaim[W any](w *State[W], action planning.Action) error {
	claim := w.Claim(ClaimOf(action).Name)
	if claim == nil {
		return fmt.Errorf("editing claim %s, which does not exist", ClaimOf(action).Name)
	}
	before, err := json.Marshal(claim)
	if err != nil {
		return fmt.Errorf("encoding claim %s: %w", claim.Name, err)
	}
	after, err := jsonpatch.MergePatch(before, claimPatch(action))
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
func orphaned[W any](w *State[W], claim *corev1.PersistentVolumeClaim) bool {
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
