// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

const deployment = `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`

func decoded(t *testing.T, spec string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"shop","name":"ws"},"spec":{`+spec+`}}`), ws); err != nil {
		t.Fatal(err)
	}
	return ws
}

// texts are errors as "field: kind".
func texts(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Field+" "+string(err.Type))
	}
	return strings.ReplaceAll(strings.Join(all, ", "), "FieldValue", "")
}

func TestValidate(t *testing.T) {
	target := func(version, kind, name string) string {
		return `"targetRef":{"apiVersion":"` + version + `","kind":"` + kind + `","name":"` + name + `"}`
	}
	sub := func(limits ...string) string {
		var all []string
		for i, limit := range limits {
			text := `{"name":"` + string(rune('a'+i)) + `"`
			if limit != "" {
				text += `,"maxReplicas":` + limit
			}
			all = append(all, text+"}")
		}
		return `"subsets":[` + strings.Join(all, ",") + `]`
	}
	one := func(fields string) string { return deployment + `,"subsets":[{"name":"a",` + fields + `}]` }
	adaptive := func(kind, fields, subsets string) string {
		return deployment + "," + subsets + `,"scheduleStrategy":{"type":"` + kind + `","adaptive":{` + fields + `}}`
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"good":                         {spec: deployment + "," + sub("2", "")},
		"percentages":                  {spec: deployment + "," + sub(`"30%"`, `"70%"`)},
		"a ReplicaSet":                 {spec: target("apps/v1", "ReplicaSet", "web") + "," + sub("")},
		"a Job":                        {spec: target("batch/v1", "Job", "web") + "," + sub("")},
		"a StatefulSet of ours":        {spec: target("apps.kruise.io/v1beta1", "StatefulSet", "web") + "," + sub("2", "")},
		"no target":                    {spec: sub(""), want: "spec.targetRef Required"},
		"a target without name":        {spec: target("apps/v1", "Deployment", "") + "," + sub(""), want: "spec.targetRef Invalid"},
		"a target's name with a quote": {spec: target("apps/v1", "Deployment", "x' || true") + "," + sub(""), want: "spec.targetRef.name Invalid"},
		"the wrong group":              {spec: target("apps/v1", "CloneSet", "web") + "," + sub(""), want: "spec.targetRef.apiVersion Invalid"},
		"no subsets":                   {spec: deployment, want: "spec.subsets Required"},
		"a name that is empty":         {spec: deployment + `,"subsets":[{"name":""}]`, want: "spec.subsets[0].name Invalid"},
		"a name twice":                 {spec: deployment + `,"subsets":[{"name":"a"},{"name":"a"}]`, want: "spec.subsets[1].name Invalid"},
		"a bad node selector":          {spec: one(`"requiredNodeSelector":{"matchExpressions":[{"key":"zone","operator":"In"}]}`), want: "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values Required"},
		"a bad field of nodes":         {spec: one(`"requiredNodeSelector":{"matchFields":[{"key":"spec.x","operator":"In","values":["a"]}]}`), want: "spec.subsets[0].requiredNodeSelector.matchFields[0].key Invalid"},
		"a bad preference":             {spec: one(`"preferredNodeSelector":[{"weight":0,"preference":{"matchExpressions":[{"key":"","operator":"Exists"}]}}]`), want: "spec.subsets[0].preferredNodeSelector[0].weight Invalid, spec.subsets[0].preferredNodeSelector[0].preference.matchExpressions[0].key Required"},
		"a bad toleration":             {spec: one(`"tolerations":[{"operator":"Equal"}]`), want: "spec.subsets[0].tolerations[0].operator Invalid"},
		"a patch that is a list":       {spec: one(`"patch":[]`), want: "spec.subsets[0].patch Invalid"},
		"numbers and percentages":      {spec: deployment + "," + sub("1", `"20%"`, ""), want: "spec.subsets[1].maxReplicas Invalid"},
		"a percentage for ordinals":    {spec: target("apps/v1", "StatefulSet", "web") + "," + sub(`"20%"`, ""), want: "spec.subsets[0].maxReplicas Invalid"},
		"a negative number":            {spec: deployment + "," + sub("-1", ""), want: "spec.subsets[0].maxReplicas Invalid"},
		"more than 100%":               {spec: deployment + "," + sub(`"60%"`, `"60%"`, ""), want: "spec.subsets[2].maxReplicas Invalid"},
		"less than 100% to the last":   {spec: deployment + "," + sub(`"60%"`, `"30%"`), want: "spec.subsets[1].maxReplicas Invalid"},
		"an unknown strategy":          {spec: deployment + "," + sub("") + `,"scheduleStrategy":{"type":"Other"}`, want: "spec.scheduleStrategy.type NotSupported"},
		"adaptive with another type":   {spec: adaptive("Fixed", "", sub("1", "")), want: "spec.scheduleStrategy.type Invalid"},
		"adaptive with a capped last":  {spec: adaptive("Adaptive", "", sub("1", "1")), want: "spec.scheduleStrategy.adaptive Invalid"},
		"the longest with two subsets": {spec: adaptive("Adaptive", `"rescheduleCriticalSeconds":295`, sub("1", ""))},
		"too long with three":          {spec: adaptive("Adaptive", `"rescheduleCriticalSeconds":148`, sub("1", "1", "")), want: "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds Invalid"},
		"negative seconds":             {spec: adaptive("Adaptive", `"rescheduleCriticalSeconds":-1`, sub("1", "")), want: "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds Invalid"},
		"a bad filter":                 {spec: deployment + "," + sub("") + `,"targetFilter":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}}`, want: "spec.targetFilter.selector.matchExpressions[0].values Required"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(Validate(decoded(t, tc.spec))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWithoutTheGateNothingIsSpread(t *testing.T) {
	if off := texts(Kind(features.Set{}, Others{}, nil).Off); off != "spec Forbidden" {
		t.Errorf("off: %q", off)
	}
	if on := Kind(features.Set{features.WorkloadSpread: true}, Others{}, nil).Off; len(on) > 0 {
		t.Errorf("on: %v", on)
	}
}

func TestTheTargetStays(t *testing.T) {
	old := decoded(t, deployment)
	if errs := ValidateUpdate(decoded(t, strings.Replace(deployment, "apps/v1", "apps/v2", 1)), old); len(errs) > 0 {
		t.Errorf("another version: %v", errs)
	}
	if got := texts(ValidateUpdate(decoded(t, strings.Replace(deployment, "web", "shop", 1)), old)); got != "spec.targetRef Invalid" {
		t.Errorf("another name: %s", got)
	}
}

func TestOthersAreLookedAt(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	known := runtime.NewScheme()
	if err := corev1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(known).WithObjects([]client.Object{
		object(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"WorkloadSpread","metadata":{"namespace":"shop","name":"first"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"taken"}}}`),
		object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kruise-system","name":"kruise-configuration"},
			"data":{"WorkloadSpread_Watch_Custom_Workload_WhiteList":"{\"workloads\":[{\"group\":\"game.example\",\"Version\":\"v1\",\"KIND\":\"GameServerSet\"}]}"}}`),
		object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"x"}]}}}}`),
	}...).Build()
	others := Others{Reader: reader, Namespace: "kruise-system", Checker: templatecheck.Checker{Client: refusing{reader}}}
	check := func(spec string) string {
		errs, _ := others.check(t.Context(), decoded(t, spec), nil)
		return texts(errs)
	}
	patch := func(text string) string { return deployment + `,"subsets":[{"name":"a","patch":` + text + `}]` }
	of := func(version, kind string) string {
		return `"targetRef":{"apiVersion":"` + version + `","kind":"` + kind + `","name":"web"},"subsets":[{"name":"a"}]`
	}
	for what, tc := range map[string]struct{ spec, want string }{
		"a kind that is listed":                 {spec: of("game.example/v1alpha1", "GameServerSet")},
		"a kind of that name in another group":  {spec: of("other.example/v1", "GameServerSet"), want: "spec.targetRef.kind Invalid"},
		"a kind that is not listed":             {spec: of("apps/v1", "DaemonSet"), want: "spec.targetRef.kind Invalid"},
		"a workload that is spread already":     {spec: `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"taken"},"subsets":[{"name":"a"}]`, want: "spec.targetRef Invalid"},
		"a patch that fits":                     {spec: patch(`{"metadata":{"labels":{"subset":"a"}}}`)},
		"a patch of no pod":                     {spec: patch(`{"spec":{"containers":"x"}}`), want: "spec.subsets[0].patch Invalid"},
		"a patch of the labels of the workload": {spec: patch(`{"metadata":{"labels":{"app":"x"}}}`), want: "spec.subsets[0].patch Invalid"},
		"a patch that makes no good pod":        {spec: patch(`{"spec":{"priorityClassName":"Bad"}}`), want: "spec.subsets[0].patch Invalid"},
	} {
		if got := check(tc.spec); got != tc.want {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
		}
	}
}

