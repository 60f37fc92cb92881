// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
)

const (
	// maxAdded limits the bytes of entries to add one, maxKept to keep one: a
	// changing authority doubles the certificates. etcd stores 1.5 MiB of an object.
	maxAdded = 1_000_000
	maxKept  = 1_500_000
	// fieldsSize is an entry's share of managedFields. Measured: 450.
	fieldsSize = 600
	// unenforced keeps the admissions enforcer of AKS off: it adds requirements to selectors, and both would write for ever.
	unenforced = "admissions.enforcer/disabled"
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
	name   string
	kind   schema.GroupVersionKind
	wanted []registration

	have    *unstructured.Unstructured
	current []admissionv1.MutatingWebhook // what is there, in this type for both kinds
	// kept are entries to leave alone, marks their announcements.
	kept  []admissionv1.MutatingWebhook
	marks map[string]string
}

// entry is a registration as a webhook.
type entry struct {
	registration
	webhook admissionv1.MutatingWebhook
	// added: it is not there yet. former: it is the present one.
	added, former bool
}

// write keeps one entry for every hook with room and accepted by the server. Without hooks there is no configuration.
func (c *configuration) write(ctx context.Context) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	c.keepCurrent()
	entries, err := c.entries()
	if err != nil {
		return err
	}
	err = c.put(ctx, c.webhooks(entries))
	if refuses(err) {
		entries, err = c.accepted(ctx, nil, entries)
		if err == nil {
			err = c.put(ctx, c.webhooks(entries))
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.name, err)
	}
	for _, e := range entries {
		c.sayRegistered(e.registration, true)
	}
	if len(entries) == 0 {
		return nil
	}
	return c.follow(key{kind: c.kind, name: c.name})
}

// entries are the entries with room. One announced for a newer object of the same name wins.
func (c *configuration) entries() ([]entry, error) {
	var all []entry
	for _, r := range c.wanted {
		webhook, err := c.webhookOf(r)
		if err != nil {
			return nil, err
		}
		if _, kept := named(c.kept, webhook.Name); kept {
			c.say(r.hook, State{Reason: Pending})
			continue
		}
		_, there := named(c.current, webhook.Name)
		all = append(all, entry{registration: r, webhook: webhook, added: !there})
	}
	return c.fitting(all), nil
}

// named is the webhook of a name.
func named(all []admissionv1.MutatingWebhook, name string) (admissionv1.MutatingWebhook, bool) {
	at := slices.IndexFunc(all, func(e admissionv1.MutatingWebhook) bool { return e.Name == name })
	if at < 0 {
		return admissionv1.MutatingWebhook{}, false
	}
	return all[at], true
}

