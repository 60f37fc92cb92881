// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

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
			c := fake.NewClientBuilder().WithScheme(types).WithRESTMapper(mapper).WithObjects(binding).WithInterceptorFuncs(interceptor.Funcs{Create: answer}).Build()
			r := &Registrar{
				Client: c, Live: c, On: true, PreferPolicy: true, Namespace: "kruise-system", Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
				Call: func(string) (map[string]any, error) {
					return map[string]any{"url": "https://127.0.0.1:1/x", "caBundle": "Y2E="}, nil
				},
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.narrow && result.RequeueAfter != proveSoon {
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
