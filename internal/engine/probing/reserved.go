// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"maps"
	"slices"
	"strings"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

// ReservedLabel is a label by which controllers steer pods: no marker may write it.
func ReservedLabel(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified {
		return slices.Contains([]string{"controller-revision-hash", "pod-template-hash", "pod-template-generation", "controller-uid", "job-name"}, key)
	}
	return ReservedAnnotation(key) || domain != "app.kubernetes.io" && (within(domain, "kubernetes.io") || within(domain, "k8s.io"))
}

// ReservedAnnotation is an annotation of this operator: no marker may write it.
func ReservedAnnotation(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	return qualified && within(domain, "kruise.io") && !within(domain, "game.kruise.io")
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// allowed are the probes of a marker without reserved keys, and those keys. Stored markers may be
// older than the rule.
func allowed(probes []appsv1alpha1.PodContainerProbe) (kept []appsv1alpha1.PodContainerProbe, withheld []string) {
	kept = slices.Clone(probes)
	for i := range kept {
		kept[i].MarkerPolicy = slices.Clone(kept[i].MarkerPolicy)
		for j := range kept[i].MarkerPolicy {
			policy := &kept[i].MarkerPolicy[j]
			policy.Labels = without(policy.Labels, ReservedLabel, &withheld)
			policy.Annotations = without(policy.Annotations, ReservedAnnotation, &withheld)
		}
	}
	slices.Sort(withheld)
	return kept, slices.Compact(withheld)
}

// without is the map without reserved keys. These go to withheld.
func without(of map[string]string, reserved func(string) bool, withheld *[]string) map[string]string {
	kept := maps.Clone(of)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		if reserved(key) {
			*withheld = append(*withheld, key)
		}
		return reserved(key)
	})
	return kept
}
