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
	ops := tree.Patch(before, after)
	want := []tree.Op{
		{Op: "test", Path: "/metadata/resourceVersion", Value: "7"},
		{Op: "test", Path: "/gone", Value: int64(1)}, {Op: "remove", Path: "/gone"},
		{Op: "test", Path: "/list/0/name", Value: "a"}, {Op: "test", Path: "/list/0/num", Value: int64(1)}, {Op: "replace", Path: "/list/0/num", Value: int64(9)},
		{Op: "test", Path: "/list/1", Value: map[string]any{"name": "b", "num": int64(2)}}, {Op: "replace", Path: "/list/1", Value: map[string]any{"name": "c", "num": int64(2)}},
		{Op: "test", Path: "/list/2/num", Value: int64(3)}, {Op: "replace", Path: "/list/2/num", Value: int64(4)},
		{Op: "test", Path: "/metadata/annotations/a~1b~0c", Value: "x"}, {Op: "replace", Path: "/metadata/annotations/a~1b~0c", Value: "z"},
		{Op: "test", Path: "/texts", Value: []any{"x", "w"}}, {Op: "replace", Path: "/texts", Value: []any{"x"}},
		{Op: "add", Path: "/new", Value: map[string]any{"k": []any{}}},
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := patched.Object(t, before, ops)
	tree.Set(got, "7", "metadata", "resourceVersion")
	if !tree.Same(got, after) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(after, got))
	}
	if ops := tree.Patch(after, tree.Clone(after)); ops != nil {
		t.Errorf("%v", ops)
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
