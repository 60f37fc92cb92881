// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"fmt"
	"testing"
)

// 256 jobs of one namespace filled the list of a node, and nobody else's images were pulled there.
func TestOneNamespaceDoesNotFillTheListOfANode(t *testing.T) {
	entries := map[string]any{}
	grow := func(namespace string) int {
		n := 0
		for ; !full(entries, fmt.Sprint(namespace, n), namespace); n++ {
			entries[fmt.Sprint(namespace, n)] = map[string]any{"tags": []any{map[string]any{"tag": "1", "namespace": namespace}}}
		}
		return n
	}
	if greedy := grow("greedy"); greedy != maxImages/2 {
		t.Errorf("one has %d images", greedy)
	}
	if other := grow("other"); other != maxImages/4 {
		t.Errorf("another one gets %d", other)
	}
	if full(entries, "greedy0", "third") {
		t.Error("a third one has no room")
	}
}
