// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// RestartsForMetadata is a pod out of service for an update in place with restarts for changed
// metadata. The node daemon restarts the containers, and reports.
//
// The text of the annotation comes first: every pod of a node is asked about.
func RestartsForMetadata(pod *corev1.Pod) bool {
	state, found := lookup(pod, shared.AnnotationInPlaceState, shared.AnnotationInPlaceStateLegacy)
	if !found || !strings.Contains(state, `"updateEnvFromMetadata":true`) || pod.DeletionTimestamp != nil {
		return false
	}
	if _, waits := lookup(pod, shared.AnnotationInPlaceGrace, shared.AnnotationInPlaceGraceLegacy); waits {
		return false
	}
	condition := podstate.Condition(pod, shared.GateInPlaceUpdateReady)
	return condition != nil && condition.Status == corev1.ConditionFalse
}

// EnvironmentOf is the hash of a container's variables from present labels and annotations, and
// whether there are any: none have a hash, too.
func EnvironmentOf(pod *corev1.Pod, container *corev1.Container) (of uint64, some bool) {
	return environmentHash(pod, container), len(metadataVariables(container)) > 0
}

// EnvironmentIn is the same hash of a container's running variables, NAME=value each. False: one of
// them is missing, so they are not known.
func EnvironmentIn(container *corev1.Container, environment []string) (uint64, bool) {
	var variables []hashedVariable
	for _, v := range metadataVariables(container) {
		value, found := "", false
		for _, entry := range environment {
			if name, is, ok := strings.Cut(entry, "="); ok && name == v.name {
				value, found = is, true // the last one counts
			}
		}
		if !found {
			return 0, false
		}
		variables = append(variables, hashedVariable{Name: v.name, Value: value})
	}
	return hash(variables), true
}

// Reported is the node daemon's report of one container.
type Reported struct {
	Name         string         `json:"name"`
	ContainerID  string         `json:"containerID"`
	RestartCount uint32         `json:"restartCount"`
	Hashes       ReportedHashes `json:"hashes"`
}

// ReportedHashes are a container's hashes: of the spec as the kubelet made it, and of the variables
// from metadata.
type ReportedHashes struct {
	Plain       uint64 `json:"plainHash"`
	Environment uint64 `json:"extractedEnvFromMetadataHash,omitempty"`
}

// ReportIsCurrent says that the report is about the containers in the pod's status, by name. A
// container without an instance is in neither.
func ReportIsCurrent(pod *corev1.Pod) bool {
	report := readReport(pod)
	made := 0
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.ContainerID == "" {
			continue
		}
		made++
		if report[status.Name].ContainerID != status.ContainerID {
			return false
		}
	}
	return len(report) == made
}

// ReportedOn is the entry of a container in the pod's report, by its name.
func ReportedOn(pod *corev1.Pod, container string) (Reported, bool) {
	entry, found := readReport(pod)[container]
	return entry, found
}

// Report is the value of the node daemon's annotation, or empty when the pod has it already.
func Report(pod *corev1.Pod, containers []Reported) string {
	slices.SortFunc(containers, func(a, b Reported) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(map[string]any{"containers": containers})
	if err != nil || pod.Annotations[shared.AnnotationRuntimeContainersMeta] == string(text) {
		return "" // names and numbers always marshal
	}
	return string(text)
}
