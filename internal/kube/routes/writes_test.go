// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

// What is of the owner and is to be another one keeps its owner, and loses what is no longer wanted.
func TestReplacing(t *testing.T) {
	stored := patched.YAML(t, `{apiVersion: v1, kind: A, metadata: {name: a, resourceVersion: "3", ownerReferences: [{uid: u}], labels: {a: b}, annotations: {one: "1", two: "2"}}, spec: {a: 1}}`)
	want := patched.YAML(t, `{apiVersion: v1, kind: A, metadata: {name: a, annotations: {two: "3"}}, spec: {b: 1}}`)
	after := patched.Object(t, stored, replacing(stored, want))
	if got, is := fmt.Sprint(after["metadata"].(map[string]any)["annotations"], after["spec"], after["metadata"].(map[string]any)["labels"]), "map[two:3] map[b:1] <nil>"; got != is {
		t.Errorf("got %s", got)
	}
	if after["metadata"].(map[string]any)["ownerReferences"] == nil {
		t.Error("the owner is gone")
	}
}

// A route that somebody else writes meanwhile is read again.
func TestAPatchIsOfOneVersion(t *testing.T) {
	w := &Writes{}
	w.Patch(patched.YAML(t, `{apiVersion: v1, kind: A, metadata: {name: a, uid: u, resourceVersion: "3"}}`), map[string]any{"spec": "b"})
	patch, is := w.All()[0].Change.(planning.RawPatch)
	if want := `{"metadata":{"resourceVersion":"3","uid":"u"},"spec":"b"}`; !is || string(patch.Body) != want || patch.Type != types.MergePatchType {
		t.Errorf("got %s", patch.Body)
	}
}
