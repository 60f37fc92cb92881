// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// longestName leaves room for the end of a ReplicaSet's name.
const longestName = validation.DNS1123SubdomainMaxLength - len("-1234567890")

// CanaryName is the name of the canary Deployment of a revision. It is the same after a crash.
func CanaryName(deployment, revision string) string {
	end := "-canary-" + revision
	return rollable.Shortened(deployment, longestName-len(end)) + end
}

// CanaryOf is the value of the label of canary Deployments.
func CanaryOf(deployment string) string {
	return rollable.Shortened(deployment, validation.LabelValueMaxLength)
}

// Canary is the canary Deployment of a Deployment, without pods. Services select its pods, too.
func Canary(d *appsv1.Deployment, more v1beta1.PatchPodTemplateMetadata) *appsv1.Deployment {
	c := &appsv1.Deployment{Spec: *d.Spec.DeepCopy()}
	c.ObjectMeta = metav1.ObjectMeta{
		Namespace: d.Namespace, Name: CanaryName(d.Name, Revision(&d.Spec.Template)), Labels: map[string]string{shared.LabelCanary: CanaryOf(d.Name)},
	}
	c.Spec.Paused, c.Spec.Replicas = false, ptr.To[int32](0)
	template := &c.Spec.Template
	delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	template.Labels, template.Annotations = labels.Merge(template.Labels, more.Labels), labels.Merge(template.Annotations, more.Annotations)
	return c
}

// IsCanary says that a canary Deployment has the template of the wanted one. Those of OpenKruise have other names.
func IsCanary(c, wanted *appsv1.Deployment) bool {
	return c.Name == wanted.Name || sameTemplate(&c.Spec.Template, &wanted.Spec.Template)
}
