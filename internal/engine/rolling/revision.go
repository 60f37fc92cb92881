// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// Revision stands for a template of a Deployment or ReplicaSet. It is known before there is a ReplicaSet.
func Revision(template *corev1.PodTemplateSpec) string {
	template = template.DeepCopy()
	delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	text, _ := json.Marshal(template)
	return rollable.Digest(text)
}

// Stable is the revision of the oldest of the old ReplicaSets with pods; without one it is that of the Deployment.
func Stable(d *appsv1.Deployment, old []*appsv1.ReplicaSet) string {
	for _, set := range old {
		if ptr.Deref(set.Spec.Replicas, 1) > 0 {
			return Revision(&set.Spec.Template)
		}
	}
	return Revision(&d.Spec.Template)
}

// Fullest is the revision of the old ReplicaSet with the most ready pods; among equals the preferred one, else the oldest. What is left of
// an ended release may be older than the version that has requests.
func Fullest(d *appsv1.Deployment, old []*appsv1.ReplicaSet, preferred string) string {
	fullest, most := Stable(d, old), int32(0)
	for _, set := range old {
		revision, ready := Revision(&set.Spec.Template), set.Status.ReadyReplicas
		if ready > most || ready == most && ready > 0 && revision == preferred {
			fullest, most = revision, ready
		}
	}
	return fullest
}
