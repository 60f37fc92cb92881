// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// A Rollout may write finalizers at the same moment, so a change of them is of one version.
func TestFinalizersAreOfOneVersion(t *testing.T) {
	o := &v1alpha1.TrafficRouting{}
	o.UID, o.ResourceVersion = "u", "7"
	all := finalizers(o, []string{shared.FinalizerTrafficRouting})
	patch, is := all[0].Change.(planning.RawPatch)
	if !is || !strings.Contains(string(patch.Body), `"resourceVersion":"7"`) || !strings.Contains(string(patch.Body), `"finalizers":["rollouts.kruise.io/trafficrouting"]`) {
		t.Errorf("got %s", patch.Body)
	}
	if failure := all[0].Failure; len(all) != 1 || failure.Reason != "FailedFinalizer" || !failure.Warning {
		t.Errorf("a refused one is told as %+v", failure)
	}
	for finalizer, want := range map[string]bool{shared.FinalizerTrafficRouting: true, shared.FinalizerInUse + "web": true, "example.com/own": false} {
		if ours(finalizer) != want {
			t.Errorf("%s is ours: %v", finalizer, !want)
		}
	}
}
