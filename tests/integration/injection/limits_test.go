// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// restricted is a pod that the operator's own namespace takes.
const restricted = `
metadata: {generateName: shop-, labels: {app: shop}}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: web, image: example/web, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`

// ways are the ways of injection that the server has, by whether policies are preferred.
func (w *fixture) ways(t *testing.T) map[bool]sidecarset.Path {
	t.Helper()
	ways := map[bool]sidecarset.Path{false: sidecarset.PathWebhook}
	if w.servesPolicies(t) {
		ways[true] = sidecarset.PathPolicy
	}
	return ways
}

// off is the injection of an operator for which the kind is switched off.
func (w *fixture) off() *sidecarset.Injection {
	return sidecarset.NewInjection(sidecarset.InjectionOptions{
		Client: w.client, Live: w.client, Namespace: install.Namespace, PreferPolicy: true, Clock: clock.RealClock{},
		Sets: func(context.Context) ([]unstructured.Unstructured, error) { return nil, nil },
	})
}

// Neither way touches the namespaces that nothing may be in the way of, the pods that kubelets show, and those that are to be let through.
func TestWhatIsNeverInjected(t *testing.T) {
	w := shared
	namespace, exempt := w.namespace(t, nil), w.namespace(t, map[string]string{podentry.BypassLabel: podentry.BypassValue})
	for preferPolicy, path := range w.ways(t) {
		t.Run(string(path), func(t *testing.T) {
			i := w.injection(preferPolicy)
			w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: all}
spec:
  selector: {matchExpressions: [{key: app, operator: Exists}]}
  containers: [{name: agent, image: "example/agent:v1"}]
`)
			t.Cleanup(func() { // after the set is gone
				if _, err := i.Reconcile(context.Background(), "all", sidecarset.Latest{}); err != nil {
					t.Error(err)
				}
			})
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

// Somebody else refuses the pod that is made up for a proof: then nothing is known, and the condition says who it was. Once he lets it through,
// the proof holds.
func TestAProofThatSomebodyElseRefuses(t *testing.T) {
	w := shared
	namespace := w.namespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := w.client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	for preferPolicy, path := range w.ways(t) {
		t.Run(string(path), func(t *testing.T) {
			i := w.injection(preferPolicy)
			set := w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: refused}
spec:
  selector: {matchLabels: {app: refused}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}
  containers: [{name: agent, image: "example/agent:v1", securityContext: {privileged: true}}]
`)
			t.Cleanup(func() {
				if _, err := i.Reconcile(context.Background(), "refused", sidecarset.Latest{}); err != nil {
					t.Error(err)
				}
			})
			says := func(who string) {
				t.Helper()
				w.eventually(t, "the condition says that "+who+" refuses", func(ctx context.Context) error {
					state, err := i.Reconcile(ctx, "refused", sidecarset.Latest{})
					if err == nil && (state.Condition.Status != metav1.ConditionUnknown || !strings.Contains(state.Condition.Message, who)) {
						err = fmt.Errorf("it says %+v", state.Condition)
					}
					return err
				})
			}
			says("violates PodSecurity")
			containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "containers")
			containers[0].(map[string]any)["securityContext"] = map[string]any{
				"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
			}
			containers[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"cpu": "1m", "memory": "4Mi"}}
			if err := unstructured.SetNestedSlice(set.Object, containers, "spec", "containers"); err != nil {
				t.Fatal(err)
			}
			if err := w.client.Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			says("exceeded quota")
			change := func(pods string) {
				t.Helper()
				patch := fmt.Sprintf(`{"spec":{"hard":{"pods":%q}}}`, pods)
				if err := w.client.Patch(t.Context(), quota, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
					t.Fatal(err)
				}
			}
			change("9")
			w.inForce(t, i, "refused", path)
			change("0")
		})
	}
}

// The kind is switched off: what is registered goes, but for the anchor, and pods come up without sidecars. Switched on again, it injects again.
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

// onlyTheAnchor says whether the policy has a binding that matches pods.
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
