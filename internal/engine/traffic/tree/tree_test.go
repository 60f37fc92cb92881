// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

func TestPatch(t *testing.T) {
	const from = `{metadata: {resourceVersion: "7", annotations: {a/b~c: x}}, gone: 1, list: [{name: a, num: 1}, {name: b, num: 2.0}, {num: 3}], texts: [x, w], same: 1}`
	const to = `{metadata: {resourceVersion: "7", annotations: {a/b~c: z}}, new: {k: []}, list: [{name: a, num: 9}, {name: c, num: 2}, {num: 4}], texts: [x], same: 1.0}`
	before, after := patched.YAML(t, from), patched.YAML(t, to)
	changes := tree.Patch(before, after)
	want := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"a/b~c": "z"}},
		"gone":     nil, "new": map[string]any{"k": []any{}}, "texts": []any{"x"},
		"list": []any{
			map[string]any{"name": "a", "num": int64(9)}, map[string]any{"name": "c", "num": int64(2)}, map[string]any{"num": int64(4)},
		},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := patched.Object(t, before, changes)
	tree.Set(got, "7", "metadata", "resourceVersion")
	if !tree.Same(got, after) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(after, got))
	}
	if changes := tree.Patch(after, tree.Clone(after)); len(changes) > 0 {
		t.Errorf("%v", changes)
	}
}

func TestSet(t *testing.T) {
	object := map[string]any{"a": map[string]any{"b": "c"}}
	tree.Set(object, "x", "d", "e", "f")
	tree.Set(object, nil, "a", "b")
	tree.Set(object, nil, "no", "such")
	if diff := cmp.Diff(map[string]any{"d": map[string]any{"e": map[string]any{"f": "x"}}}, object); diff != "" {
		t.Error(diff)
	}
}

func TestMissing(t *testing.T) {
	object := map[string]any{"a": "b", "list": []any{"x", map[string]any{}}}
	if tree.Map(object, "a", "b") != nil || tree.Text(object, "list") != "" || len(tree.Items(object, "a", "b")) != 0 || len(tree.Items(object, "list")) != 1 {
		t.Error("what is not there is empty")
	}
	if n, found := tree.Number(map[string]any{"n": 1.5}, "n"); found {
		t.Error(n)
	}
}
