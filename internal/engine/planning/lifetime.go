// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StepDeleteJob deletes a job itself, after its time to live.
const StepDeleteJob Step = "DeleteJob"

// Seconds is a user's number of seconds, at most a century: a duration can hold that in any sum.
func Seconds(n int64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(max(n, 0), century)) * time.Second
}

// Overdue says whether a job with this start is past its deadline, and asks for a look at that
// time. Without a start it begins now. A negative deadline never passes.
func (p *Plan) Overdue(start *metav1.Time, deadline time.Duration, now time.Time) bool {
	if deadline < 0 {
		return false
	}
	left := deadline
	if start != nil {
		left -= now.Sub(start.Time)
	}
	if left <= 0 {
		return true
	}
	p.Recheck(left)
	return false
}

// Expire deletes a job, with its dependents, when its time to live after its end is over, and asks
// for a pass at that time. A negative time to live never ends, nor does an unfinished job's.
func (p *Plan) Expire(kind schema.GroupVersionKind, job Object, end *metav1.Time, ttl time.Duration, now time.Time) {
	if ttl < 0 || end == nil {
		return
	}
	if left := ttl - now.Sub(end.Time); left > 0 {
		p.Recheck(left)
		return
	}
	p.Actions = append(p.Actions, Action{
		Verb: VerbDelete, Step: StepDeleteJob, Kind: kind, Object: job, Propagation: metav1.DeletePropagationBackground, Reason: "TTL",
		Failure: Event{Warning: true, Reason: "FailedDelete", Message: "Deleting the job after ttlSecondsAfterFinished"},
	})
}
