// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzDecode reads the data of revisions, which other programs may have written. What is read can be written, and is then the same.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `{"spec":null}`, `{"spec":{"template":null}}`, `{"spec":{"template":{"$patch":"replace"}}}`,
		`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":7}]}}}}`, `{"spec":{"template":{"spec":{"containers":{"a":{}}}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzing.Within(t, len(data), func() {
			read, err := Decode(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}})
			if err != nil || read.Template == nil {
				return
			}
			written, err := Encode(read.Template)
			if err != nil {
				t.Fatalf("%q cannot be written: %v", data, err)
			}
			again, err := Decode(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: written}})
			if err != nil || !PodTemplates(false).Same(read.Template, again.Template) {
				t.Errorf("%q became %q: %v", data, written, err)
			}
		})
	})
}
