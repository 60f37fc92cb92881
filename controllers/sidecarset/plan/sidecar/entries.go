// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// EntriesOf returns a pod annotation's entries by SidecarSet; none if undecodable.
func EntriesOf(pod *corev1.Pod, key string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(pod.Annotations[key]), &all) != nil {
		return map[string]json.RawMessage{}
	}
	return all
}

// EntryOf returns one set's entry. Very old pods have only the hash.
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

// HasBareHash reports whether the set's entry is only a hash.
func HasBareHash(pod *corev1.Pod, key, set string) bool {
	raw := EntriesOf(pod, key)[set]
	return len(raw) > 0 && raw[0] == '"'
}

// HasContainer reports whether the pod has a container of this name, init containers excluded.
func HasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}
