// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

func notes(object map[string]any, annotation string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(tree.Texts(object, "metadata", "annotations")[annotation]), &all) != nil || all == nil {
		return map[string]json.RawMessage{}
	}
	return all
}

// NoteOf is what an annotation of a route says about a Service of the user; false: nothing.
func NoteOf[N any](object map[string]any, annotation, service string) (n N, found bool) {
	found = kjson.Unmarshal(notes(object, annotation)[service], &n) == nil
	return n, found
}

// SetNote writes it, from numbers and texts; nil removes it.
func SetNote(object map[string]any, annotation, service string, n any) {
	all := notes(object, annotation)
	if all[service], _ = json.Marshal(n); n == nil {
		delete(all, service)
	}
	var value any
	if text, _ := json.Marshal(all); len(all) > 0 {
		value = string(text)
	}
	tree.Set(object, value, "metadata", "annotations", annotation)
}
