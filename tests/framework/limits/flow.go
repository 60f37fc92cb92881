// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// WatchCloneSetFlow is Watch for a CloneSet with any changes of spec; see
// JudgeCloneSetFlow. The set need not exist yet.
func WatchCloneSetFlow(t testing.TB, c client.WithWatch, namespace, set string, rules Rules) *Watcher {
	t.Helper()
	return watch(t, &Watcher{
		client: c, namespace: namespace, set: set,
		ours: regexp.MustCompile("^" + regexp.QuoteMeta(set) + "-[a-z0-9]{5}$"),
		judge: func(events []Event, foreign map[types.UID]bool) Verdict {
			return JudgeCloneSetFlow(events, rules, foreign)
		},
		sets: func() client.ObjectList { return &v1beta1.CloneSetList{} },
	})
}

// JudgeCloneSetFlow judges all changes of a CloneSet and its pods. Each change of a pod has
// to be allowed by a spec the operator may be acting on: the last one observed by the
// status, or a later one.
//
//   - No serving pod is taken out of service when fewer than replicas minus maxUnavailable are then available.
//   - No creation leads to more pods than replicas and maxSurge, without terminating and
//     finished ones and, with excludePreparingDelete, those waiting for their preDelete
//     hook.
//   - No pod is moved in place when then fewer than the partition are at other revisions, nor with OnDelete.
//
// Deletions of pods with UIDs in foreign were not the operator's.
func JudgeCloneSetFlow(events []Event, rules Rules, foreign map[types.UID]bool) Verdict {
	j := &flowJudge{foreign: foreign, rules: rules, pods: map[string]*corev1.Pod{}, taken: map[types.UID]bool{}}
	for _, e := range ordered(events) {
		j.now = e.At
		switch {
		case e.CloneSet != nil:
			j.observeSet(e)
		case e.Pod != nil:
			j.observePod(e)
		}
	}
	return j.verdict
}

type flowJudge struct {
	foreign map[types.UID]bool
	rules   Rules
	verdict Verdict

	now   time.Time
	specs []*v1beta1.CloneSet
	pods  map[string]*corev1.Pod
	// taken are pods the operator took out of service and that do not serve again yet.
	taken map[types.UID]bool
	gone  bool
}

func (j *flowJudge) observeSet(e Event) {
	if e.Deleted || e.CloneSet.DeletionTimestamp != nil {
		j.gone = true
		return
	}
	if n := len(j.specs); n == 0 || j.specs[n-1].Generation != e.CloneSet.Generation {
		j.specs = append(j.specs, e.CloneSet)
	}
	for len(j.specs) > 1 && j.specs[0].Generation < e.CloneSet.Status.ObservedGeneration {
		j.specs = j.specs[1:]
	}
}

func (j *flowJudge) observePod(e Event) {
	before, after := j.pods[e.Pod.Name], e.Pod
	if e.Deleted {
		after = nil
		delete(j.pods, e.Pod.Name)
	} else {
		j.pods[e.Pod.Name] = after
		if j.available(after) {
			delete(j.taken, after.UID)
		}
	}
	if e.Initial || j.gone || len(j.specs) == 0 {
		return
	}
	switch {
	case before == nil && after != nil:
		j.created(after)
	case before != nil && !j.foreign[before.UID]:
		j.changed(before, after)
	}
}

func (j *flowJudge) created(pod *corev1.Pod) {
	if metav1.GetControllerOf(pod) == nil {
		return
	}
	j.verdict.Created++
	j.unlessAllowed(pod, func(set *v1beta1.CloneSet) string {
		staying := 0
		for _, p := range j.pods {
			preparingDelete := p.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete)
			if stays(p) && (!preparingDelete || !set.Spec.ScaleStrategy.ExcludePreparingDelete) {
				staying++
			}
		}
		l := flowLimits(set)
		if most := l.Replicas + l.MaxSurge; staying > most {
			return fmt.Sprintf("is created, and there are %d; replicas and maxSurge allow %d", staying, most)
		}
		return ""
	})
}

