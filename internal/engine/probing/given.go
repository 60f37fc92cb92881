// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

// longestGiven is the length limit of the list of a pod's keys from probes, in bytes. All
// annotations of a pod together have 256 KiB. The rest is not remembered: it stays on the pod when
// its probe goes.
const longestGiven = 16 << 10

// given are the keys of a pod's labels and annotations from probes, sorted.
type given struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// Remember completes a pod's edit: the pod lists its labels and annotations from probes, and loses
// those unknown to all probes that stay: the probe was taken out of its marker, or leaves the pod,
// or the key went out of its policy. Older keys stay.
func Remember(pod *corev1.Pod, change edit.Edit, leave, stay []*appsv1alpha1.PodContainerProbe) edit.Edit {
	text := pod.Annotations[appsv1alpha1.AnnotationProbeMarks]
	if text == "" && len(leave)+len(change.Labels)+len(change.Annotations) == 0 {
		return change
	}
	var was, is given
	_ = json.Unmarshal([]byte(text), &was) // anything else counts as an empty list, and is overwritten
	labels, annotations := keysOf(leave)
	was.Labels = slices.AppendSeq(was.Labels, maps.Keys(labels))
	was.Annotations = slices.AppendSeq(was.Annotations, maps.Keys(annotations))
	labels, annotations = keysOf(stay)
	written := change
	// A key from before its reservation stays: others steer by it.
	was.Labels = slices.DeleteFunc(was.Labels, ReservedLabel)
	was.Annotations = slices.DeleteFunc(was.Annotations, ReservedAnnotation)
	is.Labels = still(was.Labels, change.Labels, pod.Labels, labels, written.RemoveLabel)
	is.Annotations = still(was.Annotations, change.Annotations, pod.Annotations, annotations, written.RemoveAnnotation)
	switch now := is.text(); now {
	case text:
	case "":
		written.RemoveAnnotation(appsv1alpha1.AnnotationProbeMarks)
	default:
		written.SetAnnotation(appsv1alpha1.AnnotationProbeMarks, now)
	}
	written.Fresh = true
	return written
}

// keysOf are the labels and annotations in policies of probes.
func keysOf(probes []*appsv1alpha1.PodContainerProbe) (labels, annotations marks) {
	labels, annotations = marks{}, marks{}
	for _, p := range probes {
		for i := range p.MarkerPolicy {
			labels.set(p.MarkerPolicy[i].Labels)
			annotations.set(p.MarkerPolicy[i].Annotations)
		}
	}
	return labels, annotations
}

// still are the pod's keys from probes after a change, sorted. Unknown ones are removed.
func still(was []string, change map[string]*string, has map[string]string, known marks, remove func(string)) []string {
	var keys []string
	for key, value := range change {
		if value != nil {
			keys = append(keys, key)
		}
	}
	for _, key := range was {
		_, present := has[key]
		if _, changes := change[key]; changes || !present {
			continue
		}
		if _, knows := known[key]; knows {
			keys = append(keys, key)
		} else {
			remove(key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// text is the list for the annotation; empty for an empty list. A long one loses its last keys.
func (g given) text() string {
	for {
		if len(g.Labels)+len(g.Annotations) == 0 {
			return ""
		}
		// Strings can always be rendered.
		body, _ := json.Marshal(g)
		if len(body) <= longestGiven {
			return string(body)
		}
		g.Labels, g.Annotations = g.Labels[:len(g.Labels)/2], g.Annotations[:len(g.Annotations)/2]
	}
}
