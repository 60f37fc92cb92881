// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

func TestOfAStatefulSetItsPodsAreKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		text        string
		ordinals    []int
		unsupported bool
	}{
		"with defaults":          {text: "{selector: {matchLabels: {app: db}}}", ordinals: []int{0}},
		"that starts later":      {text: "{replicas: 2, ordinals: {start: 5}, selector: {matchLabels: {app: db}}}", ordinals: []int{5, 6}},
		"with reserved ordinals": {text: `{replicas: 3, reserveOrdinals: [1, "3-4"], selector: {matchLabels: {app: db}}}`, ordinals: []int{0, 2, 5}},
		"of nonsense":            {text: "{replicas: many}", unsupported: true},
		"with a bad selector":    {text: "{selector: {matchExpressions: [{key: a, operator: Near}]}}", unsupported: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte("{metadata: {uid: u}, spec: "+tc.text+"}"), &set.Object); err != nil {
				t.Fatal(err)
			}
			got, err := parsed(set, nil)
			if err != nil || (got.Unsupported != "") != tc.unsupported {
				t.Fatalf("got %+v, %v", got, err)
			}
			if !tc.unsupported && (!slices.Equal(slices.Collect(got.Ordinals.Iterate()), tc.ordinals) || !got.Selector.Matches(labels.Set{"app": "db"}) || got.Selector.Empty() || got.UID != "u") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
