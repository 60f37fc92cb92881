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
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/launchpriority"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

// launchPolicy is the name of the policies of launch priorities.
const launchPolicy = "kruise-operator-launch-priority"

const (
	inOrder = `
metadata: {generateName: shop-, labels: {app: shop}, annotations: {apps.kruise.io/container-launch-priority: Ordered}}
spec: {containers: [{name: db, image: example/db}, {name: web, image: example/web, env: [{name: NAME, value: shop}]}, {name: log, image: example/log}]}
`
	noToken = `
metadata: {generateName: shop-, annotations: {apps.kruise.io/container-launch-priority: Ordered}}
spec: {automountServiceAccountToken: false, containers: [{name: db, image: example/db}, {name: web, image: example/web}]}
`
	asking = `
metadata: {name: shop}
spec: {containers: [{name: main, image: example/main}, {name: mesh, image: example/mesh, env: [{name: KRUISE_CONTAINER_PRIORITY, value: "VALUE"}]}]}
`
	meshSet = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: mesh, image: "example/mesh:v1", env: [{name: KRUISE_CONTAINER_PRIORITY, value: "10"}]}]
  updateStrategy: {type: NotUpdate}
`
)

// registrar keeps the order of all pods until the test ends.
func (w *fixture) registrar(t *testing.T, preferPolicy bool) *hooks.Registrar {
	t.Helper()
	policies, err := launchpriority.Policies(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := w.hooks(preferPolicy, policies...)
	owner := r.Owner("launch priorities", nil)
	owner.Want(launchpriority.Hooks()...)
	t.Cleanup(func() {
		owner.Want()
		if _, err := r.Reconcile(context.Background(), ctrl.Request{}); err != nil {
			t.Error(err)
		}
		for kind, object := range map[string]client.Object{
			"policy": &admissionv1.MutatingAdmissionPolicy{}, "binding": &admissionv1.MutatingAdmissionPolicyBinding{},
			"refusing policy": &admissionv1.ValidatingAdmissionPolicy{}, "its binding": &admissionv1.ValidatingAdmissionPolicyBinding{},
			"webhook": &admissionv1.MutatingWebhookConfiguration{},
		} {
			name := launchPolicy
			if kind == "webhook" {
				name = hooks.MutatingConfiguration
			}
			if err := w.client.Get(context.Background(), client.ObjectKey{Name: name}, object); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				t.Errorf("with the gate off there is a %s: %v", kind, err)
			}
		}
	})
	return r
}

// ordering reconciles until pods are ordered, by the policy or by the webhook.
func (w *fixture) ordering(t *testing.T, r *hooks.Registrar, namespace string, byPolicy bool) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if _, err := r.Reconcile(ctx, ctrl.Request{}); err != nil {
			last = err.Error()
			return false, nil
		}
		configuration := &admissionv1.MutatingWebhookConfiguration{}
		if err := w.client.Get(ctx, client.ObjectKey{Name: hooks.MutatingConfiguration}, configuration); err != nil {
			last = err.Error()
			return false, nil
		}
		narrow := len(configuration.Webhooks[0].MatchConditions) == 3
		pod, err := w.pod(t, namespace, inOrder)
		last = fmt.Sprintf("narrow %v, %v, %s", narrow, err, levels(pod))
		return err == nil && narrow == byPolicy && levels(pod) == "db=0 web=-1 log=-2", nil
	})
	if err != nil {
		t.Fatalf("pods are not ordered: %s", last)
	}
}

// levels are a pod's containers waiting at its barrier, and their priorities.
func levels(pod *corev1.Pod) string {
	var words []string
	for _, c := range launch.Containers(pod) {
		words = append(words, fmt.Sprintf("%s=%d", c.Name, c.Priority))
	}
	return strings.Join(words, " ")
}

func TestContainersOfPodsAreOrdered(t *testing.T) {
	w := shared
	for name, byPolicy := range map[string]bool{"by policy": true, "by webhook": false} {
		t.Run(name, func(t *testing.T) {
			if byPolicy {
				w.needsPolicies(t)
			}
			namespace := w.namespace(t, nil)
			r := w.registrar(t, byPolicy)
			w.ordering(t, r, namespace, byPolicy)
			w.ordersPods(t, namespace)
			if byPolicy {
				t.Run("with the operator dead", func(t *testing.T) {
					w.stop()
					defer w.serve(t.Context())
					pod, err := w.pod(t, namespace, inOrder)
					if err != nil || levels(pod) != "db=0 web=-1 log=-2" {
						t.Errorf("%v, %s", err, levels(pod))
					}
				})
			}
			t.Run("an injected container takes part", func(t *testing.T) {
				i := w.injectionBy(r, byPolicy)
				t.Cleanup(func() { // after the set is gone
					if _, err := i.Reconcile(context.Background(), "mesh", sidecarset.Latest{}); err != nil {
						t.Error(err)
					}
				})
				w.apply(t, meshSet)
				w.inForce(t, i, "mesh", map[bool]sidecarset.Path{true: sidecarset.PathPolicy, false: sidecarset.PathWebhook}[byPolicy])
				pod, err := w.pod(t, namespace, namedShop)
				if err != nil || levels(pod) != "mesh=10 web=0" {
					t.Errorf("%v, %s", err, levels(pod))
				}
			})
		})
	}
}

// ordersPods creates pods of all sorts.
func (w *fixture) ordersPods(t *testing.T, namespace string) {
	t.Helper()
	pod, err := w.pod(t, namespace, inOrder)
	if err != nil {
		t.Fatal(err)
	}
	if len(pod.Name) != len("shop-")+5 || pod.Spec.Containers[1].Env[1].ValueFrom.ConfigMapKeyRef.Name != pod.Name+"-barrier" {
		t.Errorf("the pod is called %q, and reads %+v", pod.Name, pod.Spec.Containers[1].Env)
	}
	if pod, err := w.pod(t, namespace, noToken); err != nil || levels(pod) != "db=0 web=-1" {
		t.Errorf("a pod without a token: %v, %s", err, levels(pod))
	}
	read := map[string]bool{}
	for range 2 {
		pod, err := w.pod(t, namespace, strings.ReplaceAll(asking, "VALUE", "1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range launch.Containers(pod) {
			if read[c.Key] {
				t.Errorf("two pods of one name read the key %s", c.Key)
			}
			read[c.Key] = true
		}
	}
	for value, want := range map[string]string{"1": "mesh=1 main=0", "-3": "main=0 mesh=-3", "0": ""} {
		if pod, err := w.pod(t, namespace, strings.ReplaceAll(asking, "VALUE", value)); err != nil || levels(pod) != want {
			t.Errorf("priority %s: %v, %q, want %q", value, err, levels(pod), want)
		}
	}
	for _, value := range []string{"abc", "", "2147483648"} {
		_, err := w.pod(t, namespace, strings.ReplaceAll(asking, "VALUE", value))
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.containers[1].env") ||
			!strings.Contains(err.Error(), "must be a decimal integer from -2147483647 to 2147483647") {
			t.Errorf("priority %q: %v", value, err)
		} else {
			t.Log(err)
		}
	}
	shapeless := strings.NewReplacer("KRUISE_CONTAINER_PRIORITY", "KRUISE_CONTAINER_BARRIER", "VALUE", "p_1").Replace(asking)
	w.eventually(t, "a barrier without a ConfigMap is refused", func(context.Context) error {
		if _, err := w.pod(t, namespace, shapeless); err == nil || !strings.Contains(err.Error(), "refers to a key p_<n> of a ConfigMap") {
			return errors.New("the answer is " + fmt.Sprint(err))
		}
		return nil
	})
	one := `
metadata: {name: shop, annotations: {apps.kruise.io/container-launch-priority: Ordered}}
spec: {containers: [{name: main, image: example/main}]}
`
	if pod, err := w.pod(t, namespace, one); err != nil || len(pod.Spec.Containers[0].Env) > 0 {
		t.Errorf("one container: %v, %+v", err, pod.Spec.Containers[0].Env)
	}
	if pod, err := w.pod(t, namespace, strings.ReplaceAll(inOrder, "Ordered", "ordered")); err != nil || levels(pod) != "" || len(pod.Spec.Containers[0].Env) > 0 {
		t.Errorf("a small letter: %v, %s", err, levels(pod))
	}
}
