// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// fitsJSONPatch says whether a JSON patch can write images and metadata without touching others'
// changes. It cannot create a map that might be there by now, and removes from a list by place, so
// such an Edit stays a merge. Pods from a server before Kubernetes 1.33 have no generation.
func (e Edit) fitsJSONPatch(pod *corev1.Pod) bool {
	return !e.Exact && pod.Generation > 0 &&
		(len(e.Labels) == 0 || len(pod.Labels) > 0) &&
		(len(e.Annotations) == 0 || len(pod.Annotations) > 0) &&
		len(e.AddFinalizers)+len(e.RemoveFinalizers) == 0
}

// operations are the images and metadata as a JSON patch for the pod while it has this generation. Where a test fails, nothing is written.
func (e Edit) operations(pod *corev1.Pod, generation int64) []Operation {
	all := []Operation{
		{"test", "/metadata/uid", pod.UID},
		{"test", "/metadata/generation", generation},
	}
	for i, container := range pod.Spec.Containers {
		if image, ok := e.Images[container.Name]; ok {
			path := "/spec/containers/" + strconv.Itoa(i)
			all = append(all, Operation{"test", path + "/name", container.Name}, Operation{"replace", path + "/image", image})
		}
	}
	all = append(all, keyOperations("/metadata/labels/", pod.Labels, e.Labels)...)
	return append(all, keyOperations("/metadata/annotations/", pod.Annotations, e.Annotations)...)
}

// keyOperations set and remove keys of a map, in the order of their names.
func keyOperations(path string, present map[string]string, changes map[string]*string) []Operation {
	var all []Operation
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		at := path + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1") // RFC 6901
		switch value := changes[key]; {
		case value != nil:
			all = append(all, Operation{"add", at, *value})
		case hasKey(present, key): // the server refuses to remove what is not there
			all = append(all, Operation{"remove", at, nil})
		}
	}
	return all
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}
