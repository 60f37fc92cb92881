// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package freshness

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resolve looks up live every doubtful write, and every deleted pod too long whole.
func (t *Tracker) resolve(ctx context.Context, o Owner) error {
	r := t.lock(o)
	if len(r.unknown) == 0 && len(r.deleted) == 0 {
		r.mu.Unlock()
		return nil
	}
	for uid, d := range r.deleted {
		if _, asked := t.asked.Load(d.ref.Kind); !asked {
			delete(r.deleted, uid)
		}
	}
	now := t.clock.Now()
	doubts := map[Ref]doubt{}
	maps.Copy(doubts, r.unknown)
	for uid, d := range r.deleted {
		if now.Sub(d.lookedAt) >= lookAgain {
			if _, ok := doubts[d.ref]; !ok {
				doubts[d.ref] = doubt{op: Delete, at: d.at}
			}
			d.lookedAt = now
			r.deleted[uid] = d
		}
	}
	r.mu.Unlock()

	var failed error
	for ref, d := range doubts {
		found, err := t.look(ctx, ref.Kind, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		if err = client.IgnoreNotFound(err); err != nil && now.Sub(d.at) <= recordTimeout {
			failed = fmt.Errorf("looking up %s %s, whose last write is in doubt: %w", ref.Kind.Kind, ref.Name, err)
			if Judge(err) == InDoubt {
				break // The server is not there; the others would only take as long.
			}
			continue
		}
		// After an error this gives up: sooner or later the cache shows the write.
		t.settle(o, ref, d.op, found)
	}
	return failed
}

// settle ends a doubt by the live object; nil if there is none.
func (t *Tracker) settle(o Owner, ref Ref, op Op, found *metav1.PartialObjectMetadata) {
	r := t.lock(o)
	defer r.mu.Unlock()
	delete(r.unknown, ref)
	if found == nil {
		return
	}
	switch op {
	case Create, Apply:
		// Ours or not: the next plan must know the name is taken, and by whom.
		t.wrote(r, ref.Kind, found.ResourceVersion)
	case Patch:
		if found.UID == ref.UID && found.ResourceVersion != ref.ResourceVersion {
			t.wrote(r, ref.Kind, found.ResourceVersion)
		}
	case Delete:
		switch {
		case found.UID != ref.UID:
			// Gone; the cache will show it. The object stays among the deleted ones until then.
		case found.DeletionTimestamp != nil:
			t.wrote(r, ref.Kind, found.ResourceVersion)
		default:
			delete(r.deleted, ref.UID)
		}
	}
}
