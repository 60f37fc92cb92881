// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// The policy and the webhook share the pods of one set; with the operator dead those of the policy come up.
func TestSplit(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	i := w.injection(true)
	w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: merging}
spec:
  selector: {matchLabels: {app: shop}}
  containers:
  - name: agent
    image: "example/agent:v1"
    shareVolumePolicy: {type: enabled}
    transferEnv: [{sourceContainerName: web, envName: NAME}]
  patchPodMetadata: [{annotations: {example.com/config: '{"a":1}'}, patchPolicy: MergePatchJson}]
`)
	state := w.inForce(t, i, "merging", sidecarset.PathSplit)
	t.Log(state.Condition.Message)
	own := strings.Replace(namedShop, "labels:", `annotations: {example.com/config: '{"b":2}'}, labels:`, 1)
	many := strings.Replace(namedShop, "env:", "volumeMounts: ["+mounts(401)+"], env:", 1) + "  volumes: [{name: data, emptyDir: {}}]\n"
	many = strings.Replace(many, "spec: {containers:", "spec:\n  containers:", 1)
	many = strings.Replace(many, "}]}]}\n", "}]}]\n", 1)

	for _, tc := range []struct {
		name, pod, annotation string
		served                bool
	}{
		{"without the annotation", namedShop, `{"a":1}`, true},
		{"with an annotation of its own", own, `{"a":1,"b":2}`, false},
		{"with very many mounts", many, `{"a":1}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check := func(while string) {
				pod, err := w.pod(t, namespace, tc.pod)
				if err != nil {
					t.Fatalf("%s: %v", while, err)
				}
				if got := pod.Annotations["example.com/config"]; containers(pod) != "agent web" || got != tc.annotation {
					t.Errorf("%s: containers %s, annotation %s", while, containers(pod), got)
				}
				if env := pod.Spec.Containers[0].Env; len(env) != 2 || env[1].Name != "NAME" || env[1].Value != "shop" {
					t.Errorf("%s: env %v", while, env)
				}
			}
			check("with the operator")
			w.stop()
			defer w.serve(t.Context())
			if tc.served {
				check("with the operator dead")
			} else if _, err := w.pod(t, namespace, tc.pod); err == nil || !strings.Contains(err.Error(), "sidecarset-merging.operator.kruise.io") {
				t.Errorf("a pod that the policy leaves, with the operator dead: %v", err)
			}
		})
	}
}

// mounts are so many volume mounts.
func mounts(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("{name: data, mountPath: /m/%d}", i)
	}
	return strings.Join(all, ", ")
}

// Resources are computed by the API server itself, which refuses a pod without anything to compute them from, in our words.
func TestResourcesByPolicy(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	i := w.injection(true)
	set := w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: sized}
spec:
  selector: {matchLabels: {app: sized}}
  containers:
  - name: agent
    image: "example/agent:v1"
    resourcesPolicy:
      targetContainersMode: sum
      targetContainersNameRegex: ^(web|cache)$
      resourcesExpr: {limits: {cpu: "max(cpu*10%, 100m)", memory: "memory/4 + 64Mi"}, requests: {cpu: "cpu*10%"}}
`)
	// The pod that is made up for the proof has no container of these names: that it is refused in these words proves it.
	w.inForce(t, i, "sized", sidecarset.PathPolicy)
	const sized = `
metadata: {generateName: sized-, labels: {app: sized}}
spec:
  containers:
  - {name: web, image: w, resources: {limits: {cpu: "2", memory: 1Gi}, requests: {cpu: 500m}}}
  - {name: cache, image: c, resources: {limits: {cpu: 1500m, memory: 1.5Gi}}}
  - {name: none, image: n}
`
	w.stop()
	defer w.serve(t.Context())
	pod, err := w.pod(t, namespace, sized)
	if err != nil {
		t.Fatal(err)
	}
	got := pod.Spec.Containers[0].Resources
	// The server had set the request that cache leaves out to the limit.
	if got.Limits.Cpu().String() != "350m" || got.Limits.Memory().String() != "704Mi" || got.Requests.Cpu().String() != "200m" {
		t.Errorf("resources: %+v", got)
	}
	_, err = w.pod(t, namespace, `{metadata: {name: none, labels: {app: sized}}, spec: {containers: [{name: other, image: o}]}}`)
	want := `SidecarSet sized: container agent takes its resources from containers whose name matches "^(web|cache)$", and the pod has none`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a pod without a target: %v", err)
	}
	t.Log(err)
	w.remove(t, set)
}

// Two hundred sidecars compute all their resources. The API server does so for a pod of thirty containers, and leaves a larger one to the operator: it
// would exceed what the API server spends on an expression, and the pod would be refused.
func TestResourcesOfManySidecars(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	i := w.injection(true)
	var text strings.Builder
	text.WriteString("apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: many}\nspec:\n  selector: {matchLabels: {app: many}}\n  containers:\n")
	for n := range 200 {
		fmt.Fprintf(&text, `  - {name: agent-%d, image: "example/agent:v1", resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: .*,
      resourcesExpr: {limits: {cpu: "max(cpu*10%%, 1m)", memory: memory/4}, requests: {cpu: cpu*10%%, memory: memory/4}}}}
