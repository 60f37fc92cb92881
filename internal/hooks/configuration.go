// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// maxEntered is how many bytes the entries of a configuration may have for another one to be added, and maxKept for one to stay: while the authority of
	// the certificate changes, entries name two. The etcd of a cluster stores 1.5 MiB of an object.
	maxEntered = 1_000_000
	maxKept    = 1_500_000
	// fieldsSize is what the API server notes of an entry: who has written which of its fields. It was 450.
	fieldsSize = 600
)

func mutatingKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
}

func validatingKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
}

// configuration is one of the two, as it should be.
type configuration struct {
	*pass
	name string
	kind schema.GroupVersionKind
	ways []way

	have    *unstructured.Unstructured
	entered []admissionv1.MutatingWebhook // what is there, in this type for both kinds
	// standing are entries that stay as they are, announced the marks of those that were announced.
	standing  []admissionv1.MutatingWebhook
	announced map[string]string
}

// registered is a way and its entry.
type registered struct {
	way
	entry admissionv1.MutatingWebhook
	late  bool // it is not there yet
}

// write makes the configuration have one entry for every way that has room and that the server takes. Without any, there is none.
func (c *configuration) write(ctx context.Context) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	c.stands()
	var all []registered
	for _, w := range c.ways {
		entry, err := c.entryOf(w)
		if err != nil {
			return err
		}
		late := !slices.ContainsFunc(c.entered, func(e admissionv1.MutatingWebhook) bool { return e.Name == entry.Name })
		all = append(all, registered{way: w, entry: entry, late: late})
	}
	all = c.fitting(all)
	err := c.put(ctx, c.entriesOf(all))
	if refuses(err) {
		all, err = c.sift(ctx, nil, all)
		if err == nil {
			err = c.put(ctx, c.entriesOf(all))
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.name, err)
	}
	for _, r := range all {
		c.stateOf(r.way, true)
	}
	if len(all) == 0 {
		return nil
	}
	return c.follow(key{kind: c.kind, name: c.name})
}

// read finds out what is there.
func (c *configuration) read(ctx context.Context) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(c.kind)
	err := c.options.Live.Get(ctx, client.ObjectKey{Name: c.name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", c.name, err)
	}
	if err == nil {
		c.have = have
		c.entered, err = entriesIn(have)
		return err
	}
	return nil
}

// entriesIn are the entries of a configuration.
func entriesIn(object *unstructured.Unstructured) ([]admissionv1.MutatingWebhook, error) {
	typed := &admissionv1.MutatingWebhookConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", object.GetName(), err)
	}
	return typed.Webhooks, nil
}

// entryOf is the entry of a way. Where it calls as the one that is there does, that one's authorities stay: they are kept right elsewhere.
func (c *configuration) entryOf(w way) (admissionv1.MutatingWebhook, error) {
	call, err := c.options.Call(w.hook.Path)
	if err != nil {
		return admissionv1.MutatingWebhook{}, err
	}
	var beyond []admissionv1.MatchCondition
	if w.proven {
		beyond = w.hook.Beyond
	}
	entry := w.hook.entry(c.options.Namespace, beyond, call)
	if c.kind == validatingKind() {
		entry.ReinvocationPolicy = nil
	}
	for _, there := range c.entered {
		if there.Name == entry.Name && len(there.ClientConfig.CABundle) > 0 && sameEndpoint(there.ClientConfig, call) {
			entry.ClientConfig = there.ClientConfig
		}
	}
	return entry, nil
}

// sameEndpoint says whether two calls lead to the same place.
func sameEndpoint(a, b admissionv1.WebhookClientConfig) bool {
	a.CABundle, b.CABundle = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// fitting are those for which there is room. Entries that are there come before new ones.
func (c *configuration) fitting(all []registered) []registered {
	byAge := slices.Clone(all)
	slices.SortStableFunc(byAge, func(a, b registered) int {
		return cmp.Compare(map[bool]int{true: 1}[a.late], map[bool]int{true: 1}[b.late])
	})
	used, crowded := 0, map[string]bool{}
	for _, r := range byAge {
		size, most := sizeOf(r.entry)+fieldsSize, maxKept
		if r.late {
			most = maxEntered
		}
		if used+size > most {
			crowded[r.entry.Name] = true
			c.say(r.hook, State{Reason: NoRoom, Message: "the webhook configuration " + c.name + " has no room for another entry"})
			continue
		}
		used += size
	}
	return slices.DeleteFunc(all, func(r registered) bool { return crowded[r.entry.Name] })
}

// sizeOf is the size of a value as JSON, which what is stored does not exceed.
func sizeOf(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return maxKept // It does not happen, and could not be written either.
	}
	return len(data)
}

