// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// OpenKruise with WEBHOOK_HOST has its webhooks called by a URL, and its Service may have another name. Such a configuration blocked the takeover, and
// --remove-webhooks left it as it was.
func TestWebhooksThatLeadToOpenKruiseByAURL(t *testing.T) {
	byURL := admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://10.0.0.1:9876/mutate-pod")}
	service := func(name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "kruise", Name: name}}
	}
	pods := []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{Resources: []string{"pods"}}}}
	configuration := func(name string, calls ...admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
		c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for i := range calls {
			c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{Name: "m" + string(rune('a'+i)) + ".kb.io", ClientConfig: calls[i], Rules: pods})
		}
		return c
	}
	const foreign = "policies"
	for name, tc := range map[string]struct {
		stored *admissionregistrationv1.MutatingWebhookConfiguration
		want   []Webhooks
		left   []string // the configurations that stay, with how many entries
	}{
		"by a URL": {
			stored: configuration(mutatingName, byURL),
			want:   []Webhooks{{Kind: "MutatingWebhookConfiguration", Name: mutatingName, Entries: []string{"ma.kb.io"}, OnPods: true}},
		},
		"by a Service of another name": {
			stored: configuration(mutatingName, service("hooks"), byURL),
			want:   []Webhooks{{Kind: "MutatingWebhookConfiguration", Name: mutatingName, Entries: []string{"ma.kb.io", "mb.kb.io"}, Namespaces: []string{"kruise"}, OnPods: true}},
		},
		"of somebody else": {stored: configuration(foreign, byURL, service("hooks")), left: []string{foreign + " 2"}},
		"of somebody else, and one of OpenKruise beside it": {
			stored: configuration(foreign, byURL, service(serviceName)),
			want:   []Webhooks{{Kind: "MutatingWebhookConfiguration", Name: foreign, Entries: []string{"mb.kb.io"}, Others: 1, Namespaces: []string{"kruise"}, OnPods: true}},
			left:   []string{foreign + " 1"},
		},
		"none are left in OpenKruise's": {stored: configuration(mutatingName), left: []string{mutatingName + " 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.stored).Build()
			var found Cluster
			if err := (Reading{Client: c}).readWebhooks(t.Context(), &found); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, found.Webhooks); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if got := len(Findings(found, Options{})); got != len(tc.want) {
				t.Errorf("%d findings, want %d", got, len(tc.want))
			}
			if err := RemoveWebhooks(t.Context(), c, found, func(string) {}); err != nil {
				t.Fatal(err)
			}
			list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
			if err := c.List(t.Context(), list, &client.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			var left []string
			for i := range list.Items {
				left = append(left, list.Items[i].Name+" "+string(rune('0'+len(list.Items[i].Webhooks))))
			}
			if got, want := strings.Join(left, ", "), strings.Join(tc.left, ", "); got != want {
				t.Errorf("left are %q, want %q", got, want)
			}
		})
	}
}
