// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errRuns = errors.New("OpenKruise still renews its Lease, or its Deployment wants replicas: it needs this, and would put it back. Scale its manager down first")

// RemoveWebhooks deletes OpenKruise's webhook configurations. Of one that also leads elsewhere, only its own entries are removed.
// It refuses while OpenKruise runs.
func RemoveWebhooks(ctx context.Context, c client.Client, found Cluster, report func(string)) error {
	if len(found.Webhooks) > 0 && found.mayRun() {
		return fmt.Errorf("not removing webhooks: %w", errRuns)
	}
	for _, w := range found.Webhooks {
		kind := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: w.Kind}
		if w.Others == 0 {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			object.SetName(w.Name)
			if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
				return fmt.Errorf("deleting %s %s: %w", w.Kind, w.Name, err)
			}
			report(strings.ToLower(w.Kind) + " " + w.Name + " deleted")
			continue
		}
		if err := replace(ctx, c, kind, w.Name, withoutEntries); err != nil {
			return err
		}
		report(fmt.Sprintf("%s %s lost %d entries", strings.ToLower(w.Kind), w.Name, len(w.Entries)))
	}
	return nil
}

// withoutEntries removes the entries that lead to OpenKruise.
func withoutEntries(object *unstructured.Unstructured) error {
	entries, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	var kept []any
	for _, entry := range entries {
		content, _ := entry.(map[string]any)
		if service, _, _ := unstructured.NestedString(content, "clientConfig", "service", "name"); service != serviceName {
			kept = append(kept, entry)
		}
	}
	return unstructured.SetNestedSlice(object.Object, kept, "webhooks")
}

// ClearConversion makes the conversion None of those CRDs that need none with this operator. It does so by a replace: an apply
// would keep the stanza of the webhook, which the API server refuses beside None. It refuses while OpenKruise runs.
func ClearConversion(ctx context.Context, c client.Client, found Cluster, report func(string)) error {
	for _, crd := range found.CRDs {
		if !crd.clears() {
			continue
		}
		if found.mayRun() {
			return fmt.Errorf("not clearing conversions: %w", errRuns)
		}
		kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
		err := replace(ctx, c, kind, crd.Name, func(object *unstructured.Unstructured) error {
			return unstructured.SetNestedMap(object.Object, map[string]any{"strategy": "None"}, "spec", "conversion")
		})
		if err != nil {
			return err
		}
		report("customresourcedefinition " + crd.Name + " is no longer converted by OpenKruise")
	}
	return nil
}

// replace reads an object, changes it and writes it back, again after a conflict.
func replace(ctx context.Context, c client.Client, kind schema.GroupVersionKind, name string, change func(*unstructured.Unstructured) error) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
			return err
		}
		if err := change(object); err != nil {
			return err
		}
		return c.Update(ctx, object)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replacing %s %s: %w", kind.Kind, name, err)
	}
	return nil
}
