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
	// announcedPrefix and an entry's name form the annotation with its announcement.
	announcedPrefix = "announced.operator.kruise.io/"
	// keepAnnounced is how long an unwanted entry stays: its object may not be stored yet, or never be.
	keepAnnounced = 15 * time.Second
	// maxMark is how long the name of an annotation may be behind its prefix.
	maxMark = 63
)

// ErrNotAnnounced means a hook cannot be registered at once.
var ErrNotAnnounced = errors.New("it cannot be registered at once")

// Announce registers a mutating webhook at once, from any replica, for an object not
// yet stored. After 15 seconds without an owner wanting it, the leader removes it.
func (r *Registrar) Announce(ctx context.Context, hook *Hook) error {
	owner, err := installowner.Find(ctx, r.options.Live)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotAnnounced, err)
	case r.options.Call == nil:
		return fmt.Errorf("%w: the API server cannot call the operator", ErrNotAnnounced)
	}
	p := newPass(New(r.options), owner, hook)
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
	entry, err := c.webhookOf(registration{hook: hook})
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(c.current), func(e admissionv1.MutatingWebhook) bool { return e.Name == entry.Name })
	entries := append([]admissionv1.MutatingWebhook{entry}, others...)
	if sizeOf(entries)+len(entries)*fieldsSize > maxAdded {
		return fmt.Errorf("%w: the webhook configuration %s has no room", ErrNotAnnounced, c.name)
	}
	c.marks = marksOf(c.have)
	c.marks[markOf(entry.Name)] = c.now.UTC().Format(time.RFC3339) + " " + string(hook.UID)
	return c.put(ctx, entries)
}

// markOf is the annotation key of an entry's announcement: its time and object.
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

// keepCurrent finds entries to leave alone: of held hooks, and recent announcements for objects no owner knows yet.
func (c *configuration) keepCurrent() {
	marks := marksOf(c.have)
	c.marks = map[string]string{}
	for _, entry := range c.current {
		mark := marks[markOf(entry.Name)]
		left := c.announcedFor(entry.Name, mark)
		if left <= 0 && !c.held[entry.Name] {
			continue
		}
		if left > 0 {
			c.marks[markOf(entry.Name)] = mark
			c.sooner(left)
		}
		c.kept = append(c.kept, entry)
		c.keepParam(calledParam(entry.ClientConfig))
	}
}

// announcedFor is how long an announced entry stays. A hook
// wanted for an earlier object of the same name does not count.
func (c *configuration) announcedFor(name, mark string) time.Duration {
	text, uid, _ := strings.Cut(mark, " ")
	at, err := time.Parse(time.RFC3339, text)
	wanted := func(h *Hook) bool { return h.Name == name && string(h.UID) == uid }
	if err != nil || slices.ContainsFunc(c.hooks, wanted) {
		return 0
	}
	return min(keepAnnounced-c.now.Sub(at), keepAnnounced)
}

// calledParam is the last part of a webhook's path.
func calledParam(call admissionv1.WebhookClientConfig) string {
	called := ptr.Deref(call.URL, "")
	if call.Service != nil {
		called = ptr.Deref(call.Service.Path, "")
	}
	return called[strings.LastIndex(called, "/")+1:]
}