func (c *configuration) read(ctx context.Context) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(c.kind)
	err := c.options.Live.Get(ctx, client.ObjectKey{Name: c.name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", c.name, err)
	}
	if err == nil {
		c.have = have
		c.current, err = entriesIn(have)
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

// webhookOf returns a hook's webhook. An unchanged endpoint keeps its authorities: another writer maintains them.
func (c *configuration) webhookOf(r registration) (admissionv1.MutatingWebhook, error) {
	call, err := c.options.Call(r.hook.Path)
	if err != nil {
		return admissionv1.MutatingWebhook{}, err
	}
	var beyond []admissionv1.MatchCondition
	if r.proven && !r.hook.Beside {
		beyond = r.hook.Beyond
	}
	webhook := r.hook.entry(c.options.Namespace, beyond, call)
	if c.kind == validatingKind() {
		webhook.ReinvocationPolicy = nil
	}
	there, found := named(c.current, webhook.Name)
	if found && len(there.ClientConfig.CABundle) > 0 && sameEndpoint(there.ClientConfig, call) {
		webhook.ClientConfig = there.ClientConfig
	}
	return webhook, nil
}

// sameEndpoint reports whether both calls reach the same place.
func sameEndpoint(a, b admissionv1.WebhookClientConfig) bool {
	a.CABundle, b.CABundle = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// fitting returns entries with room, existing before new ones.
func (c *configuration) fitting(all []entry) []entry {
	used, crowded := 0, map[string]bool{}
	for _, added := range []bool{false, true} {
		for _, e := range all {
			size, most := sizeOf(e.webhook)+fieldsSize, maxKept
			if added {
				most = maxAdded
			}
			switch {
			case e.added != added:
			case used+size > most:
				crowded[e.webhook.Name] = true
				c.say(e.hook, State{Reason: NoRoom, Message: "the webhook configuration " + c.name + " has no room for another entry"})
			default:
				used += size
			}
		}
	}
	return slices.DeleteFunc(all, func(e entry) bool { return crowded[e.webhook.Name] })
}

// sizeOf is a value's size as JSON, an upper bound of its stored size.
func sizeOf(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return maxKept // It does not happen, and could not be written either.
	}
	return len(data)
}

// accepted returns the entries accepted by the server beside others. It halves refused lists, by dry runs.
func (c *configuration) accepted(ctx context.Context, beside, some []entry) ([]entry, error) {
	err := c.put(ctx, c.webhooks(slices.Concat(beside, some)), client.DryRunAll)
	switch {
	case err == nil:
		return some, nil
	case !refuses(err) || len(some) == 0: // Without any, it refuses the configuration itself.
		return nil, err
	case len(some) == 1:
		c.refuse(some[0].hook, err)
		there, found := named(c.current, some[0].webhook.Name)
		if !found || some[0].former {
			return nil, nil
		}
		c.keepParam(calledParam(there.ClientConfig))
		return c.accepted(ctx, beside, []entry{{registration: some[0].registration, webhook: there, former: true}})
	}
	half := len(some) / 2
	first, err := c.accepted(ctx, beside, some[:half])
	if err != nil {
		return nil, err
	}
	second, err := c.accepted(ctx, slices.Concat(beside, first), some[half:])
	return slices.Concat(first, second), err
}

// webhooks returns the kept webhooks, then those of entries.
func (c *configuration) webhooks(entries []entry) []admissionv1.MutatingWebhook {
	all := slices.Clone(c.kept)
	for i := range entries {
		all = append(all, entries[i].webhook)
	}
	return all
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
	case equality.Semantic.DeepEqual(entries, c.current) && equality.Semantic.DeepEqual(owners, c.have.GetOwnerReferences()) && maps.Equal(c.marks, marksOf(c.have)):
		return nil
	}
	if c.kind == mutatingKind() {
		return c.update(ctx, entries, owners, len(options) > 0)
	}
	object, err := c.object(entries, owners)
	if err != nil {
		return err
	}
	// Version 0.4.0 removes applied entries by its own apply.
	options = append(options, client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	if err := c.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return err
	}
	return c.without(ctx, object, entries, len(options) > 2)
}

// update replaces the entries in one write, failing if another replica
// was faster. Version 0.4.0 updates the mutating configuration likewise.
func (c *configuration) update(ctx context.Context, entries []admissionv1.MutatingWebhook, owners []metav1.OwnerReference, dry bool) error {
	if c.have == nil {
		if err := c.create(ctx, owners); err != nil {
			return err
		}
	}
	made, err := c.object(entries, owners)
	if err != nil {
		return err
	}
	want := c.have.DeepCopy()
	want.Object["webhooks"] = made.Object["webhooks"]
	want.SetOwnerReferences(owners)
	annotations := made.GetAnnotations()
	for name, value := range want.GetAnnotations() {
		if !strings.HasPrefix(name, announcedPrefix) {
			annotations[name] = value
		}
	}
	want.SetAnnotations(annotations)
	options := []client.UpdateOption{client.FieldOwner(shared.FieldManager)}
	if dry {
		options = append(options, client.DryRunAll)
	}
	return c.options.Client.Update(ctx, want, options...)
}

// create makes an empty configuration, to write all entries by updates: of two replicas applying first
// entries, one would remove the other's. It applies, since RBAC can limit that to a name, unlike creation.
func (c *configuration) create(ctx context.Context, owners []metav1.OwnerReference) error {
	empty, err := c.object(nil, owners)
	if err != nil {
		return err
	}
	delete(empty.Object, "webhooks")
	if err := c.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(empty), client.FieldOwner(shared.FieldManager), client.ForceOwnership); err != nil {
		return err
	}
	if theirs, _, _ := unstructured.NestedSlice(empty.Object, "webhooks"); len(theirs) > 0 {
		resource := schema.GroupResource{Group: c.kind.Group, Resource: "mutatingwebhookconfigurations"}
		return apierrors.NewConflict(resource, c.name, errors.New("another replica has made it"))
	}
	c.have = empty
	return nil
}

// without removes others' additions, such as entries, or conditions
// of version 0.4.0, and restores the order. Applying does not.
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

// object is the configuration with these entries. The server refuses it if the writer of the certificate was faster.
func (c *configuration) object(entries []admissionv1.MutatingWebhook, owners []metav1.OwnerReference) (*unstructured.Unstructured, error) {
	annotations := map[string]string{unenforced: "true"}
	maps.Copy(annotations, c.marks)
	typed := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.name, OwnerReferences: owners, Annotations: annotations}, Webhooks: entries}
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