func (j *flowJudge) changed(before, after *corev1.Pod) {
	if after != nil && revision(before) != revision(after) {
		j.moved(after)
	}
	deleted := before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil)
	if !j.available(before) || !deleted && !heldBack(after) {
		return
	}
	j.verdict.Taken++
	j.taken[before.UID] = true
	available := 0
	for _, p := range j.pods {
		// A very recent outage is nobody's fault; see Rules.Foreign.
		if j.available(p) || j.rules.Foreign && stays(p) && !j.taken[p.UID] {
			available++
		}
	}
	j.verdict.Peak = max(j.verdict.Peak, int(*j.specs[0].Spec.Replicas)-available)
	j.unlessAllowed(before, func(set *v1beta1.CloneSet) string {
		l := flowLimits(set)
		if least := l.Replicas - l.MaxUnavailable; available < least {
			return fmt.Sprintf("is taken out of service, and %d of %d are available; maxUnavailable %d allows %d", available, l.Replicas, l.MaxUnavailable, least)
		}
		return ""
	})
}

func (j *flowJudge) moved(pod *corev1.Pod) {
	others := 0
	for _, p := range j.pods {
		if stays(p) && revision(p) != revision(pod) {
			others++
		}
	}
	j.unlessAllowed(pod, func(set *v1beta1.CloneSet) string {
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		if set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType {
			return "is moved; the strategy is OnDelete"
		}
		if rolling == nil || rolling.Partition == nil {
			return ""
		}
		if keep := flowPartition(rolling.Partition, int(*set.Spec.Replicas)); others < keep {
			return fmt.Sprintf("is moved, and %d stay; the partition is %d", others, keep)
		}
		return ""
	})
}

// unlessAllowed adds a violation if every spec the operator may be acting on objects.
func (j *flowJudge) unlessAllowed(pod *corev1.Pod, objection func(*v1beta1.CloneSet) string) {
	last := ""
	for _, set := range j.specs {
		if last = objection(set); last == "" {
			return
		}
	}
	j.verdict.Violations = append(j.verdict.Violations, violation(j.now, pod, "%s", last))
}

func (j *flowJudge) available(pod *corev1.Pod) bool {
	if !serves(pod) || len(j.specs) == 0 {
		return false
	}
	minReady := time.Duration(j.specs[0].Spec.MinReadySeconds) * time.Second
	return !condition(pod, corev1.PodReady).LastTransitionTime.Add(minReady).After(j.now)
}

func stays(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// flowLimits are the limits of any spec: also of a paused one, without surge, and of
// OnDelete, with a limit of a fifth of replicas rounded down, and at least one.
func flowLimits(set *v1beta1.CloneSet) CloneSetLimits {
	if set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType {
		return CloneSetLimits{Replicas: int(*set.Spec.Replicas), MaxUnavailable: max(int(*set.Spec.Replicas)/5, 1)}
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Paused {
		set = set.DeepCopy()
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = nil
	}
	l, err := cloneSetLimits(set)
	if err != nil {
		return CloneSetLimits{Replicas: int(*set.Spec.Replicas)} // admission refuses it; nothing is allowed
	}
	return l
}

// flowPartition is how many pods a partition keeps: a percentage is rounded up, and below 100% leaves one of several pods to move.
func flowPartition(partition *intstr.IntOrString, replicas int) int {
	if partition.Type == intstr.Int {
		return min(partition.IntValue(), replicas)
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(partition.StrVal, "%"), 64)
	if err != nil {
		return 0
	}
	keep := int(math.Ceil(float64(replicas)*percent/100 - 1e-9))
	if keep >= replicas && replicas > 1 && percent < 100 {
		keep = replicas - 1
	}
	return min(keep, replicas)
}