`, n)
	}
	w.apply(t, text.String())
	t.Cleanup(func() { w.switchedOff(t) })
	t.Log(w.inForce(t, i, "many", sidecarset.PathSplit).Condition.Message)
	pod := func(own int) string {
		var all []string
		for n := range own {
			all = append(all, fmt.Sprintf("{name: web-%d, image: w, resources: {limits: {cpu: 1, memory: 4Mi}}}", n))
		}
		return "{metadata: {generateName: many-, labels: {app: many}}, spec: {containers: [" + strings.Join(all, ", ") + "]}}"
	}
	injected := func(own int) {
		t.Helper()
		created, err := w.pod(t, namespace, pod(own))
		if err != nil {
			t.Fatalf("a pod of %d containers: %v", own, err)
		}
		last := created.Spec.Containers[199]
		if got := len(created.Spec.Containers); got != own+200 || last.Name != "agent-199" || last.Resources.Requests.Cpu().MilliValue() != int64(own)*100 ||
			last.Resources.Limits.Memory().Value() != int64(own)<<20 {
			t.Errorf("a pod of %d containers: %d are created, the last sidecar is %s with %+v", own, got, last.Name, last.Resources)
		}
	}
	injected(1)
	injected(30)
	injected(50)
	w.stop()
	defer w.serve(t.Context())
	injected(30)
	if _, err := w.pod(t, namespace, pod(50)); err == nil || !strings.Contains(err.Error(), "sidecarset-many.operator.kruise.io") {
		t.Errorf("a pod that the policy leaves, with the operator dead: %v", err)
	}
}

// A share of new pods gets a pinned revision, by the policy where the pod has a token, else by the webhook.
func TestShareOfPodsByPolicy(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	i := w.injection(true)
	pinned := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: "shared-old", Labels: map[string]string{
			"kruise.io/sidecarset-name": "drawn", "apps.kruise.io/sidecarset-custom-version": "old",
		}},
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"$patch":"replace","containers":[{"name":"agent","image":"example/agent:old"}]}}`)},
	}
	if err := w.client.Create(t.Context(), pinned); err != nil {
		t.Fatal(err)
	}
	defer w.remove(t, pinned)
	w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: drawn}
spec:
  selector: {matchLabels: {app: drawn}}
  containers: [{name: agent, image: "example/agent:new"}]
  injectionStrategy: {revision: {customVersion: old, policy: Partial}}
  updateStrategy: {partition: 30%}
`)
	t.Log(w.inForce(t, i, "drawn", sidecarset.PathSplit).Condition.Message)
	drawn := func(more string) (string, error) {
		pod, err := w.pod(t, namespace, `{metadata: {generateName: drawn-, labels: {app: drawn}}, spec: {`+more+`containers: [{name: web, image: w}]}}`)
		if err != nil || containers(pod) != "agent web" {
			return containers(pod), err
		}
		return pod.Spec.Containers[0].Image, nil
	}
	const without = "automountServiceAccountToken: false, "
	if image, err := drawn(without); err != nil || !strings.HasPrefix(image, "example/agent:") {
		t.Errorf("without a token: %s, %v", image, err)
	}
	w.stop()
	defer w.serve(t.Context())
	if image, err := drawn(without); err == nil || !strings.Contains(err.Error(), "sidecarset-drawn.operator.kruise.io") {
		t.Errorf("without a token, with the operator dead: %s, %v", image, err)
	}
	counts := map[string]int{}
	const pods = 300
	for range pods {
		image, err := drawn("")
		if err != nil {
			t.Fatal(err)
		}
		counts[image]++
	}
	// Six standard deviations.
	if old := counts["example/agent:old"]; old < 90-48 || old > 90+48 || old+counts["example/agent:new"] != pods {
		t.Errorf("30%% of %d pods: %v", pods, counts)
	}
	t.Logf("measured: of %d pods: %v", pods, counts)
}
