// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// cluster is an API server that serves all kinds.
func cluster(t *testing.T, funcs interceptor.Funcs) client.WithWatch {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(types.PrioritizedVersionsAllGroups())
	for kind := range types.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	binding := &rbacv1.ClusterRoleBinding{}
	binding.Name, binding.UID = "kruise-operator-manager", "uid"
	return fake.NewClientBuilder().WithScheme(types).WithRESTMapper(mapper).WithObjects(binding).WithInterceptorFuncs(funcs).Build()
}

func registrar(c client.WithWatch, preferPolicy bool) *Registrar {
	return &Registrar{
		Client: c, Live: c, On: true, PreferPolicy: preferPolicy, Namespace: "kruise-system", Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
		Call: func(string) (map[string]any, error) {
			return map[string]any{"url": "https://127.0.0.1:1/x", "caBundle": "Y2E="}, nil
		},
	}
}

// The webhook refuses pods whose priorities cannot be read, and stays for all pods until the policies are shown to order and to refuse. They begin to
// act one after the other, seconds apart on a busy API server.
func TestTheWebhookStaysUntilThePoliciesOrderAndRefuse(t *testing.T) {
	refusal := errors.New(`pods "x" is forbidden: ` + launch.BadPriority)
	for name, tc := range map[string]struct {
		orders bool
		refuse error
		narrow bool
	}{
		"both are in force":                      {orders: true, refuse: refusal, narrow: true},
		"a bad priority is not refused yet":      {orders: true},
		"pods are not ordered yet":               {refuse: refusal},
		"the pod is refused by somebody else":    {orders: true, refuse: errors.New("exceeded quota")},
		"neither does anything":                  {},
		"everything is refused by somebody else": {refuse: errors.New("exceeded quota")},
	} {
		t.Run(name, func(t *testing.T) {
			// answer is what the API server says to the dry runs: the policies are served, and may have no effect.
			answer := func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				pod, is := object.(*corev1.Pod)
				if !is {
					return errors.New("nothing but pods is created")
				}
				if pod.Spec.Containers[1].Env != nil {
					return tc.refuse
				}
				if !tc.orders {
					return nil
				}
				_, fault := launch.Order(pod)
				if fault != nil {
					return fault
				}
				return nil
			}
			c := cluster(t, interceptor.Funcs{Create: answer})
			r := registrar(c, true)
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.narrow && result.RequeueAfter != proofRetry {
				t.Errorf("it is tried again after %s", result.RequeueAfter)
			}
			configuration := &admissionv1.MutatingWebhookConfiguration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: launch.WebhookConfiguration}, configuration); err != nil {
				t.Fatal(err)
			}
			if got := len(configuration.Webhooks[0].MatchConditions) == 3; got != tc.narrow {
				t.Errorf("the webhook is narrowed: %v", got)
			}
		})
	}
}

// unknowing is an API server that does not say which kinds it serves.
type unknowing struct{ client.WithWatch }

func (u unknowing) RESTMapper() meta.RESTMapper { return silentMapper{u.WithWatch.RESTMapper()} }

type silentMapper struct{ meta.RESTMapper }

func (silentMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("no connection")
}

// When the webhook takes over from the policy, no pod meets neither.
func TestThePolicyStaysUntilTheWebhookIsForAllPods(t *testing.T) {
	policy := client.ObjectKey{Name: launch.PolicyName}
	var removed []int // how many conditions the webhook had when a policy was removed
	c := cluster(t, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			pod, is := object.(*corev1.Pod)
			if !is || pod.Spec.Containers[1].Env != nil {
				return errors.New(launch.BadPriority)
			}
			_, fault := launch.Order(pod)
			if fault != nil {
				return fault
			}
			return nil
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			configuration := &admissionv1.MutatingWebhookConfiguration{}
			if err := c.Get(ctx, client.ObjectKey{Name: launch.WebhookConfiguration}, configuration); err != nil {
				return err
			}
			removed = append(removed, len(configuration.Webhooks[0].MatchConditions))
			return c.Delete(ctx, object, options...)
		},
	})
	if _, err := registrar(c, true).Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrar(unknowing{c}, true).Reconcile(t.Context(), ctrl.Request{}); err == nil {
		t.Error("it is not said that nobody knows what is served")
	}
	if err := c.Get(t.Context(), policy, &admissionv1.MutatingAdmissionPolicy{}); err != nil {
		t.Errorf("while nobody knows what is served, the policy is not left alone: %v", err)
	}
	if _, err := registrar(c, false).Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if len(removed) == 0 || slices.Contains(removed, 3) {
		t.Errorf("policies are removed while the webhook has so many conditions: %v; narrowed it has 3", removed)
	}
}
