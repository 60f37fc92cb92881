// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Signers are the owners of a stored NodeImage's tags. To decode all of it for each event would take too long.
func Signers(object any) sets.Set[corev1.ObjectReference] {
	signers := sets.New[corev1.ObjectReference]()
	stored, ok := object.(*unstructured.Unstructured)
	if !ok {
		return signers
	}
	for _, field := range []string{"images", "namespacedImages"} {
		entries, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", field)
		byKey, _ := entries.(map[string]any)
		for _, entry := range byKey {
			for _, tag := range list(entry, "tags") {
				for _, owner := range list(tag, "ownerReferences") {
					signers.Insert(ownerOf(owner))
				}
			}
		}
	}
	return signers
}

func list(of any, field string) []any {
	content, _ := of.(map[string]any)
	found, _ := content[field].([]any)
	return found
}

func ownerOf(owner any) corev1.ObjectReference {
	content, _ := owner.(map[string]any)
	text := func(field string) string { value, _ := content[field].(string); return value }
	return corev1.ObjectReference{Kind: text("kind"), Namespace: text("namespace"), Name: text("name"), UID: types.UID(text("uid"))}
}
