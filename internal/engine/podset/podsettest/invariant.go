// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// Event is one step of the controller: the whole plan, one action of it, or a part of an action.
type Event[W any] struct {
	// Before is what the planner saw, After what became of it.
	Before, After *State[W]
	// Actions are those that were carried out, at least in part.
	Actions []planning.Action
}

// Invariant is something that every step of the controller has to respect.
type Invariant[W any] struct {
	Name  string
	Check func(Event[W]) error
}

// Available is a judgment of its own, independent of the engine's: the pod runs, has been ready for minReady, is at no
// hook, is not being updated in place and not being deleted.
func Available(pod *corev1.Pod, minReady time.Duration) bool {
	if !serves(pod) {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return !c.LastTransitionTime.Add(minReady).After(Now())
		}
	}
	return false
}

func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		pod.Status.Phase == corev1.PodRunning &&
		condition(pod, corev1.PodReady) == corev1.ConditionTrue &&
		condition(pod, shared.GateInPlaceUpdateReady) != corev1.ConditionFalse &&
		lifecycle.IsNormal(lifecycle.StateOf(pod))
}

// Bounds are what AtMostUnavailable needs to know of a workload.
type Bounds struct {
	// Wanted are the names of the pods that should exist; with nil, all that do.
	Wanted []string
	// Expected is how many pods there should be at least: missing ones are unavailable. Only used without Wanted.
	Expected int
	// Max is maxUnavailable.
	Max int
	// MinReady is how long a pod must be ready.
	MinReady time.Duration
}

// AtMostUnavailable holds when no step takes an available pod away so that more than Max are unavailable, judged by what the
// planner saw: pods that fail by themselves count against the next step, not against the last.
func AtMostUnavailable[W any](bounds func(W) Bounds) Invariant[W] {
	return Invariant[W]{Name: "never more unavailable than allowed", Check: func(e Event[W]) error {
		b := bounds(e.Before.Set)
		wanted := b.Wanted
		if wanted == nil {
			for _, pod := range e.Before.Pods {
				wanted = append(wanted, pod.Name)
			}
		}
		unavailable := max(b.Expected-len(wanted), 0)
		var taken []string
		for _, name := range wanted {
			before, after := e.Before.Pod(name), e.After.Pod(name)
			switch {
			case before == nil || !Available(before, b.MinReady):
				unavailable++
			case after == nil || !Available(after, b.MinReady):
				taken = append(taken, name)
			}
		}
		if len(taken) > 0 && unavailable+len(taken) > b.Max {
			return fmt.Errorf("%s taken away while %d were unavailable; %d are allowed", strings.Join(taken, ", "), unavailable, b.Max)
		}
		return nil
	}}
}

// AtLeastAvailable holds when no step leaves fewer available pods than it found, and fewer than the workload needs: for one whose
// pods are all alike, any of them may go as long as enough are left.
func AtLeastAvailable[W any](need func(W) int, minReady time.Duration) Invariant[W] {
	return Invariant[W]{Name: "never fewer available than needed", Check: func(e Event[W]) error {
		count := func(w *State[W]) int {
			n := 0
			for _, pod := range w.Pods {
				if Available(pod, minReady) {
					n++
				}
			}
			return n
		}
		before, after := count(e.Before), count(e.After)
		if after < before && after < need(e.Before.Set) {
			return fmt.Errorf("of %d available pods %d are left; %d are needed", before, after, need(e.Before.Set))
		}
		return nil
	}}
}

// AtMostPods holds when no step creates a pod so that there are more than allowed, pods not counted that are being deleted or
// that should go.
func AtMostPods[W any](allowed func(W) int, stays func(W, *corev1.Pod) bool) Invariant[W] {
	return Invariant[W]{Name: "never more pods than replicas and surge", Check: func(e Event[W]) error {
		if !slices.ContainsFunc(e.Actions, func(a planning.Action) bool { return a.Step == podset.StepCreate }) {
			return nil
		}
		count := 0
		for _, pod := range e.After.Pods {
			if pod.DeletionTimestamp == nil && stays(e.After.Set, pod) {
				count++
			}
		}
		if count > allowed(e.After.Set) {
			return fmt.Errorf("%d pods, %d are allowed", count, allowed(e.After.Set))
		}
		return nil
	}}
}

