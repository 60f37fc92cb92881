// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package incluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/platform/callback"
)

// target is an object that tells the API server to call the operator.
type target struct {
	resource schema.GroupVersionResource
	kind     string
	name     string
	// right returns the object as it should be when authority is trusted, or nil when it is so already or is left alone.
	right func(c *Calls, object *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error)
}

// conversionPath is where the API server calls conversion.
const conversionPath = "/convert"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clonesets.apps.kruise.io,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-mutating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=kruise-operator-validating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-manager-service-cert,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-webhook-certificate,verbs=create;get;list;patch;update;watch

// targets are all of them: the webhook configurations of an install without the Operator Lifecycle Manager, which makes its own, and
// the CRDs of the kinds that the operator converts. A test compares them with the manifests.
func targets() []target {
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	all := []target{
		{admission.WithResource("mutatingwebhookconfigurations"), "MutatingWebhookConfiguration", "kruise-operator-mutating", rightWebhooks},
		{admission.WithResource("validatingwebhookconfigurations"), "ValidatingWebhookConfiguration", "kruise-operator-validating", rightWebhooks},
	}
	for _, name := range []string{"clonesets.apps.kruise.io"} {
		all = append(all, target{
			apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "CustomResourceDefinition", name, rightConversion,
		})
	}
	return all
}

// isTarget says whether an object is one of the targets.
func isTarget(kind, name string) bool {
	return slices.ContainsFunc(targets(), func(t target) bool { return t.kind == kind && t.name == name })
}

// tell makes the API server call the Service and trust the authority, wherever that is not so yet.
func (c *Calls) tell(ctx context.Context, authority []byte) error {
	_, err := c.tellAll(ctx, authority)
	return err
}

// tellAll also says whether anything had to be changed.
func (c *Calls) tellAll(ctx context.Context, authority []byte) (bool, error) {
	c.remember(authority)
	var failures []error
	changed := false
	for _, t := range targets() {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			wrote, err := c.tellOne(ctx, t, authority)
			changed = changed || wrote
			return err
		})
		if err != nil {
			failures = append(failures, fmt.Errorf("pointing %s %s to the operator: %w", t.kind, t.name, err))
		}
	}
	return changed, errors.Join(failures...)
}

func (c *Calls) tellOne(ctx context.Context, t target, authority []byte) (bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(t.resource.GroupVersion().WithKind(t.kind))
	if err := c.options.Client.Get(ctx, client.ObjectKey{Name: t.name}, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	right, err := t.right(c, object, authority)
	if err != nil || right == nil {
		return false, err
	}
	// An update, since the right to patch kinds is taken by catalogs for the right to create them.
	if err := c.options.Client.Update(ctx, right, client.FieldOwner(shared.FieldManager)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Pointed the API server to the operator", "in", t.kind, "name", t.name)
	return true, nil
}

// remember notes the authority, and for a while the one before it.
func (c *Calls) remember(authority []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if bytes.Equal(authority, c.authority) {
		return
	}
	c.previous, c.forget = c.authority, c.options.Clock.Now().Add(overlap)
	c.authority = slices.Clone(authority)
}

// authorities returns the last authority that was seen, and for a while the one before it; nothing before one was seen.
func (c *Calls) authorities() []byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.withPrevious(c.authority, c.options.Clock.Now())
}

// withPrevious adds the previous authority to one or more while it must be trusted beside them. The mutex is held.
func (c *Calls) withPrevious(authority []byte, now time.Time) []byte {
	if !now.Before(c.forget) || bytes.Contains(authority, c.previous) {
		return authority
	}
	return slices.Concat(authority, c.previous)
}

// clientConfig is what a call should be configured with.
//
// A bundle that trusts the authority is right, whatever else it holds. Where a change of the authority meets an upgrade that empties
// the bundle, replicas that still serve a certificate of the previous authority must stay reachable, so that one is added, too.
func (c *Calls) clientConfig(present *apiextensionsv1.WebhookClientConfig, path string, authority []byte) *apiextensionsv1.WebhookClientConfig {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.options.Clock.Now()
	want := apiextensionsv1.WebhookClientConfig{CABundle: authority, Service: &apiextensionsv1.ServiceReference{
		Namespace: c.options.Namespace, Name: ServiceName, Path: &path,
	}}
	trusted := present != nil && bytes.Equal(present.CABundle, callback.Authorities(present.CABundle, authority, now))
	if !trusted {
		want.CABundle = c.withPrevious(authority, now)
	}
	return callback.ClientConfig(present, want, now)
}

// rightConversion is for CRDs.
func rightConversion(c *Calls, crd *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error) {
	content, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion")
	if err != nil {
		return nil, fmt.Errorf("reading the conversion: %w", err)
	}
	present := &apiextensionsv1.CustomResourceConversion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, present); err != nil {
		return nil, fmt.Errorf("reading the conversion: %w", err)
	}
	if !found || present.Strategy != apiextensionsv1.WebhookConverter {
		return nil, nil // an uninstall begins
	}
	var was *apiextensionsv1.WebhookClientConfig
	if present.Webhook != nil {
		was = present.Webhook.ClientConfig
	}
	if was != nil && was.URL != nil {
		return nil, nil // somebody develops
	}
	right := callback.Conversion(present, *c.clientConfig(was, conversionPath, authority), c.options.Clock.Now())
	if equality.Semantic.DeepEqual(present, right) {
		return nil, nil
	}
	content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(right)
	if err != nil {
		return nil, fmt.Errorf("writing the conversion: %w", err)
	}
	return crd, unstructured.SetNestedMap(crd.Object, content, "spec", "conversion")
}

// rightWebhooks is for webhook configurations of both sorts. Which webhooks there are, and their paths, are the manifests' business.
func rightWebhooks(c *Calls, configuration *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error) {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("reading the webhooks: %w", err)
	}
	changed := false
	for _, entry := range webhooks {
		webhook, is := entry.(map[string]any)
		if !is {
			return nil, errors.New("reading the webhooks: one is not an object")
		}
		content, _, err := unstructured.NestedMap(webhook, "clientConfig")
		if err != nil {
			return nil, fmt.Errorf("reading the webhooks: %w", err)
		}
		present := &apiextensionsv1.WebhookClientConfig{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, present); err != nil {
			return nil, fmt.Errorf("reading the webhooks: %w", err)
		}
		if present.Service == nil {
			continue // somebody develops
		}
		right := c.clientConfig(present, ptr.Deref(present.Service.Path, ""), authority)
		if equality.Semantic.DeepEqual(present, right) {
			continue
		}
		if webhook["clientConfig"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(right); err != nil {
			return nil, fmt.Errorf("writing the webhooks: %w", err)
		}
		changed = true
	}
	if !changed {
		return nil, nil
	}
	return configuration, unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
