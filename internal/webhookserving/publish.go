// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// target is an object that makes the API server call the operator.
type target struct {
	resource schema.GroupVersionResource
	kind     string
	name     string
	// right returns the object as it should be when authority is trusted, or nil when it is so already or is left alone.
	right func(s *Serving, object *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error)
}

// protection holds the validating entries of hooks. It has the name that version 0.4.0 has for a part of them.
const protection = "kruise-operator-deletion-protection"

// conversionPath is where the API server calls conversion.
const conversionPath = "/convert"

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-mutating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=kruise-operator-validating,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-manager-service-cert,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-webhook-certificate,verbs=create;get;list;patch;update;watch

// targets are all of them: the webhook configurations of an install without the Operator Lifecycle Manager, which makes its own, and
// the CRDs of the kinds that the operator converts. A test compares them with the manifests.
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

// targetOf returns the target of that kind and name.
func (s *Serving) targetOf(kind, name string) (target, bool) {
	all := s.targets()
	i := slices.IndexFunc(all, func(t target) bool { return t.kind == kind && t.name == name })
	if i < 0 {
		return target{}, false
	}
	return all[i], true
}

// publish makes the API server call the endpoint and trust the authority, wherever that is not so yet.
func (s *Serving) publish(ctx context.Context, authority []byte) error {
	_, err := s.publishAll(ctx, authority)
	return err
}

// publishAll also says whether anything had to be changed.
func (s *Serving) publishAll(ctx context.Context, authority []byte) (bool, error) {
	s.remember(authority)
	var failures []error
	changed := false
	for _, t := range s.targets() {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			wrote, err := s.update(ctx, t, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
				return t.right(s, object, authority)
			})
			changed = changed || wrote
			return err
		})
		if err != nil {
			failures = append(failures, fmt.Errorf("pointing %s %s to the operator: %w", t.kind, t.name, err))
		}
	}
	return changed, errors.Join(failures...)
}

// update is the one place that writes these objects. right returns the object as it should be, or nil when there is nothing to write. A
// conflict is the caller's to retry; an object that does not exist is left alone.
func (s *Serving) update(ctx context.Context, t target, right func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (wrote bool, err error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(t.resource.GroupVersion().WithKind(t.kind))
	if err := s.options.Client.Get(ctx, client.ObjectKey{Name: t.name}, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	next, err := right(object)
	if err != nil || next == nil {
		return false, err
	}
	if err := s.write(ctx, t, next); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Pointed the API server to the operator", "in", t.kind, "name", t.name)
	return true, nil
}

// write updates an object. Entries of hooks are applied: version 0.4.0 applies its own, and would leave a part of an entry that was updated here.
func (s *Serving) write(ctx context.Context, t target, next *unstructured.Unstructured) error {
	if t.name == protection {
		next.SetManagedFields(nil)
		return s.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	}
	// An update, since the right to patch kinds is taken by catalogs for the right to create them.
	return s.options.Client.Update(ctx, next, client.FieldOwner(shared.FieldManager))
}

// remember notes the authority, and for a while the one before it.
func (s *Serving) remember(authority []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if bytes.Equal(authority, s.authority) {
		return
	}
	s.previous, s.forget = s.authority, s.options.Clock.Now().Add(overlap)
	s.authority = slices.Clone(authority)
}

// authorities returns the last authority that was seen, and for a while the one before it; nothing before one was seen.
func (s *Serving) authorities() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.withPrevious(s.authority, s.options.Clock.Now())
}

// withPrevious adds the previous authority to one or more while it must be trusted beside them. The mutex is held.
func (s *Serving) withPrevious(authority []byte, now time.Time) []byte {
	if !now.Before(s.forget) || bytes.Contains(authority, s.previous) {
		return authority
	}
	return slices.Concat(authority, s.previous)
}

// clientConfig is what a call should be configured with.
//
// A bundle that trusts the authority is right, whatever else it holds. Where a change of the authority meets an upgrade that empties
// the bundle, replicas that still serve a certificate of the previous authority must stay reachable, so that one is added, too.
func (s *Serving) clientConfig(present *apiextensionsv1.WebhookClientConfig, path string, authority []byte) *apiextensionsv1.WebhookClientConfig {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.options.Clock.Now()
	want := s.options.Endpoint.Call(path)
	want.CABundle = authority
	trusted := present != nil && bytes.Equal(present.CABundle, authoritiesOf(present.CABundle, authority, now))
	if !trusted {
		want.CABundle = s.withPrevious(authority, now)
	}
	return clientConfigOf(present, want, now)
}

// rightConversion is for CRDs.
func rightConversion(s *Serving, crd *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error) {
	content, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion")
	if err != nil {
		return nil, fmt.Errorf("decoding the conversion: %w", err)
	}
	present := &apiextensionsv1.CustomResourceConversion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, present); err != nil {
		return nil, fmt.Errorf("decoding the conversion: %w", err)
	}
	if !found || present.Strategy != apiextensionsv1.WebhookConverter {
		return nil, nil // an uninstall begins
	}
	var was *apiextensionsv1.WebhookClientConfig
	if present.Webhook != nil {
		was = present.Webhook.ClientConfig
	}
	if was != nil {
		if _, ours := s.options.Endpoint.pathOf(*was); !ours && (was.URL != nil || was.Service != nil) {
			return nil, nil // it leads elsewhere on purpose
		}
	}
	right := conversionOf(present, *s.clientConfig(was, conversionPath, authority), s.options.Clock.Now())
	if equality.Semantic.DeepEqual(present, right) {
		return nil, nil
	}
	content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(right)
	if err != nil {
		return nil, fmt.Errorf("encoding the conversion: %w", err)
	}
	return crd, unstructured.SetNestedMap(crd.Object, content, "spec", "conversion")
}

// rightWebhooks is for webhook configurations of both sorts. Which webhooks there are, and their paths, are the manifests' business.
func rightWebhooks(s *Serving, configuration *unstructured.Unstructured, authority []byte) (*unstructured.Unstructured, error) {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("decoding the webhooks: %w", err)
	}
	changed := false
	for _, entry := range webhooks {
		webhook, is := entry.(map[string]any)
		if !is {
			return nil, errors.New("decoding the webhooks: one is not an object")
		}
		content, _, err := unstructured.NestedMap(webhook, "clientConfig")
		if err != nil {
			return nil, fmt.Errorf("decoding the webhooks: %w", err)
		}
		present := &apiextensionsv1.WebhookClientConfig{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, present); err != nil {
			return nil, fmt.Errorf("decoding the webhooks: %w", err)
		}
		path, ours := s.options.Endpoint.pathOf(*present)
		if !ours {
			continue // it leads elsewhere on purpose
		}
		right := s.clientConfig(present, path, authority)
		if equality.Semantic.DeepEqual(present, right) {
			continue
		}
		if webhook["clientConfig"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(right); err != nil {
			return nil, fmt.Errorf("encoding the webhooks: %w", err)
		}
		changed = true
	}
	if !changed {
		return nil, nil
	}
	return configuration, unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
