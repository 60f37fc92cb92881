// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package claims decides about the volume claims of a pod that has a lasting identity: what they are called, what they should
// look like, whom they belong to, and whether a changed claim template makes them grow.
package claims

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Name is the name of a pod's claim for the claim template. A pod name holds workload and slot.
func Name(template, pod string) string { return template + "-" + pod }

// Template is everything that the claims of one workload have in common.
type Template struct {
	Namespace string
	// Claims are the workload's claim templates.
	Claims []corev1.PersistentVolumeClaim
	// Labels are added to those of each claim template: for a StatefulSet its selector's matchLabels.
	Labels map[string]string
}

// Wanted returns the claims of the pod, one for each claim template and in that order, without owners.
func (t Template) Wanted(pod string) []*corev1.PersistentVolumeClaim { panic("not written yet") }

// Mount replaces or adds the volumes of a pod's claims: a claim wins over a volume of the template with the same name.
func (t Template) Mount(spec *corev1.PodSpec, pod string) { panic("not written yet") }

// Mounted says whether the spec has the volumes of the pod's claims.
func (t Template) Mounted(spec *corev1.PodSpec, pod string) bool { panic("not written yet") }

// Retention says when claims are deleted: true means Delete, by the garbage collector through an owner reference.
type Retention struct{ WhenScaled, WhenDeleted bool }

// RetentionOf reads a StatefulSet's policy; nil and unknown values keep the claims.
func RetentionOf(p *appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy) Retention {
	return Retention{
		WhenScaled:  p != nil && p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		WhenDeleted: p != nil && p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
}

// Owned is who may own a claim. Set is the reference to the workload, Pod that to the pod; either without controller.
type Owned struct{ Set, Pod metav1.OwnerReference }

// Owners returns the references that a claim should have: those of others as they are, and of the workload and its pods only what
// the policy says. condemned says that the pod's slot is no longer wanted. changed says that the claim has something else now.
func (r Retention) Owners(claim *corev1.PersistentVolumeClaim, who Owned, condemned bool) (owners []metav1.OwnerReference, changed bool) {
	panic("not written yet")
}

// Stale says that the claim belongs to an earlier pod of the same name and is going to be deleted with it: a new pod must not
// use it. uid is that of the pod that exists, or empty.
func Stale(claim *corev1.PersistentVolumeClaim, pod string, uid types.UID) bool { panic("not written yet") }

// OwnersPatch is the merge patch that gives the claim these owners, bound to the version that was looked at.
func OwnersPatch(claim *corev1.PersistentVolumeClaim, owners []metav1.OwnerReference) ([]byte, error) {
	panic("not written yet")
}

// Fit says how a claim stands to its template.
type Fit string

const (
	// Fits: the claim has everything that the template asks for, in its spec.
	Fits Fit = "Fits"
	// Grows: only more storage is asked for.
	Grows Fit = "Grows"
	// Differs: something else differs, which no patch can change.
	Differs Fit = "Differs"
)

// Compare says how the claim stands to the template.
func Compare(claim, template *corev1.PersistentVolumeClaim) Fit { panic("not written yet") }

// Grown says whether the claim has the capacity that its spec requests, or needs only a pod to finish.
func Grown(claim *corev1.PersistentVolumeClaim) bool { panic("not written yet") }

// GrowPatch is the merge patch that asks for the template's resources and marks the claim as resized by the set.
func GrowPatch(claim, template *corev1.PersistentVolumeClaim, set string) ([]byte, error) {
	panic("not written yet")
}

// Status counts the claims of the existing pods against the templates, one entry for each template in that order.
func (t Template) Status(pods []string, claims map[string]*corev1.PersistentVolumeClaim) []appsv1beta1.VolumeClaimStatus {
	panic("not written yet")
}
