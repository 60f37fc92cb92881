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

// RestartsForMetadata says that the pod is out of service for an update in place that restarts containers which read labels or annotations
// through their environment. The node daemon restarts them, and reports.
//
// It looks at the text of the annotation first: it is asked about every pod of a node.
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

// EnvironmentOf is the hash of the variables that a container takes from labels and annotations of its pod, as these are now, and whether there
// are any: none have a hash, too.
func EnvironmentOf(pod *corev1.Pod, container *corev1.Container) (of uint64, some bool) {
	return environmentHash(pod, container), len(metadataVariables(container)) > 0
}

// EnvironmentIn is the same hash of the variables that a container runs with, NAME=value each. It is false when one of them is not there: then it
// is not known what the container runs with.
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

// Reported is what the node daemon reports of one container.
type Reported struct {
	Name         string         `json:"name"`
	ContainerID  string         `json:"containerID"`
	RestartCount uint32         `json:"restartCount"`
	Hashes       ReportedHashes `json:"hashes"`
}

// ReportedHashes are the hashes of a container: that of its spec as the kubelet made it, and that of the variables it takes from metadata.
type ReportedHashes struct {
	Plain       uint64 `json:"plainHash"`
	Environment uint64 `json:"extractedEnvFromMetadataHash,omitempty"`
}

// ReportIsCurrent says that the pod's report is about the containers which its status shows, each by its name. A container that never was made
// is in neither.
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

// Report is the value of the annotation with which the node daemon reports, or empty when the pod has it already.
func Report(pod *corev1.Pod, containers []Reported) string {
	slices.SortFunc(containers, func(a, b Reported) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(map[string]any{"containers": containers})
	if err != nil || pod.Annotations[shared.AnnotationRuntimeContainersMeta] == string(text) {
		return "" // names and numbers always marshal
	}
	return string(text)
}