// AtMostOnePodPerSlot holds when no step creates a pod for a slot that has one already, more being allowed beside it during a surge. Pods that
// are being deleted or have finished do not count. It is for workloads whose pods are not named after their slots.
func AtMostOnePodPerSlot[W any](slotOf func(*corev1.Pod) planning.Slot, surge func(W) int) Invariant[W] {
	return Invariant[W]{Name: "one pod for each slot", Check: func(e Event[W]) error {
		count := map[planning.Slot]int{}
		for _, pod := range e.After.Pods {
			if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
				count[slotOf(pod)]++
			}
		}
		for _, a := range e.Actions {
			if a.Step != podset.StepCreate {
				continue
			}
			if slot := slotOf(podset.PodOf(a)); count[slot] > 1+surge(e.After.Set) {
				return fmt.Errorf("pod %s is created, and slot %s has %d pods with it", podset.PodOf(a).Name, slot, count[slot])
			}
		}
		return nil
	}}
}

// AtMostUnavailableSlots holds when no step takes away the last available pod of a slot so that more than most of the wanted slots are without
// one. It is AtMostUnavailable for slots that have two pods during a surge.
func AtMostUnavailableSlots[W any](wanted func(*State[W]) []planning.Slot, slotOf func(*corev1.Pod) planning.Slot, most func(W) int, minReady time.Duration) Invariant[W] {
	available := func(w *State[W]) map[planning.Slot]bool {
		slots := map[planning.Slot]bool{}
		for _, pod := range w.Pods {
			if Available(pod, minReady) {
				slots[slotOf(pod)] = true
			}
		}
		return slots
	}
	return Invariant[W]{Name: "never more slots unavailable than allowed", Check: func(e Event[W]) error {
		before, after := available(e.Before), available(e.After)
		unavailable, taken := 0, 0
		for _, slot := range wanted(e.Before) {
			switch {
			case !before[slot]:
				unavailable++
			case !after[slot]:
				taken++
			}
		}
		if allowed := most(e.Before.Set); taken > 0 && unavailable+taken > allowed {
			return fmt.Errorf("%d slots taken away while %d were unavailable; %d are allowed", taken, unavailable, allowed)
		}
		return nil
	}}
}

// OnlyWanted holds when no pod is created that the workload does not want: another ordinal than its own, or a reserved one.
func OnlyWanted[W any](wanted func(W) []string) Invariant[W] {
	return Invariant[W]{Name: "no pod is created that nobody wants", Check: func(e Event[W]) error {
		for _, a := range e.Actions {
			if a.Step == podset.StepCreate && !slices.Contains(wanted(e.Before.Set), podset.PodOf(a).Name) {
				return fmt.Errorf("pod %s is created, wanted are %s", podset.PodOf(a).Name, strings.Join(wanted(e.Before.Set), ", "))
			}
		}
		return nil
	}}
}

// PartitionHolds holds when pods that should stay at the old revision are neither moved to the new one nor created at it.
// protected are their names with the revision that they stay at.
func PartitionHolds[W any](protected func(*State[W]) map[string]string) Invariant[W] {
	return Invariant[W]{Name: "the partition holds", Check: func(e Event[W]) error {
		keeps := protected(e.Before)
		for _, a := range e.Actions {
			if podset.PodOf(a) == nil || keeps[podset.PodOf(a).Name] == "" {
				continue
			}
			after := e.After.Pod(podset.PodOf(a).Name)
			if after == nil {
				continue
			}
			is, keep := after.Labels[shared.LabelControllerRevisionHash], keeps[podset.PodOf(a).Name]
			was := podset.PodOf(a).Labels[shared.LabelControllerRevisionHash]
			if a.Step == podset.StepCreate && is != keep || a.Step == podset.StepEdit && is != keep && is != was {
				return fmt.Errorf("pod %s is moved to %s, it stays at %s", podset.PodOf(a).Name, is, keep)
			}
		}
		return nil
	}}
}

