// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
)

const (
	// announcedPrefix, before the name of an entry, is an annotation of the configuration that says when the entry was announced.
	announcedPrefix = "announced.operator.kruise.io/"
	// keepAnnounced is how long an entry is kept that no owner wants: its object may not be stored yet, or may be refused after all.
	keepAnnounced = 15 * time.Second
	// maxMark is how long the name of an annotation may be behind its prefix.
	maxMark = 63
)

// ErrNotAnnounced means that a hook cannot be registered at once.
var ErrNotAnnounced = errors.New("it cannot be registered at once")

// Announce registers a mutating hook by its webhook alone, at once and from any replica, for an object that is not stored yet. Its owner has to want it soon:
// after 15 seconds the leader removes it.
func (r *Registrar) Announce(ctx context.Context, hook *Hook) error {
	owner, err := installowner.Find(ctx, r.options.Live)
	if err != nil || r.options.Call == nil {
		return errors.Join(ErrNotAnnounced, err)
	}
	p := &pass{Registrar: New(r.options), owner: owner, now: r.options.Clock.Now(), keep: map[key]bool{}, states: map[string]State{}}
	if err := p.apply(ctx, hook.Params...); err != nil {
		return err
	}
	return retry.RetryOnConflict(wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 1.3, Jitter: 0.5}, func() error {
		c := &configuration{pass: p, name: MutatingConfiguration, kind: mutatingKind()}
		return c.announce(ctx, hook)
	})
}

// announce adds the entry of a hook before all others, with a mark.
func (c *configuration) announce(ctx context.Context, hook *Hook) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	entry, err := c.entryOf(way{hook: hook})
	if err != nil {
		return err
	}
	entries := append([]admissionv1.MutatingWebhook{entry}, slices.DeleteFunc(slices.Clone(c.entered), func(e admissionv1.MutatingWebhook) bool { return e.Name == entry.Name })...)
	if sizeOf(entries)+len(entries)*fieldsSize > maxEntered {
		return fmt.Errorf("%w: the webhook configuration %s has no room", ErrNotAnnounced, c.name)
	}
	c.announced = marksOf(c.have)
	c.announced[markOf(entry.Name)] = c.now.UTC().Format(time.RFC3339)
	return c.put(ctx, entries)
}

// markOf is the annotation that says when an entry was announced.
func markOf(entry string) string {
	name := strings.TrimSuffix(entry, ".operator.kruise.io")
	return announcedPrefix + name[:min(len(name), maxMark)]
}

// marksOf are the marks of a configuration.
func marksOf(have *unstructured.Unstructured) map[string]string {
	marks := map[string]string{}
	if have != nil {
		maps.Copy(marks, have.GetAnnotations())
		maps.DeleteFunc(marks, func(name, _ string) bool { return !strings.HasPrefix(name, announcedPrefix) })
	}
	return marks
}

// stands finds out which entries stay as they are: those of hooks that are held, and those announced a short while ago that no owner wants yet.
func (c *configuration) stands() {
	marks := marksOf(c.have)
	c.announced = map[string]string{}
	for _, entry := range c.entered {
		named := func(h *Hook) bool { return h.Name == entry.Name }
		at := slices.IndexFunc(c.hooks, named)
		left := time.Duration(0)
		if made, err := time.Parse(time.RFC3339, marks[markOf(entry.Name)]); err == nil && at < 0 {
			left = min(keepAnnounced-c.now.Sub(made), keepAnnounced)
		}
		switch {
		case left > 0:
			c.announced[markOf(entry.Name)] = marks[markOf(entry.Name)]
			c.sooner(left)
		case at < 0 || !c.hooks[at].Hold:
			continue
		}
		c.standing = append(c.standing, entry)
		c.keepParam(calledParam(entry.ClientConfig))
	}
}

// calledParam is what stands at the end of the path that a webhook calls.
func calledParam(call admissionv1.WebhookClientConfig) string {
	called := ptr.Deref(call.URL, "")
	if call.Service != nil {
		called = ptr.Deref(call.Service.Path, "")
	}
	return called[strings.LastIndex(called, "/")+1:]
}

// hold keeps the bindings of a hook as they are, and what they refer to.
func (p *pass) hold(hook *Hook) {
	for _, binding := range hook.Bindings {
		if have := p.there[keyOf(binding)]; have != nil {
			p.keep[keyOf(binding)] = true
			param, _, _ := unstructured.NestedString(have.Object, "spec", "paramRef", "name")
			p.keepParam(param)
		}
	}
	p.say(hook, State{Reason: InForce})
}

// keepParam keeps a revision that something registered names.
func (p *pass) keepParam(name string) {
	k := key{revisionKind(), p.options.Namespace, name}
	p.keep[k] = true
	delete(p.unused, k)
}
