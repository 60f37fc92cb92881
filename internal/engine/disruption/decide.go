// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// maxRecorded limits the pods recorded in a status.
	maxRecorded = 2000
	// deletionPatience is how long an allowed deletion may take to be seen, updatePatience an update.
	deletionPatience = 20 * time.Second
	updatePatience   = 10 * time.Second
	// stillFresh is how long a record serves further requests unchanged: what they do must be seen before it ends.
	stillFresh = 5 * time.Second
)

// Status is a budget's.
type Status = v1beta1.PodUnavailableBudgetStatus

// Free is true if the operation needs no budget. The first rule to hold:
//
//  1. the pod's annotation asks for no protection;
//  2. the pod is not available;
//  3. the budget ignores the pod;
//  4. the operation is not protected.
func (b *Budget) Free(pod *corev1.Pod, op v1beta1.PubOperation, gates Gates, now time.Time) bool {
	return Bypasses(pod) || !Available(pod, now) || b.ignored.Matches(labels.Set(pod.Labels)) || !b.Protects(op, gates)
}

// Ask asks for an operation on a pod.
type Ask struct {
	Pod       *corev1.Pod
	Operation v1beta1.PubOperation
	Gates     Gates
}

// Answer is a budget's.
type Answer struct {
	// Denied is why the operation is denied; empty: it is allowed.
	Denied string
	// Elsewhere: the budget is gone, or is not the pod's.
	Elsewhere bool
}

// Decide answers asks in their order. after is the status with the pods recorded; nil: it need not change. The first rule
// to hold:
//
//  1. the pod is not the budget's, or the operation is free: allowed;
//  2. a recorded pod is allowed again, and recorded anew if its record is old;
//  3. a status of another generation decides nothing: denied;
//  4. no pod has to stay available: allowed;
//  5. a pod that names no budget has not been seen by who counts: denied;
//  6. there is no room, for pods or for records: denied;
//  7. the pod is recorded, and takes up the room.
func Decide(b *Budget, asks []Ask, now time.Time) (answers []Answer, after *Status) {
	status := b.Status.DeepCopy()
	answers = make([]Answer, len(asks))
	for i, ask := range asks {
		var changed bool
		if answers[i], changed = decide(b, status, ask, now); changed {
			after = status
		}
	}
	return answers, after
}

func decide(b *Budget, status *Status, ask Ask, now time.Time) (Answer, bool) {
	switch {
	case b.Invalid != nil || !b.Covers(ask.Pod):
		return Answer{Elsewhere: true}, false
	case b.Free(ask.Pod, ask.Operation, ask.Gates, now):
		return Answer{}, false
	case records(status.DisruptedPods, ask.Pod):
		return Answer{}, renew(status.DisruptedPods, ask.Pod, now)
	case records(status.UnavailablePods, ask.Pod):
		return Answer{}, renew(status.UnavailablePods, ask.Pod, now)
	case status.ObservedGeneration != b.Generation:
		return denied("PodUnavailableBudget %s has not been counted yet: try again", b.Name), false
	case status.DesiredAvailable == 0:
		return Answer{}, false
	case Linked(ask.Pod) == "":
		return denied("PodUnavailableBudget %s has not counted pod %s yet: try again", b.Name, ask.Pod.Name), false
	case status.UnavailableAllowed <= 0:
		return denied("PodUnavailableBudget %s allows no more pods to be unavailable", b.Name), false
	case len(status.DisruptedPods)+len(status.UnavailablePods) >= maxRecorded:
		return denied("PodUnavailableBudget %s has recorded %d pods, and no more fit: try again in some seconds", b.Name, maxRecorded), false
	}
	status.UnavailableAllowed--
	into := &status.DisruptedPods
	if ask.Operation == v1beta1.PubUpdateOperation || ask.Operation == v1beta1.PubResizeOperation {
		into = &status.UnavailablePods
	}
	lazy.Put(into, ask.Pod.Name, stamp(now))
	return Answer{}, true
}

func stamp(now time.Time) metav1.Time { return metav1.NewTime(now.UTC().Truncate(time.Second)) }

// renew writes the time anew to an old record; false: it is not old.
func renew(records map[string]metav1.Time, pod *corev1.Pod, now time.Time) bool {
	if at := records[pod.Name]; now.Sub(at.Time) < stillFresh {
		return false
	}
	records[pod.Name] = stamp(now)
	return true
}

