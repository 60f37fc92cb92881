// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

const (
	hubVersion, spokeVersion = "apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"
)

// object is a SidecarSet with these labels, annotations and fields of its spec, as JSON.
func sidecarSetJSON(version, metadata, spec string) string {
	return `{"apiVersion":"` + version + `","kind":"SidecarSet","metadata":{"name":"logs"` + metadata + `},"spec":{` + spec + `}}`
}

// converted converts an object, without the annotation keeping lost fields.
func converted(t *testing.T, object, version string) (whole, shown string) {
	t.Helper()
	before := object
	result, err := Converter().Convert(t.Context(), []byte(object), version)
	if err != nil {
		t.Fatal(err)
	}
	if object != before {
		t.Error("the source was changed")
	}
	var fields map[string]any
	if err := json.Unmarshal(result, &fields); err != nil {
		t.Fatal(err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, shared.AnnotationConversionData)
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(result), string(text)
}

const (
	containers   = `"containers":[{"name":"a","image":"a:v1","future":{"x":1}}]`
	onlyShop     = `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"shop"}}`
	teamSelector = `"namespaceSelector":{"matchLabels":{"team":"a"}}`
)

func TestSidecarSetBetweenVersions(t *testing.T) {
	cases := map[string]struct {
		from, to, metadata, spec string
		wantMetadata, wantSpec   string
	}{
		"a namespace becomes a selector": {
			from: spokeVersion, spec: `"namespace":"shop",` + containers, wantSpec: onlyShop + "," + containers,
		},
		"a namespace and a selector must both hold": {
			from: spokeVersion, spec: `"namespace":"shop",` + teamSelector,
			wantSpec: `"namespaceSelector":{"matchLabels":{"team":"a","kubernetes.io/metadata.name":"shop"}}`,
		},
		"a selector that only names another namespace gives way": {
			from: spokeVersion, spec: `"namespace":"shop","namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"old"}}`, wantSpec: onlyShop,
		},
		"a selector that names another namespace among other things contradicts": {
			from: spokeVersion, spec: `"namespace":"shop","namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"old","team":"a"}}`,
			wantSpec: `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"old","team":"a"},
				"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["shop"]}]}`,
		},
		"a selector alone stays":                {from: spokeVersion, spec: teamSelector, wantSpec: teamSelector},
		"neither matches every namespace":       {from: spokeVersion, spec: containers, wantSpec: containers},
		"an empty namespace is as good as none": {from: spokeVersion, spec: `"namespace":"",` + containers, wantSpec: containers},
		"the label is the custom version": {
			from: spokeVersion, metadata: `,"labels":{"apps.kruise.io/sidecarset-custom-version":"1.4","a":"b"}`,
			wantMetadata: `,"labels":{"a":"b"}`, wantSpec: `"customVersion":"1.4"`,
		},
		"the custom version is the label": {
			from: hubVersion, spec: `"customVersion":"1.4"`, wantMetadata: `,"labels":{"apps.kruise.io/sidecarset-custom-version":"1.4"}`,
		},
		"a custom version that is no value of a label is not shown": {from: hubVersion, spec: `"customVersion":"a b"`},
		"a selector of the newer version stays":                     {from: hubVersion, spec: onlyShop, wantSpec: onlyShop},
		"a label of the newer version means nothing": {
			from: hubVersion, metadata: `,"labels":{"apps.kruise.io/sidecarset-custom-version":"9"}`, spec: `"customVersion":"1.4"`,
			wantMetadata: `,"labels":{"apps.kruise.io/sidecarset-custom-version":"1.4"}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			to := map[string]string{hubVersion: spokeVersion, spokeVersion: hubVersion}[tc.from]
			source := sidecarSetJSON(tc.from, tc.metadata, tc.spec)
			whole, shown := converted(t, source, to)
			testutil.SameJSON(t, "converted", shown, sidecarSetJSON(to, tc.wantMetadata, tc.wantSpec))
			back, _ := converted(t, whole, tc.from)
			if strings.Contains(name, "an empty namespace") {
				return // Two ways to say the same.
			}
			testutil.SameJSON(t, "converted and converted back", back, source)
		})
	}
}

func TestSidecarSetNamespaceChangedInTheOlderVersion(t *testing.T) {
	stored, _ := converted(t, sidecarSetJSON(spokeVersion, "", `"namespace":"shop"`), hubVersion)
	read, _ := converted(t, stored, spokeVersion)
	testutil.SameJSON(t, "read again", read, sidecarSetJSON(spokeVersion, "", `"namespace":"shop"`))
	_, shown := converted(t, strings.Replace(read, `"shop"`, `"store"`, 1), hubVersion)
	testutil.SameJSON(t, "changed", shown, sidecarSetJSON(hubVersion, "", `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"store"}}`))
}

func TestSidecarSetSelectorChangedInTheNewerVersion(t *testing.T) {
	stored, _ := converted(t, sidecarSetJSON(spokeVersion, "", `"namespace":"shop"`), hubVersion)
	changed := strings.Replace(stored, `"kubernetes.io/metadata.name":"shop"}},`, `"team":"a"}},`, 1)
	changed = strings.Replace(changed, `{"matchLabels":{"kubernetes.io/metadata.name":"shop"}}}`, `{"matchLabels":{"team":"a"}}}`, 1)
	read, _ := converted(t, changed, spokeVersion)
	testutil.SameJSON(t, "read", read, sidecarSetJSON(spokeVersion, "", teamSelector))
}

func TestSidecarSetVersionsThatAreNotServed(t *testing.T) {
	if _, err := Converter().Convert(t.Context(), []byte(sidecarSetJSON(hubVersion, "", "")), "apps.kruise.io/v9"); err == nil {
		t.Error("it was converted to a version that does not exist")
	}
	if got, want := v1beta1.GroupVersion().String()+v1alpha1.GroupVersion().String(), hubVersion+spokeVersion; got != want {
		t.Errorf("versions %s, want %s", got, want)
	}
}
