// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestTheTableIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(Table(), func(a, b kinds.Kind) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("sort the table by name: %v", Table().Names())
	}
}

func TestEveryEntryIsWhole(t *testing.T) {
	for _, k := range Table() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Name == "" || k.Plural == "" || k.Group == "" || k.Scope == "" || k.Controller == "" || k.Users == "" {
				t.Errorf("something is empty: %+v", k)
			}
			if !slices.Contains(k.Versions, k.Storage) {
				t.Errorf("%s is stored, and served are %v", k.Storage, k.Versions)
			}
			if k.Converted && len(k.Versions) < 2 {
				t.Errorf("there is only %v, and nothing to convert", k.Versions)
			}
			if (k.WorkersFlag != "") != (k.Controller == kinds.Optional) {
				t.Errorf("controller %s, flag of workers %q", k.Controller, k.WorkersFlag)
			}
			if got, ok := Table().Of(k.Name); !ok || got.Definition() != k.Definition() {
				t.Errorf("Of finds %+v", got)
			}
		})
	}
	if _, ok := Table().Of("Deployment"); ok {
		t.Error("Of finds a kind that is not ours")
	}
}

// The schema and the operator know the same names, so a wrong one is refused on writing.
func TestTheSchemaOfTheKruiseObjectKnowsTheKinds(t *testing.T) {
	content, err := os.ReadFile("../config/crd/bases/operator.kruise.io_kruises.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for _, schema := range []apiextensionsv1.JSONSchemaProps{*spec.Properties["kinds"].Items.Schema, spec.Properties["controllers"].Items.Schema.Properties["kind"]} {
		var names []string
		for _, value := range schema.Enum {
			names = append(names, strings.Trim(string(value.Raw), `"`))
		}
		if diff := cmp.Diff(Table().Switchable().Names(), names); diff != "" {
			t.Errorf("kinds in the schema, from the marker of Kind in api/operator/v1alpha1 (-want +got):\n%s", diff)
		}
	}
}
