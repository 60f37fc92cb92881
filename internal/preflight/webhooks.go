// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Webhooks is a webhook configuration that leads to OpenKruise.
type Webhooks struct {
	// Kind is MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
	Kind, Name string
	// Entries are the names of its entries that lead there; Others is how many lead elsewhere.
	Entries []string
	Others  int
	// Namespaces are those of the Service.
	Namespaces []string
	// OnPods says that pods cannot be created or changed while nobody answers.
	OnPods bool
}

func (r Reading) readWebhooks(ctx context.Context, c *Cluster) error {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := r.Client.List(ctx, mutating); err != nil {
		return err
	}
	if err := r.Client.List(ctx, validating); err != nil {
		return err
	}
	for _, m := range mutating.Items {
		w := Webhooks{Kind: "MutatingWebhookConfiguration", Name: m.Name}
		for _, entry := range m.Webhooks {
			w.add(entry.Name, entry.ClientConfig, entry.Rules, m.Name == mutatingName)
		}
		c.addWebhooks(w)
	}
	for _, v := range validating.Items {
		w := Webhooks{Kind: "ValidatingWebhookConfiguration", Name: v.Name}
		for _, entry := range v.Webhooks {
			w.add(entry.Name, entry.ClientConfig, entry.Rules, v.Name == validatingName)
		}
		c.addWebhooks(w)
	}
	return nil
}

// add looks at one entry: it is OpenKruise's when it leads to a Service of that name, or is in a configuration that OpenKruise writes as a whole (known),
// where it may lead to a URL (WEBHOOK_HOST) or to a Service of another name.
func (w *Webhooks) add(name string, to admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations, known bool) {
	if !known && (to.Service == nil || to.Service.Name != serviceName) {
		w.Others++
		return
	}
	w.Entries = append(w.Entries, name)
	if to.Service != nil && !slices.Contains(w.Namespaces, to.Service.Namespace) {
		w.Namespaces = append(w.Namespaces, to.Service.Namespace)
	}
	for _, rule := range rules {
		w.OnPods = w.OnPods || slices.Contains(rule.Resources, "pods")
	}
}

// addWebhooks keeps a configuration that leads to OpenKruise. One without entries asks nobody.
func (c *Cluster) addWebhooks(w Webhooks) {
	if len(w.Entries) > 0 {
		c.Webhooks = append(c.Webhooks, w)
	}
}
