// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// ForPod returns the template's pod, without a name: its labels, annotations, finalizers and spec,
// as written. Workloads create thousands of pods of one template, so labels, annotations,
// finalizers and readiness gates are the pod's own, and all other lists and everything below are
// the template's. They may be replaced as a whole, but nothing in them may be changed. Labels and
// annotations are not nil.
//
// Labels for single pods are left out (Reserved): "delete this pod" would make every pod go at
// birth.
func ForPod(t *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(t), Annotations: map[string]string{}, Finalizers: slices.Clone(t.Finalizers)},
		Spec:       t.Spec,
	}
	maps.Copy(pod.Annotations, t.Annotations)
	pod.Spec.ReadinessGates = slices.Clone(t.Spec.ReadinessGates)
	return pod
}

// AlwaysPulled are main containers with imagePullPolicy Always instead of none. OpenKruise fills
// that in for every workload but DaemonSet, whatever the tag, so pods from a template as written
// have to get it too. All other defaults are left to the server.
func AlwaysPulled(containers []corev1.Container) []corev1.Container {
	pulled := slices.Clone(containers)
	alwaysPull(pulled)
	return pulled
}

func alwaysPull(containers []corev1.Container) {
	for i := range containers {
		if containers[i].ImagePullPolicy == "" {
			containers[i].ImagePullPolicy = corev1.PullAlways
		}
	}
}

// Labels are the template's for a pod.
func Labels(t *corev1.PodTemplateSpec) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, t.Labels)
	for _, label := range Reserved() {
		delete(labels, label)
	}
	return labels
}

// Reserved are the labels of workloads for single pods. In a template they mean nothing good.
func Reserved() []string {
	return []string{
		shared.LabelSpecifiedDelete, shared.LabelLifecycleState, shared.LabelInstanceID, shared.LabelControllerRevisionHash,
	}
}
