// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func distribution(version, targets, conditions string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"ResourceDistribution","metadata":{"name":"d"},"spec":{"resource":{"data":{"a":1.50}},"targets":` +
		targets + `},"status":{"desired":1,"conditions":` + conditions + `}}`
}

func TestTwoFieldsHaveOtherNames(t *testing.T) {
	for name, tc := range map[string]struct{ v1alpha1, v1beta1 string }{
		"both": {
			distribution("v1alpha1", `{"namespaceLabelSelector":{"matchLabels":{"a":"b"}},"allNamespaces":true}`, `[{"type":"x","failedNamespace":["n"]},{"type":"y"}]`),
			distribution("v1beta1", `{"namespaceSelector":{"matchLabels":{"a":"b"}},"allNamespaces":true}`, `[{"type":"x","failedNamespaces":["n"]},{"type":"y"}]`),
		},
		"neither":                 {distribution("v1alpha1", `{}`, `[]`), distribution("v1beta1", `{}`, `[]`)},
		"what cannot be decoded":  {distribution("v1alpha1", `7`, `"x"`), distribution("v1beta1", `7`, `"x"`)},
		"conditions of any shape": {distribution("v1alpha1", `null`, `[7,null,{}]`), distribution("v1beta1", `null`, `[7,null,{}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			hub, err := Converter().Convert(t.Context(), []byte(tc.v1alpha1), v1beta1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1beta1", string(hub), tc.v1beta1)
			spoke, err := Converter().Convert(t.Context(), []byte(tc.v1beta1), v1alpha1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1alpha1", string(spoke), tc.v1alpha1)
		})
	}
}
