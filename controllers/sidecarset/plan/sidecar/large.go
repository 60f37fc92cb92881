// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"slices"
	"unicode/utf8"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Bounds of pods with sidecars. They are far above real pods, and keep injection below
// a second at the API server and here. The policy has the same numbers and words.
const (
	maxContainers, maxVolumes, maxSecrets, maxVariables, maxText = 1000, 2000, 1000, 10_000, 65_536

	tooLargeWords = "the pod is too large to get sidecars: it may have 1000 containers, 1000 init containers, 2000 volumes, 1000 pull secrets, " +
		"10000 environment variables, and 65536 characters in each annotation of SidecarSets"
)

// tooLarge reports whether the pod exceeds the bounds. The policy calls it large.
func tooLarge(spec map[string]any, annotations map[string]string) bool {
	containers, inits, env := listOf(spec, "containers"), listOf(spec, "initContainers"), 0
	for _, list := range [][]any{containers, inits} {
		for _, one := range list {
			if c, is := one.(map[string]any); is {
				env += len(listOf(c, "env"))
			}
		}
	}
	ours := []string{shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage, shared.AnnotationSidecarSetInjectedList, shared.AnnotationSidecarSetWorkingContainer}
	return len(containers) > maxContainers || len(inits) > maxContainers || len(listOf(spec, "volumes")) > maxVolumes ||
		len(listOf(spec, "imagePullSecrets")) > maxSecrets || env > maxVariables ||
		slices.ContainsFunc(ours, func(key string) bool { return utf8.RuneCountInString(annotations[key]) > maxText })
}
