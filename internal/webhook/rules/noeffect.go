// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// ClaimTemplates warns of new or changed claim templates: existing pods and claims stay as
// they are. grow is true if claims grow with their template.
func ClaimTemplates(templates, old []corev1.PersistentVolumeClaim, grow bool) []string {
	before := map[string]*corev1.PersistentVolumeClaim{}
	for i := range old {
		before[old[i].Name] = &old[i]
	}
	var warnings []string
	for i := range templates {
		path := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		switch was := before[templates[i].Name]; {
		case was == nil:
			warnings = append(warnings, fmt.Sprintf("%s: pods that exist get this claim only when they are recreated", path))
		case !grow && !equality.Semantic.DeepEqual(was.Spec.Resources, templates[i].Spec.Resources):
			warnings = append(warnings, fmt.Sprintf("%s.spec.resources: claims that exist keep their size", path))
		}
	}
	return warnings
}

// Set is what CloneSets and StatefulSets have alike. Without rollingUpdate, Rolling is false and Policy is empty.
type Set struct {
	Name              string
	Template          *corev1.PodTemplateSpec
	Claims            []corev1.PersistentVolumeClaim
	Hooks             *shared.Lifecycle
	OnDelete, Rolling bool
	Policy            shared.PodUpdatePolicy
	InPlace           *shared.InPlaceUpdateStrategy
}

// Pods warns of what pods do not get, or wait for without end. created says that the set is new.
func (s *Set) Pods(created bool) (warnings []string) {
	if created {
		warnings = LongName(s.Name)
	}
	return slices.Concat(warnings, ReservedLabels(s.Template), Hooks(s.Hooks, field.NewPath("spec", "lifecycle")))
}

// Updates warns of what does nothing in an update. old is nil for a new set. preDownload is the gate for pulling images ahead, grow says that claims grow
// with their templates.
func (s *Set) Updates(old *Set, preDownload, grow bool) (warnings []string) {
	if s.OnDelete && s.Rolling {
		warnings = []string{OnDelete}
	}
	if s.Rolling && !preDownload {
		warnings = append(warnings, PreDownloadIgnored(s.InPlace, field.NewPath("spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"))...)
	}
	warnings = append(warnings, onlyInPlace(s.Policy, s.InPlace, s.Hooks)...)
	if old != nil {
		warnings = slices.Concat(warnings, ClaimTemplates(s.Claims, old.Claims, grow), undrained(s.Policy, old.Policy, old.Template))
	}
	return warnings
}

// OnDelete warns of a rolling update without effect.
const OnDelete = "spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete"

// onlyInPlace warns of what has an effect on updates in place alone, where pods are replaced.
func onlyInPlace(policy shared.PodUpdatePolicy, strategy *shared.InPlaceUpdateStrategy, hooks *shared.Lifecycle) []string {
	if policy == shared.InPlaceIfPossible || policy == shared.InPlaceOnly {
		return nil
	}
	var warnings []string
	if strategy != nil && strategy.GracePeriodSeconds > 0 {
		warnings = append(warnings, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds: has no effect, because podUpdatePolicy replaces pods")
	}
	if hooks != nil && hooks.InPlaceUpdate != nil {
		warnings = append(warnings, "spec.lifecycle.inPlaceUpdate: has no effect, because podUpdatePolicy replaces pods")
	}
	return warnings
}

// EndedJob warns of an edit of a job that has ended. Only its time to live still counts, and forget removes it from a spec.
func EndedJob[S any](ended *metav1.Time, spec, old S, forget func(*S)) []string {
	forget(&spec)
	forget(&old)
	if ended == nil || equality.Semantic.DeepEqual(spec, old) {
		return nil
	}
	return []string{"spec: has no effect, because the job has ended: create another job"}
}
