// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzPatched applies the patch of a subset to a pod template.
func FuzzPatched(f *testing.F) {
	template := `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}`
	for _, seed := range []string{
		`{}`, `{"metadata":{"labels":{"zone":"a"}}}`, `{"spec":{"containers":[{"name":"main","image":null}]}}`, `{"spec":{"containers":[{"$patch":"delete","name":"main"}]}}`,
		`{"spec":{"containers":[7]}}`, `{"spec":{"$setElementOrder/containers":[{}]}}`, `{"$patch":"replace"}`, `{"spec":{"$retainKeys":["a"]}}`,
	} {
		f.Add([]byte(template), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, template, patch []byte) {
		var of, with map[string]any
		if utiljson.Unmarshal(template, &of) != nil || utiljson.Unmarshal(patch, &with) != nil || of == nil || with == nil {
			return
		}
		fuzzing.Within(t, len(template)+len(patch), func() {
			if patched, err := Patched(of, with); err == nil && patched == nil {
				t.Errorf("%s with %s is nothing", template, patch)
			}
		})
	})
}

// FuzzSubsetSize reads how many pods a subset has.
func FuzzSubsetSize(f *testing.F) {
	for _, seed := range []string{"50%", "7", "-1", "", "%", "1e3%", "999999999999%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzing.Within(t, len(text), func() {
			if size, err := subset.Parse(intstr.Parse(text)); err == nil && size == nil {
				t.Errorf("%q is accepted and is nothing", text)
			}
		})
	})
}
