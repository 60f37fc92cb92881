// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// EntriesOf are what an annotation of a pod says of SidecarSets, by their names; none when it cannot be decoded.
func EntriesOf(pod *corev1.Pod, key string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(pod.Annotations[key]), &all) != nil {
		return map[string]json.RawMessage{}
	}
	return all
}

// EntryOf is the entry of one set in the annotation. Very old pods have the hash alone.
func EntryOf(pod *corev1.Pod, key, set string) shared.SidecarSetUpgrade {
	raw := EntriesOf(pod, key)[set]
	var entry shared.SidecarSetUpgrade
	if json.Unmarshal(raw, &entry) == nil {
		return entry
	}
	entry = shared.SidecarSetUpgrade{SidecarSetName: set}
	_ = json.Unmarshal(raw, &entry.SidecarSetHash) // What is neither has no hash, and differs.
	return entry
}

// HasBareHash says that the entry of a set is the hash alone.
func HasBareHash(pod *corev1.Pod, key, set string) bool {
	raw := EntriesOf(pod, key)[set]
	return len(raw) > 0 && raw[0] == '"'
}

// HasContainer says whether a pod has a container of this name, init containers left out.
func HasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}
