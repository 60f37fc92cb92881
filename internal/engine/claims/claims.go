// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package claims decides about the volume claims of a pod with a lasting identity: their names,
// their contents, their owners, and whether a changed claim template makes them grow.
//
// Nothing here deletes a claim. To remove one, it gets an owner, and the garbage collector deletes
// it with that owner.
package claims

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Name is the name of a pod's claim for the claim template. The pod's name holds workload and slot.
func Name(template, pod string) string { return template + "-" + pod }

// Template is the common part of one workload's claims.
type Template struct {
	Namespace string
	// Claims are the workload's claim templates. Read-only.
	Claims []corev1.PersistentVolumeClaim
	// Labels are added to each claim template's and win over them: a StatefulSet's matchLabels.
	Labels map[string]string
}

// Wanted returns the pod's claims with the names of is, one for each claim template at most, in
// their order and without owners. Labels are their own; all else is the template's, and may be
// replaced as a whole, but not changed.
func (t Template) Wanted(pod string, is func(name string) bool) []*corev1.PersistentVolumeClaim {
	var wanted []*corev1.PersistentVolumeClaim
	for i := range t.Claims {
		name := Name(t.Claims[i].Name, pod)
		if !is(name) {
			continue
		}
		template := &t.Claims[i]
		labels := maps.Clone(template.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, t.Labels)
		wanted = append(wanted, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   t.Namespace,
				Name:        name,
				Labels:      labels,
				Annotations: template.Annotations,
				Finalizers:  template.Finalizers,
			},
			Spec: template.Spec,
		})
	}
	return wanted
}

// Mount gives the spec the volumes of the pod's claims. A claim wins over a volume with the same name.
func (t Template) Mount(spec *corev1.PodSpec, pod string) {
	if len(t.Claims) == 0 {
		return
	}
	volumes := make([]corev1.Volume, 0, len(t.Claims)+len(spec.Volumes))
	ours := map[string]bool{}
	for i := range t.Claims {
		name := t.Claims[i].Name
		ours[name] = true
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: Name(name, pod)},
		}})
	}
	for _, v := range spec.Volumes {
		if !ours[v.Name] {
			volumes = append(volumes, v)
		}
	}
	spec.Volumes = volumes
}

// Mounts says whether one of the spec's volumes is the claim. Volumes of a pod never change: a new
// claim template waits for the pod's replacement.
func Mounts(spec *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// Awaited are the wanted claims in the pod's volumes without an object. The pod has no volume for a
// younger claim template.
func (t Template) Awaited(pod *corev1.Pod, missing func(name string) bool) []*corev1.PersistentVolumeClaim {
	mounted := map[string]bool{}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && missing(claim.ClaimName) {
			mounted[claim.ClaimName] = true
		}
	}
	if len(mounted) == 0 {
		return nil
	}
	return t.Wanted(pod.Name, func(name string) bool { return mounted[name] })
}

// Retention says when claims are deleted; a false field keeps them.
type Retention struct {
	// WhenScaled deletes a claim once the workload does not ask for its slot any more and its pod is gone.
	WhenScaled bool
	// WhenDeleted deletes a claim with its workload.
	WhenDeleted bool
}

// RetentionOf reads a StatefulSet's policy. Nil and unknown values keep the claims.
func RetentionOf(p *appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy) Retention {
	policy := ptr.Deref(p, appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	return Retention{
		WhenScaled:  policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		WhenDeleted: policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
}

// Owned is who may own a claim: the workload and its pod. Neither reference is a controller's. The UID of Pod is empty while
// there is no pod.
type Owned struct{ Set, Pod metav1.OwnerReference }

// PodReference lets the pod own a claim without controlling it: the claim goes with it.
func PodReference(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
}

// Owners returns the references that a claim should have, and whether it has something else now. References to the workload
// and to the pod are as the policy says, all others stay:
//
//	whenScaled  whenDeleted  while the slot is asked for  when it is not (condemned)
//	Retain      Retain       none                         none
//	Retain      Delete       the workload                 the workload
//	Delete      Retain       none                         the pod
//	Delete      Delete       the workload                 the pod
func (r Retention) Owners(claim *corev1.PersistentVolumeClaim, who Owned, condemned bool) (owners []metav1.OwnerReference, changed bool) {
	byPod := r.WhenScaled && condemned
	bySet := r.WhenDeleted && !byPod
	hasSet, hasPod := false, false
	for _, owner := range claim.OwnerReferences {
		keep := true
		switch owner.UID {
		case who.Set.UID:
			keep, hasSet = bySet, true
		case who.Pod.UID:
			keep, hasPod = byPod, true
		}
		if keep {
			owners = append(owners, owner)
		} else {
			changed = true
		}
	}
	if bySet && !hasSet {
		owners, changed = append(owners, who.Set), true
	}
	if byPod && !hasPod && who.Pod.UID != "" {
		owners, changed = append(owners, who.Pod), true
	}
	return owners, changed
}

// PatchOwners gives a claim the references of Owners. Changed is false when it has them, and for a
// terminating claim: its fate is decided.
func (r Retention) PatchOwners(claim *corev1.PersistentVolumeClaim, who Owned, condemned bool) (patch planning.Change, changed bool) {
	owners, changed := r.Owners(claim, who, condemned)
	if !changed || claim.DeletionTimestamp != nil {
		return nil, false
	}
	return OwnersPatch(claim, owners), true
}

// OwnedBy says that the object with the UID owns the claim.
func OwnedBy(claim *corev1.PersistentVolumeClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// Stale says that the claim is about to go with an earlier pod of the same name: that pod owns it,
// or it is terminating already. No pod must be created with it. uid is the present pod's, or empty.
func Stale(claim *corev1.PersistentVolumeClaim, pod string, uid types.UID) bool {
	if uid == "" && claim.DeletionTimestamp != nil {
		return true
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.Name == pod && owner.UID != uid
	})
}

// OwnersPatch gives the claim these owners. It is bound to the observed version, because it
// replaces the whole list.
func OwnersPatch(claim *corev1.PersistentVolumeClaim, owners []metav1.OwnerReference) planning.Change {
	if owners == nil {
		owners = []metav1.OwnerReference{}
	}
	return planning.MetadataPatch(claim, map[string]any{"ownerReferences": owners})
}

// RemoveOwnerPatch is OwnersPatch with the claim's present owners but the one with the UID.
func RemoveOwnerPatch(claim *corev1.PersistentVolumeClaim, uid types.UID) planning.Change {
	others := slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == uid })
	return OwnersPatch(claim, others)
}

