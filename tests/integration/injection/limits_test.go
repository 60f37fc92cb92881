// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// restricted is a pod the operator's own namespace accepts.
const restricted = `
metadata: {generateName: shop-, labels: {app: shop}}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: web, image: example/web, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`

// ways are the server's ways of injection, by the preference for policies.
func (w *fixture) ways(t *testing.T) map[bool]sidecarset.Path {
	t.Helper()
	ways := map[bool]sidecarset.Path{false: sidecarset.PathWebhook}
	if w.servesPolicies(t) {
		ways[true] = sidecarset.PathPolicy
	}
	return ways
}

// off is the registration of an operator with the kind switched off.
func (w *fixture) off() *injecting { return &injecting{registrar: w.hooks(true)} }

// switchedOff removes the registration once a test's sets are gone.
func (w *fixture) switchedOff(t *testing.T) {
	t.Helper()
	if _, err := w.off().Reconcile(context.Background(), "", sidecarset.Latest{}); err != nil {
		t.Error(err)
	}
}

// Neither way touches the protected namespaces, the pods kubelets show, and pods to be let
// through.
func TestWhatIsNeverInjected(t *testing.T) {
	w := shared
	namespace, exempt := w.namespace(t, nil), w.namespace(t, map[string]string{podentry.BypassLabel: podentry.BypassValue})
	for preferPolicy, path := range w.ways(t) {
		t.Run(string(path), func(t *testing.T) {
			i := w.injection(preferPolicy)
			t.Cleanup(func() { // after the set is gone
				if _, err := i.Reconcile(context.Background(), "all", sidecarset.Latest{}); err != nil {
					t.Error(err)
				}
			})
			w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: all}
spec:
  selector: {matchExpressions: [{key: app, operator: Exists}]}
  containers: [{name: agent, image: "example/agent:v1"}]
`)
			w.inForce(t, i, "all", path)
			mirror := strings.NewReplacer("labels:", "annotations: {kubernetes.io/config.mirror: x}, labels:", "spec: {", "spec: {nodeName: none, ").Replace(shop)
			for name, tc := range map[string]struct{ namespace, pod, want string }{
				"a pod":                                  {namespace, shop, "agent web"},
				"of kube-system":                         {"kube-system", shop, "web"},
				"of the operator's own namespace":        {install.Namespace, restricted, "web"},
				"of a namespace that is to be let alone": {exempt, shop, "web"},
				"to be let alone":                        {namespace, strings.Replace(shop, "app: shop", "app: shop, "+podentry.BypassLabel+": "+podentry.BypassValue, 1), "web"},
				"that a kubelet shows":                   {namespace, mirror, "web"},
			} {
				pod, err := w.pod(t, tc.namespace, tc.pod)
				if err != nil {
					t.Errorf("a pod %s: %v", name, err)
				} else if got := containers(pod); got != tc.want {
					t.Errorf("a pod %s has containers %q, want %q", name, got, tc.want)
				}
			}
		})
	}
}

// With the kind switched off the registration goes, but for the anchor, and pods come up
// without sidecars. Switched on again, it injects again.
func TestTheKindIsSwitchedOffAndOnAgain(t *testing.T) {
	w := shared
	namespace := w.namespace(t, nil)
	for preferPolicy, path := range w.ways(t) {
		t.Run(string(path), func(t *testing.T) {
			w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: switched}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: agent, image: "example/agent:v1"}]
`)
			t.Cleanup(func() {
				if _, err := w.off().Reconcile(context.Background(), "", sidecarset.Latest{}); err != nil {
					t.Error(err)
				}
			})
			for range 2 {
				w.inForce(t, w.injection(preferPolicy), "switched", path)
				w.creating(t, namespace, "agent web")
				if _, err := w.off().Reconcile(t.Context(), "", sidecarset.Latest{}); err != nil {
					t.Fatal(err)
				}
				if w.registered(t) {
					t.Error("a webhook matches pods although the kind is off")
				}
				if err := w.onlyTheAnchor(t.Context()); preferPolicy && err != nil {
					t.Error(err)
				}
				w.creating(t, namespace, "web")
			}
		})
	}
}

// onlyTheAnchor is true unless the policy has a binding with pods.
func (w *fixture) onlyTheAnchor(ctx context.Context) error {
	bindings := &admissionv1.MutatingAdmissionPolicyBindingList{}
	if err := w.client.List(ctx, bindings); err != nil {
		return err
	}
	for _, binding := range bindings.Items {
		if binding.Spec.PolicyName == sidecar.PolicyName && binding.Name != sidecar.AnchorName {
			return errors.New("there is binding " + binding.Name)
		}
	}
	return nil
}
