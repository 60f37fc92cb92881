// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StepDeleteJob deletes a job itself, after its time to live.
const StepDeleteJob Step = "DeleteJob"

// storedSoon is the pause after a write of a status.
const storedSoon = 100 * time.Millisecond

// Seconds is a user's number of seconds, at most a century: a duration can hold that in any sum.
func Seconds(n int64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(max(n, 0), century)) * time.Second
}

// Limit is a user's number of seconds as a limit; without one it is negative.
func Limit[N int32 | int64](seconds *N) time.Duration {
	if seconds == nil {
		return -1
	}
	return Seconds(int64(*seconds))
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

// Ends asks for a pass when the time to live of a job that ends now is over. Its status, which says so, triggers no pass.
func (p *Plan) Ends(ttl time.Duration) {
	if ttl >= 0 {
		p.Recheck(max(ttl, storedSoon))
	}
}

// Unfinalize takes a finalizer from an object that has it.
func (p *Plan) Unfinalize(step Step, kind schema.GroupVersionKind, object Object, finalizer, reason string, failure Event) {
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return name == finalizer })
	if len(finalizers) == len(object.GetFinalizers()) {
		return
	}
	p.Actions = append(p.Actions, Action{
		Verb: VerbPatch, Step: step, Kind: kind, Object: object, Reason: reason,
		Change: MetadataPatch(object, map[string]any{"finalizers": finalizers}), Failure: failure,
	})
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
