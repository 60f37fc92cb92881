// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// rounds is how many random objects are converted.
const rounds = 300

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.NewTime(time.Unix(int64(c.Uint32()), 0)) },
		func(v *metav1.ObjectMeta, c randfill.Continue) { v.Name = c.String(5) },
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(c.Int31()); c.Bool() {
				*v = intstr.FromString(c.String(3))
			}
		},
		func(v *runtime.RawExtension, c randfill.Continue) {
			v.Raw = []byte(`{"spec":{"priority":` + string(rune('0'+c.Intn(10))) + `}}`)
		},
		func(v *metav1.Condition, c randfill.Continue) { // v1alpha1 has no generation in them
			v.Type, v.Status, v.Reason, v.Message = c.String(3), metav1.ConditionTrue, "R"+c.String(3), c.String(3)
			c.Fill(&v.LastTransitionTime)
		},
		func(v *v1alpha1.WorkloadSpreadSubsetCondition, c randfill.Continue) {
			v.Type, v.Status, v.Reason, v.Message = c.String(3), "True", "R"+c.String(3), c.String(3)
			c.Fill(&v.LastTransitionTime)
		},
	)
}

// through converts an object to another version, in the type of that version.
func through[To any](t *testing.T, from any, version string) *To {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	to := new(To)
	if err := json.Unmarshal([]byte(converted(t, string(text), version)), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestRandomObjectsComeBackAsTheyWere(t *testing.T) {
	for seed := range int64(rounds) {
		stored := &v1beta1.WorkloadSpread{}
		filler(seed).Fill(stored)
		stored.APIVersion, stored.Kind = hub, "WorkloadSpread"
		back := through[v1beta1.WorkloadSpread](t, through[v1alpha1.WorkloadSpread](t, stored, spoke), hub)
		if diff := cmp.Diff(stored, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, from v1beta1 (-was +is):\n%s", seed, diff)
		}
		older := &v1alpha1.WorkloadSpread{}
		filler(seed).Fill(older)
		older.APIVersion, older.Kind = spoke, "WorkloadSpread"
		again := through[v1alpha1.WorkloadSpread](t, through[v1beta1.WorkloadSpread](t, older, hub), spoke)
		if diff := cmp.Diff(older, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, from v1alpha1 (-was +is):\n%s", seed, diff)
		}
	}
}
