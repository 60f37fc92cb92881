// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// AnnotationOriginal has the spec, labels and annotations of an object before a release. OpenKruise writes it, too.
const AnnotationOriginal = "rollouts.kruise.io/original-spec-configuration"

// Stored is an object as the annotation says; false: there is none.
func Stored(object map[string]any) (map[string]any, bool, error) {
	text, found := tree.Texts(object, "metadata", "annotations")[AnnotationOriginal]
	if !found {
		return nil, false, nil
	}
	before := map[string]any{}
	if err := json.Unmarshal([]byte(text), &before); err != nil || tree.Map(before, "spec") == nil {
		return nil, true, Refuse("the annotation %s cannot be read: set the object back by hand, and remove it", AnnotationOriginal)
	}
	annotations := tree.Texts(before, "annotations")
	delete(annotations, AnnotationOriginal)
	return Rewritten(object, before["spec"], tree.Texts(before, "labels"), annotations), true, nil
}

// Rewritten is an object with another spec, other labels and other annotations.
func Rewritten(object map[string]any, spec any, labels, annotations map[string]string) map[string]any {
	after := tree.Clone(object)
	after["spec"] = spec
	tree.Set(after, tree.FromTexts(labels), "metadata", "labels")
	tree.Set(after, tree.FromTexts(annotations), "metadata", "annotations")
	return after
}

// Store notes an object as it was; share is why it changes.
func Store(object, before map[string]any, share any) {
	note := map[string]any{"spec": before["spec"], "share": share}
	for _, key := range []string{"labels", "annotations"} {
		note[key] = tree.Texts(before, "metadata", key)
	}
	text, _ := json.Marshal(note)
	tree.Set(object, string(text), "metadata", "annotations", AnnotationOriginal)
}