// refusing is an API server that takes no image, as before, and no such class.
type refusing struct{ client.WithWatch }

func (refusing) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	template, _ := object.(*corev1.PodTemplate)
	path := field.NewPath("template", "spec")
	errs := field.ErrorList{field.Required(path.Child("containers").Index(0).Child("image"), "")}
	if template.Template.Spec.PriorityClassName == "Bad" {
		errs = append(errs, field.Invalid(path.Child("priorityClassName"), "Bad", "no"))
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", errs)
}

// A workload that changed since makes no obstacle of an old patch.
func TestOnlyNewPatchesAreTried(t *testing.T) {
	workload := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},"spec":{"template":{}}}`), &workload.Object); err != nil {
		t.Fatal(err)
	}
	others := Others{Reader: fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(workload).Build()}
	ws := decoded(t, deployment+`,"subsets":[{"name":"a","patch":{"spec":{"containers":"x"}}}]`)
	if errs, _ := others.check(t.Context(), ws, nil); len(errs) != 1 {
		t.Errorf("new: %v", errs)
	}
	if errs, _ := others.check(t.Context(), ws, ws.DeepCopy()); len(errs) > 0 {
		t.Errorf("unchanged: %v", errs)
	}
}

func TestFieldsHaveTheNamesOfTheOlderVersion(t *testing.T) {
	if got := fieldInV1alpha1("spec.subsets[1].preferredNodeSelector[0].weight"); got != "spec.subsets[1].preferredNodeSelectorTerms[0].weight" {
		t.Error(got)
	}
}
