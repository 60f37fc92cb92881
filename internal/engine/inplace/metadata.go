// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

// ownLabel is a label of the pod's workload: no template has a say in it.
func ownLabel(key string) bool {
	switch key {
	case shared.LabelControllerRevisionHash, shared.LabelPodTemplateHash, shared.LabelPodName, shared.LabelPodIndex,
		shared.LabelInstanceID, shared.LabelLifecycleState, shared.LabelSpecifiedDelete:
		return true
	}
	return false
}

// ownAnnotation is ownLabel for annotations.
func ownAnnotation(key string) bool {
	switch key {
	case shared.AnnotationLifecycleTimestamp, shared.AnnotationInPlaceState, shared.AnnotationInPlaceStateLegacy,
		shared.AnnotationInPlaceGrace, shared.AnnotationInPlaceGraceLegacy, shared.AnnotationInPlaceEvidence,
		shared.AnnotationRuntimeContainersMeta:
		return true
	}
	return false
}

// mergeMetadata moves the pod's metadata from one template to another: it sets added and changed
// keys and removes those of the old template alone. Keys from others stay. Unwritten metadata of an
// earlier update gets the target's value, too.
func mergeMetadata(pod *corev1.Pod, from, to *corev1.PodTemplateSpec, pending edit.Edit) edit.Edit {
	var e edit.Edit
	mergeKeys(pod.Labels, from.Labels, to.Labels, pending.Labels, ownLabel, e.SetLabel, e.RemoveLabel)
	mergeKeys(pod.Annotations, from.Annotations, to.Annotations, pending.Annotations, ownAnnotation, e.SetAnnotation, e.RemoveAnnotation)

	for _, name := range slices.Concat(to.Finalizers, pending.AddFinalizers) {
		isNew := !slices.Contains(from.Finalizers, name) || slices.Contains(pending.AddFinalizers, name)
		if isNew && slices.Contains(to.Finalizers, name) && !slices.Contains(pod.Finalizers, name) {
			e.AddFinalizer(name)
		}
	}
	for _, name := range slices.Concat(from.Finalizers, pending.RemoveFinalizers) {
		if !slices.Contains(to.Finalizers, name) && slices.Contains(pod.Finalizers, name) {
			e.RemoveFinalizer(name)
		}
	}
	return e
}

func mergeKeys(live, from, to map[string]string, pending map[string]*string, own func(string) bool, set func(key, value string), remove func(key string)) {
	for key, value := range to {
		was, had := from[key]
		_, waits := pending[key]
		is, has := live[key]
		if !own(key) && (!had || was != value || waits) && (!has || is != value) {
			set(key, value)
		}
	}
	for key := range live {
		_, wanted := to[key]
		_, had := from[key]
		value, waits := pending[key]
		if !own(key) && !wanted && (had || waits && value == nil) {
			remove(key)
		}
	}
}

// references are the metadata keys, with new values, read by one container through its environment.
type references struct {
	labels, annotations map[string]string
}

func (r references) isZero() bool { return len(r.labels)+len(r.annotations) == 0 }

// first names one of the keys, always the same.
func (r references) first() string {
	if len(r.labels) > 0 {
		return fmt.Sprintf("labels[%s]", slices.Min(slices.Collect(maps.Keys(r.labels))))
	}
	return fmt.Sprintf("annotations[%s]", slices.Min(slices.Collect(maps.Keys(r.annotations))))
}

func (r references) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: r.labels, Annotations: r.annotations}
}

// referencesOf returns the keys read by each container; others are left out.
func referencesOf(containers []corev1.Container, keys references) map[string]references {
	out := map[string]references{}
	if keys.isZero() {
		return out
	}
	for i := range containers {
		r := references{labels: map[string]string{}, annotations: map[string]string{}}
		for _, variable := range metadataVariables(&containers[i]) {
			if value, ok := keys.labels[variable.label]; ok {
				r.labels[variable.label] = value
			}
			if value, ok := keys.annotations[variable.annotation]; ok {
				r.annotations[variable.annotation] = value
			}
		}
		if !r.isZero() {
			out[containers[i].Name] = r
		}
	}
	return out
}

// changedKeys returns the labels and annotations added or changed one by one. None without an
// earlier key: a map added as a whole does not count.
func changedKeys(from, to *corev1.PodTemplateSpec) references {
	return references{labels: changedIn(from.Labels, to.Labels), annotations: changedIn(from.Annotations, to.Annotations)}
}

func changedIn(from, to map[string]string) map[string]string {
	changed := map[string]string{}
	if len(from) == 0 {
		return changed
	}
	for key, value := range to {
		if was, ok := from[key]; !ok || was != value {
			changed[key] = value
		}
	}
	return changed
}

// metadataVariable is an environment variable with one label or one annotation.
type metadataVariable struct {
	name, label, annotation string
}

func (v metadataVariable) value(pod *corev1.Pod) string {
	if v.label != "" {
		return pod.Labels[v.label]
	}
	return pod.Annotations[v.annotation]
}

// metadataVariables returns the variables with one label or annotation of the pod, by name. The two
// of sidecar upgrades are left out: they change without a restart.
func metadataVariables(container *corev1.Container) []metadataVariable {
	var variables []metadataVariable
	for _, env := range container.Env {
		if env.Name == "SIDECARSET_VERSION" || env.Name == "SIDECARSET_VERSION_ALT" ||
			env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
			continue
		}
		path := env.ValueFrom.FieldRef.FieldPath
		v := metadataVariable{name: env.Name, label: subscript(path, "metadata.labels"), annotation: subscript(path, "metadata.annotations")}
		if v.label != "" || v.annotation != "" {
			variables = append(variables, v)
		}
	}
	slices.SortStableFunc(variables, func(a, b metadataVariable) int { return cmp.Compare(a.name, b.name) })
	return variables
}

// subscript returns k of the path field['k'], empty for any other path.
func subscript(path, field string) string {
	rest, begins := strings.CutPrefix(path, field+"['")
	key, ends := strings.CutSuffix(rest, "']")
	if !begins || !ends {
		return ""
	}
	return key
}

// metadataPatch is the wire format of metadata in a grace annotation.
type metadataPatch struct {
	Metadata edit.MetadataPatch `json:"metadata"`
}

func encodeMetadata(e edit.Edit) []byte {
	if e.IsZero() {
		return nil
	}
	var p metadataPatch
	p.Metadata.Labels, p.Metadata.Annotations = e.Labels, e.Annotations
	p.Metadata.Finalizers, p.Metadata.DeleteFinalizers = e.AddFinalizers, e.RemoveFinalizers
	text, _ := json.Marshal(p) // texts always marshal
	return text
}

func decodeMetadata(patch []byte) (edit.Edit, error) {
	if len(patch) == 0 {
		return edit.Edit{}, nil
	}
	var p metadataPatch
	if err := json.Unmarshal(patch, &p); err != nil {
		return edit.Edit{}, err
	}
	e := edit.Edit{Labels: p.Metadata.Labels, Annotations: p.Metadata.Annotations}
	maps.DeleteFunc(e.Labels, func(key string, _ *string) bool { return ownLabel(key) })
	maps.DeleteFunc(e.Annotations, func(key string, _ *string) bool { return ownAnnotation(key) })
	for _, name := range p.Metadata.Finalizers {
		e.AddFinalizer(name)
	}
	for _, name := range p.Metadata.DeleteFinalizers {
		e.RemoveFinalizer(name)
	}
	return e, nil
}
