// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package install prepares a cluster for an operator outside of it: CRDs, the rights of its
// service account and webhook configurations with its URL. `make install` and `make
// uninstall` use it. The starting operator publishes its certificate's authority there.
package install

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

// objects are to be installed in this order. Their calls go to the URL; when empty, to the
// Service.
func objects(url string) ([]*unstructured.Unstructured, error) {
	all, err := kustomized.Render("local")
	if err != nil {
		return nil, err
	}
	if url != "" {
		for _, object := range all {
			if err := callByURL(object, webhookserving.Endpoint{URL: url}); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return stage(a) - stage(b) })
	return all, nil
}

// callByURL sends an object's calls, of webhooks or conversion, to the endpoint.
func callByURL(object *unstructured.Unstructured, endpoint webhookserving.Endpoint) error {
	replace := func(holder map[string]any) error {
		path, found, err := unstructured.NestedString(holder, "clientConfig", "service", "path")
		if err != nil || !found {
			return fmt.Errorf("%s calls no path of a Service", title(object))
		}
		call := endpoint.Call(path)
		holder["clientConfig"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&call)
		return err
	}
	if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "strategy"); strategy == string(apiextensionsv1.WebhookConverter) {
		holder, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook")
		conversion, _ := holder.(map[string]any)
		return replace(conversion)
	}
	webhooks, _, _ := unstructured.NestedFieldNoCopy(object.Object, "webhooks")
	entries, _ := webhooks.([]any)
	for _, entry := range entries {
		webhook, _ := entry.(map[string]any)
		if err := replace(webhook); err != nil {
			return err
		}
	}
	return nil
}

// stage orders objects: others need the namespace and the kinds, and webhooks must not be
// called before all else is there.
func stage(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case kindCRD:
		return 1
	case kindMutating, kindValidating:
		return 3
	default:
		return 2
	}
}

const (
	kindCRD        = "CustomResourceDefinition"
	kindMutating   = "MutatingWebhookConfiguration"
	kindValidating = "ValidatingWebhookConfiguration"
)