// OnlyNeededChanges holds when no pod is deleted or gets another image that has no reason for it. needs says whether a pod has one:
// it is at another revision than it should be, nobody wants it, it has failed, or its user asked for it.
func OnlyNeededChanges[W any](needs func(*State[W], *corev1.Pod) bool) Invariant[W] {
	return Invariant[W]{Name: "no pod is touched that needs no change", Check: func(e Event[W]) error {
		for _, a := range e.Actions {
			if a.Step == podset.StepDelete && !needs(e.Before, e.Before.Pod(podset.PodOf(a).Name)) {
				return fmt.Errorf("pod %s is deleted (%s) without need", podset.PodOf(a).Name, a.Reason)
			}
			if a.Step == podset.StepEdit && EditOf(a).Images != nil && serves(podset.PodOf(a)) && !needs(e.Before, e.Before.Pod(podset.PodOf(a).Name)) {
				return fmt.Errorf("pod %s is changed (%s) without need", podset.PodOf(a).Name, a.Reason)
			}
		}
		return nil
	}}
}

// NothingReplaced holds when no pod is deleted but those of which may says that they can be: all others may only be edited.
func NothingReplaced[W any](may func(*State[W], *corev1.Pod) bool) Invariant[W] {
	return Invariant[W]{Name: "no pod is replaced", Check: func(e Event[W]) error {
		for _, a := range e.Actions {
			if a.Step == podset.StepDelete && !may(e.Before, e.Before.Pod(podset.PodOf(a).Name)) {
				return fmt.Errorf("pod %s is deleted (%s), and may only be edited", podset.PodOf(a).Name, a.Reason)
			}
		}
		return nil
	}}
}

// CreatesWithin holds when pods are created only while fewer pods are unavailable than most says; zero is no limit. uses says of a pod whether it
// counts for the creation of the one of a name, those that are created by the same plan included.
func CreatesWithin[W any](most int, uses func(w *State[W], pod *corev1.Pod, created string) bool, minReady time.Duration) Invariant[W] {
	return Invariant[W]{Name: "pods are created within the limit", Check: func(e Event[W]) error {
		if most == 0 {
			return nil
		}
		isNew := func(pod *corev1.Pod) bool { return e.Before.Pod(pod.Name) == nil }
		for _, created := range e.After.Pods {
			if !isNew(created) {
				continue
			}
			unavailable := 0
			for _, pod := range e.Before.Pods {
				if uses(e.Before, pod, created.Name) && !Available(pod, minReady) {
					unavailable++
				}
			}
			for _, pod := range e.After.Pods {
				if isNew(pod) && pod.Name != created.Name && uses(e.After, pod, created.Name) {
					unavailable++
				}
			}
			if unavailable >= most {
				return fmt.Errorf("pod %s is created although %d are unavailable; the limit is %d", created.Name, unavailable, most)
			}
		}
		return nil
	}}
}

// OneActionEach holds when a plan has at most one action for each pod.
func OneActionEach[W any]() Invariant[W] {
	return Invariant[W]{Name: "one action for each pod", Check: func(e Event[W]) error {
		seen := map[string]planning.Step{}
		for _, a := range e.Actions {
			if a.Step != podset.StepCreate && a.Step != podset.StepDelete && a.Step != podset.StepEdit {
				continue
			}
			if verb, twice := seen[podset.PodOf(a).Name]; twice {
				return fmt.Errorf("%s and %s for pod %s", verb, a.Step, podset.PodOf(a).Name)
			}
			seen[podset.PodOf(a).Name] = a.Step
		}
		return nil
	}}
}

// HooksHold holds when no pod is changed or deleted that its user holds at a hook.
func HooksHold[W any](hooks *shared.Lifecycle) Invariant[W] {
	return Invariant[W]{Name: "hooks hold", Check: func(e Event[W]) error {
		if hooks == nil {
			return nil
		}
		for _, a := range e.Actions {
			switch {
			case a.Step == podset.StepDelete && lifecycle.Hooked(hooks.PreDelete, e.Before.Pod(podset.PodOf(a).Name)):
				return fmt.Errorf("pod %s is deleted, its preDelete hook is not released", podset.PodOf(a).Name)
			// In the midst of an update the hook has been released once; a user who puts it back early does not stop it.
			case a.Step == podset.StepEdit && EditOf(a).Images != nil && lifecycle.StateOf(podset.PodOf(a)) != shared.StateUpdating &&
				lifecycle.Hooked(hooks.InPlaceUpdate, e.Before.Pod(podset.PodOf(a).Name)):
				return fmt.Errorf("pod %s is changed, its inPlaceUpdate hook is not released", podset.PodOf(a).Name)
			}
		}
		return nil
	}}
}

