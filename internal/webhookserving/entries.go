// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Lead makes this replica keep exactly the entries of kinds that are on, from now on. Only the leader does:
// during a restart, others run with another configuration.
func (s *Serving) Lead(ctx context.Context) error {
	objects, err := s.options.Manifests()
	if err != nil {
		return err
	}
	all := map[string][]any{}
	for _, object := range objects {
		if all[object.GetName()], err = webhooksOf(object); err != nil {
			return err
		}
	}
	s.entries.Store(&all)
	_, err = s.publish(ctx, *s.authority.Load())
	return err
}

// complete adds the entries of the manifests that are missing, and removes those of kinds that are off. Entries the manifests do not have stay.
func (s *Serving) complete(configuration string, webhooks []any) (all []any, changed bool, err error) {
	known := s.entries.Load()
	if known == nil {
		return webhooks, false, nil
	}
	for _, entry := range (*known)[configuration] {
		at := slices.IndexFunc(webhooks, func(e any) bool { return fieldOf(e, "name") == fieldOf(entry, "name") })
		switch on := s.isOn(entry); {
		case !on && at >= 0:
			webhooks, changed = slices.Delete(webhooks, at, at+1), true
		case on && at < 0:
			added, err := s.calling(entry)
			if err != nil {
				return nil, false, err
			}
			webhooks, changed = append(webhooks, added), true
		}
	}
	return webhooks, changed, nil
}

// isOn: an entry is about something else than kinds that are off.
func (s *Serving) isOn(entry any) bool {
	rules, _ := fieldOf(entry, "rules").([]any)
	for _, rule := range rules {
		resources, _ := fieldOf(rule, "resources").([]any)
		for _, resource := range resources {
			off := s.options.Kinds.Switchable().Where(func(k kinds.Kind) bool { return k.Plural == resource && !s.options.Enabled(k.Name) })
			if len(off) == 0 {
				return true
			}
		}
	}
	return false
}

// calling is a copy of an entry of the manifests that calls the endpoint.
func (s *Serving) calling(entry any) (map[string]any, error) {
	path, _ := fieldOf(fieldOf(fieldOf(entry, "clientConfig"), "service"), "path").(string)
	call, _, err := s.rightCall(nil, path, nil)
	webhook, _ := entry.(map[string]any)
	webhook = maps.Clone(webhook)
	webhook["clientConfig"] = call
	return webhook, err
}

func webhooksOf(configuration *unstructured.Unstructured) ([]any, error) {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("decoding the webhooks of %s: %w", configuration.GetName(), err)
	}
	return webhooks, nil
}

func fieldOf(object any, field string) any {
	content, _ := object.(map[string]any)
	return content[field]
}