func denied(format string, arguments ...any) Answer {
	return Answer{Denied: fmt.Sprintf(format, arguments...)}
}

// records is true if the pod itself is recorded, not an earlier one of its name. One created in that second asks again.
func records(pods map[string]metav1.Time, pod *corev1.Pod) bool {
	at, found := pods[pod.Name]
	return found && pod.CreationTimestamp.Before(&at)
}

// Observed is what a count needs.
type Observed struct {
	Now time.Time
	// Pods are those that the budget covers, whole.
	Pods []*corev1.Pod
	// Total is how many there should be; below 0: the kind of the target has no replicas.
	Total int32
	// LinkedOnly counts only pods that name a budget: about others nobody is asked.
	LinkedOnly bool
	// Gone: the target does not exist, is being deleted, or has no replicas.
	Gone bool
}

// Counted is a budget's new status.
type Counted struct {
	Status Status
	// Overdue are pods whose allowed deletion did not happen.
	Overdue []*corev1.Pod
	// RecheckAfter is when a record ends; zero: none does.
	RecheckAfter time.Duration
}

// Count counts a budget anew. Records of pods that are gone end, as those do that are overdue.
func Count(b *Budget, s Observed) Counted {
	c := Counted{Status: *b.Status.DeepCopy()}
	s.Total = ptr.Deref(b.Total, s.Total)
	if s.Gone {
		s.Pods, s.Total = nil, 0
	}
	c.Status.ObservedGeneration = b.Generation
	c.drop(s)
	var available, leaving int32
	for _, pod := range s.Pods {
		if c.recorded(pod.Name) || !Available(pod, s.Now) || s.LinkedOnly && Linked(pod) == "" {
			continue
		}
		available++
		if leaves(pod) {
			leaving++
		}
	}
	desired := Desired(b, s.Total)
	c.Status.TotalReplicas, c.Status.DesiredAvailable, c.Status.CurrentAvailable = s.Total, desired, available
	// Pods beyond the total make no room while as many are about to leave.
	var surplus int32
	if s.Total >= 0 {
		surplus = min(leaving, max(0, available-s.Total))
	}
	c.Status.UnavailableAllowed = max(0, available-desired-surplus)
	return c
}

// Desired is how many of total pods have to stay available. Stored values that cannot be read protect all pods.
func Desired(b *Budget, total int32) int32 {
	pods := max(0, total)
	limit := cmp.Or(b.Spec.MaxUnavailable, b.Spec.MinAvailable)
	if limit == nil {
		return 0
	}
	n, err := budget.Count(*limit, pods, budget.Up)
	switch {
	case err != nil:
		return pods
	case b.Spec.MaxUnavailable != nil:
		return max(0, pods-n)
	}
	return n
}

func (c *Counted) recorded(pod string) bool {
	_, disrupted := c.Status.DisruptedPods[pod]
	_, updated := c.Status.UnavailablePods[pod]
	return disrupted || updated
}

// drop ends records: of pods that are gone, terminating, finished or made anew, and overdue ones.
func (c *Counted) drop(s Observed) {
	pods := map[string]*corev1.Pod{}
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp == nil && !podstate.Finished(pod) {
			pods[pod.Name] = pod
		}
	}
	for name, at := range c.Status.DisruptedPods {
		if pod := pods[name]; pod == nil || pod.CreationTimestamp.After(at.Time) {
			delete(c.Status.DisruptedPods, name)
		} else if c.over(at, deletionPatience, s.Now) {
			delete(c.Status.DisruptedPods, name)
			c.Overdue = append(c.Overdue, pod)
		}
	}
	for name, at := range c.Status.UnavailablePods {
		if pod := pods[name]; pod == nil || pod.CreationTimestamp.After(at.Time) || c.over(at, updatePatience, s.Now) {
			delete(c.Status.UnavailablePods, name)
		}
	}
}

func (c *Counted) over(at metav1.Time, patience time.Duration, now time.Time) bool {
	left := at.Add(patience).Sub(now)
	if left <= 0 {
		return true
	}
	c.RecheckAfter = min(cmp.Or(c.RecheckAfter, left), left)
	return false
}
