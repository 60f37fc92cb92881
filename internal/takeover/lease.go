// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// LeaseStatus is the state of a Lease.
type LeaseStatus int

// The statuses.
const (
	// Unknown: it has not been read.
	Unknown LeaseStatus = iota
	// NoLease: there is no Lease.
	NoLease
	// Renewed: its holder renews it, or may do so.
	Renewed
	// Expired: its holder released it, or has not renewed it for as long as it is valid.
	Expired
)

const (
	// defaultValidity is for a Lease without a duration; longer ones than maxValidity are not believed.
	defaultValidity = 15 * time.Second
	maxValidity     = 5 * time.Minute
	// absentEvery is how often a missing Lease is read, presentEvery the longest pause for an existing one.
	absentEvery  = 5 * time.Second
	presentEvery = 2 * time.Second
)

// LeaseObserver reads one Lease repeatedly to see if it is renewed. It never compares a foreign clock with ours:
// a Lease's times only count as different or the same. The zero value has read nothing.
type LeaseObserver struct {
	spec *coordinationv1.LeaseSpec
	// since is when the spec was first seen, last when it was last read. Between them no two reads are far apart.
	since, last time.Time
	status      LeaseStatus
}

// Observe takes the Lease as read now, nil without one, and returns its status.
//
// Only an unbroken row of reads counts. While the API server does not answer, a holder cannot renew either:
// silence proves nothing.
func (o *LeaseObserver) Observe(lease *coordinationv1.Lease, now time.Time) LeaseStatus {
	if lease == nil {
		*o = LeaseObserver{status: NoLease}
		return o.status
	}
	spec := lease.Spec.DeepCopy()
	switch {
	case ptr.Deref(spec.HolderIdentity, "") == "":
		*o = LeaseObserver{spec: spec, since: now, status: Expired}
	case o.spec == nil || !equality.Semantic.DeepEqual(o.spec, spec):
		*o = LeaseObserver{spec: spec, since: now, status: Renewed}
	case o.status == Expired: // and not renewed since
	case now.Sub(o.last) > o.validity()/2:
		o.since = now
	case now.Sub(o.since) >= o.validity():
		o.status = Expired
	}
	o.last = now
	return o.status
}

// Holder is who holds the Lease, or held it last.
func (o *LeaseObserver) Holder() string {
	if o.spec == nil {
		return ""
	}
	return ptr.Deref(o.spec.HolderIdentity, "")
}

// Remaining is how much longer the Lease has to stay as it is until it has expired.
func (o *LeaseObserver) Remaining() time.Duration {
	if o.status != Renewed {
		return 0
	}
	return max(o.validity()-o.last.Sub(o.since), 0)
}

// Next is when to read again.
func (o *LeaseObserver) Next() time.Duration {
	if o.spec == nil {
		return absentEvery
	}
	return min(o.validity()/6, presentEvery)
}

func (o *LeaseObserver) validity() time.Duration {
	seconds := time.Duration(ptr.Deref(o.spec.LeaseDurationSeconds, 0)) * time.Second
	if seconds <= 0 {
		return defaultValidity
	}
	return min(seconds, maxValidity)
}
