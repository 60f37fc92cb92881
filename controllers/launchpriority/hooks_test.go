// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// The webhook refuses unreadable priorities, and stays for all pods until the policies prove to order and
// refuse. They take effect one by one, seconds apart on a busy API server.
func TestThePoliciesAreInForceWhenTheyOrderAndRefuse(t *testing.T) {
	refusal := errors.New(`pods "x" is forbidden: ` + launch.BadPriority)
	for name, tc := range map[string]struct {
		orders bool
		refuse error
		proven bool
	}{
		"both are in force":                      {orders: true, refuse: refusal, proven: true},
		"a bad priority is not refused yet":      {orders: true},
		"pods are not ordered yet":               {refuse: refusal},
		"the pod is refused by somebody else":    {orders: true, refuse: errors.New("exceeded quota")},
		"neither does anything":                  {},
		"everything is refused by somebody else": {refuse: errors.New("exceeded quota")},
	} {
		t.Run(name, func(t *testing.T) {
			// The API server serves the policies in dry runs, perhaps without effect yet.
			c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
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
					if _, fault := launch.Order(pod, ""); fault != nil {
						return fault
					}
					return nil
				},
			}).Build()
			if err := prove(t.Context(), c, c); (err == nil) != tc.proven {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestThePoliciesAreReadable(t *testing.T) {
	policies, err := Policies(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"} {
		if of := policies[i]; len(of.Objects) != 2 || of.Objects[0].GetKind() != want || of.Objects[1].GetKind() != want+"Binding" {
			t.Errorf("policy %s has %v", of.Name, of.Objects)
		}
	}
}
