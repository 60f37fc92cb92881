// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package confirmation finds kinds with objects that the earlier version did not serve. An upgrade would act on all of them at
// once: start jobs, inject sidecars, continue rollouts. Such a kind waits for the administrator.
//
// The record of served kinds is on the Lease of the leader, which outlives every version. See docs/adr/0030-confirmation.md.
package confirmation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// LeaseName is the name of the leader's Lease, in the operator's namespace.
const LeaseName = "kruise-operator-manager"

// Annotation on the Lease of the leader lists the kinds of the last leader, enabled or not. Waiting ones are left out.
const Annotation = "operator.kruise.io/served-kinds"

// Unknown stands for objects after a failed count.
const Unknown = int64(-1)

const (
	// recountEvery is how often objects of waiting kinds are counted again.
	recountEvery = time.Minute
	// countUnknownAgain is the same after a failed count: the administrator should not miss the number for long.
	countUnknownAgain = 5 * time.Second
)

// servedBefore are the kinds of versions without a record.
func servedBefore() []string { return []string{"CloneSet", "StatefulSet"} }

// Waiting are kinds that wait, with their number of objects, or Unknown.
type Waiting map[string]int64

// Message is for the administrator.
func Message(kind string, objects int64) string {
	what := "its objects are"
	switch {
	case objects == 1:
		what = "1 object is"
	case objects > 1:
		what = fmt.Sprintf("%d objects are", objects)
	}
	return what + " older than this version of the operator, and the version before did not serve the kind: " +
		"nothing is done with them until spec.confirmedKinds of the Kruise named cluster lists " + kind
}

// FindWaiting finds the kinds that wait, and changes nothing. Without the Lease of the leader there was no operator before, and
// nothing waits; nor does it while OpenKruise may serve the kinds.
func FindWaiting(ctx context.Context, c client.Reader, mapper meta.RESTMapper, lease client.ObjectKey, all kinds.Table) (Waiting, error) {
	waiting := Waiting{}
	held, err := takeover.ReadLease(ctx, c, lease)
	if err != nil || held == nil {
		return waiting, err
	}
	other, err := takeover.ReadLease(ctx, c, takeover.Lease())
	if err != nil || other != nil {
		return waiting, err
	}
	before := servedBefore()
	if served, recorded := held.Annotations[Annotation]; recorded {
		before = strings.Split(served, ",")
	}
	for _, kind := range all.Switchable() {
		if slices.Contains(before, kind.Name) {
			continue
		}
		newest := slices.Clone(kind.Versions) // the one to be stored
		slices.Reverse(newest)
		n, err := takeover.Count(ctx, c, mapper, kind.GroupKind(), newest...)
		if err != nil { // such as while nobody converts between its versions
			n = Unknown
		}
		if n != 0 {
			waiting[kind.Name] = n
		}
	}
	return waiting, nil
}

// Begin is FindWaiting after the first start has made the record.
func Begin(ctx context.Context, c client.Client, mapper meta.RESTMapper, lease client.ObjectKey, all kinds.Table) (Waiting, error) {
	held, err := takeover.ReadLease(ctx, c, lease)
	if err == nil && held == nil {
		// Before the election: an operator killed before its record would take itself for an older version.
		err = c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: lease.Namespace, Name: lease.Name, Annotations: map[string]string{Annotation: record(all, nil)},
		}})
		if apierrors.IsAlreadyExists(err) { // by another replica
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("making the Lease %s: %w", lease, err)
	}
	return FindWaiting(ctx, c, mapper, lease, all)
}

// record is the value of Annotation.
func record(all kinds.Table, waiting Waiting) string {
	names := slices.DeleteFunc(all.Switchable().Names(), func(name string) bool { _, waits := waiting[name]; return waits })
	slices.Sort(names)
	return strings.Join(names, ",")
}

// Recorder keeps the record while this replica leads, and counts waiting kinds again.
type Recorder struct {
	// Client asks the API server directly.
	Client client.Client
	// Mapper knows the served kinds.
	Mapper meta.RESTMapper
	// Lease is the Lease of the leader.
	Lease client.ObjectKey
	// Kinds are all kinds.
	Kinds kinds.Table
	// Waiting are the unconfirmed kinds.
	Waiting Waiting
	// Changed is called once when other kinds wait than before, or could be counted at last.
	Changed func()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Recorder) NeedLeaderElection() bool { return true }

// Start writes the record, and counts again while something waits.
func (r *Recorder) Start(ctx context.Context) error {
	for {
		pause := recountEvery
		written := r.write(ctx) == nil // The elector writes to the same object: the next try is soon enough.
		switch {
		case !written:
			pause = time.Second
		case len(r.Waiting) == 0:
			return nil
		case slices.Contains(slices.Collect(maps.Values(r.Waiting)), Unknown):
			pause = countUnknownAgain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		now, err := FindWaiting(ctx, r.Client, r.Mapper, r.Lease, r.Kinds)
		if err != nil || !written {
			continue
		}
		maps.DeleteFunc(now, func(kind string, _ int64) bool { _, waited := r.Waiting[kind]; return !waited }) // confirmed
		if !sameKinds(now, r.Waiting) {
			r.Changed()
			return nil
		}
	}
}

// sameKinds says that the same kinds wait, and no failed count has succeeded. Other numbers alone are not worth a restart:
// objects of some kinds come and go all the time.
func sameKinds(now, before Waiting) bool {
	return maps.EqualFunc(now, before, func(now, before int64) bool { return before != Unknown || now == Unknown })
}

func (r *Recorder) write(ctx context.Context) error {
	held, err := takeover.ReadLease(ctx, r.Client, r.Lease)
	if err != nil || held == nil {
		return err
	}
	want := record(r.Kinds, r.Waiting)
	if have, found := held.Annotations[Annotation]; found && have == want {
		return nil
	}
	if held.Annotations == nil {
		held.Annotations = map[string]string{}
	}
	held.Annotations[Annotation] = want
	if err := r.Client.Update(ctx, held); err != nil {
		return fmt.Errorf("recording which kinds are served: %w", err)
	}
	return nil
}
