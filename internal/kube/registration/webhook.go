// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// MutatingWebhooks names a configuration of webhooks.
func MutatingWebhooks(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	object.SetName(name)
	return object
}

// Remove deletes the objects that are there, the last first: a binding goes before its policy. Mostly there is nothing: asking is no write.
func Remove(ctx context.Context, reader client.Reader, writer client.Client, objects ...*unstructured.Unstructured) error {
	for _, object := range slices.Backward(objects) {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(object.GroupVersionKind())
		err := reader.Get(ctx, client.ObjectKeyFromObject(object), found)
		if err == nil {
			err = writer.Delete(ctx, found, client.Preconditions{UID: &found.UID})
		}
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Webhook is a configuration of one webhook that the operator keeps at runtime.
type Webhook struct {
	// Name is the configuration's.
	Name string
	// Owner is the object with which it is deleted.
	Owner metav1.OwnerReference
	// Path is where the API server calls, Call how it calls the operator at a path.
	Path string
	Call func(path string) (map[string]any, error)
	// Entry makes the webhook.
	Entry func(admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook
}

// Keep creates the configuration or restores it after any change. The reader must see the API server's present state.
func (w Webhook) Keep(ctx context.Context, reader client.Reader, writer client.Client) error {
	content, err := w.Call(w.Path)
	if err != nil {
		return fmt.Errorf("registering the webhook %s: %w", w.Name, err)
	}
	call := admissionv1.WebhookClientConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &call); err != nil {
		return fmt.Errorf("decoding how the operator is called: %w", err)
	}
	have := &admissionv1.MutatingWebhookConfiguration{}
	err = reader.Get(ctx, client.ObjectKey{Name: w.Name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the webhook %s: %w", w.Name, err)
	}
	exists := err == nil
	want := have.DeepCopy()
	want.Name, want.OwnerReferences = w.Name, []metav1.OwnerReference{w.Owner}
	want.Webhooks = []admissionv1.MutatingWebhook{w.Entry(call)}
	switch {
	case exists && equality.Semantic.DeepEqual(have, want):
		return nil
	case exists:
		// The server refuses it when another writer, who keeps the certificate trusted, was faster.
		err = writer.Update(ctx, want, client.FieldOwner(shared.FieldManager))
	default:
		_, err = Create(ctx, writer, want)
	}
	if err != nil {
		return fmt.Errorf("writing the webhook %s: %w", w.Name, err)
	}
	return nil
}

// Create creates a configuration, and returns its resource version. It is applied, because the right to create objects of one name alone can only be
// given for that.
func Create(ctx context.Context, writer client.Client, want *admissionv1.MutatingWebhookConfiguration) (version string, err error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	err = writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	return object.GetResourceVersion(), err
}
