// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"fmt"
	"testing"

	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
)

// 256 jobs of one namespace filled the list of a node, and nobody else's images were pulled there.
func TestOneNamespaceDoesNotFillTheListOfANode(t *testing.T) {
	shared, namespaced := map[string]any{}, map[string]any{}
	grow := func(namespace string) int {
		n := 0
		for ; !full(shared, namespaced, namespace, false); n++ {
			tags := map[string]any{"tags": []any{map[string]any{"tag": "1", "ownerReferences": []any{map[string]any{"namespace": namespace}}}}}
			if repository := fmt.Sprint(namespace, n); len(shared) < engineimage.MaxShared {
				shared[repository] = tags
			} else {
				namespaced[namespace+"/"+repository] = tags
			}
		}
		return n
	}
	if greedy := grow("greedy"); greedy != engineimage.MaxRepositories/2 {
		t.Errorf("one has %d images", greedy)
	}
	if other := grow("other"); other != engineimage.MaxRepositories/4 {
		t.Errorf("another one gets %d", other)
	}
	if full(shared, namespaced, "third", false) {
		t.Error("a third one has no room")
	}
}
