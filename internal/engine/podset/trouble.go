// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// updateTimeout is for how long an update in place may be under way before conditions explain it.
	updateTimeout = 30 * time.Second
	// hangTimeout is for how long an edit of a pod may have no effect. After that the update hangs. For
	// containers slow to stop, it is their grace period and stopMargin.
	hangTimeout, stopMargin = 5 * time.Minute, time.Minute
)

// TroubleOf is why the pod does not become ready: its containers, else a long update in place, else the pod's
// own wait. update is the progress of the update, began the last change of its containers. A hanging update may
// cause no event, so RecheckAfter says when to look again.
func TroubleOf(object *corev1.Pod, update inplace.Status, began func() time.Time, now time.Time) podstate.Trouble {
	trouble := podstate.TroubleOf(object, began, now)
	switch {
	case trouble.Message != "" || object.DeletionTimestamp != nil:
		return trouble
	case update.Progress != inplace.Running && trouble.RecheckAfter == 0:
		return unready(object, now)
	case update.Progress != inplace.Running:
		return trouble
	}
	since := began()
	if left := since.Add(updateTimeout).Sub(now); left > 0 {
		trouble.RecheckAfter = left
		return trouble
	}
	trouble.Message = update.Message
	switch update.Reason {
	case inplace.ReasonContainerNotReady, inplace.ReasonNextBatch:
		// The edit has had its effect. How long a container may take to get ready is its owner's business, as it is for new pods.
		return trouble
	}
	trouble.Reason = appsv1beta1.ReasonInPlaceUpdateHangs
	trouble.RecheckAfter = max(since.Add(max(hangTimeout, inplace.Termination(object)+stopMargin)).Sub(now), 0)
	trouble.Lasting = trouble.RecheckAfter == 0
	return trouble
}

// WithTroubles adds to the progress why pods do not become ready. In the message these causes come before pods
// that wait for them. A pod with lasting trouble stalls the workload, even while others move, unless the plan
// deletes or changes that pod or it waits at a hook. A pod to be deleted counts, too, while the plan deletes
// none.
func (p Progress) WithTroubles(plan *planning.Plan, pods []Pod) Progress {
	if !inTrouble(pods) {
		return p
	}
	moved := moved(plan)
	deletes := slices.ContainsFunc(plan.Actions, func(a planning.Action) bool { return a.Step == StepDelete })
	byMessage := map[string][]*Pod{}
	var messages []string
	rank := map[string]int{}
	stuck := ""
	for i := range pods {
		pod := &pods[i]
		if pod.Terminating || pod.Trouble.Message == "" {
			continue
		}
		if pod.Trouble.Lasting && pod.stays() && (pod.Unwanted == "" || !deletes) && !moved[keyOf(pod.Object)] && stuck == "" {
			stuck = pod.Trouble.Reason
		}
		if byMessage[pod.Trouble.Message] == nil {
			messages = append(messages, pod.Trouble.Message)
		}
		byMessage[pod.Trouble.Message] = append(byMessage[pod.Trouble.Message], pod)
		rank[pod.Trouble.Message] = max(rank[pod.Trouble.Message], weight(pod.Trouble))
	}
	if stuck == "" && !p.Reconciling && !p.Stalled {
		return p
	}
	slices.SortStableFunc(messages, func(a, b string) int { return rank[b] - rank[a] })
	var causes []string
	for _, message := range messages[:min(len(messages), shown)] {
		causes = append(causes, List(names(byMessage[message]))+": "+message)
	}
	if len(causes) > 0 {
		p.Message = strings.Join(append(causes, p.Message), "; ")
	}
	if stuck != "" && !p.Stalled {
		p.Reconciling, p.Stalled, p.Reason = false, true, stuck
	}
	return p
}

// weight orders troubles for the user: lasting ones, then faults, then mere waits.
func weight(trouble podstate.Trouble) int {
	switch {
	case trouble.Lasting:
		return 2
	case trouble.Reason != "":
		return 1
	default:
		return 0
	}
}

// inTrouble says that some pod has trouble. Most passes end here.
func inTrouble(pods []Pod) bool {
	for i := range pods {
		if pods[i].Trouble.Message != "" {
			return true
		}
	}
	return false
}

// stays is a pod at no hook for its deletion or update.
func (p *Pod) stays() bool {
	return p.State != shared.StatePreparingDelete && p.State != shared.StatePreparingUpdate
}

// moved are the pods with a deletion or change in place in the plan.
func moved(plan *planning.Plan) map[types.NamespacedName]bool {
	moved := map[types.NamespacedName]bool{}
	for _, action := range plan.Actions {
		pod := PodOf(action)
		if pod == nil {
			continue
		}
		if action.Step == StepDelete || action.Reason == ReasonInPlaceUpdate || action.Reason == ReasonInPlaceContinue {
			moved[keyOf(pod)] = true
		}
	}
	return moved
}