// Fit says how a claim stands to its template.
type Fit string

const (
	// Fits is a claim with all its template asks for, or more.
	Fits Fit = "Fits"
	// Grows is a claim short of storage alone.
	Grows Fit = "Grows"
	// Differs is a claim beyond patches: with another storage class or access mode.
	Differs Fit = "Differs"
)

// Compare is the claim's fit to the template. A storage class left out is no difference.
func Compare(claim, template *corev1.PersistentVolumeClaim) Fit {
	class, wanted := claim.Spec.StorageClassName, template.Spec.StorageClassName
	switch {
	case class != nil && wanted != nil && *class != *wanted:
		return Differs
	case !slices.Equal(slices.Sorted(slices.Values(claim.Spec.AccessModes)), slices.Sorted(slices.Values(template.Spec.AccessModes))):
		return Differs
	case claim.Spec.Resources.Requests.Storage().Cmp(*template.Spec.Resources.Requests.Storage()) < 0:
		return Grows
	default:
		return Fits
	}
}

// Grown says whether the claim has its requested capacity, as far as the template still asks for
// it, or only waits for a pod to finish growing its file system.
func Grown(claim, template *corev1.PersistentVolumeClaim) bool {
	wanted := claim.Spec.Resources.Requests.Storage()
	if asked := template.Spec.Resources.Requests.Storage(); asked.Cmp(*wanted) < 0 {
		wanted = asked
	}
	return claim.Status.Capacity.Storage().Cmp(*wanted) >= 0 || slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}

func hasCapacity(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) >= 0
}

// ResizeFault is why the volume of a claim does not grow, as its status says; empty when it says nothing. Infeasible: nobody tries again until the claim
// asks for another size.
func ResizeFault(claim *corev1.PersistentVolumeClaim) (message string, infeasible bool) {
	for _, c := range claim.Status.Conditions {
		failed := c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError
		if failed && c.Status == corev1.ConditionTrue {
			message = cmp.Or(c.Message, c.Reason, string(c.Type))
		}
	}
	switch status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return cmp.Or(message, string(status)), true
	}
	return message, false
}

// GrowPatch asks for the template's resources and says that the set with this name resizes the
// claim.
func GrowPatch(claim, template *corev1.PersistentVolumeClaim, set string) planning.Change {
	return planning.MergePatch(claim, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{shared.AnnotationOwnedByStatefulSet: set}},
		"spec":     map[string]any{"resources": template.Spec.Resources},
	})
}

// Status counts the claims of pods against the templates, one entry for each template in that
// order. pods are the existing pods in wanted slots, by name.
func (t Template) Status(pods []string, claims map[string]*corev1.PersistentVolumeClaim) []appsv1beta1.VolumeClaimStatus {
	statuses := make([]appsv1beta1.VolumeClaimStatus, len(t.Claims))
	for i := range t.Claims {
		template := &t.Claims[i]
		statuses[i].VolumeClaimName = template.Name
		for _, pod := range pods {
			claim := claims[Name(template.Name, pod)]
			if claim == nil || Compare(claim, template) != Fits {
				continue
			}
			statuses[i].CompatibleReplicas++
			if hasCapacity(claim) {
				statuses[i].CompatibleReadyReplicas++
			}
		}
	}
	return statuses
}
