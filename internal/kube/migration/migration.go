// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration rewrites objects in older storage versions, and then updates status.storedVersions of their CRD. A version
// in there can never leave the definition, and has to be converted for as long.
//
//   - An object is written with an empty patch. The API server skips objects in the right version.
//   - A version goes from status.storedVersions only after every listed object was written. Another storage version meanwhile
//     is a conflict.
//   - It runs in the leader, after another manager has stopped, one write at a time. It costs one read for each kind when there is
//     nothing to do.
package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
)

const (
	// settle is how long a definition has to be as it is before its objects are written: other API servers may still store the version before.
	settle = 10 * time.Second
	// pause is the wait after a failure, and for another manager. It doubles up to longestPause: users have to change refused objects
	// first, and each try writes all others again.
	pause, longestPause = 30 * time.Second, time.Hour
	// maxRefused is how many objects in a row are tried while the server takes none: then it refuses more than single objects.
	maxRefused = 20
)

// Options are for New.
type Options struct {
	// Client reads and writes directly, without a cache.
	Client client.Client
	// Kinds have their stored objects moved.
	Kinds []kinds.Kind
	// Ready is true if no other manager acts.
	Ready func() bool
	// Changed is called when Working has another answer.
	Changed func()
	// Clock is the time.
	Clock clock.Clock
	Log   logr.Logger
}

// Migration moves stored objects to the storage version.
type Migration struct {
	options Options

	mutex sync.Mutex
	// working describes the present work; empty: none.
	working string
}

// New returns a Migration at rest.
func New(o Options) *Migration { return &Migration{options: o} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (m *Migration) NeedLeaderElection() bool { return true }

// Working describes the present work; empty: none.
func (m *Migration) Working() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.working
}

func (m *Migration) set(working string) {
	m.mutex.Lock()
	changed := m.working != working
	m.working = working
	m.mutex.Unlock()
	if changed {
		m.options.Changed()
	}
}

// Start moves everything, and ends then, or with ctx.
func (m *Migration) Start(ctx context.Context) error {
	defer m.set("")
	todo := slices.Clone(m.options.Kinds)
	wait := pause / 2
	for len(todo) > 0 {
		wait = min(2*wait, longestPause)
		if !m.options.Ready() {
			wait = pause
		} else {
			todo = slices.DeleteFunc(todo, func(kind kinds.Kind) bool {
				err := m.Migrate(ctx, kind)
				if err == nil {
					m.set("")
				} else if ctx.Err() == nil {
					m.options.Log.Info("Objects could not be moved to the version that is to be stored; it is tried again", "kind", kind.Name, "err", err.Error())
				}
				return err == nil
			})
		}
		if len(todo) > 0 && !m.wait(ctx, wait) {
			return nil
		}
	}
	return nil
}

// wait waits; false when ctx has ended.
func (m *Migration) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-m.options.Clock.After(d):
		return true
	}
}

// Migrate moves the objects of one kind. Kinds without a definition, or with another storage version than ours, stay.
func (m *Migration) Migrate(ctx context.Context, kind kinds.Kind) error {
	_, older, err := m.older(ctx, kind)
	if err != nil || len(older) == 0 {
		return err
	}
	m.set(fmt.Sprintf("objects of %s that may be stored as %s are being written as %s", kind.Name, strings.Join(older, ", "), kind.Storage))
	if !m.wait(ctx, settle) {
		return ctx.Err()
	}
	definition, older, err := m.older(ctx, kind)
	if err != nil || len(older) == 0 {
		return err
	}
	written, err := m.rewrite(ctx, kind)
	if err != nil {
		return err
	}
	// Other writes to the definition, such as for its conversion, do not matter.
	now, _, err := m.older(ctx, kind)
	if err != nil {
		return err
	}
	if now == nil || now.GetUID() != definition.GetUID() {
		return errChanged
	}
	_ = unstructured.SetNestedStringSlice(now.Object, []string{kind.Storage}, "status", "storedVersions") // older has read it
	if err := m.options.Client.Status().Update(ctx, now, client.FieldOwner(shared.FieldManager)); err != nil {
		return fmt.Errorf("writing the stored versions of %s: %w", kind.Name, err)
	}
	m.options.Log.Info("Moved objects to the version that is to be stored", "kind", kind.Name, "from", older, "to", kind.Storage, "objects", written)
	return nil
}

// errChanged: another storage version came meanwhile.
var errChanged = errors.New("the definition has changed meanwhile")

// older are the other versions of stored objects, with the definition.
func (m *Migration) older(ctx context.Context, kind kinds.Kind) (*unstructured.Unstructured, []string, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := m.options.Client.Get(ctx, client.ObjectKey{Name: kind.Definition()}, definition)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the definition of %s: %w", kind.Name, err)
	}
	stored, _, err := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	is := func(entry any) bool {
		version, _ := entry.(map[string]any)
		return version["name"] == kind.Storage && version["storage"] == true
	}
	if err != nil || !slices.ContainsFunc(versions, is) {
		return nil, nil, err
	}
	return definition, slices.DeleteFunc(stored, func(v string) bool { return v == kind.Storage }), nil
}

// rewrite writes every object of a kind, and counts them. Refusals of single objects end it only while none is taken.
func (m *Migration) rewrite(ctx context.Context, kind kinds.Kind) (written int, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.Stored().GroupVersion().WithKind(kind.Name + "List"))
	var refused []error
	for page, err := range pages.All(ctx, m.options.Client, list) {
		if err != nil {
			return written, fmt.Errorf("listing objects of %s: %w", kind.Name, err)
		}
		for i := range page.Items {
			object := &page.Items[i]
			object.SetGroupVersionKind(kind.Stored())
			err := m.options.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")), client.FieldOwner(shared.FieldManager))
			if client.IgnoreNotFound(err) == nil {
				written++
				continue
			}
			err = fmt.Errorf("writing %s %s: %w", kind.Name, client.ObjectKeyFromObject(object), err)
			alone := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
			if refused = append(refused, err); !alone || written == 0 && len(refused) == maxRefused {
				return written, err
			}
		}
	}
	if len(refused) > 0 {
		return written, fmt.Errorf("%d objects are refused, the last: %w", len(refused), refused[len(refused)-1])
	}
	return written, nil
}
