// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
)

// formerAnnotation is what versions before 0.5 left on a configuration from which all entries had been taken out.
const formerAnnotation = "operator.kruise.io/webhook-client"

// KeepEntries takes the entries about the given resources out of our webhook configurations and puts all others back, pointing to the
// endpoint. Resources are named as rules name them, such as clonesets. A conflict is returned for the caller to try again; a configuration
// that does not exist is left alone. Only the leader calls it: replicas may be of different opinion.
func (s *Serving) KeepEntries(ctx context.Context, without sets.Set[string]) error {
	var failed []error
	for _, full := range s.options.Configurations {
		t, found := s.targetOf(full.GetKind(), full.GetName())
		if !found {
			failed = append(failed, fmt.Errorf("keeping %s: it is none of ours", full.GetName()))
			continue
		}
		wrote, err := s.update(ctx, t, func(have *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return s.withEntries(have, full, without)
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("keeping %s: %w", full.GetName(), err))
		}
		if wrote {
			ctrl.LoggerFrom(ctx).Info("Changed webhooks to those of the enabled kinds", "configuration", full.GetName(), "without", sets.List(without))
		}
	}
	return errors.Join(failed...)
}

// withEntries makes a configuration have the entries of full that are not about the given resources, and leaves entries alone that full does
// not have. It returns nil when nothing changes.
func (s *Serving) withEntries(have, full *unstructured.Unstructured, without sets.Set[string]) (*unstructured.Unstructured, error) {
	entries, err := entriesOf(have)
	if err != nil {
		return nil, err
	}
	all, err := entriesOf(full)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, entry := range all {
		at := slices.IndexFunc(entries, func(e map[string]any) bool { return e["name"] == entry["name"] })
		switch wanted := !isAbout(entry, without); {
		case !wanted && at >= 0:
			entries, changed = slices.Delete(entries, at, at+1), true
		case wanted && at < 0:
			if entry["clientConfig"], err = s.calling(entry); err != nil {
				return nil, err
			}
			entries, changed = append(entries, entry), true
		}
	}
	if !changed {
		return nil, nil
	}
	annotations := have.GetAnnotations()
	delete(annotations, formerAnnotation)
	have.SetAnnotations(annotations)
	list := make([]any, len(entries))
	for i := range entries {
		list[i] = entries[i]
	}
	return have, unstructured.SetNestedSlice(have.Object, list, "webhooks")
}

// calling is the clientConfig of an entry that is put back.
func (s *Serving) calling(entry map[string]any) (map[string]any, error) {
	path, _, _ := unstructured.NestedString(entry, "clientConfig", "service", "path")
	call, err := s.Call(path)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&call)
}

// Call is how the API server is to call the operator at a path, as a webhook configuration has it.
func (s *Serving) Call(path string) (admissionv1.WebhookClientConfig, error) {
	authorities := s.authorities()
	if len(authorities) == 0 {
		return admissionv1.WebhookClientConfig{}, errors.New("the authority of the webhook certificate is not known yet")
	}
	call := s.clientConfig(nil, path, authorities)
	return admissionv1.WebhookClientConfig{URL: call.URL, Service: (*admissionv1.ServiceReference)(call.Service), CABundle: call.CABundle}, nil
}

func entriesOf(configuration *unstructured.Unstructured) ([]map[string]any, error) {
	list, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", configuration.GetName(), err)
	}
	entries := make([]map[string]any, 0, len(list))
	for _, one := range list {
		entry, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("decoding %s: a webhook is not an object", configuration.GetName())
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// isAbout says whether all rules of an entry name these resources alone.
func isAbout(entry map[string]any, resources sets.Set[string]) bool {
	rules, _ := entry["rules"].([]any)
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		of, _, _ := unstructured.NestedStringSlice(rule, "resources")
		if len(of) == 0 || !resources.HasAll(of...) {
			return false
		}
	}
	return len(rules) > 0
}
