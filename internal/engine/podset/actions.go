// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Steps of plans for pods and their volume claims.
const (
	// StepCreate creates a pod, its claims first.
	StepCreate planning.Step = "Create"
	// StepDelete deletes a pod.
	StepDelete planning.Step = "Delete"
	// StepEdit writes an Edit to a pod.
	StepEdit planning.Step = "Edit"
	// StepEditClaim patches a claim: owners, labels, annotations or its requested size.
	StepEditClaim planning.Step = "EditClaim"
	// StepCreateClaim creates a claim.
	StepCreateClaim planning.Step = "CreateClaim"
	// StepDeleteClaim deletes a claim without a pod.
	StepDeleteClaim planning.Step = "DeleteClaim"
)

// KindPod is the kind of pods.
func KindPod() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

// KindClaim is the kind of volume claims.
func KindClaim() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
}

// CreatePod creates a pod after its claims, and then writes the first edit to it. A refusal is remembered by
// the slot: the next pod for it may have another name.
func CreatePod(slot planning.Slot, pod *corev1.Pod, claims []planning.Action, first edit.Edit, reason string) planning.Action {
	return planning.Action{
		Verb: planning.VerbCreate, Step: StepCreate, Kind: KindPod(), Object: pod, Slot: slot, Key: string(slot),
		Before: claims, Change: first, Reason: reason,
	}
}

// EditPod writes an edit to a pod.
func EditPod(slot planning.Slot, pod *corev1.Pod, e edit.Edit, reason string) planning.Action {
	return planning.Action{Verb: planning.VerbPatch, Step: StepEdit, Kind: KindPod(), Object: pod, Slot: slot, Change: e, Reason: reason}
}

// DeletePod deletes a pod. With ReasonFinished it makes room for another one in its slot, at once after a
// disruption. A pod that its node refused ran no container, and the next one may be refused as well.
func DeletePod(slot planning.Slot, pod *corev1.Pod, reason string) planning.Action {
	return planning.Action{
		Verb: planning.VerbDelete, Step: StepDelete, Kind: KindPod(), Object: pod, Slot: slot, Reason: reason,
		ReplacesFailed: reason == ReasonFinished && !stoppedFromOutside(pod),
	}
}

// stoppedFromOutside is a pod that ran and failed without a fault of its program.
func stoppedFromOutside(pod *corev1.Pod) bool { return podstate.Disrupted(pod) && podstate.Ran(pod) }

// CreateClaim creates a claim. An existing one of that name will do.
func CreateClaim(slot planning.Slot, claim *corev1.PersistentVolumeClaim, reason string) planning.Action {
	return planning.Action{
		Verb: planning.VerbCreate, Step: StepCreateClaim, Kind: KindClaim(), Object: claim, Slot: slot, KeepExisting: true, Reason: reason,
	}
}

// EditClaim sends a merge patch to a claim.
func EditClaim(slot planning.Slot, claim *corev1.PersistentVolumeClaim, patch planning.Change, reason string) planning.Action {
	return planning.Action{
		Verb: planning.VerbPatch, Step: StepEditClaim, Kind: KindClaim(), Object: claim, Slot: slot, Reason: reason, Change: patch,
	}
}

// EditClaimKey is the key of EditClaim.
func EditClaimKey(claim *corev1.PersistentVolumeClaim) planning.RetryKey {
	return planning.RetryKey{Step: StepEditClaim, Namespace: claim.Namespace, Name: claim.Name}
}

// DeleteClaim deletes a claim in the observed version: its owners may have changed meanwhile.
func DeleteClaim(slot planning.Slot, claim *corev1.PersistentVolumeClaim, reason string) planning.Action {
	return planning.Action{
		Verb: planning.VerbDelete, Step: StepDeleteClaim, Kind: KindClaim(), Object: claim, Slot: slot, ExactVersion: true, Reason: reason,
	}
}

// PodOf is the pod of an action; nil for other objects.
func PodOf(a planning.Action) *corev1.Pod {
	pod, _ := a.Object.(*corev1.Pod)
	return pod
}
