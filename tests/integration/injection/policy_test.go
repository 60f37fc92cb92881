// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

const byPolicy = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: shop}}
  containers:
  - name: agent
    image: "example/agent:v1"
    volumeMounts: [{name: spool, mountPath: /spool}]
  - {name: mesh, image: "example/mesh:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "example/idle:v1"}}
  initContainers: [{name: native, image: "example/native:v1", restartPolicy: Always}]
  updateStrategy: {type: NotUpdate}
  volumes: [{name: spool, emptyDir: {}}]
  patchPodMetadata: [{annotations: {example.com/logs: "on"}, patchPolicy: Retain}]
`

// byWebhook has a field unknown to the API server.
const byWebhook = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: extra}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: early, futureField: 1, image: "example/early:v1"}]
  patchPodMetadata: [{annotations: {example.com/config: '{"a":1}'}, patchPolicy: MergePatchJson}]
`

const namedShop = `
metadata: {generateName: shop-, labels: {app: shop}}
spec: {containers: [{name: web, image: example/web, env: [{name: NAME, value: shop}]}]}
`

// creating asks for pods until a state is reached, and none may be refused meanwhile.
func (w *fixture) creating(t *testing.T, namespace, until string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 75*time.Second, true, func(context.Context) (bool, error) {
		pod, err := w.pod(t, namespace, namedShop)
		if err != nil {
			return false, err
		}
		last = containers(pod)
		return last == until, nil
	})
	if err != nil {
		t.Fatalf("until pods are %q: %v, the last was %q", until, err, last)
	}
}

func TestByPolicy(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	i := w.injection(true)
	log := w.apply(t, byPolicy)
	state := w.inForce(t, i, "log", sidecarset.PathPolicy)
	t.Log(state.Condition.Message)
	if w.registered(t) {
		t.Error("a webhook matches pods although the policy is proven")
	}
	const injected = "agent mesh-1 mesh-2 web"

	t.Run("with the operator dead", func(t *testing.T) {
		w.stop()
		defer w.serve(t.Context())
		pod, err := w.pod(t, namespace, namedShop)
		if err != nil {
			t.Fatal(err)
		}
		if got := containers(pod); got != injected || pod.Spec.InitContainers[0].Name != "native" {
			t.Errorf("containers: %s, init containers: %v", got, pod.Spec.InitContainers)
		}
	})
	t.Run("one set by policy and one by webhook on one pod", func(t *testing.T) {
		extra := w.apply(t, byWebhook)
		if state := w.inForce(t, i, "extra", sidecarset.PathWebhook); !strings.Contains(state.Condition.Message, "a field that this version does not know") {
			t.Errorf("why: %s", state.Condition.Message)
		}
		w.inForce(t, i, "log", sidecarset.PathPolicy)
		w.creating(t, namespace, "early "+injected)
		w.remove(t, extra)
		if _, err := i.Reconcile(t.Context(), "extra", sidecarset.Latest{}); err != nil {
			t.Fatal(err)
		}
		w.creating(t, namespace, injected)
	})
	t.Run("the switch between both ways leaves no gap", func(t *testing.T) {
		w.creating(t, namespace, injected)
		gap := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(gap)
			for ctx.Err() == nil {
				pod, err := w.pod(t, namespace, namedShop)
				if err == nil && containers(pod) != injected {
					err = fmt.Errorf("containers: %s", containers(pod))
				}
				if err != nil {
					gap <- err
					return
				}
			}
		}()
		w.inForce(t, w.injection(false), "log", sidecarset.PathWebhook)
		i = w.injection(true)
		w.inForce(t, i, "log", sidecarset.PathPolicy)
		cancel()
		if err := <-gap; err != nil {
			t.Error(err)
		}
		if w.registered(t) {
			t.Error("a webhook still matches pods")
		}
	})
	t.Run("deleted while the operator is dead, it ends, and no pod is refused", func(t *testing.T) {
		w.remove(t, log)
		w.creating(t, namespace, "web")
	})
	t.Run("the anchor stays, and the next set is injected", func(t *testing.T) {
		if _, err := i.Reconcile(t.Context(), "log", sidecarset.Latest{}); err != nil {
			t.Fatal(err)
		}
		bindings := &admissionv1.MutatingAdmissionPolicyBindingList{}
		if err := w.client.List(t.Context(), bindings); err != nil {
			t.Fatal(err)
		}
		if len(bindings.Items) != 1 || bindings.Items[0].Name != "kruise-operator-sidecars-anchor" {
			t.Errorf("bindings: %v", bindings.Items)
		}
		log = w.apply(t, byPolicy)
		w.inForce(t, i, "log", sidecarset.PathPolicy)
		w.creating(t, namespace, injected)
	})
	t.Run("uninstalled while the operator is dead, it ends, and no pod is refused", func(t *testing.T) {
		binding := &rbacv1.ClusterRoleBinding{}
		binding.Name = "kruise-operator-manager"
		if err := w.client.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		w.creating(t, namespace, "web")
		w.remove(t, log)
		if err := install.Install(t.Context(), w.client, install.Options{WebhookURL: fmt.Sprintf("https://127.0.0.1:%d", w.port)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.serving.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		err := w.client.Get(t.Context(), client.ObjectKey{Name: "kruise-operator-sidecars"}, &admissionv1.MutatingAdmissionPolicy{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the policy outlives the installation: %v", err)
		}
		// A server of 1.36 does not notice revisions again until then, as docs/operations/injection.md says. The tests after this one rely on it.
		if strings.HasPrefix(w.cluster.Version(), "v1.36.") {
			if err := w.cluster.RestartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// becoming reconciles with an injection until pods come out like this.
func (w *fixture) becoming(t *testing.T, i *injecting, namespace, want string) {
	t.Helper()
	w.eventually(t, "pods become "+want, func(ctx context.Context) error {
		if _, err := i.Reconcile(ctx, "log", sidecarset.Latest{}); err != nil {
			return err
		}
		pod, err := w.pod(t, namespace, namedShop)
		if err != nil {
			return err
		}
		if got := containers(pod); got != want {
			return fmt.Errorf("they are %s", got)
		}
		return nil
	})
}

// A policy, or a set's binding, changed or deleted by hand is restored by a new process, or
// the next comparison within minutes.
func TestWhatIsChangedByHandIsPutRight(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	w.apply(t, byPolicy)
	const injected = "agent mesh-1 mesh-2 web"
	w.inForce(t, w.injection(true), "log", sidecarset.PathPolicy)
	for name, change := range map[string]func() error{
		"the policy does nothing": func() error {
			policy := &admissionv1.MutatingAdmissionPolicy{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: sidecar.PolicyName}, policy); err != nil {
				return err
			}
			policy.Spec.Mutations = []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "test", path: "/kind", value: "Pod"}]`},
			}}
			return w.client.Update(t.Context(), policy)
		},
		"the binding is deleted": func() error {
			return w.client.Delete(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: sidecar.EntryName("log")}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.inForce(t, w.injection(true), "log", sidecarset.PathPolicy)
			w.creating(t, namespace, injected)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			w.creating(t, namespace, "web") // the change acts
			w.becoming(t, w.injection(true), namespace, injected)
		})
	}
	w.inForce(t, w.injection(true), "log", sidecarset.PathPolicy)
}
