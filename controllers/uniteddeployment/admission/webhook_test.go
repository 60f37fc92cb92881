// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// stored is an object as the defaulter leaves it.
const stored = `{"metadata":{"name":"web"},"spec":{"replicas":6,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},
	"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"web"}},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}}}},
	"topology":{"subsets":[{"name":"a","tolerations":[{"key":"x","operator":"Exists"}]},{"name":"b","nodeSelectorTerm":{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]}}]},
	"updateStrategy":{"type":"Manual","manualUpdate":{}}}}`

// asStatefulSet is a change of the template to one of StatefulSets.
const asStatefulSet = `{"spec":{"template":{"cloneSetTemplate":null,"statefulSetTemplate":{"metadata":{"labels":{"app":"web"}},"spec":{"serviceName":"web","template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}}}}}}`

// dryRuns is an API server that is asked about workloads by dry runs.
type dryRuns struct {
	client.Writer
	answer func(*unstructured.Unstructured) error
	asked  int
}

func (d *dryRuns) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	d.asked++
	if o := (&client.CreateOptions{}).ApplyOptions(options); len(o.DryRun) == 0 {
		return errors.New("the workload would be stored")
	}
	if d.answer == nil {
		return nil
	}
	return d.answer(object.(*unstructured.Unstructured))
}

