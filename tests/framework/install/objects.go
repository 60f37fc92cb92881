// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package install puts into a cluster what an operator that runs outside of it needs there: CRDs, the rights of its service account and the
// webhook configurations that call it by URL. It is what `make install` and `make uninstall` do. The operator publishes the authority of its
// certificate there when it starts.
package install

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

// objects are what is installed, in the order in which they can be applied. Their calls go to the URL; when it is empty, to the Service.
func objects(url string) ([]*unstructured.Unstructured, error) {
	all, err := manifests.Render("local")
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

// callByURL makes the calls that an object asks for, of its webhooks or its conversion, go to the endpoint.
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

// stage says what comes first: others need the namespace and the kinds, and webhooks must not be called before all else is there.
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
