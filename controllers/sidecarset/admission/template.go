// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// placeholder stands for the pod's own containers in dry runs.
const placeholder = "kruise-operator-check"

// Templates is a pod with only the set's additions, for a dry run.
func Templates(set *appsv1beta1.SidecarSet) admit.Templates {
	spec := corev1.PodSpec{Volumes: set.Spec.Volumes}
	for i := range set.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, set.Spec.InitContainers[i].Container)
	}
	for i := range set.Spec.Containers {
		spec.Containers = append(spec.Containers, set.Spec.Containers[i].Container)
	}
	spec.Containers = append(spec.Containers, corev1.Container{Name: placeholder, Image: placeholder})
	return admit.Templates{
		Pod:   &corev1.PodTemplateSpec{Spec: spec},
		Field: func(path string) string { return "spec." + strings.TrimPrefix(path, "spec.template.spec.") },
	}
}

func isObject(text string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &object) == nil && object != nil
}
