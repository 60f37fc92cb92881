// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// mutating is OpenKruise's configuration of mutating webhooks. They are called by a URL, as with WEBHOOK_HOST.
func mutating() *admissionv1.MutatingWebhookConfiguration {
	entry := func(name, resource string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://10.0.0.1:9876/mutate")},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{Resources: []string{resource}}}},
		}
	}
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: mutatingName},
		Webhooks:   []admissionv1.MutatingWebhook{entry("mcloneset.kb.io", "clonesets"), entry("mpod.kb.io", "pods")},
	}
}

// Between the removal of OpenKruise's webhook on pods and the end of the takeover, pods were created without their sidecars, and nothing said so.
func TestTheWebhookOnPodsGoesOnceAllSidecarsAreInjected(t *testing.T) {
	set := func(name string, paused bool) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": name}}, "injectionStrategy": map[string]any{"paused": paused},
		}}}
		object.SetGroupVersionKind(sidecarset.Kind())
		object.SetName(name)
		return object
	}
	for name, tc := range map[string]struct {
		sets []client.Object
		// after is after how many dry runs the set named late is injected; 0: never.
		after  int
		served []string
		left   string // the entries that stay
		said   string // a part of the error
	}{
		"there is no set":               {served: []string{"SidecarSet"}},
		"all are injected":              {sets: []client.Object{set("late", false)}, after: 1, served: []string{"SidecarSet"}},
		"one is injected later":         {sets: []client.Object{set("late", false)}, after: 5, served: []string{"SidecarSet"}},
		"one is paused":                 {sets: []client.Object{set("late", true)}, served: []string{"SidecarSet"}},
		"one is never injected":         {sets: []client.Object{set("late", false)}, served: []string{"SidecarSet"}, left: "mpod.kb.io", said: "does not inject the SidecarSets late"},
		"the kind is not to be managed": {sets: []client.Object{set("late", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			types, err := scheme.New()
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			c := fake.NewClientBuilder().WithScheme(types).WithObjects(append(tc.sets, mutating())...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, probe client.Object, _ ...client.CreateOption) error {
					if asked++; tc.after > 0 && asked >= tc.after {
						probe.SetAnnotations(map[string]string{sidecar.PolicyMark("late"): "revision"})
					}
					return nil
				},
			}).Build()
			synctest.Test(t, func(t *testing.T) {
				found := Cluster{}
				if err := (Reading{Client: c}).readWebhooks(t.Context(), &found); err != nil || len(Findings(found, Options{})) != 1 {
					t.Fatalf("found: %+v, %v", found.Webhooks, err)
				}
				err := RemoveWebhooks(t.Context(), c, &found, Options{Served: tc.served}, func(string) {})
				if (err != nil) != (tc.said != "") || err != nil && !strings.Contains(err.Error(), tc.said) {
					t.Errorf("it ends with %v", err)
				}
			})
			list := &admissionv1.MutatingWebhookConfigurationList{}
			if err := c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, configuration := range list.Items {
				for _, entry := range configuration.Webhooks {
					left = append(left, entry.Name)
				}
			}
			if got := strings.Join(left, " "); got != tc.left {
				t.Errorf("left is %q, want %q", got, tc.left)
			}
		})
	}
}
