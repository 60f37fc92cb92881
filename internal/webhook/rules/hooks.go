// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// maxHookWarnings is how many labels and finalizers of one hook are warned of.
const maxHookWarnings = 10

// Hooks warns of hooks without effect: with labels and finalizers the server allows no pod,
// no pod waits at the hook, or for preNormal each waits for ever. hooks may be nil; path is
// its field.
func Hooks(hooks *shared.Lifecycle, path *field.Path) []string {
	if hooks == nil {
		return nil
	}
	var warnings []string
	if hooks.PreNormal != nil && hooks.PreNormal.MarkPodNotReady {
		warnings = append(warnings, path.Child("preNormal", "markPodNotReady").String()+": has no effect; it is for inPlaceUpdate and preDelete")
	}
	for _, named := range []struct {
		name string
		hook *shared.LifecycleHook
	}{{"preNormal", hooks.PreNormal}, {"inPlaceUpdate", hooks.InPlaceUpdate}, {"preDelete", hooks.PreDelete}} {
		if named.hook != nil {
			found := hookNames(named.hook, path.Child(named.name))
			warnings = append(warnings, found[:min(len(found), maxHookWarnings)]...)
		}
	}
	return warnings
}

func hookNames(hook *shared.LifecycleHook, path *field.Path) []string {
	var warnings []string
	warn := func(path *field.Path, what, value string, faults []string) {
		if len(faults) > 0 && len(warnings) < maxHookWarnings {
			warnings = append(warnings, fmt.Sprintf("%s: no pod can have the %s %q: %s", path, what, value, faults[0]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(hook.LabelsHandler)) {
		at := path.Child("labelsHandler").Key(key)
		warn(at, "label", key, validation.IsQualifiedName(key))
		warn(at, "label value", hook.LabelsHandler[key], validation.IsValidLabelValue(hook.LabelsHandler[key]))
	}
	for i, name := range hook.FinalizersHandler {
		warn(path.Child("finalizersHandler").Index(i), "finalizer", name, finalizerFaults(name))
	}
	return warnings
}

// finalizerFaults say why no pod can have the finalizer.
func finalizerFaults(name string) []string {
	standard := []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	if faults := validation.IsQualifiedName(name); len(faults) > 0 || strings.Contains(name, "/") || slices.Contains(standard, name) {
		return faults
	}
	return []string{"it needs a domain, such as example.io/" + name}
}
