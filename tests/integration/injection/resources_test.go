// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
)

// The API server computes resources itself, and refuses a pod without a basis for them, in
// our words.
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
	// The server had set cache's omitted request to the limit.
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
