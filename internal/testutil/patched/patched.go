// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package patched applies merge patches to objects as an API server does.
package patched

import (
	"strconv"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Object is an object after a patch. It gets another resourceVersion, and another generation when its spec changes.
func Object(t testing.TB, object map[string]any, changes map[string]any) map[string]any {
	t.Helper()
	if len(changes) == 0 {
		return object
	}
	body, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		t.Fatalf("%v\npatch %s\nobject %s", err, body, before)
	}
	after := map[string]any{}
	if err := json.Unmarshal(text, &after); err != nil {
		t.Fatal(err)
	}
	return Stored(after, !tree.Same(object["spec"], after["spec"]))
}

// Stored is an object after a write.
func Stored(object map[string]any, spec bool) map[string]any {
	after := tree.Clone(object)
	version, _ := strconv.Atoi(tree.Text(after, "metadata", "resourceVersion"))
	tree.Set(after, strconv.Itoa(version+1), "metadata", "resourceVersion")
	if generation, _ := tree.Number(after, "metadata", "generation"); spec {
		tree.Set(after, generation+1, "metadata", "generation")
	}
	return after
}

// YAML reads an object.
func YAML(t testing.TB, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
