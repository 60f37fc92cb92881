// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// Tenure says what a Lease tells about its holder.
type Tenure int

// The tenures.
const (
	// Unknown: it has not been looked at.
	Unknown Tenure = iota
	// Vacant: there is no Lease.
	Vacant
	// Renewed: its holder renews it, or may do so.
	Renewed
	// Lapsed: its holder gave it back, or has not renewed it for as long as it is valid.
	Lapsed
)

const (
	// defaultValidity is how long a Lease that does not say so is valid, maxValidity the most that is believed.
	defaultValidity = 15 * time.Second
	maxValidity     = 5 * time.Minute
	// vacantEvery is how often a Lease is looked for that does not exist; presentEvery is the most for one that does.
	vacantEvery  = 5 * time.Second
	presentEvery = 2 * time.Second
)

// Judge tells from repeated looks at one Lease whether it is being renewed. It compares no foreign clock with ours: the times that a
// Lease carries only count as different or the same. The zero value has looked at nothing.
type Judge struct {
	spec *coordinationv1.LeaseSpec
	// since is when the spec was first seen, last when it was last looked at. Between them no two looks are far apart.
	since, last time.Time
	tenure      Tenure
}

// Look takes the Lease as it is now, or nil when there is none, and returns what the looks so far say.
//
// Only an unbroken row of looks counts. While the API server cannot be asked, a holder cannot renew either: silence proves nothing.
func (j *Judge) Look(lease *coordinationv1.Lease, now time.Time) Tenure {
	if lease == nil {
		*j = Judge{tenure: Vacant}
		return j.tenure
	}
	spec := lease.Spec.DeepCopy()
	switch {
	case ptr.Deref(spec.HolderIdentity, "") == "":
		*j = Judge{spec: spec, since: now, tenure: Lapsed}
	case j.spec == nil || !equality.Semantic.DeepEqual(j.spec, spec):
		*j = Judge{spec: spec, since: now, tenure: Renewed}
	case j.tenure == Lapsed: // and not renewed since, whoever looked
	case now.Sub(j.last) > j.validity()/2:
		j.since = now
	case now.Sub(j.since) >= j.validity():
		j.tenure = Lapsed
	}
	j.last = now
	return j.tenure
}

// Holder is who holds the Lease, or held it last.
func (j *Judge) Holder() string {
	if j.spec == nil {
		return ""
	}
	return ptr.Deref(j.spec.HolderIdentity, "")
}

// Remaining is how much longer the Lease has to stay as it is to be judged lapsed.
func (j *Judge) Remaining() time.Duration {
	if j.tenure != Renewed {
		return 0
	}
	return max(j.validity()-j.last.Sub(j.since), 0)
}

// Next is when to look again.
func (j *Judge) Next() time.Duration {
	if j.spec == nil {
		return vacantEvery
	}
	return min(j.validity()/6, presentEvery)
}

func (j *Judge) validity() time.Duration {
	seconds := time.Duration(ptr.Deref(j.spec.LeaseDurationSeconds, 0)) * time.Second
	if seconds <= 0 {
		return defaultValidity
	}
	return min(seconds, maxValidity)
}
