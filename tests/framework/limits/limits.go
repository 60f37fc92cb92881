// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package limits watches a StatefulSet and its pods on the API server and judges every
// change:
//
//   - no pod is taken out of service while maxUnavailable is used up,
//   - no pod is created that the set does not want, reserved ordinals included, and none
//     beyond scaleStrategy.maxUnavailable,
//   - no pod kept by the partition is moved, or created at the new revision,
//   - no pod is deleted or taken out of service without need, and none is moved to a
//     revision nobody asked for,
//   - no name has two pods.
//
// It shares no code with the engine. Changes are recorded during the test and judged
// afterwards by resource version, so changes of the spec and writes to a pod are compared
// in the server's order.
package limits

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Rules say how strict the judge is.
type Rules struct {
	// StartOrdinal: the operator honors ordinals.start.
	StartOrdinal bool
	// Foreign: other hands make pods unavailable while the operator takes pods away. It
	// cannot know of a very recent outage, so only its own count against maxUnavailable.
	Foreign bool
	// Regret allows taking a pod out of service and putting it back unchanged, as when the
	// update is taken back.
	Regret bool
}

// Event is one change reported by the server.
type Event struct {
	// Version is the resource version of the change.
	Version uint64
	// At is when it was received. It is not before the writer decided.
	At time.Time
	// Initial: the object existed when watching began.
	Initial bool
	// Deleted: the object is gone; it is the last state.
	Deleted bool
	// Pod, Set or CloneSet is the object.
	Pod      *corev1.Pod
	Set      *v1beta1.StatefulSet
	CloneSet *v1beta1.CloneSet
}

// Verdict is the result.
type Verdict struct {
	// Violations are broken rules.
	Violations []string
	// Taken counts serving pods taken out of service.
	Taken int
	// Peak is the highest number of pods out of service by the operator's hand.
	Peak int
	// Created counts created pods: in a flow all, otherwise those after all had been
	// available. CloneSets only.
	Created int
}

// Judge judges all events of one set. Deletions of pods with UIDs in foreign were not the
// operator's.
func Judge(events []Event, rules Rules, foreign map[types.UID]bool) Verdict {
	events = ordered(events)
	j := &judge{rules: rules, foreign: foreign, pods: map[string]*corev1.Pod{}, taken: map[string]*corev1.Pod{}, updates: updateRevisions(events)}
	for _, e := range events {
		j.now = e.At
		if e.Set != nil {
			j.observeSet(e)
			continue
		}
		j.observePod(e)
	}
	return j.verdict
}

// judge walks through the events.
type judge struct {
	rules   Rules
	foreign map[types.UID]bool
	verdict Verdict

	now time.Time
	// specs are the ones the operator may be acting on, oldest first: from the last
	// observed by the status.
	specs  []*v1beta1.StatefulSet
	status v1beta1.StatefulSetStatus
	// updates are the update revisions by generation.
	updates map[int64]string
	pods    map[string]*corev1.Pod
	// taken are the pods the operator took out of service and that do not serve again yet,
	// as they were.
	taken map[string]*corev1.Pod
	gone  bool
}

// updateRevisions reads each generation's update revision from the statuses.
func updateRevisions(events []Event) map[int64]string {
	updates := map[int64]string{}
	for _, e := range events {
		if e.Set != nil && e.Set.Status.UpdateRevision != "" {
			updates[e.Set.Status.ObservedGeneration] = e.Set.Status.UpdateRevision
		}
	}
	return updates
}

func (j *judge) observeSet(e Event) {
	if e.Deleted || e.Set.DeletionTimestamp != nil {
		j.gone = true
		return
	}
	j.status = e.Set.Status
	if n := len(j.specs); n == 0 || j.specs[n-1].Generation != e.Set.Generation {
		j.specs = append(j.specs, e.Set)
	}
	for len(j.specs) > 1 && j.specs[0].Generation < e.Set.Status.ObservedGeneration {
		j.specs = j.specs[1:]
	}
}

