// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// maxDefinition limits a definition in JSON: `kubectl apply` keeps it in an annotation,
// which the API server limits to this.
const maxDefinition = 256 << 10

// The API server takes every definition: it is small enough for `kubectl apply`, its schema
// is structural, and its rules' cost is within the limits for one rule and for all.
func TestDefinitionsAreSmallAndTheirRulesCheap(t *testing.T) {
	known := runtime.NewScheme()
	install.Install(known)
	found := 0
	for _, object := range render(t, filesys.MakeFsOnDisk(), config+"/default") {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		found++
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if len(body) > maxDefinition {
			t.Errorf("%s has %d bytes, more than %d", object.GetName(), len(body), maxDefinition)
		}
		versioned, definition := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
		if err := json.Unmarshal(body, versioned); err != nil {
			t.Fatal(err)
		}
		known.Default(versioned)
		if err := known.Convert(versioned, definition, nil); err != nil {
			t.Fatal(err)
		}
		for _, version := range definition.Spec.Versions {
			if version.Storage {
				definition.Status.StoredVersions = []string{version.Name} // as the API server writes it
			}
		}
		for _, fault := range validation.ValidateCustomResourceDefinition(t.Context(), definition) {
			t.Errorf("%s: %v", object.GetName(), fault)
		}
	}
	if found < 9 {
		t.Errorf("there are %d definitions", found)
	}
}
