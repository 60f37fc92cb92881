// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
)

func decoded(t *testing.T, spec string) *v1alpha1.TrafficRouting {
	t.Helper()
	o := &v1alpha1.TrafficRouting{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"shop","name":"chain"},"spec":{`+spec+`}}`), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func texts(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Field+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
	}
	return strings.Join(all, ", ")
}

const (
	web    = `{"service":"web","gateway":{"httpRouteName":"web"}}`
	istio  = `{"service":"web","customNetworkRefs":[{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","name":"web"}]}`
	nginx  = `{"service":"web","ingress":{"name":"web"}}`
	mse    = `{"service":"web","ingress":{"name":"web","classType":"mse"}}`
	header = `"matches":[{"headers":[{"name":"user","value":"a"}]}]`
	two    = `"matches":[{"headers":[{"name":"user","value":"a"}]},{"headers":[{"name":"user","value":"b"},{"name":"region","value":"eu"}]}]`
)

func spec(ref, strategy string) string {
	return `"objectRef":[` + ref + `],"strategy":{` + strategy + `}`
}

func TestValidate(t *testing.T) {
	scripts := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-rollout-configuration"}, Data: map[string]string{"lua.traffic.routing.ingress.higress": "return {}"},
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"a header":                   {spec: spec(web, header)},
		"alternatives":               {spec: spec(web, two)},
		"a header that is set":       {spec: spec(web, header+`,"requestHeaderModifier":{"set":[{"name":"x","value":"y"}]}`)},
		"a weight of Istio":          {spec: spec(istio, `"weight":20`)},
		"no route":                   {spec: `"strategy":{` + header + `}`, want: "spec.objectRef Required"},
		"two of one Service":         {spec: spec(web+","+istio, header)},
		"two Services":               {spec: spec(web+","+strings.Replace(istio, `"service":"web"`, `"service":"api"`, 1), header), want: "spec.objectRef[1].service Invalid"},
		"no Service":                 {spec: spec(`{"gateway":{"httpRouteName":"web"}}`, header), want: "spec.objectRef[0].service Required"},
		"nothing to route":           {spec: spec(web, ""), want: "spec.strategy Required"},
		"only headers to set":        {spec: spec(web, `"requestHeaderModifier":{"remove":["x"]}`), want: "spec.strategy Required"},
		"a weight of a route":        {spec: spec(web, `"weight":20`), want: "spec.strategy.weight Forbidden"},
		"a weight of more than all":  {spec: spec(istio, `"weight":120`), want: "spec.strategy.weight Invalid"},
		"one Service of nginx":       {spec: spec(nginx, header), want: "spec.strategy Forbidden"},
		"a header of mse":            {spec: spec(mse, header+`,"requestHeaderModifier":{"set":[{"name":"x","value":"y"}]}`)},
		"one Service of higress":     {spec: spec(strings.Replace(mse, "mse", "higress", 1), header)}, // by a script
		"alternatives of mse":        {spec: spec(mse, two), want: "spec.strategy.matches[1] Forbidden"},
		"an empty match":             {spec: spec(web, `"matches":[{}]`), want: "spec.strategy.matches[0] Required"},
		"a header that cannot be":    {spec: spec(web, header+`,"requestHeaderModifier":{"remove":["a b"]}`), want: "spec.strategy.requestHeaderModifier.remove[0] Invalid"},
		"a comparison nobody can do": {spec: spec(web, `"matches":[{"headers":[{"type":"Like","name":"a","value":"b"}]}]`), want: "spec.strategy.matches[0].headers[0].type NotSupported"},
	} {
		t.Run(name, func(t *testing.T) {
			o := decoded(t, tc.spec)
			errs := Validate(o)
			if len(errs) == 0 {
				errs, _ = Kind(routes.Judge{Reader: fake.NewFakeClient(scripts), Namespace: scripts.Namespace}).LookUp(t.Context(), o, nil)
			}
			if got := texts(errs); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	for phase, inUse := range map[v1alpha1.TrafficRoutingPhase]bool{
		"": false, v1alpha1.TrafficRoutingPhaseInitial: false, v1alpha1.TrafficRoutingPhaseHealthy: false, v1alpha1.TrafficRoutingPhaseProgressing: true,
		v1alpha1.TrafficRoutingPhaseFinalizing: true, v1alpha1.TrafficRoutingPhaseTerminating: true,
	} {
		old := decoded(t, spec(web, header))
		old.Status.Phase = phase
		if got := texts(ValidateUpdate(decoded(t, spec(web, two)), old)); got != "" {
			t.Errorf("%s: another strategy: %s", phase, got)
		}
		if got := texts(ValidateUpdate(decoded(t, spec(nginx, header)), old)); (got == "spec.objectRef Forbidden") != inUse {
			t.Errorf("%s: other routes: %q", phase, got)
		}
	}
}