func (j *judge) observePod(e Event) {
	name := e.Pod.Name
	before, after := j.pods[name], e.Pod
	if e.Deleted {
		after = nil
	}
	if !e.Initial && !j.gone && len(j.specs) > 0 {
		switch {
		case before == nil && after != nil:
			j.created(after)
		case before != nil && after != nil && before.UID != after.UID:
			j.violation(after, "has a second pod while %s is not gone", before.UID)
		case before != nil:
			j.changed(before, after)
		}
	}
	if after == nil {
		delete(j.pods, name)
		return
	}
	j.pods[name] = after
	if old := j.taken[name]; old != nil && j.available(after) {
		delete(j.taken, name)
		if !j.rules.Regret && old.UID == after.UID && old.Generation == after.Generation && revision(old) == revision(after) {
			j.violation(after, "was taken out of service and put back unchanged")
		}
	}
}

// created judges a new pod. One without a controller was created by somebody else.
func (j *judge) created(pod *corev1.Pod) {
	if metav1.GetControllerOf(pod) == nil {
		return
	}
	j.unlessAllowed(pod, func(set *v1beta1.StatefulSet) string {
		names := j.wanted(set)
		rank := slices.Index(names, pod.Name)
		if rank < 0 {
			return fmt.Sprintf("is created, wanted are %s", strings.Join(names, ", "))
		}
		if keeps(set, rank) && j.status.UpdateRevision != j.status.CurrentRevision && revision(pod) == j.status.UpdateRevision {
			return fmt.Sprintf("is created at %s; partition %d keeps it at %s", revision(pod), partition(set), j.status.CurrentRevision)
		}
		if limit := scaleLimit(set); limit > 0 {
			unavailable := 0
			for _, lower := range names[:rank] {
				if other := j.pods[lower]; other != nil && !j.available(other) {
					unavailable++
				}
			}
			if unavailable >= limit {
				return fmt.Sprintf("is created while %d below it are unavailable; scaleStrategy allows %d", unavailable, limit)
			}
		}
		return ""
	})
}

// changed judges a pod's change. After is nil when it is gone.
func (j *judge) changed(before, after *corev1.Pod) {
	if j.foreign[before.UID] {
		return
	}
	deleted := before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil)
	if deleted {
		j.deleted(before)
	}
	if after != nil && revision(before) != revision(after) {
		j.moved(before, after)
	}
	if j.available(before) && (deleted || heldBack(after)) {
		j.takenAway(before)
	}
}

// deleted judges the reason to delete a pod.
func (j *judge) deleted(pod *corev1.Pod) {
	if _, specified := pod.Labels[shared.LabelSpecifiedDelete]; specified || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	j.unlessAllowed(pod, func(set *v1beta1.StatefulSet) string {
		rank := slices.Index(j.wanted(set), pod.Name)
		update, known := j.updates[set.Generation]
		switch {
		case rank < 0:
			return ""
		case set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
			return "is deleted; the strategy is OnDelete"
		case known && update == revision(pod):
			return "is deleted, though it is wanted and at the update revision"
		case keeps(set, rank):
			return fmt.Sprintf("is deleted; partition %d keeps it", partition(set))
		}
		return ""
	})
}

// moved judges a pod's move.
func (j *judge) moved(before, after *corev1.Pod) {
	j.unlessAllowed(after, func(set *v1beta1.StatefulSet) string {
		names := j.wanted(set)
		rank := slices.Index(names, after.Name)
		update, known := j.updates[set.Generation]
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		switch {
		case set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
			return "is moved; the strategy is OnDelete"
		case rolling != nil && rolling.Paused:
			return "is moved; updates are paused"
		case known && update != revision(after):
			return fmt.Sprintf("is moved to %s, the update revision is %s", revision(after), update)
		case rank >= 0 && keeps(set, rank):
			return fmt.Sprintf("is moved from %s; partition %d keeps it", revision(before), partition(set))
		}
		if rolling != nil && rolling.UnorderedUpdate != nil {
			old := 0
			for _, name := range names {
				if pod := j.pods[name]; name != after.Name && (pod == nil || revision(pod) != revision(after)) {
					old++
				}
			}
			if old < min(partition(set), len(names)) {
				return fmt.Sprintf("is moved, %d stay; the partition is %d", old, partition(set))
			}
		}
		return ""
	})
}

