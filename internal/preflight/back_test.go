// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// Workloads that were applied under this operator lacked OpenKruise's defaults, so that their first change under it recreated all pods. The revisions of what
// users applied have to become the bytes that OpenKruise recorded for the same manifests.
func TestTemplatesGetTheDefaultsOfOpenKruise(t *testing.T) {
	tested := 0
	for _, name := range fixtures.Cases(t) {
		for _, stored := range fixtures.Objects(t, name+"/state.yaml") {
			kind := stored.GetKind()
			if stored.GroupVersionKind().Group != "apps.kruise.io" || kind != "CloneSet" && kind != "StatefulSet" {
				continue
			}
			again := fixtures.Reapplied(t, name, stored)["replaced"]
			if again == nil {
				continue
			}
			tested++
			want, err := revision.Encode(fixtures.Template(t, stored))
			if err != nil {
				t.Fatal(err)
			}
			got, err := revision.Encode(defaulted(fixtures.Template(t, again)))
			if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
				t.Errorf("%s %s of case %s (-OpenKruise's +ours): %v\n%s", kind, stored.GetName(), name, err, diff)
			}
		}
	}
	if tested < 8 {
		t.Errorf("%d manifests were compared", tested)
	}
}
