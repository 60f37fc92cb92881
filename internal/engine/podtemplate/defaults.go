// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import corev1 "k8s.io/api/core/v1"

// Defaulted returns a copy with every default filled in.
func Defaulted(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	alwaysPull(t.Spec.Containers)
	return t
}
