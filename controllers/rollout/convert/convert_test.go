// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/convert"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

const (
	old = "rollouts.kruise.io/v1alpha1"
	hub = "rollouts.kruise.io/v1beta1"
	// rounds is how many random objects are tried.
	rounds = 500
)

func converted(t *testing.T, object, to string) string {
	t.Helper()
	result, err := convert.Converter().Convert(t.Context(), []byte(object), to)
	if err != nil {
		t.Fatal(err)
	}
	return string(result)
}

func through[T any](t *testing.T, object *T, by, back string) *T {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var result T
	if err := json.Unmarshal([]byte(converted(t, converted(t, string(text), by), back)), &result); err != nil {
		t.Fatal(err)
	}
	return &result
}

func TestRoundTripsLoseNothing(t *testing.T) {
	for seed := range int64(rounds) {
		stored := &v1beta1.Rollout{}
		filler(seed).Fill(stored)
		stored.APIVersion = hub
		if diff := cmp.Diff(stored, through(t, stored, old, hub), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, v1beta1 (-want +got):\n%s", seed, diff)
		}
		earlier := &v1alpha1.Rollout{}
		filler(seed).Fill(earlier)
		earlier.APIVersion = old
		if diff := cmp.Diff(earlier, through(t, earlier, hub, old), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, v1alpha1 (-want +got):\n%s", seed, diff)
		}
	}
}

func pick[T any](c randfill.Continue, of ...T) T { return of[c.Intn(len(of))] }

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).Funcs(
		func(v *metav1.TypeMeta, _ randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.NewTime(time.Unix(int64(c.Uint32()), 0)) },
		func(v *metav1.ObjectMeta, c randfill.Continue) {
			v.Name, v.Annotations = "web", map[string]string{"note": "a"}
			for _, name := range []string{shared.AnnotationRollingStyle, shared.AnnotationTrafficRouting} {
				if c.Bool() {
					v.Annotations[name] = pick(c, "partition", "canary", "", "other")
				}
			}
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.Parse(pick(c, "0", "1", "3", "20%", "many"))
		},
		func(v *int32, c randfill.Continue) { *v = int32(c.Intn(200)) - 1 },
		func(v *string, c randfill.Continue) { *v = pick(c, "20%", "07%", "x", "list of 0") },
	)
}

func TestAnEarlierObject(t *testing.T) {
	const earlier = `{"apiVersion":"` + old + `","metadata":{"name":"web","annotations":{"rollouts.kruise.io/rolling-style":"partition"}},
		"spec":{"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"rolloutID":"7","strategy":{"canary":{
		"steps":[{"weight":20},{"weight":50,"replicas":3,"pause":{"duration":60}}]}}}}`
	var got v1beta1.Rollout
	if err := json.Unmarshal([]byte(converted(t, earlier, hub)), &got); err != nil {
		t.Fatal(err)
	}
	steps := got.Spec.Strategy.Canary.Steps
	if got.Spec.WorkloadRef.Name != "web" || got.Spec.Strategy.Canary.EnableExtraWorkloadForCanary || len(steps) != 2 ||
		steps[0].Replicas.StrVal != "20%" || *steps[0].Traffic != "20%" || steps[1].Replicas.IntVal != 3 || *steps[1].Pause.Duration != 60 {
		t.Errorf("got %+v", got.Spec)
	}
	testutil.SameJSON(t, "and back", converted(t, converted(t, earlier, hub), old), earlier)
}

// A client of v1alpha1 that reads, changes and updates keeps what it cannot see, in the step that it changes, too.
func TestAnEditByAnEarlierClient(t *testing.T) {
	const stored = `{"apiVersion":"` + hub + `","metadata":{"name":"web","annotations":{}},"spec":{"workloadRef":{"kind":"Deployment","name":"web"},"strategy":{"canary":{
		"enableExtraWorkloadForCanary":true,"steps":[{"traffic":"20%","replicas":2,"progressDeadlineSeconds":9,"matches":[{"path":{"value":"/a"},"headers":[{"name":"h","value":"1"}]}]},{"replicas":"50%"}]}}}}`
	shown := converted(t, stored, old)
	edited := strings.Replace(strings.Replace(shown, `"replicas":2`, `"replicas":1`, 1), `"weight":20`, `"weight":30`, 1)
	if edited == shown {
		t.Fatalf("nothing was edited in %s", shown)
	}
	want := strings.Replace(strings.Replace(stored, `"replicas":2`, `"replicas":1`, 1), `"20%"`, `"30%"`, 1)
	var got, wanted v1beta1.Rollout
	for text, into := range map[string]*v1beta1.Rollout{converted(t, edited, hub): &got, want: &wanted} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(wanted.Spec, got.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABlueGreenRolloutSurvivesAnEarlierClient(t *testing.T) {
	const stored = `{"apiVersion":"` + hub + `","metadata":{"name":"web","annotations":{}},"spec":{"workloadRef":{"kind":"Deployment"},"strategy":{"blueGreen":{"steps":[{"replicas":"100%","traffic":"0%"}]}}}}`
	paused := strings.Replace(converted(t, stored, old), `"strategy":{`, `"strategy":{"paused":true`, 1)
	got := converted(t, paused, hub)
	if !strings.Contains(got, `"blueGreen":{"steps":[{"replicas":"100%","traffic":"0%"}]}`) || !strings.Contains(got, `"paused":true`) {
		t.Errorf("got %s", got)
	}
}

func TestOddObjectsAreConverted(t *testing.T) {
	for _, spec := range []string{`null`, `{"strategy":[],"objectRef":3}`, `{"strategy":{"canary":{"steps":{"a":1}}}}`, `{"strategy":{"canary":{"steps":[1,null,{"weight":"x"}]}}}`} {
		object := `{"apiVersion":"` + old + `","metadata":{},"spec":` + spec + `}`
		testutil.SameJSON(t, spec, converted(t, converted(t, object, hub), old), object)
	}
}
