// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

func TestWhatAnnotationsAskForIsOneAction(t *testing.T) {
	existing := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1"}}
	spec := &appsv1beta1.PersistentPodStateSpec{RequiredPersistentTopology: &appsv1beta1.NodeTopologyTerm{Keys: []string{zone}}}
	for name, tc := range map[string]struct {
		todo     plan.Generated
		existing *appsv1beta1.PersistentPodState
		verb     planning.Verb
	}{
		"a new one":     {plan.Generated{Create: existing}, nil, planning.VerbCreate},
		"another spec":  {plan.Generated{Change: spec}, existing, planning.VerbPatch},
		"none any more": {plan.Generated{Delete: true}, existing, planning.VerbDelete},
	} {
		actions := (&generator{}).actions(tc.todo, tc.existing)
		if len(actions) != 1 || actions[0].Verb != tc.verb || actions[0].Object.GetName() != "db" || actions[0].Success.Reason != "Generated" || actions[0].Failure.Reason != "FailedGenerate" {
			t.Errorf("%s: %+v", name, actions)
		}
	}
	if actions := (&generator{}).actions(plan.Generated{Taken: true}, existing); len(actions) > 0 {
		t.Errorf("the user's own: %+v", actions)
	}
	text, err := json.Marshal(specPatch(spec))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"persistentPodAnnotations":null,"preferredPersistentTopology":null,"requiredPersistentTopology":{"keys":["topology.kubernetes.io/zone"]}}`; string(text) != want {
		t.Errorf("the change is %s", text)
	}
}
