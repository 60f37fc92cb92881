// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/api/policy/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func text(version, annotations, spec string) string {
	if annotations != "" {
		annotations = `,"annotations":{` + annotations + `}`
	}
	return `{"apiVersion":"policy.kruise.io/` + version + `","kind":"PodUnavailableBudget","metadata":{"name":"web"` + annotations + `},"spec":{"maxUnavailable":1` + spec + `}}`
}

const (
	operations = `"kruise.io/pub-protect-operations":"DELETE,EVICT"`
	blanks     = `"kruise.io/pub-protect-operations":" DELETE , EVICT"`
	nonsense   = `"kruise.io/pub-protect-operations":"NONSENSE","pub.kruise.io/protect-total-replicas":"many"`
	total      = `"pub.kruise.io/protect-total-replicas":"15"`
	ignored    = `"operator.kruise.io/ignored-pod-selector":"{\"matchLabels\":{\"a\":\"b\"}}"`
	selector   = `,"ignoredPodSelector":{"matchLabels":{"a":"b"}}`
	words      = `,"protectOperations":["DELETE","EVICT"]`
	fields     = words + `,"protectTotalReplicas":15`
)

func TestConversion(t *testing.T) {
	for name, tc := range map[string]struct{ from, beta, alpha string }{
		"nothing to convert":          {text("v1alpha1", "", ""), text("v1beta1", "", ""), text("v1alpha1", "", "")},
		"annotations become fields":   {text("v1alpha1", operations+","+total, ""), text("v1beta1", operations+","+total, fields), text("v1alpha1", operations+","+total, "")},
		"fields become annotations":   {text("v1beta1", "", fields), text("v1beta1", "", fields), text("v1alpha1", operations+","+total, "")},
		"blanks do not matter":        {text("v1alpha1", blanks, ""), text("v1beta1", blanks, words), text("v1alpha1", blanks, "")},
		"what nobody can read stays":  {text("v1alpha1", nonsense, ""), text("v1beta1", nonsense, ""), text("v1alpha1", nonsense, "")},
		"the ignored pods survive":    {text("v1beta1", "", selector), text("v1beta1", "", selector), text("v1alpha1", ignored, "")},
		"the ignored pods come back":  {text("v1alpha1", ignored, ""), text("v1beta1", "", selector), text("v1alpha1", ignored, "")},
		"the field wins, as it wrote": {text("v1beta1", `"kruise.io/pub-protect-operations":"UPDATE"`, words), text("v1beta1", `"kruise.io/pub-protect-operations":"UPDATE"`, words), text("v1alpha1", operations, "")},
	} {
		t.Run(name, func(t *testing.T) {
			beta, err := Converter().Convert(t.Context(), []byte(tc.from), v1beta1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1beta1", string(beta), tc.beta)
			alpha, err := Converter().Convert(t.Context(), beta, v1alpha1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1alpha1", string(alpha), tc.alpha)
		})
	}
}
