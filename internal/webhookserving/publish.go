// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// target is an object making the API server call the operator.
type target struct {
	resource schema.GroupVersionResource
	kind     string
	name     string
	// right corrects the object for this authority, and tells if it changed.
	right func(s *Serving, object *unstructured.Unstructured, authority []byte) (changed bool, err error)
}

// protection holds the validating entries of hooks. Version 0.4.0 uses this name for a part of them.
const protection = "kruise-operator-deletion-protection"

const (
	// conversionPath is the API server's path for conversion, reviewVersion the version of ConversionReview answered there.
	conversionPath = "/convert"
	reviewVersion  = "v1"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-mutating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=kruise-operator-validating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-manager-service-cert,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-webhook-certificate,verbs=create;get;list;patch;update;watch

// targets are all: the webhook configurations of an install without the Operator Lifecycle Manager, which makes
// its own, and the CRDs the operator converts. A test compares them with the manifests.
func (s *Serving) targets() []target {
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	all := []target{
		{admission.WithResource("mutatingwebhookconfigurations"), "MutatingWebhookConfiguration", "kruise-operator-mutating", rightWebhooks},
		{admission.WithResource("validatingwebhookconfigurations"), "ValidatingWebhookConfiguration", "kruise-operator-validating", rightWebhooks},
		// The registrar of hooks makes these, while they are needed.
		{admission.WithResource("mutatingwebhookconfigurations"), "MutatingWebhookConfiguration", "kruise-operator-pods", rightWebhooks},
		{admission.WithResource("validatingwebhookconfigurations"), "ValidatingWebhookConfiguration", protection, rightWebhooks},
	}
	for _, kind := range s.options.Kinds.Where(func(k kinds.Kind) bool { return k.Converted }) {
		all = append(all, target{
			apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "CustomResourceDefinition", kind.Definition(), rightConversion,
		})
	}
	return all
}

// publish makes the API server call the endpoint and trust the authority, and tells if anything changed.
func (s *Serving) publish(ctx context.Context, authority []byte) (changed bool, err error) {
	var failures []error
	for _, t := range s.targets() {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			wrote, err := s.update(ctx, t, authority)
			changed = changed || wrote
			return err
		})
		if err != nil {
			failures = append(failures, fmt.Errorf("pointing %s %s to the operator: %w", t.kind, t.name, err))
		}
	}
	return changed, errors.Join(failures...)
}

// update alone writes these objects. The caller retries conflicts; a missing object is left alone.
func (s *Serving) update(ctx context.Context, t target, authority []byte) (wrote bool, err error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(t.resource.GroupVersion().WithKind(t.kind))
	if err := s.options.Client.Get(ctx, client.ObjectKey{Name: t.name}, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	changed, err := t.right(s, object, authority)
	if err != nil || !changed {
		return false, err
	}
	if err := s.write(ctx, t, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Pointed the API server to the operator", "in", t.kind, "name", t.name)
	return true, nil
}

// write updates an object. Hooks' entries are applied: version 0.4.0 applies its own, and would leave parts of
// an updated entry.
func (s *Serving) write(ctx context.Context, t target, next *unstructured.Unstructured) error {
	if t.name == protection {
		next.SetManagedFields(nil)
		return s.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	}
	// An update, since the right to patch kinds is taken by catalogs for the right to create them.
	return s.options.Client.Update(ctx, next, client.FieldOwner(shared.FieldManager))
}

// rightConversion is for CRDs.
func rightConversion(s *Serving, crd *unstructured.Unstructured, authority []byte) (changed bool, err error) {
	if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy != string(apiextensionsv1.WebhookConverter) {
		return false, nil // an uninstall begins
	}
	present, _, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil {
		return false, fmt.Errorf("decoding the conversion: %w", err)
	}
	call, changed, err := s.rightCall(present, conversionPath, authority)
	if err != nil || !changed {
		return false, err
	}
	webhook := map[string]any{"clientConfig": call, "conversionReviewVersions": []any{reviewVersion}}
	return true, unstructured.SetNestedMap(crd.Object, webhook, "spec", "conversion", "webhook")
}

// rightWebhooks corrects which entries a webhook configuration has, and how they call the operator.
func rightWebhooks(s *Serving, configuration *unstructured.Unstructured, authority []byte) (changed bool, err error) {
	webhooks, err := webhooksOf(configuration)
	if err != nil {
		return false, err
	}
	if webhooks, changed, err = s.complete(configuration.GetName(), webhooks); err != nil {
		return false, err
	}
	for _, entry := range webhooks {
		webhook, _ := entry.(map[string]any)
		present, _ := webhook["clientConfig"].(map[string]any)
		call, other, err := s.rightCall(present, "", authority)
		if err != nil {
			return false, err
		}
		webhook["clientConfig"], changed = call, changed || other
	}
	if !changed {
		return false, nil
	}
	return true, unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// rightCall configures one call, and tells if it changed. An empty path stays.
func (s *Serving) rightCall(content map[string]any, path string, authority []byte) (right map[string]any, changed bool, err error) {
	present := apiextensionsv1.WebhookClientConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &present); err != nil {
		return nil, false, fmt.Errorf("decoding how the operator is called: %w", err)
	}
	called, ours := s.options.Endpoint.pathOf(present)
	if !ours && len(content) > 0 {
		return content, false, nil // it leads elsewhere on purpose
	}
	want := s.options.Endpoint.Call(cmp.Or(path, called))
	want.CABundle = authoritiesOf(present.CABundle, authority, s.options.Clock.Now())
	if equality.Semantic.DeepEqual(present, want) {
		return content, false, nil
	}
	right, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return nil, false, fmt.Errorf("encoding how the operator is called: %w", err)
	}
	return right, true, nil
}