// takenAway checks maxUnavailable for room.
func (j *judge) takenAway(pod *corev1.Pod) {
	wanted := false
	j.unlessAllowed(pod, func(set *v1beta1.StatefulSet) string {
		names := j.wanted(set)
		if !slices.Contains(names, pod.Name) {
			return ""
		}
		wanted = true
		var out []string
		for _, name := range names {
			other := j.pods[name]
			if name == pod.Name {
				continue
			}
			if j.rules.Foreign && j.taken[name] != nil || !j.rules.Foreign && (other == nil || !j.available(other)) {
				out = append(out, name)
			}
		}
		if limit := maxUnavailable(set); len(out) >= limit {
			return fmt.Sprintf("is taken out of service while %d are unavailable (%s); %d are allowed", len(out), strings.Join(out, ", "), limit)
		}
		return ""
	})
	if wanted {
		j.taken[pod.Name] = pod
		j.verdict.Taken++
		j.verdict.Peak = max(j.verdict.Peak, len(j.taken))
	}
}

// unlessAllowed adds a violation if every spec the operator may be acting on objects.
func (j *judge) unlessAllowed(pod *corev1.Pod, objection func(*v1beta1.StatefulSet) string) {
	last := ""
	for _, set := range j.specs {
		if last = objection(set); last == "" {
			return
		}
	}
	j.violation(pod, "%s", last)
}

func (j *judge) violation(pod *corev1.Pod, format string, args ...any) {
	j.verdict.Violations = append(j.verdict.Violations, violation(j.now, pod, format, args...))
}

// violation names the pod, the event and the time.
func violation(at time.Time, pod *corev1.Pod, format string, args ...any) string {
	return fmt.Sprintf("%s %s (version %s): %s", at.Format("15:04:05.000"), pod.Name, pod.ResourceVersion, fmt.Sprintf(format, args...))
}

// wanted are the names of the pods a set asks for, in ascending order.
func (j *judge) wanted(set *v1beta1.StatefulSet) []string {
	next := 0
	if j.rules.StartOrdinal && set.Spec.Ordinals != nil {
		next = int(set.Spec.Ordinals.Start)
	}
	names := make([]string, 0, *set.Spec.Replicas)
	for ; len(names) < int(*set.Spec.Replicas); next++ {
		if !reserved(set.Spec.ReserveOrdinals, next) {
			names = append(names, fmt.Sprintf("%s-%d", set.Name, next))
		}
	}
	return names
}

func reserved(entries []intstr.IntOrString, ordinal int) bool {
	return slices.ContainsFunc(entries, func(e intstr.IntOrString) bool {
		if e.Type == intstr.Int {
			return e.IntValue() == ordinal
		}
		first, last, _ := strings.Cut(e.StrVal, "-")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		return err == nil && err2 == nil && from <= ordinal && ordinal <= to
	})
}

// available judges a pod at the time of the event.
func (j *judge) available(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || heldBack(pod) || len(j.specs) == 0 {
		return false
	}
	minReady := time.Duration(0)
	if rolling := j.specs[0].Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MinReadySeconds != nil {
		minReady = time.Duration(*rolling.MinReadySeconds) * time.Second
	}
	ready := condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue && !ready.LastTransitionTime.Add(minReady).After(j.now)
}

// heldBack: the operator, not the kubelet, keeps the pod out of service.
func heldBack(pod *corev1.Pod) bool {
	gate := condition(pod, shared.GateInPlaceUpdateReady)
	state := shared.LifecycleState(pod.Labels[shared.LabelLifecycleState])
	return gate != nil && gate.Status == corev1.ConditionFalse || state != "" && state != shared.StateNormal
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func revision(pod *corev1.Pod) string { return pod.Labels[shared.LabelControllerRevisionHash] }

func partition(set *v1beta1.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Partition == nil {
		return 0
	}
	return int(*rolling.Partition)
}

// keeps is true if an ordered set's partition keeps the pod of the rank.
func keeps(set *v1beta1.StatefulSet, rank int) bool {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	return rolling != nil && rolling.UnorderedUpdate == nil && rank < partition(set)
}

func maxUnavailable(set *v1beta1.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1
	}
	return scaled(rolling.MaxUnavailable, set)
}

// scaleLimit is scaleStrategy.maxUnavailable; 0 without a limit.
func scaleLimit(set *v1beta1.StatefulSet) int {
	if set.Spec.ScaleStrategy == nil || set.Spec.ScaleStrategy.MaxUnavailable == nil {
		return 0
	}
	return scaled(set.Spec.ScaleStrategy.MaxUnavailable, set)
}

func scaled(limit *intstr.IntOrString, set *v1beta1.StatefulSet) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, int(*set.Spec.Replicas), false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}
