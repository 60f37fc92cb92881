// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package jobsidecar

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// maxWarnings is how many warnings one template gets.
const maxWarnings = 10

// Warnings are about marks of a pod template without effect, or with an unexpected one. path is the
// pod's spec.
func Warnings(spec *corev1.PodSpec, path *field.Path) []string {
	var warnings []string
	sidecars := 0
	virtual := spec.NodeSelector[appsv1beta1.LabelNodeType] == appsv1beta1.NodeTypeVirtual
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Child("containers").Index(i)
		warnings = append(warnings, ContainerWarnings(c, at)...)
		if Is(c) {
			sidecars++
		}
		if virtual && ByDaemon(c) && Image(c) == "" {
			warnings = append(warnings, fmt.Sprintf("%s: nodeSelector asks for a virtual node, where the container is stopped by %s only, which it does not have",
				at.Child("env"), EnvTerminateImage))
		}
	}
	if sidecars > 0 && sidecars == len(spec.Containers) {
		warnings = append(warnings, fmt.Sprintf("%s: all of them are marked as sidecars, so there is no main container to wait for, and they are stopped when the pod runs",
			path.Child("containers")))
	}
	return warnings[:min(len(warnings), maxWarnings)]
}

// ContainerWarnings are those about the marks of one container, whatever its pod. path is the
// container.
func ContainerWarnings(c *corev1.Container, path *field.Path) []string {
	var warnings []string
	for i := range c.Env {
		e, at := &c.Env[i], path.Child("env").Index(i)
		switch e.Name {
		case EnvTerminate, EnvIgnoreExitCode:
			if known := strings.EqualFold(e.Value, "true") || strings.EqualFold(e.Value, "false"); e.ValueFrom == nil && !known {
				warnings = append(warnings, fmt.Sprintf("%s: %s is %q, which has no effect; the value that has one is true", at.Child("value"), e.Name, e.Value))
			}
		case EnvTerminateImage:
			if e.ValueFrom == nil && e.Value == "" {
				warnings = append(warnings, fmt.Sprintf("%s: %s is empty, which has no effect; it has to be an image", at.Child("value"), e.Name))
			}
		default:
			continue
		}
		if e.ValueFrom != nil {
			warnings = append(warnings, fmt.Sprintf("%s: %s has no effect with valueFrom; only literal values count", at.Child("valueFrom"), e.Name))
		}
	}
	return warnings[:min(len(warnings), maxWarnings)]
}
