// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"encoding/json"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/registration"
)

// conversionPath ends how the API server calls conversion.
const conversionPath = "/convert"

const (
	// maxEntered is how many bytes the entries of the webhook configuration may have for another one to be added, and maxKept for one to stay: while the
	// authority of the operator's certificate changes, entries name two. The etcd of a cluster stores 1.5 MiB of an object.
	maxEntered = 1_000_000
	maxKept    = 1_500_000
	// fieldsSize is what the API server notes of an entry: who has written which of its fields. It was 450.
	fieldsSize = 600
	// webhookFull is why a set gets no entry.
	webhookFull = "the configuration " + sidecar.WebhookConfiguration + " has no room for another webhook; delete SidecarSets that inject by webhook, or let the policy inject them"
)

// errNoEndpoint means that nobody has told the API server yet how to call the operator.
var errNoEndpoint = errors.New("no definition of a converted kind says yet how the API server reaches the operator")

// registrationOf is how a set is registered by webhook.
func registrationOf(set *injectedSet) sidecar.Registration {
	r := sidecar.Registration{Set: set.name, Match: set.parsed.Match, Revision: set.call, FailurePolicy: admissionv1.Fail}
	if set.ignore {
		r.FailurePolicy = admissionv1.Ignore
	}
	if set.narrow {
		r.Guard = set.compiled.Guard
	}
	return r
}

// meet finds out what the calls of all sets inject. One that was refused a short while ago is for its set alone: it costs the API server a second call for the
// pod, and no more.
func (i *Injection) meet(desired *injectionState) {
	byWebhook := map[string]string{}
	for _, set := range desired.sets {
		if set.wantEntry && !set.held && set.refused == nil { // What would be written of others is not there.
			byWebhook[set.name] = set.revision
		}
	}
	now := i.options.Clock.Now()
	for name := range byWebhook {
		set := desired.sets[name]
		set.meet(byWebhook)
		if i.proofsOf(name).callRefusal.lasts(set.call, now) {
			set.callAlone()
		}
	}
}

// callAlone leaves other sets to their own calls.
func (set *injectedSet) callAlone() { set.meets, set.call, set.callData = nil, set.revision, set.data }

// meet finds out what the call of a set injects: with the set all that may meet it on a pod and are injected by webhook, too, whose revisions are given.
func (set *injectedSet) meet(revisions map[string]string) {
	call := set.compiled.Joined(revisions)
	if set.call != "" && slices.Equal(call.Meets, set.meets) {
		return
	}
	set.callAlone()
	if set.meets = call.Meets; len(set.meets) == 0 {
		return
	}
	if name, data, err := call.Encode(); err == nil { // It was encoded without them before.
		set.call, set.callData = name, data
	}
}

// entrySize is how many bytes the entry of a set has, for all pods or for those that the policy leaves, without how the operator is called.
func (i *Injection) entrySize(set *injectedSet) int {
	r := registrationOf(set)
	r.Guard = set.compiled.Guard
	unknown := func(string) admissionv1.WebhookClientConfig { return admissionv1.WebhookClientConfig{} }
	return sizeOf(sidecar.Entries([]sidecar.Registration{r}, i.options.Namespace, unknown)) + fieldsSize
}

// sizeOf is the size of a value as JSON, which what is stored does not exceed.
func sizeOf(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return maxKept // It does not happen, and could not be written either.
	}
	return len(data)
}

// measureCall finds out how much of each entry says how the operator is called, and says whether that has changed. While nobody has said that, writing
// entries reports it.
func (i *Injection) measureCall(ctx context.Context, desired *injectionState) bool {
	wanted := false
	for _, set := range desired.sets {
		wanted = wanted || set.wantEntry || set.crowdedOut
	}
	if !wanted {
		return false
	}
	call, err := i.endpoint(ctx)
	if err != nil {
		return false
	}
	before := i.callSize
	i.callSize = sizeOf(call(sidecar.InjectPath))
	return i.callSize != before
}

// makeRoom takes the entries from the sets for which the configuration has no room. Sets that have one keep it.
func (i *Injection) makeRoom(desired *injectionState) {
	var wanting []*injectedSet
	for _, set := range desired.sets {
		if set.wantEntry {
			wanting = append(wanting, set)
		}
	}
	late := func(set *injectedSet) int { return map[bool]int{true: 1}[i.entries[set.name] == ""] }
	slices.SortFunc(wanting, func(a, b *injectedSet) int { return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(a.name, b.name)) })
	used := 0
	for _, set := range wanting {
		size, most := set.entrySize+i.callSize, maxKept
		if late(set) > 0 {
			most = maxEntered
		}
		if used+size > most {
			set.wantEntry, set.crowdedOut = false, true
			continue
		}
		used += size
	}
}

