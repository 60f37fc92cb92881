// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// ForPod returns the pod that the template describes, see AsWritten, with imagePullPolicy Always on main containers that leave it out.
// OpenKruise fills that in for CloneSet and StatefulSet whatever the tag is, so a pod that is created from a template as the user wrote it has
// to get it too. Every other default is left to the server.
func ForPod(t *corev1.PodTemplateSpec) *corev1.Pod {
	pod := AsWritten(t)
	alwaysPull(pod.Spec.Containers)
	return pod
}

// AsWritten returns the pod that the template describes, without a name: its labels, annotations, finalizers and spec. It shares nothing
// with the template.
//
// Labels by which a workload tracks single pods are left out (Reserved): one that says "delete this pod" would make every pod go at birth.
func AsWritten(t *corev1.PodTemplateSpec) *corev1.Pod {
	t = t.DeepCopy()
	for _, label := range Reserved() {
		delete(t.Labels, label)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers},
		Spec:       t.Spec,
	}
}

func alwaysPull(containers []corev1.Container) {
	for i := range containers {
		if containers[i].ImagePullPolicy == "" {
			containers[i].ImagePullPolicy = corev1.PullAlways
		}
	}
}

// Reserved are the labels that workloads give to single pods. In a template they mean nothing good.
func Reserved() []string {
	return []string{
		shared.LabelSpecifiedDelete, shared.LabelLifecycleState, shared.LabelInstanceID, shared.LabelControllerRevisionHash,
	}
}
