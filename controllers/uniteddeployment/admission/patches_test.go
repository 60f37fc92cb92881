// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// withPatches is a UnitedDeployment with 500 subsets, each of which has a patch, and a pod template with an annotation of so many bytes.
func withPatches(bytes, labels int) string {
	var subsets, more strings.Builder
	for i := range 500 {
		fmt.Fprintf(&subsets, `,{"name":"s-%03d","patch":{"metadata":{"annotations":{"n":"%d"}}}}`, i, i)
	}
	for i := range labels {
		fmt.Fprintf(&more, `,"example.com/a-label-with-a-long-name-%04d":"%s"`, i, strings.Repeat("v", 60))
	}
	carried := `{"app":"web"` + more.String() + "}"
	return fmt.Sprintf(`{"metadata":{"name":"web"},"spec":{"replicas":6,"revisionHistoryLimit":10,"selector":{"matchLabels":%s},
		"template":{"cloneSetTemplate":{"metadata":{"labels":%s},"spec":{"template":{"metadata":{"labels":%s,"annotations":{"large":"%s"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}}}},
		"topology":{"subsets":[%s]},"updateStrategy":{"type":"Manual","manualUpdate":{}}}}`,
		carried, carried, carried, strings.Repeat("x", bytes), subsets.String()[1:])
}

// A UnitedDeployment with many labels and subsets took the operator ten seconds to admit, so that it was refused.
func TestManyPatchesOfALargeTemplate(t *testing.T) {
	const most = 50 << 20
	for name, object := range map[string]string{
		"a usual template": withPatches(1000, 3), "many labels": withPatches(0, 990), "a large annotation": withPatches(200_000, 3),
		"a larger annotation": withPatches(500_000, 3),
	} {
		for _, old := range []string{"", strings.Replace(object, `"replicas":6`, `"replicas":7`, 1)} {
			handler := Kind(Workloads{Client: &dryRuns{}}).Validator(admit.Cluster{})
			request := admissiontest.Request(united.Kind(), "v1beta1", object, old)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			response := handler.Handle(t.Context(), request)
			runtime.ReadMemStats(&after)
			if memory := after.TotalAlloc - before.TotalAlloc; !response.Allowed || memory > most {
				t.Errorf("%s (update: %t): allowed %t, %d MiB for %d bytes", name, old != "", response.Allowed, memory>>20, len(object))
			} else {
				t.Logf("%s (update: %t): %d MiB for %d bytes", name, old != "", memory>>20, len(object))
			}
		}
	}
}

// TestEveryPatchOfAUsualTemplateIsJudged: the bound of the work lets the last of 500 subsets not pass unseen.
func TestEveryPatchOfAUsualTemplateIsJudged(t *testing.T) {
	object := strings.Replace(withPatches(4000, 3), `{"n":"499"}}`, `{"n":"499"},"labels":{"app":"other"}}`, 1)
	response := Kind(Workloads{}).Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", object, ""))
	if denied := admissiontest.Denied(response); len(denied) != 1 || denied[0] != "spec.topology.subsets[499].patch" {
		t.Errorf("allowed %t, causes %v", response.Allowed, denied)
	}
}