func TestDefaulter(t *testing.T) {
	const template = `"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","madeUp":{"n":1.50}}]}}}}}`
	cases := map[string]struct{ object, want string }{
		"a creation gets defaults, and its template none": {
			object: `{"spec":{` + template + `,"topology":{"subsets":[{"name":"a","replicas":2}]}}}`,
			want:   `{"spec":{"replicas":1,"revisionHistoryLimit":10,"updateStrategy":{"type":"Manual","manualUpdate":{}},` + template + `,"topology":{"subsets":[{"name":"a","replicas":2}]}}}`,
		},
		"lower bounds are 0 where there are upper ones": {
			object: `{"spec":{"topology":{"subsets":[{"name":"a","maxReplicas":"50%"},{"name":"b"}]}}}`,
			want:   `{"spec":{"replicas":1,"revisionHistoryLimit":10,"updateStrategy":{"type":"Manual","manualUpdate":{}},"topology":{"subsets":[{"name":"a","maxReplicas":"50%","minReplicas":0},{"name":"b","minReplicas":0}]}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := Kind(Workloads{}).Defaulter().Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", tc.object, ""))
			got := admissiontest.Parse[map[string]any](t, admissiontest.Mutated(t, tc.object, response))
			if diff := cmp.Diff(admissiontest.Parse[map[string]any](t, tc.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidator(t *testing.T) {
	const cloneSet, subsets = "spec.template.cloneSetTemplate.", "spec.topology.subsets"
	cases := map[string]struct {
		old, patch string // old: a patch of stored, or "" for a creation; patch changes what is sent
		denied     []string
		warned     string
	}{
		"a good one":                     {},
		"no selector":                    {patch: `{"spec":{"selector":null}}`, denied: []string{"spec.selector"}},
		"an empty selector":              {patch: `{"spec":{"selector":{"matchLabels":null}}}`, denied: []string{"spec.selector"}},
		"no template":                    {patch: `{"spec":{"template":{"cloneSetTemplate":null}}}`, denied: []string{"spec.template"}},
		"two templates":                  {patch: `{"spec":{"template":{"deploymentTemplate":{"spec":{"template":{}}}}}}`, denied: []string{"spec.template"}},
		"labels that do not match":       {patch: `{"spec":{"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"x"}}}}}}`, denied: []string{cloneSet + "metadata.labels"}},
		"labels of pods that do not":     {patch: `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"x"}}}}}}}}`, denied: []string{cloneSet + "spec.template.metadata.labels"}},
		"no pod template":                {patch: `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":null}}}}}`, denied: []string{cloneSet + "spec.template"}},
		"replicas in the template":       {patch: merged(asStatefulSet, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"replicas":3}}}}}`), denied: []string{"spec.template.statefulSetTemplate.spec.replicas"}},
		"replicas in that of a CloneSet": {patch: `{"spec":{"template":{"cloneSetTemplate":{"spec":{"replicas":3}}}}}`, warned: cloneSet + "spec.replicas: has no effect"},
		"a partition in the template":    {patch: merged(asStatefulSet, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}}}}`), denied: []string{"spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate.partition"}},
		"a name that is no DNS label":    {patch: `{"spec":{"topology":{"subsets":[{"name":"A_b"}]}}}`, denied: []string{subsets + "[0].name"}},
		"no name":                        {patch: `{"spec":{"topology":{"subsets":[{"name":""}]}}}`, denied: []string{subsets + "[0].name"}},
		"matchFields":                    {patch: `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`, denied: []string{subsets + "[0].nodeSelectorTerm.matchFields"}},
		"expressions that no node affinity may have": {
			patch: `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchExpressions":[
				{"key":"zone","operator":"in","values":["n"]},{"key":"a b","operator":"Exists"},{"key":"zone","operator":"In"},{"key":"zone","operator":"Exists","values":["n"]},
				{"key":"cores","operator":"Gt","values":["many"]},{"key":"cores","operator":"Lt"},{"key":"","operator":"DoesNotExist"},
				{"key":"zone","operator":"In","values":["n","a b"]},{"key":"cores","operator":"Lt","values":["-7"]}]}}]}}}`,
			denied: []string{
				subsets + "[0].nodeSelectorTerm.matchExpressions[0].operator", subsets + "[0].nodeSelectorTerm.matchExpressions[1].key",
				subsets + "[0].nodeSelectorTerm.matchExpressions[2].values", subsets + "[0].nodeSelectorTerm.matchExpressions[3].values",
				subsets + "[0].nodeSelectorTerm.matchExpressions[4].values[0]", subsets + "[0].nodeSelectorTerm.matchExpressions[5].values",
				subsets + "[0].nodeSelectorTerm.matchExpressions[6].key",
				subsets + "[0].nodeSelectorTerm.matchExpressions[7].values[1]", subsets + "[0].nodeSelectorTerm.matchExpressions[8].values[0]",
			},
		},
		"all expressions that it may have": {patch: `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchExpressions":[
			{"key":"example.com/zone","operator":"In","values":["n"]},{"key":"zone","operator":"NotIn","values":["m","o"]},{"key":"zone","operator":"Exists"},
			{"key":"gone","operator":"DoesNotExist"},{"key":"cores","operator":"Gt","values":["7"]},{"key":"cores","operator":"Lt","values":["9"]}]}}]}}}`},
		"tolerations that no pod may have": {
			patch: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{},{"key":"x","operator":"Exists","value":"y"},{"key":"a b"},
				{"key":"x","effect":"Evict"},{"key":"x","effect":"NoSchedule","tolerationSeconds":3},{"key":"x","operator":"exists"},{"key":"x","value":"a b"},
				{"key":"x","operator":"Equal","value":"-y"},{"key":"x","operator":"Gt","value":"many"},{"key":"x","operator":"Lt","value":"07"}]}]}}}`,
			denied: []string{
				subsets + "[0].tolerations[0].operator", subsets + "[0].tolerations[1].value", subsets + "[0].tolerations[2].key",
				subsets + "[0].tolerations[3].effect", subsets + "[0].tolerations[4].effect", subsets + "[0].tolerations[5].operator",
				subsets + "[0].tolerations[6].value", subsets + "[0].tolerations[7].value", subsets + "[0].tolerations[8].value", subsets + "[0].tolerations[9].value",
			},
		},
		"all tolerations that it may have": {patch: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{"operator":"Exists"},{"key":"x","value":"y"},
			{"key":"example.com/x","operator":"Equal","value":"y","effect":"PreferNoSchedule"},{"key":"x","effect":"NoExecute","tolerationSeconds":3},
			{"key":"x","operator":"Gt","value":"-7"},{"key":"x","operator":"Lt","value":"0"}]}]}}}`},
		"sizes that are none":            {patch: `{"spec":{"topology":{"subsets":[{"name":"a","replicas":"12.5%"},{"name":"b","replicas":-1},{"name":"c","replicas":"101%"},{"name":"d"}]}}}`, denied: []string{subsets + "[0].replicas", subsets + "[1].replicas", subsets + "[2].replicas"}},
		"fixed sizes and bounds":         {patch: `{"spec":{"topology":{"subsets":[{"name":"a","replicas":1},{"name":"b","minReplicas":1}]}}}`, denied: []string{subsets}},
		"min above max":                  {patch: `{"spec":{"topology":{"subsets":[{"name":"a","minReplicas":"50%","maxReplicas":2},{"name":"b"}]}}}`, denied: []string{subsets + "[0].minReplicas"}},
		"only upper bounds":              {patch: `{"spec":{"topology":{"subsets":[{"name":"a","maxReplicas":5}]}}}`, denied: []string{subsets}},
		"minima above all":               {patch: `{"spec":{"topology":{"subsets":[{"name":"a","minReplicas":4},{"name":"b","minReplicas":3}]}}}`, warned: "minReplicas add up to 7, which is more than spec.replicas (6)"},
		"sizes above all":                {patch: `{"spec":{"topology":{"subsets":[{"name":"a","replicas":4},{"name":"b","replicas":"50%"},{"name":"c"}]}}}`, denied: []string{subsets}},
		"sizes of all below all":         {patch: `{"spec":{"topology":{"subsets":[{"name":"a","replicas":4},{"name":"b","replicas":1}]}}}`, denied: []string{subsets}},
		"percentages that round to more": {patch: `{"spec":{"replicas":5,"topology":{"subsets":[{"name":"a","replicas":"50%"},{"name":"b","replicas":"50%"}]}}}`, denied: []string{subsets}},
		"a partition of no subset":       {patch: `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"z":1,"a":-1}}}}}`, denied: []string{"spec.updateStrategy.manualUpdate.partitions[a]", "spec.updateStrategy.manualUpdate.partitions[z]"}},
		"partitions of Deployments":      {patch: `{"spec":{"template":{"cloneSetTemplate":null,"deploymentTemplate":{"metadata":{"labels":{"app":"web"}},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{}}}}},"updateStrategy":{"manualUpdate":{"partitions":{"a":1}}}}}`, warned: "Deployments have no partition"},
		"a fixed size with Adaptive":     {patch: `{"spec":{"topology":{"scheduleStrategy":{"type":"Adaptive"},"subsets":[{"name":"a","replicas":1},{"name":"b"}]}}}`, denied: []string{subsets + "[0].replicas"}},
		"negative times":                 {patch: `{"spec":{"topology":{"scheduleStrategy":{"type":"Adaptive","adaptive":{"rescheduleCriticalSeconds":-1,"unschedulableDuration":-1}}}}}`, denied: []string{"spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds", "spec.topology.scheduleStrategy.adaptive.unschedulableDuration"}},
		"reserved pods of StatefulSets":  {patch: merged(asStatefulSet, `{"spec":{"topology":{"scheduleStrategy":{"type":"Adaptive","adaptive":{"reserveUnschedulablePods":true}}}}}`), denied: []string{"spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods"}},
		"a patch that is none":           {patch: `{"spec":{"topology":{"subsets":[{"name":"a","patch":{"spec":{"containers":"none"}}}]}}}`, denied: []string{subsets + "[0].patch"}},
		"a patch of selector labels":     {patch: `{"spec":{"topology":{"subsets":[{"name":"a","patch":{"metadata":{"labels":{"app":"x"}}}}]}}}`, denied: []string{subsets + "[0].patch"}},
		"a patch of the subset's label":  {patch: `{"spec":{"topology":{"subsets":[{"name":"a","patch":{"metadata":{"labels":{"apps.kruise.io/subset-name":"x"}}}}]}}}`, denied: []string{subsets + "[0].patch"}},

		"an update: tolerations": {old: `{}`, patch: `{"spec":{"topology":{"subsets":[{"name":"a"},{"name":"c"}]}}}`, denied: []string{subsets + "[0].tolerations"}},
		"an update: nodes":       {old: `{}`, patch: `{"spec":{"topology":{"subsets":[{"name":"b"}]}}}`, denied: []string{subsets + "[0].nodeSelectorTerm"}},
		"an update: what no pod may have is corrected": {
			old: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{"key":"x","operator":"exists"}],
				"nodeSelectorTerm":{"matchExpressions":[{"key":"zone","operator":"In","values":["a b"]}]}}]}}}`,
			patch: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{"key":"x","operator":"Exists"}],
				"nodeSelectorTerm":{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}}]}}}`,
		},
		"an update: matchFields, which have no effect, are removed": {
			old:   `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`,
			patch: `{"spec":{"topology":{"subsets":[{"name":"a"}]}}}`,
		},
		"an update: a subset before one that has matchFields": {
			old:   `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`,
			patch: `{"spec":{"topology":{"subsets":[{"name":"b"},{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`,
		},
		"an update: matchFields of a second subset": {
			old:    `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`,
			patch:  `{"spec":{"topology":{"subsets":[{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}},{"name":"b","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}`,
			denied: []string{subsets + "[1].nodeSelectorTerm.matchFields"},
		},
		"an update: another kind":            {old: `{}`, patch: asStatefulSet, warned: "the workloads of cloneSetTemplate are replaced by those of statefulSetTemplate"},
		"an update: a field of StatefulSets": {old: asStatefulSet, patch: `{"spec":{"template":{"statefulSetTemplate":{"spec":{"serviceName":"x","minReadySeconds":3,"podManagementPolicy":"Parallel"}}}}}`, denied: []string{"spec.template.statefulSetTemplate.spec.podManagementPolicy", "spec.template.statefulSetTemplate.spec.serviceName"}},
		"an update: the manifest of what OpenKruise has stored with defaults": {
			old: merged(asStatefulSet, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"podManagementPolicy":"OrderedReady","volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim",
				"metadata":{"name":"data","creationTimestamp":null},"spec":{"volumeMode":"Filesystem","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Pending"}}]}}}}}`),
			patch: `{"spec":{"template":{"statefulSetTemplate":{"spec":{"podManagementPolicy":null,"volumeClaimTemplates":[
				{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}}]}}}}}`,
		},
		"an update: another mode of volumes": {
			old:    merged(asStatefulSet, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"volumeMode":"Filesystem"}}]}}}}}`),
			patch:  `{"spec":{"template":{"statefulSetTemplate":{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"volumeMode":"Block"}}]}}}}}`,
			denied: []string{"spec.template.statefulSetTemplate.spec.volumeClaimTemplates"},
		},
		"an update: the number alone": {
			old:    `{"spec":{"topology":{"subsets":[{"name":"a","replicas":3},{"name":"b","replicas":3}]}}}`,
			patch:  `{"spec":{"replicas":9}}`,
			warned: "replicas add up to 6, and spec.replicas is 9",
		},
		"an update: a patch, under sizes that an autoscaler went past": {
			old:    `{"spec":{"replicas":9,"topology":{"subsets":[{"name":"a","replicas":3},{"name":"b","replicas":3}]}}}`,
			patch:  `{"spec":{"topology":{"subsets":[{"name":"a","replicas":3,"patch":{"metadata":{"annotations":{"n":"1"}}}},{"name":"b","replicas":3}]}}}`,
			warned: "replicas add up to 6, and spec.replicas is 9",
		},
		"an update: a size, under sizes that an autoscaler went past": {
			old:    `{"spec":{"replicas":9,"topology":{"subsets":[{"name":"a","replicas":3},{"name":"b","replicas":3}]}}}`,
			patch:  `{"spec":{"topology":{"subsets":[{"name":"a","replicas":4},{"name":"b","replicas":3}]}}}`,
			denied: []string{subsets},
		},
		"an update: another name, under sizes that an autoscaler went past": {
			old:    `{"spec":{"replicas":9,"topology":{"subsets":[{"name":"a","replicas":3},{"name":"b","replicas":3}]}}}`,
			patch:  `{"spec":{"topology":{"subsets":[{"name":"a","replicas":3},{"name":"c","replicas":3}]}}}`,
			denied: []string{subsets},
		},
		"an update: a patch, and a number that the sizes no longer add up to": {
			old:    `{"spec":{"topology":{"subsets":[{"name":"a","replicas":3},{"name":"b","replicas":3}]}}}`,
			patch:  `{"spec":{"replicas":9,"topology":{"subsets":[{"name":"a","replicas":3,"patch":{"metadata":{"annotations":{"n":"1"}}}},{"name":"b","replicas":3}]}}}`,
			denied: []string{subsets},
		},
		"an update of what was wrong before": {
			old:   `{"spec":{"topology":{"subsets":[{"name":"a","patch":{"metadata":{"labels":{"app":"x"}}}}]},"updateStrategy":{"manualUpdate":{"partitions":{"gone":1}}}}}`,
			patch: `{"spec":{"replicas":9}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := ""
			sent := admissiontest.Merge(t, stored, tc.patch)
			if tc.old != "" {
				old = admissiontest.Merge(t, stored, tc.old)
				sent = admissiontest.Merge(t, old, tc.patch)
			}
			v := Kind(Workloads{Client: &dryRuns{}}).Validator(admit.Cluster{})
			response := v.Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", sent, old))
			denied := admissiontest.Denied(response)
			slices.Sort(denied)
			if diff := cmp.Diff(tc.denied, denied); diff != "" || response.Allowed == (len(tc.denied) > 0) {
				t.Errorf("allowed %v, causes (-want +got):\n%s\n%+v", response.Allowed, diff, response.Result)
			}
			if !response.Allowed && response.Result.Code != http.StatusUnprocessableEntity {
				t.Errorf("code %d", response.Result.Code)
			}
			if warnings := strings.Join(response.Warnings, "\n"); (warnings == "") != (tc.warned == "") || !strings.Contains(warnings, tc.warned) {
				t.Errorf("warnings %q, want %q", warnings, tc.warned)
			}
		})
	}
}

// merged is a patch of both patches.
func merged(a, b string) string {
	return admissiontest.Merge(&testing.T{}, a, b)
}

// many are so many subsets, each on another node; more is a format of further fields.
func many(n int, more string) string {
	var all []string
	for i := range n {
		fields := more
		if more != "" {
			fields = fmt.Sprintf(more, i)
		}
		all = append(all, fmt.Sprintf(`{"name":"s%d","nodeSelectorTerm":{"matchExpressions":[{"key":"node","operator":"In","values":["%d"]}]}%s}`, i, i, fields))
	}
	return `{"spec":{"topology":{"subsets":[` + strings.Join(all, ",") + `]}}}`
}

func TestDryRuns(t *testing.T) {
	image := field.Invalid(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "x", "is no image")
	refusing := apierrors.NewInvalid(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}, "", field.ErrorList{image})
	const at = "spec.template.cloneSetTemplate.spec.template.spec.containers[0].image"
	cases := map[string]struct {
		old, patch string
		answer     error
		asked      int
		denied     []string
	}{
		"taken":                              {asked: 2},
		"refused":                            {answer: refusing, asked: 1, denied: []string{at}},
		"a quota has no say":                 {answer: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("exceeded quota")), asked: 2},
		"no answer":                          {answer: errors.New("connection refused"), asked: 2},
		"an update of the number alone":      {old: `{}`, patch: `{"spec":{"replicas":7}}`, answer: refusing},
		"an update of one patch":             {old: `{}`, patch: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{"key":"x","operator":"Exists"}],"patch":{"spec":{"hostNetwork":true}}}]}}}`, answer: refusing, asked: 1, denied: []string{at}},
		"subsets that differ in nodes alone": {patch: many(30, ""), asked: 1},
		"subsets of which some have a toleration that not every server takes": {
			patch: `{"spec":{"topology":{"subsets":[{"name":"a","tolerations":[{"key":"x","value":"y"}]},{"name":"b","tolerations":[{"key":"x","value":"z"}]},
				{"name":"c","tolerations":[{"key":"x","operator":"Gt","value":"1"}]},{"name":"d","tolerations":[{"key":"x","operator":"Lt","value":"1"}]}]}}}`,
			asked: 2,
		},
		"subsets that differ in patches":     {patch: many(30, `,"patch":{"metadata":{"annotations":{"n":"%d"}}}`), asked: maxAsked},
		"a template that is wrong as it was": {old: `{}`, patch: `{"spec":{"template":{"cloneSetTemplate":{"spec":{"minReadySeconds":4}}}}}`, answer: refusing, asked: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &dryRuns{answer: func(o *unstructured.Unstructured) error {
				if o.GetName() != "" || !strings.HasPrefix(o.GetGenerateName(), "web-") || len(o.GetOwnerReferences()) > 0 {
					t.Errorf("asked about %v", o.Object["metadata"])
				}
				return tc.answer
			}}
			old, sent := "", admissiontest.Merge(t, stored, tc.patch)
			if tc.old != "" {
				old = admissiontest.Merge(t, stored, tc.old)
			}
			response := Kind(Workloads{Client: server}).Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", sent, old))
			if diff := cmp.Diff(tc.denied, admissiontest.Denied(response)); diff != "" || response.Allowed == (len(tc.denied) > 0) {
				t.Errorf("allowed %v, causes (-want +got):\n%s\n%+v", response.Allowed, diff, response.Result)
			}
			if server.asked != tc.asked {
				t.Errorf("asked %d times, want %d", server.asked, tc.asked)
			}
			if !response.Allowed && !strings.Contains(response.Result.Message, "subset a: ") {
				t.Errorf("the message names no subset: %s", response.Result.Message)
			}
		})
	}
}

