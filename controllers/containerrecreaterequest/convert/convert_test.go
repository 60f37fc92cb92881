// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func requestJSON(version, metadata, status string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"ContainerRecreateRequest","metadata":{"name":"r"` + metadata + `},"spec":{"podName":"web-0","madeUp":1.50},"status":{` + status + `}}`
}

const (
	snapshot   = `"containerStatusSnapshot":[{"name":"app","ready":true,"restartCount":1,"containerID":"containerd://1"}]`
	inWords    = `[{\"name\":\"app\",\"ready\":true,\"restartCount\":1,\"containerID\":\"containerd://1\"}]`
	inGrace    = `"conditions":[{"type":"PreRecreateGrace","status":"True","lastTransitionTime":"2026-01-01T10:00:05Z","reason":"PreRecreateGrace","message":"m"}]`
	ofSnapshot = `"crr.apps.kruise.io/sync-container-statuses":"` + inWords + `"`
	ofGrace    = `"crr.apps.kruise.io/unready-acquired":"2026-01-01T10:00:05Z"`
)

func TestContainerRecreateRequestConversion(t *testing.T) {
	for name, tc := range map[string]struct{ v1alpha1, v1beta1 string }{
		"everything else passes through": {
			requestJSON("v1alpha1", `,"annotations":{"a":"b"}`, `"phase":"Pending"`), requestJSON("v1beta1", `,"annotations":{"a":"b"}`, `"phase":"Pending"`),
		},
		"no annotations at all": {requestJSON("v1alpha1", ``, ``), requestJSON("v1beta1", ``, ``)},
		"the snapshot is an annotation, too": {
			requestJSON("v1alpha1", `,"annotations":{"a":"b",`+ofSnapshot+`}`, snapshot), requestJSON("v1beta1", `,"annotations":{"a":"b"}`, snapshot),
		},
		"so is the time of the grace period": {
			requestJSON("v1alpha1", `,"annotations":{`+ofGrace+`}`, inGrace), requestJSON("v1beta1", ``, inGrace),
		},
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

func TestContainerRecreateRequestsOfOlderManagers(t *testing.T) {
	for name, tc := range map[string]struct{ from, want string }{
		"annotations become status, and stay": {
			requestJSON("v1alpha1", `,"annotations":{`+ofSnapshot+`,`+ofGrace+`}`, `"phase":"Recreating"`),
			requestJSON("v1beta1", `,"annotations":{`+ofSnapshot+`,`+ofGrace+`}`,
				`"phase":"Recreating",`+snapshot+`,"conditions":[{"type":"PreRecreateGrace","status":"True","lastTransitionTime":"2026-01-01T10:00:05Z",`+
					`"reason":"PreRecreateGrace","message":"The pod was taken out of service by a manager that speaks v1alpha1."}]`),
		},
		"what cannot be read stays as it is": {
			requestJSON("v1alpha1", `,"annotations":{"crr.apps.kruise.io/sync-container-statuses":"[","crr.apps.kruise.io/unready-acquired":"yesterday"}`, ``),
			requestJSON("v1beta1", `,"annotations":{"crr.apps.kruise.io/sync-container-statuses":"[","crr.apps.kruise.io/unready-acquired":"yesterday"}`, ``),
		},
		"the status says something else, and wins": {
			requestJSON("v1alpha1", `,"annotations":{"crr.apps.kruise.io/sync-container-statuses":"[{\"name\":\"old\"}]"}`, snapshot),
			requestJSON("v1beta1", `,"annotations":{"crr.apps.kruise.io/sync-container-statuses":"[{\"name\":\"old\"}]"}`, snapshot),
		},
		"a status that cannot be decoded": {
			requestJSON("v1alpha1", `,"annotations":{"a":"b"}`, `"containerStatusSnapshot":7,"conditions":"x"`),
			requestJSON("v1beta1", `,"annotations":{"a":"b"}`, `"containerStatusSnapshot":7,"conditions":"x"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Converter().Convert(t.Context(), []byte(tc.from), v1beta1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1beta1", string(got), tc.want)
		})
	}
}
