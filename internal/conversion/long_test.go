// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	cloneset "github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
	containerrecreaterequest "github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/convert"
	sidecarset "github.com/kruise-operator/kruise-operator/controllers/sidecarset/convert"
)

// Short members of a list take many times their length when they are decoded: two bytes are a condition of more than a hundred.
func TestOneObjectWithLongListsIsConvertedInLittleMemory(t *testing.T) {
	list := `[` + strings.Repeat(`{},`, 1_000_000) + `{}]`
	text := `"` + strings.Repeat("x", 3_000_000) + `"`
	object := func(version, kind, metadata, rest string) string {
		return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"` + kind + `","metadata":{"name":"web"` + metadata + `},` + rest + `}`
	}
	for name, tc := range map[string]struct {
		convert func(context.Context, []byte, string) ([]byte, error)
		raw, to string
		err     string
	}{
		"conditions of a request": {
			containerrecreaterequest.Converter().Convert, object("v1beta1", "ContainerRecreateRequest", ``, `"status":{"conditions":`+list+`}`), "v1alpha1", "",
		},
		"snapshot of a request": {
			containerrecreaterequest.Converter().Convert, object("v1beta1", "ContainerRecreateRequest", ``, `"status":{"containerStatusSnapshot":`+list+`}`), "v1alpha1", "",
		},
		"a request whose annotation is the snapshot": {
			containerrecreaterequest.Converter().Convert,
			object("v1alpha1", "ContainerRecreateRequest", `,"annotations":{"crr.apps.kruise.io/sync-container-statuses":"`+list+`"}`, `"status":{}`), "v1beta1", "",
		},
		"a policy for updates": {
			cloneset.Converter().Convert, object("v1beta1", "CloneSet", ``, `"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":`+text+`}}}`), "v1alpha1",
			"spec.updateStrategy has 3000040 bytes, at most 1572864 can be stored",
		},
		"unknown fields of a strategy": {
			cloneset.Converter().Convert, object("v1beta1", "CloneSet", ``, `"spec":{"updateStrategy":{"rollingUpdate":{"unknown":`+list+`}}}`), "v1alpha1",
			"spec.updateStrategy has 3000034 bytes, at most 1572864 can be stored",
		},
		"a selector beside a namespace": {
			sidecarset.Converter().Convert, object("v1alpha1", "SidecarSet", ``, `"spec":{"namespace":"shop","namespaceSelector":{"matchExpressions":`+list+`}}`), "v1beta1",
			"spec.namespace and spec.namespaceSelector: together they have 3000031 bytes, and may have 65536",
		},
		"a selector alone": {
			sidecarset.Converter().Convert, object("v1alpha1", "SidecarSet", ``, `"spec":{"namespaceSelector":{"matchExpressions":`+list+`}}`), "v1beta1", "",
		},
		"a namespace": {
			sidecarset.Converter().Convert, object("v1alpha1", "SidecarSet", ``, `"spec":{"namespace":`+text+`}`), "v1beta1",
			"spec.namespace and spec.namespaceSelector: together they have 3000002 bytes, and may have 65536",
		},
		"a selector that looks as if it were made from a namespace": {
			sidecarset.Converter().Convert, object("v1beta1", "SidecarSet", `,"annotations":{"operator.kruise.io/conversion-data":"{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"fields\":{\"namespace\":\"shop\"}}"}`,
				`"spec":{"namespaceSelector":{"matchExpressions":`+list+`}}`), "v1alpha1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := tc.convert(t.Context(), []byte(tc.raw), "apps.kruise.io/"+tc.to)
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 50 {
				t.Errorf("it took %d MiB", took)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error: %.300v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%.300v", err)
			}
			if !strings.Contains(string(got), list) {
				t.Errorf("the list is not in the result, of %d bytes", len(got))
			}
		})
	}
}

// A status too long to read stays: the annotation of an older manager does not replace it.
func TestALongStatusIsNotReplacedByAnnotations(t *testing.T) {
	long := `[` + strings.Repeat(`{"type":"x"},`, 6_000) + `{"type":"y"}]`
	raw := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"ContainerRecreateRequest","metadata":{"name":"web","annotations":{` +
		`"crr.apps.kruise.io/sync-container-statuses":"[{\"name\":\"a\"}]","crr.apps.kruise.io/unready-acquired":"2026-01-01T10:00:05Z"}},` +
		`"status":{"conditions":` + long + `,"containerStatusSnapshot":` + long + `}}`
	got, err := containerrecreaterequest.Converter().Convert(t.Context(), []byte(raw), "apps.kruise.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), long); n != 2 {
		t.Errorf("%d of the two lists are there", n)
	}
}
