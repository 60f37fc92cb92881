// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

const fixture = "uniteddeployment"

// TestTemplatesAreThoseOfOpenKruise takes the objects that OpenKruise left: the stored template has its recorded revision, and would be recorded
// under the same name in the same bytes.
func TestTemplatesAreThoseOfOpenKruise(t *testing.T) {
	objects := fixtures.Objects(t, fixture+"/state.yaml")
	revisions := fixtures.Revisions(t, fixture, objects)
	for _, name := range []string{"shop", "books", "ledger"} {
		t.Run(name, func(t *testing.T) {
			set := fixtures.As[appsv1beta1.UnitedDeployment](t, fixtures.Find(t, objects, "UnitedDeployment", name))
			var stored []Revision
			for _, cr := range revisions {
				if len(cr.OwnerReferences) == 1 && cr.OwnerReferences[0].UID == set.UID {
					decoded, err := revision.DecodeOf(Templates(), cr)
					if err != nil {
						t.Fatal(err)
					}
					stored = append(stored, decoded)
				}
			}
			if len(stored) != 2 {
				t.Fatalf("%d revisions, want 2", len(stored))
			}
			decision, err := revision.DecideOf(Templates(), revision.Owner{Namespace: set.Namespace, Name: set.Name}, &set.Spec.Template, stored, nil)
			if err != nil {
				t.Fatal(err)
			}
			if decision.Create != nil || decision.Bump != nil || decision.Update.Name != set.Status.UpdatedRevision {
				t.Errorf("the revision is %s, with a new one %v and a renumbered one %v, want %s as it is", decision.Update.Name,
					decision.Create != nil, decision.Bump != nil, set.Status.UpdatedRevision)
			}
			anew, err := revision.DecideOf(Templates(), revision.Owner{Namespace: set.Namespace, Name: set.Name}, &set.Spec.Template, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw := string(fixtures.Raw(t, fixture, set.Status.UpdatedRevision))
			if diff := cmp.Diff(raw, string(anew.Create.Data.Raw)); diff != "" || anew.Update.Name != set.Status.UpdatedRevision {
				t.Errorf("recorded as %s, want %s (-OpenKruise +ours):\n%s", anew.Update.Name, set.Status.UpdatedRevision, diff)
			}
		})
	}
}

func cloneSets(spec string) *appsv1beta1.SubsetTemplate {
	return &appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.WorkloadTemplate{Spec: runtime.RawExtension{Raw: []byte(spec)}}}
}

func TestSameTemplate(t *testing.T) {
	const spec = `{"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"main","image":"a:1","resources":{"requests":{"cpu":"1"}}}]}}}`
	cases := map[string]struct {
		other string
		same  bool
	}{
		"itself":                        {spec, true},
		"another order of fields":       {`{"template":{"spec":{"containers":[{"image":"a:1","resources":{"requests":{"cpu":"1"}},"name":"main"}]},"metadata":{"labels":{"app":"a"}}}}`, true},
		"a default that is written":     {strings.Replace(spec, `"containers"`, `"restartPolicy":"Always","containers"`, 1), true},
		"the same quantity":             {strings.Replace(spec, `"cpu":"1"`, `"cpu":"1000m"`, 1), true},
		"what is empty":                 {strings.Replace(spec, `"containers"`, `"volumes":[],"containers"`, 1), true},
		"what is null":                  {strings.Replace(spec, `"containers"`, `"volumes":null,"containers"`, 1), true},
		"replicas, which have no say":   {strings.Replace(spec, `{"template"`, `{"replicas":3,"template"`, 1), true},
		"another image":                 {strings.Replace(spec, "a:1", "a:2", 1), false},
		"another strategy":              {strings.Replace(spec, `{"template"`, `{"updateStrategy":{"type":"OnDelete"},"template"`, 1), false},
		"a field that we do not know":   {strings.Replace(spec, `"containers"`, `"fromTheFuture":"x","containers"`, 1), false},
		"another value of such a field": {strings.Replace(spec, `"name":"main"`, `"name":"main","fromTheFuture":{"a":[{"b":1}]}`, 1), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(tc.other)) {
				t.Fatal("the case is no JSON")
			}
			if got := sameTemplate(cloneSets(spec), cloneSets(tc.other)); got != tc.same {
				t.Errorf("same: %v, want %v", got, tc.same)
			}
		})
	}
	deployments := &appsv1beta1.SubsetTemplate{DeploymentTemplate: cloneSets(spec).CloneSetTemplate}
	if sameTemplate(cloneSets(spec), deployments) {
		t.Error("templates of two kinds are the same")
	}
}

// A pull policy that was written into the template of a native kind made no revision: its pods were taken for having it already.
func TestSameTemplateWithAPullPolicy(t *testing.T) {
	const left = `{"template":{"spec":{"containers":[{"name":"main","image":"a:1"}]}}}`
	const written = `{"template":{"spec":{"containers":[{"name":"main","image":"a:1","imagePullPolicy":%q}]}}}`
	same := map[string]string{
		"statefulSetTemplate": "IfNotPresent", "deploymentTemplate": "IfNotPresent", "cloneSetTemplate": "Always", "advancedStatefulSetTemplate": "Always",
	}
	for field, want := range same {
		template := func(spec string) *appsv1beta1.SubsetTemplate {
			template := &appsv1beta1.SubsetTemplate{}
			if err := json.Unmarshal(fmt.Appendf(nil, `{%q:{"spec":%s}}`, field, spec), template); err != nil {
				t.Fatal(err)
			}
			return template
		}
		for _, policy := range []string{"IfNotPresent", "Always"} {
			if got := sameTemplate(template(left), template(fmt.Sprintf(written, policy))); got != (policy == want) {
				t.Errorf("%s, %s: the same: %v", field, policy, got)
			}
		}
	}
}

// TestUnknownFieldsAreRecorded: a field that our types do not know is in the revision, so that going back to it restores it.
func TestUnknownFieldsAreRecorded(t *testing.T) {
	data, err := encode(cloneSets(`{"template":{"spec":{"fromTheFuture":{"a":1}}},"volumeClaimTemplates":null}`))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(decoded.CloneSetTemplate.Spec.Raw); !strings.Contains(text, `"fromTheFuture":{"a":1}`) || strings.Contains(text, "volumeClaimTemplates") {
		t.Errorf("recorded %s", text)
	}
}

func TestRevisionLabel(t *testing.T) {
	for name, want := range map[string]string{
		"shop-6897996c47":                                  "shop-6897996c47",
		strings.Repeat("x", 52) + "-6897996c47":            strings.Repeat("x", 52) + "-6897996c47",
		strings.Repeat("x", 90) + "-6897996c47":            strings.Repeat("x", 52) + "-6897996c47",
		"start-" + strings.Repeat("x", 51) + "-6897996c47": strings.Repeat("x", 51) + "-6897996c47",
	} {
		got := RevisionLabel(name)
		if got != want || len(validation.IsValidLabelValue(got)) > 0 {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
