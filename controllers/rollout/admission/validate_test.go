// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

const deployment = `"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`

func decoded(t *testing.T, spec string) *v1beta1.Rollout {
	t.Helper()
	r := &v1beta1.Rollout{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"shop","name":"web"},"spec":{`+spec+`}}`), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// texts are errors as "field: kind".
func texts(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Field+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
	}
	return strings.Join(all, ", ")
}

func steps(replicas ...string) string {
	var all []string
	for _, value := range replicas {
		all = append(all, `{"replicas":`+value+`}`)
	}
	return `"steps":[` + strings.Join(all, ",") + `]`
}

func canary(fields string) string { return deployment + `,"strategy":{"canary":{` + fields + `}}` }

func TestWarnings(t *testing.T) {
	const path, effect = "spec.strategy.canary.", ": has no effect, since no requests are routed"
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":              {canary(steps("1")), nil},
		"a weight of v1alpha1": {canary(`"steps":[{"replicas":"20%","traffic":"20%"}]`), nil},
		"all of them": {
			canary(`"disableGenerateCanaryService":true,"steps":[{"replicas":1},{"replicas":2,"traffic":"20%","matches":[{}],"requestHeaderModifier":{}}]`),
			[]string{path + "disableGenerateCanaryService", path + "steps[1].traffic", path + "steps[1].matches", path + "steps[1].requestHeaderModifier"},
		},
		"with routes":        {canary(`"trafficRoutings":[{}],"steps":[{"replicas":1,"traffic":"20%"}]`), nil},
		"another strategy":   {twin(`"steps":[{"replicas":1,"traffic":"0%"}]`), []string{"spec.strategy.blueGreen.steps[0].traffic"}},
		"without a strategy": {deployment, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := warnings(decoded(t, tc.spec), nil)
			for i := range tc.want {
				tc.want[i] += effect
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// led leads requests to the workload.
const led = `"trafficRoutings":[{"service":"web","gateway":{"httpRouteName":"web"}}]`

// twin is a spec with two sets of pods.
func twin(inside string) string { return deployment + `,"strategy":{"blueGreen":{` + inside + `}}` }

func TestValidate(t *testing.T) {
	workload := func(version, kind, name string) string {
		return `"workloadRef":{"apiVersion":"` + version + `","kind":"` + kind + `","name":"` + name + `"},"strategy":{"canary":{` + steps("1") + `}}`
	}
	const at = "spec.strategy.canary."
	for name, tc := range map[string]struct{ spec, want string }{
		"good":                        {spec: canary(steps("1", `"50%"`, `"100%"`))},
		"the same twice":              {spec: canary(steps("2", "2"))},
		"a number after a percentage": {spec: canary(steps(`"50%"`, "1"))},
		"a CloneSet":                  {spec: workload("apps.kruise.io/v1alpha1", "CloneSet", "web")},
		"an Advanced DaemonSet":       {spec: workload("apps.kruise.io/v1alpha1", "DaemonSet", "web")},
		"a traffic without routes":    {spec: canary(`"steps":[{"replicas":1,"traffic":"20%"}]`)},
		"a threshold":                 {spec: canary(steps("1") + `,"failureThreshold":"20%"`)},
		"a threshold of zero":         {spec: canary(steps("1") + `,"failureThreshold":0`)},
		"no workload":                 {spec: `"strategy":{"canary":{` + steps("1") + `}}`, want: "spec.workloadRef Invalid"},
		"a ReplicaSet":                {spec: workload("apps/v1", "ReplicaSet", "web"), want: "spec.workloadRef Invalid"},
		"a CloneSet of another group": {spec: workload("apps/v1", "CloneSet", "web"), want: "spec.workloadRef Invalid"},
		"a name with a quote":         {spec: workload("apps/v1", "Deployment", "x'y"), want: "spec.workloadRef.name Invalid"},
		"no strategy":                 {spec: deployment, want: "spec.strategy.canary Required"},
		"blue-green":                  {spec: twin(`"steps":[{"replicas":"100%","traffic":"0%"},{"replicas":"100%","traffic":"100%"}],` + led)},
		"blue-green without steps":    {spec: twin(""), want: "spec.strategy.blueGreen.steps Required"},
		"blue-green with fewer pods":  {spec: twin(steps("3", "2")), want: "spec.strategy.blueGreen.steps[1].replicas Invalid"},
		"blue-green, a wrong share":   {spec: twin(`"steps":[{"replicas":1,"traffic":"101%"}]`), want: "spec.strategy.blueGreen.steps[0].traffic Invalid"},
		"blue-green, a wrong route":   {spec: twin(steps("1") + `,"trafficRoutings":[{"service":"web"}]`), want: "spec.strategy.blueGreen.trafficRoutings[0] Required"},
		"a blue-green StatefulSet": {
			spec: `"workloadRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web"},"strategy":{"blueGreen":{` + steps("1") + `}}`, want: "spec.strategy.blueGreen Forbidden",
		},
		"both strategies":             {spec: deployment + `,"strategy":{"canary":{` + steps("1") + `},"blueGreen":{}}`, want: "spec.strategy.blueGreen Forbidden"},
		"no steps":                    {spec: canary(""), want: at + "steps Required"},
		"a step without replicas":     {spec: canary(`"steps":[{}]`), want: at + "steps[0].replicas Required"},
		"a step of zero":              {spec: canary(steps("0")), want: at + "steps[0].replicas Invalid"},
		"a step of more than all":     {spec: canary(steps(`"101%"`)), want: at + "steps[0].replicas Invalid"},
		"a step in words":             {spec: canary(steps(`"many"`)), want: at + "steps[0].replicas Invalid"},
		"fewer pods":                  {spec: canary(steps("3", "2")), want: at + "steps[1].replicas Invalid"},
		"a smaller percentage":        {spec: canary(steps(`"30%"`, `"20%"`)), want: at + "steps[1].replicas Invalid"},
		"a traffic of zero":           {spec: canary(`"steps":[{"replicas":1,"traffic":"0%"}]`), want: at + "steps[0].traffic Invalid"},
		"a traffic without percent":   {spec: canary(`"steps":[{"replicas":1,"traffic":"20"}]`), want: at + "steps[0].traffic Invalid"},
		"a shared route":              {spec: canary(steps("1") + `,"trafficRoutingRef":"web"`)},
		"the same of blue-green":      {spec: deployment + `,"strategy":{"blueGreen":{` + steps("1") + `,"trafficRoutingRef":"a b"}}`, want: "spec.strategy.blueGreen.trafficRoutingRef Invalid"},
		"a shared route without name": {spec: canary(steps("1") + `,"trafficRoutingRef":"a b"`), want: at + "trafficRoutingRef Invalid"},
		"a canary Deployment":         {spec: canary(steps("1") + `,"enableExtraWorkloadForCanary":true`)},
		"a threshold in words":        {spec: canary(steps("1") + `,"failureThreshold":"many"`), want: at + "failureThreshold Invalid"},
		"a label that cannot be":      {spec: canary(steps("1") + `,"patchPodTemplateMetadata":{"labels":{"a b":"c"}}`), want: at + "patchPodTemplateMetadata.labels Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(Validate(decoded(t, tc.spec))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestASharedRouteByAnnotation(t *testing.T) {
	r := decoded(t, canary(steps("1")))
	r.Annotations = map[string]string{"rollouts.kruise.io/trafficrouting": "web"}
	if got := texts(Validate(r)); got != "" {
		t.Error(got)
	}
	r.Name = strings.Repeat("a", 64)
	if got := texts(Validate(r)); got != "metadata.annotations[rollouts.kruise.io/trafficrouting] Invalid" {
		t.Errorf("a name that is in no finalizer: %s", got)
	}
}

func TestValidateUpdate(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"other steps":    {spec: canary(steps("2", `"60%"`))},
		"paused":         {spec: deployment + `,"strategy":{"paused":true,"canary":{` + steps("1", `"50%"`) + `}}`},
		"more steps":     {spec: canary(steps("1", "2", "3")), want: "spec.strategy.canary.steps Forbidden"},
		"another style":  {spec: canary(steps("1", `"50%"`) + `,"enableExtraWorkloadForCanary":true`), want: "spec.strategy.canary.enableExtraWorkloadForCanary Forbidden"},
		"no canary":      {spec: deployment, want: "spec.strategy Forbidden"},
		"a shared route": {spec: canary(steps("1", `"50%"`) + `,"trafficRoutingRef":"web"`), want: "spec.strategy.canary.trafficRoutingRef Forbidden"},
		"two sets":       {spec: twin(steps("1", `"50%"`)), want: "spec.strategy Forbidden"},
		"routes":         {spec: canary(steps("1", `"50%"`) + `,"trafficRoutings":[{"service":"web"}]`), want: "spec.strategy.canary.trafficRoutings Forbidden"},
		"other workload": {spec: strings.Replace(canary(steps("1", `"50%"`)), `"web"`, `"api"`, 1), want: "spec.workloadRef Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := decoded(t, canary(steps("1", `"50%"`))), decoded(t, tc.spec)
			if got := texts(ValidateUpdate(now, old)); got != "" {
				t.Errorf("without a release: %s", got)
			}
			for _, phase := range []v1beta1.RolloutPhase{v1beta1.RolloutPhaseProgressing, v1beta1.RolloutPhaseDisabling, v1beta1.RolloutPhaseTerminating} {
				old.Status.Phase = phase
				if got := texts(ValidateUpdate(now, old)); got != tc.want {
					t.Errorf("%s: got %q, want %q", phase, got, tc.want)
				}
			}
		})
	}
}

// Clients of v1alpha1 may change the number of steps in a release, as with OpenKruise. Nothing else.
func TestAnotherNumberOfStepsInARelease(t *testing.T) {
	handler := Kind(Others{}, nil).Validator(admit.Cluster{})
	for name, tc := range map[string]struct {
		version, spec string
		allowed       bool
	}{
		"v1beta1":                 {"v1beta1", canary(steps("1", "2", "3")), false},
		"v1alpha1":                {"v1alpha1", canary(steps("1", "2", "3")), true},
		"fewer in v1alpha1":       {"v1alpha1", canary(steps("1")), true},
		"another style by it":     {"v1alpha1", canary(steps("1", "2", "3") + `,"enableExtraWorkloadForCanary":true`), false},
		"wrong steps in v1alpha1": {"v1alpha1", canary(steps("1", "0")), false},
	} {
		old, now := decoded(t, canary(steps("1", `"50%"`))), decoded(t, tc.spec)
		old.Status.Phase = v1beta1.RolloutPhaseProgressing
		request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, RequestKind: &metav1.GroupVersionKind{Group: "rollouts.kruise.io", Version: tc.version, Kind: "Rollout"},
			Object: runtime.RawExtension{Raw: encoded(t, now)}, OldObject: runtime.RawExtension{Raw: encoded(t, old)},
		}}
		if response := handler.Handle(t.Context(), request); response.Allowed != tc.allowed {
			t.Errorf("%s: %+v", name, response.Result)
		}
	}
}

func encoded(t *testing.T, r *v1beta1.Rollout) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOneRolloutForAWorkloadAndAService(t *testing.T) {
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"name": "first", "namespace": "shop"},
		"spec": map[string]any{"workloadRef": map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"}, "strategy": map[string]any{
			"canary": map[string]any{"trafficRoutings": []any{map[string]any{"service": "front"}}},
		}},
	}}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1beta1.GroupVersion().WithKind("Rollout"), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(v1beta1.GroupVersion().WithKind("RolloutList"), &unstructured.UnstructuredList{})
	others := Others{routes.Judge{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(other).Build()}}
	second := decoded(t, canary(steps("1")))
	errs := others.check(t.Context(), second, nil)
	if got := texts(errs); got != "spec.workloadRef Invalid" || !strings.Contains(errs.ToAggregate().Error(), "Rollout first") {
		t.Errorf("got %v", errs)
	}
	second.Spec.WorkloadRef.Name = "api"
	if errs := others.check(t.Context(), second, nil); len(errs) > 0 {
		t.Errorf("another workload: %v", errs)
	}
	routed := second.DeepCopy()
	for service, want := range map[string]string{"back": "", "front": "spec.strategy Invalid"} {
		routed.Spec.Strategy.Canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: service}}
		if errs := others.check(t.Context(), routed, second); texts(errs) != want {
			t.Errorf("with the Service %s: %v", service, errs)
		}
	}
	second.Name, second.Spec.WorkloadRef.Name = "first", "web"
	if errs := others.check(t.Context(), second, nil); len(errs) > 0 {
		t.Errorf("itself: %v", errs)
	}
}