// sift leaves out of some entries those that the server refuses beside others that it takes. It asks by dry runs, for halves of what it refused.
func (c *configuration) sift(ctx context.Context, beside, some []registered) ([]registered, error) {
	err := c.put(ctx, c.entriesOf(slices.Concat(beside, some)), client.DryRunAll)
	switch {
	case err == nil:
		return some, nil
	case !refuses(err):
		return nil, err
	case len(some) == 0:
		return nil, err // It refuses the configuration, whatever is in it.
	case len(some) == 1:
		return c.instead(ctx, beside, some[0].hook, err)
	}
	half := len(some) / 2
	first, err := c.sift(ctx, beside, some[:half])
	if err != nil {
		return nil, err
	}
	second, err := c.sift(ctx, slices.Concat(beside, first), some[half:])
	return slices.Concat(first, second), err
}

// instead is the entry of the last version of a refused hook that the server took, if there is one.
func (c *configuration) instead(ctx context.Context, beside []registered, hook *Hook, why error) ([]registered, error) {
	w, err := c.refuse(ctx, hook, why)
	if w == nil || err != nil {
		return nil, err
	}
	entry, err := c.entryOf(*w)
	if err != nil {
		return nil, err
	}
	return c.sift(ctx, beside, []registered{{way: *w, entry: entry}})
}

// entriesOf are the entries of some ways, behind those that stand.
func (c *configuration) entriesOf(all []registered) []admissionv1.MutatingWebhook {
	entries := slices.Clone(c.standing)
	for i := range all {
		entries = append(entries, all[i].entry)
	}
	return entries
}

// put makes the configuration have these entries.
func (c *configuration) put(ctx context.Context, entries []admissionv1.MutatingWebhook, options ...client.ApplyOption) error {
	var owners []metav1.OwnerReference
	if c.owner.Name != "" {
		owners = append(owners, c.owner)
	}
	switch {
	case c.have == nil && len(entries) == 0:
		return nil
	case c.have == nil:
	case len(entries) == 0:
		uid := c.have.GetUID()
		return client.IgnoreNotFound(c.options.Client.Delete(ctx, c.have, client.Preconditions{UID: &uid}))
	case equality.Semantic.DeepEqual(entries, c.entered) && equality.Semantic.DeepEqual(owners, c.have.GetOwnerReferences()) && maps.Equal(c.announced, marksOf(c.have)):
		return nil
	}
	if c.have != nil && c.kind == mutatingKind() {
		return c.update(ctx, entries, owners, len(options) > 0)
	}
	object, err := c.object(entries, owners)
	if err != nil {
		return err
	}
	// Applied, not created: the right to create objects of one name alone can only be given for that. What was applied, version 0.4.0 removes by its own apply.
	options = append(options, client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	if err := c.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return err
	}
	return c.without(ctx, object, entries, len(options) > 2)
}

// update replaces the entries by one write. Version 0.4.0 does the same with the mutating configuration.
func (c *configuration) update(ctx context.Context, entries []admissionv1.MutatingWebhook, owners []metav1.OwnerReference, dry bool) error {
	made, err := c.object(entries, owners)
	if err != nil {
		return err
	}
	want := c.have.DeepCopy()
	want.Object["webhooks"] = made.Object["webhooks"]
	want.SetOwnerReferences(owners)
	annotations := want.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool { return strings.HasPrefix(name, announcedPrefix) })
	if len(c.announced) > 0 && annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, c.announced)
	want.SetAnnotations(annotations)
	options := []client.UpdateOption{client.FieldOwner(shared.FieldManager)}
	if dry {
		options = append(options, client.DryRunAll)
	}
	return c.options.Client.Update(ctx, want, options...)
}

// without takes away what somebody added, such as entries, or conditions that version 0.4.0 has put into one, and restores the order. Applying does not.
func (c *configuration) without(ctx context.Context, applied *unstructured.Unstructured, entries []admissionv1.MutatingWebhook, dry bool) error {
	have, err := entriesIn(applied)
	if err != nil || dry || equality.Semantic.DeepEqual(have, entries) {
		return err
	}
	right, err := c.object(entries, applied.GetOwnerReferences())
	if err != nil {
		return err
	}
	right.SetUID(applied.GetUID())
	right.SetResourceVersion(applied.GetResourceVersion())
	return c.options.Client.Update(ctx, right, client.FieldOwner(shared.FieldManager))
}

// object is the configuration with these entries. Another writer keeps the certificate trusted: the server refuses it when that one was faster.
func (c *configuration) object(entries []admissionv1.MutatingWebhook, owners []metav1.OwnerReference) (*unstructured.Unstructured, error) {
	typed := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.name, OwnerReferences: owners, Annotations: c.announced}, Webhooks: entries}
	if c.have != nil {
		typed.ResourceVersion = c.have.GetResourceVersion()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", c.name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(c.kind)
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return object, nil
}
