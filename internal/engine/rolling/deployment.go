// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// DesiredAnnotation is the Deployment controller's, on ReplicaSets.
const DesiredAnnotation = "deployment.kubernetes.io/desired-replicas"

// Numbers are what a user wrote into a Deployment, kept in an annotation while ours stand there.
type Numbers struct {
	MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
	MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MinReadySeconds         int32               `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32              `json:"progressDeadlineSeconds,omitempty"`
}

// NumbersOf are those in a Deployment now.
func NumbersOf(d *appsv1.Deployment) Numbers {
	n := Numbers{MinReadySeconds: d.Spec.MinReadySeconds, ProgressDeadlineSeconds: d.Spec.ProgressDeadlineSeconds}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		n.MaxSurge, n.MaxUnavailable = r.MaxSurge, r.MaxUnavailable
	}
	return n
}

// Encode writes them as text.
func (n Numbers) Encode() string {
	text, _ := json.Marshal(n)
	return string(text)
}

// DecodeNumbers reads what Encode wrote; what cannot be read has no numbers.
func DecodeNumbers(text string) (n Numbers) {
	if json.Unmarshal([]byte(text), &n) != nil {
		return Numbers{}
	}
	return n.agreeing()
}

// agreeing are the numbers as the API server takes them together: a user may have written each alone.
func (n Numbers) agreeing() Numbers {
	if n.ProgressDeadlineSeconds != nil && *n.ProgressDeadlineSeconds <= n.MinReadySeconds {
		n.ProgressDeadlineSeconds = ptr.To(n.MinReadySeconds + 1)
	}
	if zero(n.MaxSurge) && zero(n.MaxUnavailable) {
		n.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}
	return n
}

func zero(size *intstr.IntOrString) bool {
	return size != nil && (*size == intstr.FromInt32(0) || *size == intstr.FromString("0%"))
}

// Advanced reads what OpenKruise keeps of a Deployment that it has taken from Kubernetes; what cannot be read has no numbers.
func Advanced(d *appsv1.Deployment, text string) Numbers {
	var kept struct {
		RollingUpdate *Numbers `json:"rollingUpdate"`
	}
	if json.Unmarshal([]byte(text), &kept) != nil {
		return Numbers{}
	}
	n := ptr.Deref(kept.RollingUpdate, Numbers{})
	n.MinReadySeconds, n.ProgressDeadlineSeconds = d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds
	return n
}

// limits are the numbers in pods, as the Deployment controller counts.
func (n Numbers) limits(replicas int) (surge, unavailable int) {
	quarter := intstr.FromString("25%")
	surge, errSurge := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(n.MaxSurge, quarter)), replicas, true)
	unavailable, errUnavailable := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(n.MaxUnavailable, quarter)), replicas, false)
	if errSurge != nil || errUnavailable != nil || surge <= 0 && unavailable <= 0 {
		return max(0, surge), 1
	}
	return surge, min(unavailable, replicas)
}

// Unavailable is how many pods may be unavailable by these numbers.
func (n Numbers) Unavailable(replicas int) int {
	_, unavailable := n.limits(replicas)
	return unavailable
}

// Uncounting are numbers with which new pods never count as available.
func (n Numbers) Uncounting() Numbers {
	n.MinReadySeconds, n.ProgressDeadlineSeconds = MinReadySeconds, ptr.To[int32](ProgressDeadlineSeconds)
	return n
}

// Moving are our numbers.
func Moving(surge int) Numbers {
	return Numbers{MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(MaxUnavailable(surge)))}.Uncounting()
}

// Parked are those of the user for a paused Deployment between batches. Pods that are there stay.
func (n Numbers) Parked(v View) Numbers {
	n.MaxSurge, n.MaxUnavailable = ptr.To(intstr.FromInt(Parked(v))), ptr.To(intstr.FromInt(max(v.Unavailable, 1)))
	return n
}

// Fields are the spec of a Deployment with the numbers; what has none is removed.
func (n Numbers) Fields(paused bool) map[string]any {
	return map[string]any{
		"paused": paused, "minReadySeconds": n.MinReadySeconds, "progressDeadlineSeconds": n.ProgressDeadlineSeconds,
		"strategy": map[string]any{"type": string(appsv1.RollingUpdateDeploymentStrategyType), "rollingUpdate": n.RollingUpdate()},
	}
}

// RollingUpdate are the fields of the same name.
func (n Numbers) RollingUpdate() map[string]any {
	return map[string]any{"maxSurge": n.MaxSurge, "maxUnavailable": n.MaxUnavailable}
}

// Read is the view of a Deployment and its ReplicaSets, which were read while the Deployment did not change. New is the ReplicaSet of the
// template, or nil; old are the others, in the order of the view's. Limit is left to the caller. So are pods that are ready by a
// minReadySeconds above zero: the status of New does not tell.
func Read(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, n Numbers) (v View, newest *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	v.Replicas = int(ptr.Deref(d.Spec.Replicas, 1))
	v.Surge, v.Unavailable = n.limits(v.Replicas)
	ours := d.Spec.MinReadySeconds == MinReadySeconds
	v.Moving, v.Uncounting, v.Loose = !d.Spec.Paused && ours, d.Spec.Paused && ours, !d.Spec.Paused && !ours
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil {
		v.InForce = r.MaxSurge.IntValue()
	}
	v.Observed = d.Status.ObservedGeneration >= d.Generation
	v.CaughtUp, v.Refused = v.Observed && caughtUp(d, sets), slices.ContainsFunc(sets, refused)
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, set := range sets {
		if newest == nil && sameTemplate(&set.Spec.Template, &d.Spec.Template) {
			newest, v.New, v.Counted = set, read(set), set.Status.AvailableReplicas > 0
			continue
		}
		old, v.Old = append(old, set), append(v.Old, read(set))
	}
	return v, newest, old
}

func read(set *appsv1.ReplicaSet) Set {
	s := Set{Replicas: int(ptr.Deref(set.Spec.Replicas, 1)), Ready: int(set.Status.ReadyReplicas), Slow: set.Spec.MinReadySeconds == MinReadySeconds}
	s.Desired, _ = strconv.Atoi(set.Annotations[DesiredAnnotation])
	return s
}

// caughtUp: the status of a Deployment is the sum of those of its ReplicaSets, and these are about their present spec.
func caughtUp(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) bool {
	var sum appsv1.DeploymentStatus
	for _, set := range sets {
		if set.Status.ObservedGeneration < set.Generation || set.Status.Replicas != ptr.Deref(set.Spec.Replicas, 1) {
			return false
		}
		sum.Replicas += set.Status.Replicas
		sum.ReadyReplicas += set.Status.ReadyReplicas
		sum.AvailableReplicas += set.Status.AvailableReplicas
	}
	return d.Status.Replicas == sum.Replicas && d.Status.ReadyReplicas == sum.ReadyReplicas && d.Status.AvailableReplicas == sum.AvailableReplicas
}

// refused: the ReplicaSet controller cannot make or delete pods.
func refused(set *appsv1.ReplicaSet) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	})
}

// sameTemplate compares as the Deployment controller does.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}
