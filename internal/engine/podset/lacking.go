// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// LackClaims adds claim templates without volumes in pods to the ignored: volumes never change.
func LackClaims(ignored conditions.Ignored, templates []corev1.PersistentVolumeClaim, pods []Pod) conditions.Ignored {
	if len(templates) == 0 {
		return ignored
	}
	without, example := map[string]int{}, map[string]string{}
	for i := range pods {
		if pods[i].Terminating || pods[i].Unwanted != "" {
			continue
		}
		has := sets.New[string]()
		for _, volume := range pods[i].Object.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				has.Insert(volume.Name)
			}
		}
		for j := range templates {
			if name := templates[j].Name; !has.Has(name) {
				without[name]++
				example[name] = pods[i].Object.Name
			}
		}
	}
	var lacking []string
	for _, name := range sets.List(sets.KeySet(without)) {
		lacking = append(lacking, fmt.Sprintf("spec.volumeClaimTemplates: %s the claim of template %s until recreated, such as %s",
			Count(without[name], "pod lacks", "pods lack"), name, example[name]))
	}
	ignored.NoEffect = append(ignored.NoEffect[:len(ignored.NoEffect):len(ignored.NoEffect)], lacking...)
	return ignored
}