// NothingMoves holds when no pod that is to be left alone gets another revision or is deleted to get one. An update that is under way goes on.
func NothingMoves[W any](alone func(*State[W], *corev1.Pod) bool) Invariant[W] {
	return Invariant[W]{Name: "nothing moves that is to be left alone", Check: func(e Event[W]) error {
		for _, a := range e.Actions {
			if a.Step != podset.StepEdit && a.Step != podset.StepDelete || !alone(e.Before, podset.PodOf(a)) {
				continue
			}
			after := e.After.Pod(podset.PodOf(a).Name)
			const revision = shared.LabelControllerRevisionHash
			if a.Step == podset.StepDelete || after != nil && after.Labels[revision] != podset.PodOf(a).Labels[revision] {
				return fmt.Errorf("%s pod %s (%s)", a.Step, podset.PodOf(a).Name, a.Reason)
			}
		}
		return nil
	}}
}

// GraceHolds holds when no image changes under a pod that serves, or before the grace period is over. Only for pods with the gate of updates in
// place, a grace period and a clock.
func GraceHolds[W any]() Invariant[W] {
	return Invariant[W]{Name: "the grace period holds", Check: func(e Event[W]) error {
		for _, a := range e.Actions {
			if a.Step != podset.StepEdit || EditOf(a).Images == nil {
				continue
			}
			record := podset.PodOf(a).Annotations[shared.AnnotationInPlaceState]
			if serves(podset.PodOf(a)) || strings.Contains(record, Now().Format(time.RFC3339)) && podset.PodOf(a).Annotations[shared.AnnotationInPlaceGrace] != "" {
				return fmt.Errorf("the image of pod %s changes (%s) before its grace period is over", podset.PodOf(a).Name, a.Reason)
			}
		}
		return nil
	}}
}

// ClaimsStay holds when no claim is deleted that has a pod, none is made to go with a pod that stays, and no such pod is deleted while its claim
// would go with it. podOf is the name of the pod that a claim is for; stays says that the pod does, or that another one takes its place.
func ClaimsStay[W any](podOf func(*corev1.PersistentVolumeClaim) string, stays func(*State[W], *corev1.Pod) bool) Invariant[W] {
	return Invariant[W]{Name: "claims stay as long as their pods", Check: func(e Event[W]) error {
		owns := func(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
			return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
		}
		for _, a := range e.Actions {
			if pod := podset.PodOf(a); a.Step == podset.StepDelete && stays(e.Before, pod) {
				for _, claim := range e.Before.Claims {
					if podOf(claim) == pod.Name && claim.DeletionTimestamp == nil && owns(claim, pod) {
						return fmt.Errorf("pod %s is deleted, and claim %s would go with it", pod.Name, claim.Name)
					}
				}
			}
			if ClaimOf(a) == nil {
				continue
			}
			pod := e.Before.Pod(podOf(ClaimOf(a)))
			if a.Step == podset.StepDeleteClaim && pod != nil {
				return fmt.Errorf("claim %s is deleted, and pod %s has it", ClaimOf(a).Name, pod.Name)
			}
			after := e.After.Claim(ClaimOf(a).Name)
			if after == nil || pod == nil || pod.DeletionTimestamp != nil || !stays(e.Before, pod) {
				continue
			}
			if owns(after, pod) && !owns(ClaimOf(a), pod) {
				return fmt.Errorf("claim %s is to go with pod %s, which stays", ClaimOf(a).Name, pod.Name)
			}
		}
		return nil
	}}
}

// Runs says whether a pod is what a template at a revision asks for: label, images in the spec, and images that really run.
func Runs(pod *corev1.Pod, revision string, template *corev1.PodTemplateSpec) bool {
	if pod.Labels[shared.LabelControllerRevisionHash] != revision {
		return false
	}
	for i := range template.Spec.Containers {
		want := &template.Spec.Containers[i]
		j := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
		status := restart.StatusOf(pod, want.Name)
		if j < 0 || pod.Spec.Containers[j].Image != want.Image || status == nil || madeFrom(status) != want.Image {
			return false
		}
	}
	return true
}