// A quarter of a megabyte of template, and 500 subsets, took three gigabytes of the operator's memory.
func TestATemplateForHundredsOfSubsetsDoesNotTakeGigabytes(t *testing.T) {
	var containers []string
	for i := range 10 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"web:1","env":[%s]}`, i, strings.TrimSuffix(strings.Repeat(`{"name":"A"},`, 1_600), ",")))
	}
	large := `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[` + strings.Join(containers, ",") + `]}}}}}}}`
	with := func(patches ...string) string {
		object := stored
		for _, patch := range patches {
			object = admissiontest.Merge(t, object, patch)
		}
		return object
	}
	for name, tc := range map[string]struct {
		sent, old string
		denied    []string
	}{
		"a new one":                             {sent: with(large, many(500, "")), denied: []string{"spec.topology.subsets"}},
		"one that gets more subsets":            {sent: with(large, many(500, "")), old: with(large, many(400, "")), denied: []string{"spec.topology.subsets"}},
		"one that gets another template":        {sent: with(large, many(500, "")), old: with(many(500, "")), denied: []string{"spec.topology.subsets"}},
		"one that was stored, and has less now": {sent: with(large, many(400, "")), old: with(large, many(500, ""))},
		"one that is scaled":                    {sent: with(large, many(500, ""), `{"spec":{"replicas":7}}`), old: with(large, many(500, ""))},
		"few subsets":                           {sent: with(large, many(4, ""))},
		"a template of ordinary size":           {sent: with(many(500, ""))},
	} {
		t.Run(name, func(t *testing.T) {
			response := Kind(Workloads{Client: &dryRuns{}}).Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", tc.sent, tc.old))
			if diff := cmp.Diff(tc.denied, admissiontest.Denied(response)); diff != "" || response.Allowed == (len(tc.denied) > 0) {
				t.Errorf("allowed %v, causes (-want +got):\n%s", response.Allowed, diff)
			}
			if !response.Allowed && !strings.Contains(response.Result.Message, "at most 256 MiB are allowed") {
				t.Errorf("%s", response.Result.Message)
			}
		})
	}
}

// A container without an image was let in at a time without admission: the one before it can be removed, and no other one without an image be added.
func TestAFaultOfTheTemplateMayMove(t *testing.T) {
	with := func(containers string) string {
		return admissiontest.Merge(t, stored, `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[`+containers+`]}}}}}}}`)
	}
	server := &dryRuns{answer: func(o *unstructured.Unstructured) error {
		var errs field.ErrorList
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for i, container := range containers {
			if of, _ := container.(map[string]any); of["image"] == nil {
				errs = append(errs, field.Required(field.NewPath("spec", "template", "spec", "containers").Index(i).Child("image"), ""))
			}
		}
		if len(errs) == 0 {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}, "", errs)
	}}
	v := Kind(Workloads{Client: server}).Validator(admit.Cluster{})
	for name, tc := range map[string]struct {
		containers string
		denied     []string
	}{
		"the one before it is removed":   {containers: `{"name":"bad"}`},
		"another one takes its place":    {containers: `{"name":"bad"},{"name":"main","image":"web:1"}`},
		"another one without comes, too": {containers: `{"name":"worse"},{"name":"bad"}`, denied: []string{"spec.template.cloneSetTemplate.spec.template.spec.containers[0].image"}},
	} {
		response := v.Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", with(tc.containers), with(`{"name":"main","image":"web:1"},{"name":"bad"}`)))
		if denied := admissiontest.Denied(response); response.Allowed == (len(tc.denied) > 0) || !slices.Equal(denied, tc.denied) {
			t.Errorf("%s: allowed %v, refused for %q, want %q", name, response.Allowed, denied, tc.denied)
		}
	}
}

// TestObjectsOfOpenKruisePass: what OpenKruise let in is let in again, whatever of it is changed next.
func TestObjectsOfOpenKruisePass(t *testing.T) {
	sent := 0
	for _, object := range fixtures.Objects(t, "uniteddeployment/state.yaml") {
		if object.GetKind() != united.Kind().Kind {
			continue
		}
		body, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for what, old := range map[string]string{"created": "", "scaled": string(body)} {
			sent++
			request := admissiontest.Merge(t, string(body), map[string]string{"created": `{}`, "scaled": `{"spec":{"replicas":20}}`}[what])
			response := Kind(Workloads{}).Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(united.Kind(), "v1beta1", request, old))
			if !response.Allowed {
				t.Errorf("%s, %s: %+v", object.GetName(), what, response.Result)
			}
		}
	}
	if sent == 0 {
		t.Fatal("the fixture has no UnitedDeployment")
	}
}
