// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// AnnotationContent of an object of the operator stands for what was written.
const AnnotationContent = "rollouts.kruise.io/content"

// Differing is the object that should be there; nil: it is. An API server may have added defaults to what is there.
func Differing(own, want map[string]any) map[string]any {
	if stamp(want); own != nil && fits(own, want) {
		return nil
	}
	return want
}

// stamp notes all of an object, so that what it no longer has is known, too.
func stamp(object map[string]any) {
	text, _ := json.Marshal(object)
	tree.Set(object, rollable.Digest(text), "metadata", "annotations", AnnotationContent)
}

// fits: what is stored has all of what is wanted.
func fits(stored, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		all, isMap := stored.(map[string]any)
		if !isMap {
			return false
		}
		for key, value := range want {
			if !fits(all[key], value) {
				return false
			}
		}
		return true
	case []any:
		all, isList := stored.([]any)
		return isList && slices.EqualFunc(all, want, fits)
	}
	return tree.Same(stored, want)
}

// FieldManager is who writes routes in a release.
const FieldManager = "kruise-operator-rollout"

// Disown removes what the managed fields say of the operator: at the end nobody owns what it no longer has, and the next apply of the user
// owns all again. Lists such as rules have one owner, so meanwhile they are the operator's.
func Disown(object map[string]any) map[string]any {
	entries := tree.Items(object, "metadata", "managedFields")
	left := slices.DeleteFunc(slices.Clone(entries), func(e map[string]any) bool { return tree.Text(e, "manager") == FieldManager })
	if len(left) == len(entries) {
		return nil
	}
	if len(left) == 0 {
		left = []map[string]any{{}} // an empty list would change nothing
	}
	return map[string]any{"metadata": map[string]any{"managedFields": tree.List(left)}}
}

// Written is when somebody last wrote an object, by its managed fields; zero: unknown.
func Written(object map[string]any) metav1.Time {
	var last metav1.Time
	for _, entry := range tree.Items(object, "metadata", "managedFields") {
		var at metav1.Time
		if tree.Text(entry, "subresource") == "" && at.UnmarshalQueryParameter(tree.Text(entry, "time")) == nil && last.Before(&at) {
			last = at
		}
	}
	return last
}
