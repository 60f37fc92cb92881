// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/registration"
)

// conversionPath ends how the API server calls conversion.
const conversionPath = "/convert"

// errNoEndpoint means that nobody has told the API server yet how to call the operator.
var errNoEndpoint = errors.New("no definition of a converted kind says yet how the API server reaches the operator")

// registerWebhooks makes the webhook configuration on pods have one entry for every set that wants one. Without any, there is none.
func (i *Injection) registerWebhooks(ctx context.Context, seen *injectionState, owner metav1.OwnerReference) error {
	var registrations []sidecar.Registration
	for _, one := range seen.sets {
		if one.wantEntry {
			policy := admissionv1.Fail
			if one.ignore {
				policy = admissionv1.Ignore
			}
			registration := sidecar.Registration{Set: one.name, Match: one.set.Match, Revision: one.revision, FailurePolicy: policy}
			if one.narrow {
				registration.Guard = one.compiled.Guard
			}
			registrations = append(registrations, registration)
		}
	}
	have := &admissionv1.MutatingWebhookConfiguration{}
	err := i.options.Live.Get(ctx, client.ObjectKey{Name: sidecar.WebhookConfiguration}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the webhook configuration on pods: %w", err)
	}
	exists := err == nil
	switch {
	case len(registrations) == 0 && exists:
		i.registry.forget(watchedWebhooks, have.Name)
		err = client.IgnoreNotFound(i.options.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}))
	case len(registrations) == 0:
		err = nil
	default:
		err = i.writeWebhooks(ctx, seen, have, exists, registrations, owner)
	}
	if err != nil {
		return fmt.Errorf("registering the webhook on pods: %w", err)
	}
	i.entries = map[string]string{}
	for _, one := range seen.sets {
		if one.wantEntry {
			i.entries[one.name] = one.entry()
		}
	}
	return nil
}

func (i *Injection) writeWebhooks(
	ctx context.Context, seen *injectionState, have *admissionv1.MutatingWebhookConfiguration, exists bool, registrations []sidecar.Registration,
	owner metav1.OwnerReference,
) error {
	call, err := i.endpoint(ctx)
	if err != nil {
		return err
	}
	want := have.DeepCopy()
	want.Name = sidecar.WebhookConfiguration
	want.Webhooks = sidecar.Entries(registrations, i.options.Namespace, call)
	want.OwnerReferences = nil
	if owner.UID != "" {
		want.OwnerReferences = []metav1.OwnerReference{owner}
	}
	if exists {
		if !equality.Semantic.DeepEqual(have, want) {
			entries := want.Webhooks
			// The server refuses it when another writer, who keeps the certificate trusted, was faster; the next pass tries again.
			if err := i.options.Client.Update(ctx, want, client.FieldOwner(shared.FieldManager)); err != nil {
				return err
			}
			i.entriesRestored(seen, have.Webhooks, entries)
		}
		i.registry.note(watchedWebhooks, want.Name, want.ResourceVersion)
		return nil
	}
	version, err := registration.Create(ctx, i.options.Client, want)
	if err != nil {
		return err
	}
	i.registry.note(watchedWebhooks, want.Name, version)
	i.entriesRestored(seen, nil, want.Webhooks)
	return nil
}

// endpoint returns how the API server calls the operator at a path: as the definition of a converted kind says, which the operator keeps
// right however it was installed.
func (i *Injection) endpoint(ctx context.Context) (func(path string) admissionv1.WebhookClientConfig, error) {
	converted := kinds.Where(func(k kinds.Kind) bool { return k.Converted })
	// Its own kind first: it is served, or nobody would ask.
	slices.SortStableFunc(converted, func(a, b kinds.Kind) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[a.Name == "SidecarSet"], map[bool]int{true: 0, false: 1}[b.Name == "SidecarSet"])
	})
	for _, kind := range converted {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		err := i.options.Live.Get(ctx, client.ObjectKey{Name: kind.Definition()}, definition)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading how the operator is called: %w", err)
		}
		content, _, _ := unstructured.NestedMap(definition.Object, "spec", "conversion", "webhook", "clientConfig")
		conversion := admissionv1.WebhookClientConfig{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &conversion); err != nil {
			return nil, fmt.Errorf("decoding how the operator is called: %w", err)
		}
		if call := callLike(conversion); call != nil {
			return call, nil
		}
	}
	return nil, errNoEndpoint
}

// callLike calls other paths as conversion is called; nil when that is not called yet.
func callLike(conversion admissionv1.WebhookClientConfig) func(path string) admissionv1.WebhookClientConfig {
	if len(conversion.CABundle) == 0 {
		return nil
	}
	switch {
	case conversion.URL != nil && strings.HasSuffix(*conversion.URL, conversionPath):
		base := strings.TrimSuffix(*conversion.URL, conversionPath)
		return func(path string) admissionv1.WebhookClientConfig {
			url := base + path
			return admissionv1.WebhookClientConfig{URL: &url, CABundle: conversion.CABundle}
		}
	case conversion.Service != nil:
		return func(path string) admissionv1.WebhookClientConfig {
			service := conversion.Service.DeepCopy()
			service.Path = &path
			return admissionv1.WebhookClientConfig{Service: service, CABundle: conversion.CABundle}
		}
	}
	return nil
}
