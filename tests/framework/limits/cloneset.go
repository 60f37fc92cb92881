// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// WatchCloneSet is Watch for a CloneSet with constant replicas while its pods are moved;
// see JudgeCloneSet. The set must exist: its spec now sets the limits.
func WatchCloneSet(t testing.TB, c client.WithWatch, set *v1beta1.CloneSet) *Watcher {
	t.Helper()
	allowed, err := cloneSetLimits(set)
	if err != nil {
		t.Fatalf("reading the limits of CloneSet %s: %v", set.Name, err)
	}
	return watch(t, &Watcher{
		client: c, namespace: set.Namespace, set: set.Name,
		ours: regexp.MustCompile("^" + regexp.QuoteMeta(set.Name) + "-[a-z0-9]{5}$"),
		judge: func(events []Event, foreign map[types.UID]bool) Verdict {
			return JudgeCloneSet(events, allowed, foreign)
		},
	})
}

// CloneSetLimits are a CloneSet's limits while its pods are moved.
type CloneSetLimits struct {
	Replicas, MaxUnavailable, MaxSurge int
}

// cloneSetLimits rounds as the API says: maxSurge up, maxUnavailable down beside it and up without it.
func cloneSetLimits(set *v1beta1.CloneSet) (CloneSetLimits, error) {
	l := CloneSetLimits{Replicas: int(*set.Spec.Replicas)}
	unavailable, surge := intstr.FromString("20%"), intstr.FromInt32(0)
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		if rolling.MaxUnavailable != nil {
			unavailable = *rolling.MaxUnavailable
		}
		if rolling.MaxSurge != nil {
			surge = *rolling.MaxSurge
		}
	}
	var err error
	if l.MaxSurge, err = intstr.GetScaledValueFromIntOrPercent(&surge, l.Replicas, true); err != nil {
		return l, err
	}
	l.MaxUnavailable, err = intstr.GetScaledValueFromIntOrPercent(&unavailable, l.Replicas, l.MaxSurge == 0)
	return l, err
}

// JudgeCloneSet looks at all changes of the pods of one CloneSet while its template is changed once and nothing else:
//
//   - no pod is taken out of service when fewer than replicas minus maxUnavailable are then available,
//   - no more pods exist than replicas and maxSurge, without terminating ones,
//   - no pod at the update revision is deleted, and none is moved back.
//
// The update revision is the pods' target, or the revision of the second creations.
func JudgeCloneSet(events []Event, allowed CloneSetLimits, foreign map[types.UID]bool) Verdict {
	j := &cloneSetJudge{allowed: allowed, foreign: foreign, pods: map[string]*corev1.Pod{}, began: map[string]bool{}}
	for _, e := range ordered(events) {
		if e.Pod != nil {
			j.now = e.At
			j.observe(e)
		}
	}
	return j.verdict
}

type cloneSetJudge struct {
	allowed CloneSetLimits
	foreign map[types.UID]bool
	verdict Verdict

	now  time.Time
	pods map[string]*corev1.Pod
	// began are the revisions of the pods before the update; update is the other one.
	began  map[string]bool
	update string
	// served: all pods have been available; before, the set is starting.
	served bool
}

func (j *cloneSetJudge) observe(e Event) {
	before, after := j.pods[e.Pod.Name], e.Pod
	if e.Deleted {
		after = nil
	}
	if after == nil {
		delete(j.pods, e.Pod.Name)
	} else {
		j.pods[e.Pod.Name] = after
	}
	if !j.served {
		if after != nil {
			j.began[revision(after)] = true
		}
		j.served = j.available() == j.allowed.Replicas
		return
	}
	if after != nil && !j.began[revision(after)] && j.update == "" {
		j.update = revision(after)
	}
	if before == nil && after != nil {
		j.created(after)
	}
	if before != nil && !j.foreign[before.UID] {
		j.changed(before, after)
	}
}

func (j *cloneSetJudge) created(pod *corev1.Pod) {
	if metav1.GetControllerOf(pod) == nil {
		return
	}
	j.verdict.Created++
	staying := 0
	for _, p := range j.pods {
		if p.DeletionTimestamp == nil {
			staying++
		}
	}
	if limit := j.allowed.Replicas + j.allowed.MaxSurge; staying > limit {
		j.violation(pod, "is created, and there are %d; replicas and maxSurge allow %d", staying, limit)
	}
}

func (j *cloneSetJudge) changed(before, after *corev1.Pod) {
	deleted := before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil)
	if deleted && revision(before) == j.update {
		j.violation(before, "is deleted, though it is at the update revision")
	}
	if after != nil && revision(before) == j.update && revision(after) != j.update {
		j.violation(after, "is moved back from %s", j.update)
	}
	if !serves(before) || !deleted && !heldBack(after) {
		return
	}
	j.verdict.Taken++
	available := j.available()
	j.verdict.Peak = max(j.verdict.Peak, j.allowed.Replicas-available)
	if least := j.allowed.Replicas - j.allowed.MaxUnavailable; available < least {
		j.violation(before, "is taken out of service, and %d of %d are available; maxUnavailable %d allows %d",
			available, j.allowed.Replicas, j.allowed.MaxUnavailable, least)
	}
}

func (j *cloneSetJudge) available() int {
	n := 0
	for _, pod := range j.pods {
		if serves(pod) {
			n++
		}
	}
	return n
}

// serves is true for available pods, in a set without minReadySeconds.
func serves(pod *corev1.Pod) bool {
	ready := condition(pod, corev1.PodReady)
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && !heldBack(pod) && ready != nil && ready.Status == corev1.ConditionTrue
}

func (j *cloneSetJudge) violation(pod *corev1.Pod, format string, args ...any) {
	j.verdict.Violations = append(j.verdict.Violations, violation(j.now, pod, format, args...))
}

// ordered are the events in the server's order.
func ordered(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		switch {
		case a.Version < b.Version:
			return -1
		case a.Version > b.Version:
			return 1
		}
		return 0
	})
	return events
}
