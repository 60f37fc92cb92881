// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
)

func TestValidateTraffic(t *testing.T) {
	const at = "spec.strategy.canary."
	const gateway, nginx = `"gateway":{"httpRouteName":"web"}`, `"ingress":{"name":"web"}`
	const both = `"gateway":{"httpRouteName":"web","grpcRouteName":"web"}`
	const header, two = `"matches":[{"headers":[{"name":"user","value":"a"}]}]`, `"matches":[{"headers":[{"name":"a","value":"b"}]},{"headers":[{"name":"c","value":"d"}]}]`
	rollout := func(routing, step string) string {
		return canary(`"trafficRoutings":[` + routing + `],"steps":[` + step + `,{"replicas":"100%"}]`)
	}
	web := func(fields string) string { return `{"service":"web",` + fields + `}` }
	step := func(fields string) string { return `{"replicas":1,` + fields + `}` }
	many := func(prefix string) string {
		var all []string
		for i := range 16 {
			all = append(all, fmt.Sprintf(`{"apiVersion":"a/v1","kind":"Own","name":"%s%d"}`, prefix, i))
		}
		return `"customNetworkRefs":[` + strings.Join(all, ",") + `]`
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"a weight":                    {spec: rollout(web(gateway), step(`"traffic":"20%"`))},
		"a header":                    {spec: rollout(web(gateway), step(header))},
		"several kinds of routes":     {spec: rollout(web(gateway+","+nginx), step(`"traffic":"20%"`))},
		"a step without traffic":      {spec: rollout(web(gateway), `{"replicas":1}`)},
		"an Istio route":              {spec: rollout(web(`"customNetworkRefs":[{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","name":"web"}]`), step(`"traffic":"5%"`))},
		"a class of its own":          {spec: rollout(web(`"ingress":{"classType":"own","name":"web"}`), step(two))},
		"half of the pods":            {spec: rollout(web(gateway), `{"replicas":"50%","traffic":"20%"}`)},
		"most of the pods":            {spec: rollout(web(gateway), `{"replicas":"51%","traffic":"20%"}`), want: at + "steps[0].replicas Invalid"},
		"most of the pods beside":     {spec: rollout(web(gateway), `{"replicas":"51%","traffic":"20%"}`) + "extra"},
		"two":                         {spec: rollout(web(gateway)+","+web(nginx), step(header))},
		"too many routes":             {spec: rollout(web(many("a"))+","+web(many("b")), step(header)), want: at + "trafficRoutings TooMany"},
		"two Services":                {spec: rollout(web(gateway)+`,{"service":"other",`+nginx+`}`, step(header)), want: at + "trafficRoutings[1].service Invalid"},
		"a route in two of them":      {spec: rollout(web(gateway)+","+web(gateway), step(header)), want: at + "trafficRoutings[1].gateway.httpRouteName Duplicate"},
		"both kinds of routes":        {spec: rollout(web(both), step(header))},
		"a path and a GRPCRoute":      {spec: rollout(web(both), step(`"matches":[{"path":{"value":"/a"}}]`)), want: at + "steps[0].matches[0].path Forbidden"},
		"no Service":                  {spec: rollout(`{`+gateway+`}`, step(header)), want: at + "trafficRoutings[0].service Required"},
		"a Service in another place":  {spec: rollout(`{"service":"web.other",`+gateway+`}`, step(header)), want: at + "trafficRoutings[0].service Invalid"},
		"a negative time":             {spec: rollout(web(gateway+`,"gracePeriodSeconds":-1`), step(header)), want: at + "trafficRoutings[0].gracePeriodSeconds Invalid"},
		"no route":                    {spec: rollout(`{"service":"web"}`, step(header)), want: at + "trafficRoutings[0] Required"},
		"a route without a name":      {spec: rollout(web(`"gateway":{"httpRouteName":""}`), step(header)), want: at + "trafficRoutings[0].gateway.httpRouteName Required"},
		"an Ingress without a name":   {spec: rollout(web(`"ingress":{"name":""}`), step(header)), want: at + "trafficRoutings[0].ingress Required"},
		"an object without a kind":    {spec: rollout(web(`"customNetworkRefs":[{"apiVersion":"a/v1","kind":"","name":"web"}]`), step(header)), want: at + "trafficRoutings[0].customNetworkRefs[0] Invalid"},
		"a list that nginx lacks":     {spec: rollout(web(nginx), step(two)), want: at + "steps[0].matches[1].headers Forbidden"},
		"an expression at a gateway":  {spec: rollout(web(gateway), step(`"matches":[{"path":{"type":"RegularExpression","value":"/a.*"}}]`)), want: at + "steps[0].matches[0].path.type Forbidden"},
		"headers without matches":     {spec: rollout(web(gateway), step(`"traffic":"20%","requestHeaderModifier":{"remove":["a"]}`)), want: at + "steps[0].requestHeaderModifier Forbidden"},
		"a weight and one Service":    {spec: rollout(web(gateway), step(`"traffic":"20%"`)) + "one", want: at + "steps[0].traffic Forbidden"},
		"a DaemonSet":                 {spec: rollout(web(gateway), step(header)) + "daemon", want: at + "trafficRoutings Forbidden"},
		"an empty match":              {spec: rollout(web(gateway), step(`"matches":[{}]`)), want: at + "steps[0].matches[0] Required"},
		"a route that is named twice": {spec: rollout(web(gateway+`,"customNetworkRefs":[{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","name":"web"}]`), step(header)), want: at + "trafficRoutings[0].customNetworkRefs[0] Duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, is := tc.spec, func(word string) bool { return strings.HasSuffix(tc.spec, word) }
			spec = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(spec, "extra"), "one"), "daemon")
			r := decoded(t, spec)
			r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = is("extra")
			r.Spec.Strategy.Canary.DisableGenerateCanaryService = is("one")
			if is("daemon") {
				r.Spec.WorkloadRef.Kind = "DaemonSet"
			}
			errs := validateTraffic(r, field.NewPath("spec", "strategy", "canary"))
			if len(errs) == 0 {
				errs = unserved(r, nil)
			}
			if got := texts(errs); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestAScriptServesWhatAClassCannot: admission and a release agree about who serves a route.
func TestAScriptServesWhatAClassCannot(t *testing.T) {
	const two = `"steps":[{"replicas":1,"matches":[{"headers":[{"name":"a","value":"b"}]},{"headers":[{"name":"c","value":"d"}]}]}]`
	const alb, subsets = `{"service":"web","ingress":{"name":"web","classType":"aliyun-alb"}}`, `{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","name":"web"}`
	const refused = "spec.strategy.canary.steps[0].matches[1].headers Forbidden"
	byIstio := `"trafficRoutings":[{"service":"web","customNetworkRefs":[` + subsets + `]}],"steps":[{"replicas":1,"requestHeaderModifier":{"remove":["a"]}}]`
	for name, tc := range map[string]struct{ spec, old, script, want string }{
		"without a script":             {spec: canary(`"trafficRoutings":[` + alb + `],` + two), want: refused},
		"with that of its class":       {spec: canary(`"trafficRoutings":[` + alb + `],` + two), script: "ingress.aliyun-alb"},
		"with that of another class":   {spec: canary(`"trafficRoutings":[` + alb + `],` + two), script: "ingress.nginx", want: refused},
		"a route that no script knows": {spec: canary(`"trafficRoutings":[{"service":"web","gateway":{"httpRouteName":"web"}},` + alb + `],` + two), script: "ingress.aliyun-alb"},
		"stored like that":             {spec: canary(`"trafficRoutings":[` + alb + `],` + two), old: canary(`"trafficRoutings":[` + alb + `],` + two)},
		"stored otherwise":             {spec: canary(`"trafficRoutings":[` + alb + `],` + two), old: canary(`"trafficRoutings":[` + alb + `],` + steps("1")), want: refused},
		"Istio":                        {spec: canary(byIstio), want: "spec.strategy.canary.steps[0].requestHeaderModifier Forbidden"},
		"Istio with a script":          {spec: canary(byIstio), script: "VirtualService.networking.istio.io"},
		"blue-green":                   {spec: twin(`"trafficRoutings":[` + alb + `],` + two), want: strings.ReplaceAll(refused, "canary", "blueGreen")},
		"no routes":                    {spec: canary(steps("1"))},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-rollout-configuration"}}
			stored.Data = map[string]string{"lua.traffic.routing." + tc.script: "return {}"}
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			scheme.AddKnownTypeWithName(v1beta1.GroupVersion().WithKind("RolloutList"), &unstructured.UnstructuredList{})
			var old *v1beta1.Rollout
			if tc.old != "" {
				old = decoded(t, tc.old)
			}
			others := Others{routes.Judge{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).Build(), Namespace: "kruise-system"}}
			r := decoded(t, tc.spec)
			if errs := Validate(r); len(errs) > 0 {
				t.Fatal(errs)
			}
			errs, _ := others.lookUp(t.Context(), r, old)
			if got := texts(errs); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
