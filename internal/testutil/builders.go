// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Namespace is where built objects live unless a test says otherwise.
const Namespace = "default"

// Set builds a StatefulSet.
type Set struct{ set *appsv1beta1.StatefulSet }

// StatefulSet starts a Parallel set with one container, one replica and updates in place.
func StatefulSet(name string) Set {
	labels := map[string]string{"app": name}
	return Set{&appsv1beta1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1beta1.GroupVersion().String(), Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: appsv1beta1.StatefulSetSpec{
			Replicas:            ptr.To[int32](1),
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: "Parallel",
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}},
					Containers:     []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
				},
			},
			UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
				Type: "RollingUpdate",
				RollingUpdate: &appsv1beta1.RollingUpdateStatefulSetStrategy{
					PodUpdatePolicy: shared.InPlaceIfPossible,
					MaxUnavailable:  ptr.To(intstr.FromInt32(1)),
				},
			},
		},
	}}
}

// Namespace puts the set into a namespace.
func (b Set) Namespace(namespace string) Set { b.set.Namespace = namespace; return b }

// UID gives the set the UID that a server would give it.
func (b Set) UID(uid types.UID) Set { b.set.UID = uid; return b }

// Replicas sets how many pods the set has.
func (b Set) Replicas(n int32) Set { b.set.Spec.Replicas = &n; return b }

// Image sets the image of the only container.
func (b Set) Image(image string) Set {
	b.set.Spec.Template.Spec.Containers[0].Image = image
	return b
}

// MaxUnavailable limits the rolling update: a number or a percentage.
func (b Set) MaxUnavailable(limit string) Set {
	b.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.Parse(limit))
	return b
}

// OnDelete leaves updates to whoever deletes pods.
func (b Set) OnDelete() Set {
	b.set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: "OnDelete"}
	return b
}

// Deleting marks the set as being deleted.
func (b Set) Deleting(at time.Time) Set {
	b.set.DeletionTimestamp = ptr.To(metav1.NewTime(at))
	b.set.Finalizers = append(b.set.Finalizers, metav1.FinalizerDeleteDependents)
	return b
}

// Obj returns the set.
func (b Set) Obj() *appsv1beta1.StatefulSet { return b.set }

// PodBuilder builds a pod.
type PodBuilder struct{ pod *corev1.Pod }

// Pod starts a pod with one container and nothing else.
func Pod(name string) PodBuilder {
	return PodBuilder{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}}
}

// Namespace puts the pod into a namespace.
func (b PodBuilder) Namespace(namespace string) PodBuilder { b.pod.Namespace = namespace; return b }

// UID gives the pod the UID that a server would give it.
func (b PodBuilder) UID(uid types.UID) PodBuilder { b.pod.UID = uid; return b }

// Labels sets the labels.
func (b PodBuilder) Labels(labels map[string]string) PodBuilder { b.pod.Labels = labels; return b }

// Gate gives the pod a readiness gate.
func (b PodBuilder) Gate(gate corev1.PodConditionType) PodBuilder {
	b.pod.Spec.ReadinessGates = append(b.pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
	return b
}

// ControlledBy makes the set the pod's controller.
func (b PodBuilder) ControlledBy(set *appsv1beta1.StatefulSet) PodBuilder {
	b.pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1beta1.GroupVersion().WithKind("StatefulSet"))}
	return b
}

// Deleting marks the pod as being deleted.
func (b PodBuilder) Deleting(at time.Time) PodBuilder {
	b.pod.DeletionTimestamp = ptr.To(metav1.NewTime(at))
	b.pod.Finalizers = append(b.pod.Finalizers, "example.io/hold")
	return b
}

// Obj returns the pod.
func (b PodBuilder) Obj() *corev1.Pod { return b.pod }