// registerWebhooks makes the webhook configuration on pods have one entry for every set that wants one. Without any, there is none.
func (i *Injection) registerWebhooks(ctx context.Context, desired *injectionState, owner metav1.OwnerReference) error {
	var registrations []sidecar.Registration
	for _, set := range desired.sets {
		if set.wantEntry && set.refused == nil {
			registrations = append(registrations, registrationOf(set))
		}
	}
	have := &admissionv1.MutatingWebhookConfiguration{}
	err := i.options.Live.Get(ctx, client.ObjectKey{Name: sidecar.WebhookConfiguration}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the webhook configuration on pods: %w", err)
	}
	exists := err == nil
	standing := desired.standingEntries(have.Webhooks)
	switch {
	case len(registrations)+len(standing) == 0 && exists:
		i.registry.forget(watchedWebhooks, have.Name)
		err = client.IgnoreNotFound(i.options.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}))
	case len(registrations)+len(standing) == 0:
		err = nil
	default:
		err = i.writeWebhooks(ctx, desired, have, exists, registrations, standing, owner)
	}
	if err != nil {
		return fmt.Errorf("registering the webhook on pods: %w", err)
	}
	before := i.entries
	i.entries = map[string]string{}
	for _, set := range desired.sets {
		switch {
		case set.stands() && before[set.name] != "":
			i.entries[set.name] = before[set.name]
		case set.refused == nil && set.wantEntry:
			i.entries[set.name] = set.entry()
		}
	}
	return nil
}

// standingEntries are those of some entries that go on naming the revisions which they name, because the server refuses others. It notes which these are.
func (s injectionState) standingEntries(entries []admissionv1.MutatingWebhook) []admissionv1.MutatingWebhook {
	var standing []admissionv1.MutatingWebhook
	for _, entry := range entries {
		for _, set := range s.sets {
			if set.stands() && sidecar.EntryName(set.name) == entry.Name {
				standing = append(standing, entry)
				set.standing = append(set.standing, calledRevision(entry.ClientConfig))
			}
		}
	}
	return standing
}

// calledRevision is the name of the revision at the end of the path that a webhook calls.
func calledRevision(call admissionv1.WebhookClientConfig) string {
	called := ptr.Deref(call.URL, "")
	if call.Service != nil {
		called = ptr.Deref(call.Service.Path, "")
	}
	return called[strings.LastIndex(called, "/")+1:]
}

func (i *Injection) writeWebhooks(
	ctx context.Context, desired *injectionState, have *admissionv1.MutatingWebhookConfiguration, exists bool, registrations []sidecar.Registration,
	standing []admissionv1.MutatingWebhook, owner metav1.OwnerReference,
) error {
	call, err := i.endpoint(ctx)
	if err != nil {
		return err
	}
	for at := range standing { // How the operator is called may have changed since.
		if revision := calledRevision(standing[at].ClientConfig); revision != "" {
			standing[at].ClientConfig = call(sidecar.InjectPath + revision)
		}
	}
	want := have.DeepCopy()
	want.Name = sidecar.WebhookConfiguration
	want.Webhooks = append(sidecar.Entries(registrations, i.options.Namespace, call), standing...)
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
			i.entriesRestored(desired, have.Webhooks, entries)
		}
		i.registry.note(watchedWebhooks, want.Name, want.ResourceVersion)
		return nil
	}
	version, err := registration.Create(ctx, i.options.Client, want)
	if err != nil {
		return err
	}
	i.registry.note(watchedWebhooks, want.Name, version)
	i.entriesRestored(desired, nil, want.Webhooks)
	return nil
}

// endpoint returns how the API server calls the operator at a path: as the definition of a converted kind says, which the operator keeps
// right however it was installed.
func (i *Injection) endpoint(ctx context.Context) (func(path string) admissionv1.WebhookClientConfig, error) {
	// Its own kind first: it is served, or nobody would ask.
	own := Value().Entry
	others := i.options.Kinds.Where(func(k kinds.Kind) bool { return k.Converted && k.Name != own.Name })
	for _, kind := range append(kinds.Table{own}, others...) {
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
