// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func param(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(revisionKind())
	object.SetNamespace("kruise-system")
	object.SetName(name)
	object.SetLabels(map[string]string{OwnLabel: "x"})
	return object
}

func withParam(h *Hook) {
	h.Path, h.Params = "/inject/revision-1", []*unstructured.Unstructured{param("revision-1")}
}

// Another replica registers a hook at once. The leader keeps it for 15
// seconds, even across a restart, then takes it over or removes it.
func TestAnAnnouncedHookIsTakenOverOrRemoved(t *testing.T) {
	for name, stored := range map[string]bool{"it is stored": true, "it is refused": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Owner("others", nil).Want(hook("b"))
			w.pass()
			replica := New(w.options)
			if err := replica.Announce(t.Context(), hook("a", withParam)); err != nil {
				t.Fatal(err)
			}
			if got := w.entries(MutatingConfiguration); !slices.Equal(got, full("a", "b")) {
				t.Fatalf("announced: %v", got)
			}
			w.Registrar = New(w.options) // another leader
			owner := w.Owner("others", nil)
			owner.Want(hook("b"))
			w.clock.SetTime(w.clock.Now().Add(14 * time.Second))
			if again := w.pass(); again.RequeueAfter > time.Second {
				t.Errorf("it is looked again only after %s", again.RequeueAfter)
			}
			if got := w.entries(MutatingConfiguration); !slices.Equal(got, full("a", "b")) || !w.exists(param(""), "revision-1") {
				t.Fatalf("after 14 seconds: %v", got)
			}
			want := full("b")
			if stored {
				want = full("a", "b")
				owner.Want(hook("a", withParam), hook("b"))
				w.pass()
			}
			for range 3 {
				w.clock.SetTime(w.clock.Now().Add(11 * time.Second))
				w.pass()
			}
			config := &admissionv1.MutatingWebhookConfiguration{}
			w.exists(config, MutatingConfiguration)
			if got := w.entries(MutatingConfiguration); !slices.Equal(got, want) || len(config.Annotations) != 1 || w.exists(param(""), "revision-1") != stored {
				t.Errorf("in the end: %v, annotations %v", got, config.Annotations)
			}
		})
	}
}

// Two replicas announce at the same moment, while nothing is registered and while something is.
func TestHooksThatAreAnnouncedTogetherAreBothThere(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := New(w.options).Announce(t.Context(), hook(name, withParam)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.entries(MutatingConfiguration); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

// Both found nothing, and the later writer removed the other's entry, reported to be in force.
func TestTwoReplicasThatAnnounceTheFirstHooksKeepBoth(t *testing.T) {
	w := newWorld(t)
	w.applied = func() {
		if err := New(w.options).Announce(t.Context(), hook("b", withParam)); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(w.options).Announce(t.Context(), hook("a", withParam)); err != nil {
		t.Fatal(err)
	}
	if got := w.entries(MutatingConfiguration); !slices.Equal(got, full("a", "b")) {
		t.Errorf("got %v", got)
	}
}

// A set was deleted and recreated at once. The leader still
// wanted the old one, and removed the new announcement.
func TestWhatIsAnnouncedIsNotRemovedForAnEarlierObjectOfItsName(t *testing.T) {
	earlier, later := func(h *Hook) { h.UID = "earlier"; withParam(h) }, func(h *Hook) { h.UID, h.Path = "later", "/inject/revision-2" }
	for name, byPolicy := range map[string]bool{"by policy": true, "by webhook": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.proven = true
			owner := w.Owner("all", nil)
			owner.Want(hook("a", earlier, func(h *Hook) {
				if byPolicy {
					h.Policy = "changes"
				}
			}))
			w.pass()
			if err := New(w.options).Announce(t.Context(), hook("a", later)); err != nil {
				t.Fatal(err)
			}
			w.pass()
			config := &admissionv1.MutatingWebhookConfiguration{}
			if !w.exists(config, MutatingConfiguration) || len(config.Webhooks) != 1 || *config.Webhooks[0].ClientConfig.Service.Path != "/inject/revision-2" {
				t.Fatalf("while the earlier one is wanted: %+v", config.Webhooks)
			}
			owner.Want(hook("a", later))
			w.pass()
			if w.exists(config, MutatingConfiguration); len(config.Annotations) != 1 || len(config.Webhooks) != 1 {
				t.Errorf("when it is known: %+v", config)
			}
		})
	}
}

func TestAHookThatIsHeldStaysAsItIs(t *testing.T) {
	w := newWorld(t)
	owner := w.Owner("all", nil)
	owner.Want(hook("a", withParam))
	w.pass()
	held := hook("a", func(h *Hook) { h.Path, h.Hold = "/inject/revision-2", true })
	owner.Want(held, hook("b"))
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(11 * time.Second))
		w.pass()
	}
	config := &admissionv1.MutatingWebhookConfiguration{}
	w.exists(config, MutatingConfiguration)
	if len(config.Webhooks) != 2 || *config.Webhooks[0].ClientConfig.Service.Path != "/inject/revision-1" || !w.exists(param(""), "revision-1") {
		t.Errorf("got %+v", config.Webhooks)
	}
}
