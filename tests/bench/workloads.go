// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// The images that pods start with and are moved to.
const (
	imageBefore = "example/app:v1"
	imageAfter  = "example/app:v2"
)

// shape is what the scenarios choose of a set.
type shape struct {
	namespace, name string
	pods            int
	policy          shared.PodUpdatePolicy
	unavailable     int // percent
	surge           int // percent; CloneSet only
	// annotations of its pods.
	annotations map[string]string
}

// workload is a kind as the scenarios see it.
type workload struct {
	kind string
	// build returns a set whose pods are started side by side.
	build func(shape) client.Object
	// settled says whether the status of a set tells that all its pods are available at the update revision, and shows the status.
	settled func(client.Object) (bool, string)
}

var (
	statefulSet = workload{
		kind: "StatefulSet",
		build: func(s shape) client.Object {
			return &v1beta1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
				Spec: v1beta1.StatefulSetSpec{
					Replicas:            ptr.To(int32(s.pods)),
					Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name}},
					Template:            s.template(),
					ServiceName:         s.name,
					PodManagementPolicy: appsv1.ParallelPodManagement,
					UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateStatefulSetStrategy{
						PodUpdatePolicy: s.policy,
						MaxUnavailable:  percent(s.unavailable),
					}},
				},
			}
		},
		settled: func(object client.Object) (bool, string) {
			set, ok := object.(*v1beta1.StatefulSet)
			if !ok {
				return false, ""
			}
			s := set.Status
			return s.ObservedGeneration == set.Generation && s.UpdatedAvailableReplicas == *set.Spec.Replicas && s.Replicas == *set.Spec.Replicas &&
				s.CurrentRevision == s.UpdateRevision, fmt.Sprintf("%+v", s)
		},
	}
	cloneSet = workload{
		kind: "CloneSet",
		build: func(s shape) client.Object {
			return &v1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
				Spec: v1beta1.CloneSetSpec{
					Replicas: ptr.To(int32(s.pods)),
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name}},
					Template: s.template(),
					UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
						PodUpdatePolicy: s.policy,
						MaxUnavailable:  percent(s.unavailable),
						MaxSurge:        percent(s.surge),
					}},
				},
			}
		},
		settled: func(object client.Object) (bool, string) {
			set, ok := object.(*v1beta1.CloneSet)
			if !ok {
				return false, ""
			}
			s := set.Status
			return s.ObservedGeneration == set.Generation && s.UpdatedAvailableReplicas == *set.Spec.Replicas && s.Replicas == *set.Spec.Replicas &&
				s.CurrentRevision == s.UpdateRevision, fmt.Sprintf("%+v", s)
		},
	}
)

func (s shape) template() corev1.PodTemplateSpec {
	template := podTemplate(s.name, imageBefore)
	template.Annotations = s.annotations
	return template
}

func percent(n int) *intstr.IntOrString {
	return ptr.To(intstr.FromString(fmt.Sprintf("%d%%", n)))
}
