// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const definitionBefore = `
spec:
  scope: Namespaced
  versions:
  - name: v1
    served: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [replicas]
            properties:
              replicas: {type: integer, minimum: 0}
              type: {type: string, enum: [A, B], default: A}
              names: {type: array, items: {type: string}}
  - {name: v0, served: true}
`

func TestSafeUpgrade(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"the same":               {},
		"an optional field more": {from: "names: {", to: "other: {type: string}\n              names: {"},
		"a value more":           {from: "[A, B]", to: "[A, B, C]"},
		"a looser limit":         {from: "minimum: 0", to: "minimum: -1"},
		"another scope":          {from: "Namespaced", to: "Cluster", want: "the scope was Namespaced and is Cluster"},
		"a version less":         {from: "name: v0", to: "name: v2", want: "version v0 is not served any more"},
		"a version not served":   {from: "name: v0, served: true", to: "name: v0, served: false", want: "version v0 is not served any more"},
		"a field less":           {from: "names: {", to: "other: {", want: "v1.spec.names is gone"},
		"a field required":       {from: "[replicas]", to: "[replicas, names]", want: "v1.spec.names has become required"},
		"another type":           {from: "items: {type: string}", to: "items: {type: integer}", want: "v1.spec.names[]: the type was"},
		"a value less":           {from: "[A, B]", to: "[A]", want: `v1.spec.type does not allow "B" any more`},
		"a list of values":       {from: "items: {type: string}", to: "items: {type: string, enum: [x]}", want: "allows only"},
		"another default":        {from: "default: A", to: "default: B", want: "the default was"},
		"a tighter limit":        {from: "minimum: 0", to: "minimum: 1", want: "minimum has become tighter"},
		"another text":           {from: "items: {type: string}", to: "items: {type: string, description: another}"},
		"another pattern":        {from: "items: {type: string}", to: "items: {type: string, pattern: a}", want: "pattern has changed"},
		"another rule": {
			from: "items: {type: string}", to: "items: {type: string, x-kubernetes-validations: [{rule: 'true'}]}",
			want: "v1.spec.names[]: x-kubernetes-validations has changed",
		},
		"another sort of list":         {from: "items: {type: string}", to: "items: {type: string}, x-kubernetes-list-type: set", want: "list-type has changed"},
		"a limit where there was none": {from: "minimum: 0", to: "minimum: 0, maximum: 9", want: "maximum has become tighter"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := definitionBefore
			if tc.from != "" {
				if changed = strings.Replace(definitionBefore, tc.from, tc.to, 1); changed == definitionBefore {
					t.Fatalf("the definition does not hold %q", tc.from)
				}
			}
			before, after := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
			if err := errors.Join(yaml.Unmarshal([]byte(definitionBefore), before), yaml.Unmarshal([]byte(changed), after)); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(compareDefinitions(before, after)...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// refusedByOLMv1 are the beginnings of faults OLM v1 refuses in the upgrade from a released
// version although no object becomes invalid, as docs/operations/olm.md says.
var refusedByOLMv1 = map[string][]string{
	// A rule listed the known gates. OLM refuses its change as well as its removal. The
	// enumeration in its place allows all of them: TestNamesOfGatesAreOnlyAdded.
	"v0.2.0": {namesOfGates + ": x-kubernetes-validations has changed", namesOfGates + " allows only "},
	"v0.3.0": {namesOfGates + ": x-kubernetes-validations has changed", namesOfGates + " allows only "},
}

const namesOfGates = "kruises.operator.kruise.io v1alpha1.spec.featureGates[].name"

// TestTheCommittedBundleFollowsTheReleases holds the tree to the released versions of
// users.
func TestTheCommittedBundleFollowsTheReleases(t *testing.T) {
	releases, err := ReadReleases("../../../catalog/versions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(releases.Versions) == 0 {
		t.Skip("skipped, no version has been released")
	}
	for _, release := range releases.Versions {
		t.Run(release.Version, func(t *testing.T) {
			err := SafeUpgrade("../../../catalog/bundles/"+release.Version, bundle)
			if err == nil {
				return
			}
			unexpected := slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(fault string) bool {
				return slices.ContainsFunc(refusedByOLMv1[release.Version], func(start string) bool { return strings.HasPrefix(fault, start) })
			})
			if len(unexpected) > 0 {
				t.Errorf("an upgrade would be refused, or make objects invalid:\n%s", strings.Join(unexpected, "\n"))
			}
		})
	}
}

// TestNamesOfGatesAreOnlyAdded: a name accepted by a released version may be stored, and
// the enumeration allows it.
func TestNamesOfGatesAreOnlyAdded(t *testing.T) {
	const name = "kruises.operator.kruise.io"
	schemaOf := func(bundle string) apiextensionsv1.JSONSchemaProps {
		all, err := definitions(bundle)
		if err != nil {
			t.Fatal(err)
		}
		spec := all[name].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		return spec.Properties["featureGates"].Items.Schema.Properties["name"]
	}
	allowed := map[string]bool{}
	for _, value := range schemaOf(bundle).Enum {
		allowed[strings.Trim(string(value.Raw), `"`)] = true
	}
	for _, version := range []string{"v0.2.0", "v0.3.0"} {
		rules := schemaOf("../../../catalog/bundles/" + version).XValidations
		if len(rules) != 1 {
			t.Fatalf("%s has %d rules for names of gates", version, len(rules))
		}
		before := regexp.MustCompile(`'([A-Za-z]+)'`).FindAllStringSubmatch(rules[0].Rule, -1)
		if len(before) < 30 {
			t.Fatalf("%s: only %d names are read from its rule", version, len(before))
		}
		for _, match := range before {
			if !allowed[match[1]] {
				t.Errorf("%s allows gate %s, and the tree does not", version, match[1])
			}
		}
	}
}
