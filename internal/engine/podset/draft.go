// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Reasons of actions and notes, for all workloads.
const (
	// ReasonScaleOut creates a missing pod.
	ReasonScaleOut = "ScaleOut"
	// ReasonScaleIn removes a surplus pod.
	ReasonScaleIn = "ScaleIn"
	// ReasonSpecifiedDelete replaces a pod because its user asked for it.
	ReasonSpecifiedDelete = "SpecifiedDelete"
	// ReasonOutdated replaces a pod at another revision.
	ReasonOutdated = "Outdated"
	// ReasonMaxUnavailable is a note: pods wait because as many are unavailable as may be.
	ReasonMaxUnavailable = "MaxUnavailable"
	// ReasonFinished deletes a failed or succeeded pod to make room for another one. The executor slows
	// repetitions down.
	ReasonFinished = "Finished"
	// ReasonInPlaceUpdate is the first edit of an update in place.
	ReasonInPlaceUpdate = "InPlaceUpdate"
	// ReasonInPlaceContinue is a later edit of it: it is recorded and its grace period is over, or the next batch begins.
	ReasonInPlaceContinue = "InPlaceContinue"
	// ReasonInPlaceFinished puts a pod back in service after it.
	ReasonInPlaceFinished = "InPlaceFinished"
	// ReasonInitialize gives a new pod the conditions of its readiness gates.
	ReasonInitialize = "Initialize"
	// ReasonRepair puts lost labels back.
	ReasonRepair = "Repair"
	// ReasonRelease releases the hold of a writer who is gone: the pod may be in service again.
	ReasonRelease = "Release"
	// ReasonHook moves a pod to or from a lifecycle hook; as a note, pods wait at one.
	ReasonHook = "Hook"
	// ReasonGracePeriod is a note: pods are out of service and wait for the grace period to pass.
	ReasonGracePeriod = "GracePeriod"
	// ReasonInPlaceBlocked is a note: updates in place cannot go on by themselves.
	ReasonInPlaceBlocked = "InPlaceBlocked"
	// ReasonInPlaceImpossible is a note: pods may be changed in place only, and their difference does not allow it.
	ReasonInPlaceImpossible = "InPlaceImpossible"
	// ReasonClaimDiffers is a note: a claim has another storage class or access mode than its template.
	ReasonClaimDiffers = "ClaimDiffers"
	// ReasonClaimNotExpandable is a note: the storage class of a claim does not let it grow.
	ReasonClaimNotExpandable = "ClaimNotExpandable"
	// ReasonClaimStuck is a note: a claim has asked for a size beyond its volume.
	ReasonClaimStuck = "ClaimStuck"
	// ReasonReplaced is a note: pods are replaced although updates in place were asked for, because their difference does not allow it.
	ReasonReplaced = "Replaced"
	// ReasonTemplateInvalid is a note: the server finds the template of the update revision faulty, so no pod is moved to it.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonInvalidSpec is a note: a field of the spec cannot be parsed, so nothing is planned but settling.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPaused is a note: outdated pods stay as they are while updates are paused.
	ReasonPaused = "Paused"
	// ReasonOnDelete is a note: outdated pods stay as they are until their user deletes them.
	ReasonOnDelete = "OnDelete"
	// ReasonBudget is a note: a PodUnavailableBudget lets no more pods be unavailable now.
	ReasonBudget = "PodUnavailableBudget"
	// ReasonPartition is a note: outdated pods stay as they are because the partition keeps them.
	ReasonPartition = "Partition"
)

// Draft is a plan in the making: its actions so far, and the decisions about each pod. A pod has at most one
// action. A workload first creates, removes and moves pods, and then settles all others.
type Draft struct {
	Snapshot *Snapshot

	spec *Spec
	// settled come before the other actions of the plan: they put pods back in service.
	settled []planning.Action
	plan    planning.Plan
	// taken are the pods with an action.
	taken map[types.NamespacedName]bool
	// kept are pods at a hook, with a deletion or an update still wanted. Settling leaves them there.
	kept map[types.NamespacedName]bool
	// remarks are additions to events about deletions.
	remarks     map[types.NamespacedName]string
	waits       []*wait
	waiting     map[[2]string]*wait
	differences map[[2]string]inplace.Difference
	// claims are the claim templates of revisions, by name.
	claims map[string]claims.Template
	// begun is how many updates in place the plan begins.
	begun int
}

// wait collects the pods with the same reason to wait.
type wait struct {
	reason, what string
	pods         []*Pod
}

// Plan is the finished plan: actions of settling first, then the others in their order. Notes about single pods
// come last.
func (p *Draft) Plan() planning.Plan {
	plan := p.plan
	plan.Actions = slices.Concat(p.settled, p.plan.Actions)
	for _, w := range p.waits {
		verb := "wait"
		if len(w.pods) == 1 {
			verb = "waits"
		}
		plan.Held = append(plan.Held, planning.Note{
			Reason:  w.reason,
			Message: fmt.Sprintf("%s %s: %s", List(names(w.pods)), verb, w.what),
			Slots:   Slots(w.pods),
		})
	}
	return plan
}

// MaxCreations is how many pods a plan creates at most. It bounds the memory of a plan, and the work discarded
// at the end of a time slice. The rest is planned when the first of these pods appear in the cache.
const MaxCreations = 500

// maxClaims is how many volume claims a plan creates at most with its pods, except for one pod's. Pods share
// most of their data with the template. A claim takes kilobytes, and more with more labels.
const maxClaims, labelsOfClaim = 10_000, 20

// Creations is MaxCreations for pods with claims of these templates, or fewer where that is too much.
func Creations(claims []corev1.PersistentVolumeClaim) int {
	each := 0
	for i := range claims {
		each += 1 + len(claims[i].Labels)/labelsOfClaim
	}
	return max(min(MaxCreations, maxClaims/max(each, 1)), 1)
}

// LeastUpdates is how many updates in place a plan may always begin. With more pods it may begin one for every
// twentieth pod. An update too late for the time slice is planned again, and planning costs more with more
// pods. The others are planned when the first of these pods have changed in the cache.
const LeastUpdates = 100

// tryBegin counts one more update in place, if the plan may begin it.
func (p *Draft) tryBegin() bool {
	p.begun++
	return p.begun <= max(LeastUpdates, len(p.Snapshot.Pods)/20)
}

// Expect reserves memory for at least so many more actions.
func (p *Draft) Expect(n int) { p.plan.Actions = slices.Grow(p.plan.Actions, max(n, 0)) }

// Act plans an action.
func (p *Draft) Act(action planning.Action) {
	p.plan.Actions = append(p.plan.Actions, action)
	if pod := PodOf(action); pod != nil {
		lazy.Put(&p.taken, keyOf(pod), true)
	}
}

// Hold adds a note.
func (p *Draft) Hold(note planning.Note) { p.plan.Held = append(p.plan.Held, note) }

// Wait notes that a pod waits. Pods with the same reason share a note.
func (p *Draft) Wait(pod *Pod, reason, what string) {
	key := [2]string{reason, what}
	w, ok := p.waiting[key]
	if !ok {
		w = &wait{reason: reason, what: what}
		p.waits = append(p.waits, w)
		lazy.Put(&p.waiting, key, w)
	}
	w.pods = append(w.pods, pod)
}

// Recheck asks for planning again after d at the latest.
func (p *Draft) Recheck(d time.Duration) { p.plan.Recheck(d) }

// SetCreationAside sets the refused creation of a slot's pod aside, see [planning.Plan.SetAside].
func (p *Draft) SetCreationAside(namespace string, slot planning.Slot, place planning.Place) bool {
	return p.plan.SetAside(p.Snapshot.Retries, planning.RetryKey{Step: StepCreate, Namespace: namespace, Name: string(slot)}, place)
}

// Awaits says whether dependents of these actions have to wait, and asks for a pass after the time: no event
// tells of their end. An action that has failed at every try for refusalTimeout, as by a webhook of others, is
// not awaited. Alike: all actions of the step serve one end. Then none is awaited while the whole step fails
// for so long; otherwise each would have to fail for itself first.
func (p *Draft) Awaits(actions []planning.RetryKey, after time.Duration, alike bool) bool {
	waits := false
	for _, key := range actions {
		if _, failed := p.failing(key); !failed {
			p.Recheck(after) // otherwise the executor says when the next try is
		}
		waits = waits || !p.GivesUp(key, alike)
	}
	return waits
}

// GivesUp is the end of Awaits for an action.
func (p *Draft) GivesUp(key planning.RetryKey, alike bool) bool {
	failing, _ := p.failing(key)
	if alike {
		step, _ := p.failing(planning.RetryKey{Step: key.Step, Namespace: key.Namespace})
		failing = max(failing, step)
	}
	return failing >= refusalTimeout
}

// failing is for how long an action has failed; false after a success.
func (p *Draft) failing(key planning.RetryKey) (time.Duration, bool) {
	if p.Snapshot.Retries == nil {
		return 0, false
	}
	retry, failed := p.Snapshot.Retries(key)
	if !failed {
		return 0, false
	}
	return retry.Failing, true
}

// AppendToEvent adds to the event about the deletion of the pod.
func (p *Draft) AppendToEvent(pod *Pod, text string) {
	lazy.Put(&p.remarks, keyOf(pod.Object), p.remarks[keyOf(pod.Object)]+text)
}

// InvalidSpec is the plan for a workload with an unreadable spec: updates under way go on, pods at hooks stay
// there, and nothing else happens.
func (p *Draft) InvalidSpec(cause error, rules SettleRules) planning.Plan {
	p.Hold(planning.Note{Reason: ReasonInvalidSpec, Message: cause.Error()})
	for i := range p.Snapshot.Pods {
		p.Keep(&p.Snapshot.Pods[i])
	}
	p.Settle(rules)
	return p.Plan()
}

// Keep leaves the pod at its hook, although nothing is planned for it now: its deletion or update is still wanted.
func (p *Draft) Keep(pod *Pod) { lazy.Put(&p.kept, keyOf(pod.Object), true) }

// Taken is a pod with an action.
func (p *Draft) Taken(pod *Pod) bool { return p.taken[keyOf(pod.Object)] }

// UpdateGates are the readiness gates for updates in place: one for the update, one for other writers who take
// pods out of service.
func UpdateGates() []corev1.PodConditionType {
	return []corev1.PodConditionType{shared.GateInPlaceUpdateReady, shared.GateKruisePodReady}
}

// SetIdentity turns a pod made from the template into one of the workload: named, owned, and with the readiness gates, appended where the template
// does not list them.
func SetIdentity(pod *corev1.Pod, namespace, name string, owner metav1.OwnerReference, gates ...corev1.PodConditionType) {
	pod.Namespace, pod.Name = namespace, name
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	for _, gate := range gates {
		if !podstate.HasGate(pod, gate) {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		}
	}
}

// ClaimsAt are the recorded claim templates of a revision, as its template mounts them. Those of the spec stand
// in for the update revision, and for a revision without a record.
func (p *Draft) ClaimsAt(present claims.Template, name string) claims.Template {
	if name == p.Snapshot.Update.Name && p.Snapshot.Unrecorded == "" {
		return present
	}
	known, ok := p.claims[name]
	if !ok {
		known = present
		if templates, recorded := revision.RecordedClaims(p.Snapshot.Revisions[name]); recorded {
			known.Claims = templates
		}
		lazy.Put(&p.claims, name, known)
	}
	return known
}

// Create plans to create a pod, after its claims, and to give it the conditions of its gates at once.
func (p *Draft) Create(slot planning.Slot, pod *corev1.Pod, own []*corev1.PersistentVolumeClaim, reason string) {
	var first []planning.Action
	for _, claim := range own {
		create := CreateClaim(slot, claim, reason)
		what := fmt.Sprintf("create Claim %s Pod %s in %s %s", claim.Name, pod.Name, p.spec.Owner.Kind, p.spec.Owner.Name)
		create.Success = planning.Event{Reason: "SuccessfulCreate", Message: what + " success"}
		create.Failure = planning.Event{Warning: true, Reason: "FailedCreate", Message: what + " failed error"}
		first = append(first, create)
	}
	conditions := edit.Edit{Conditions: podstate.InitialConditions(pod, p.Snapshot.Now), Fresh: true}
	action := CreatePod(slot, pod, first, conditions, reason)
	action.Selector = p.spec.LabelSelector
	action.Success, action.Failure = p.events(outcome{"SuccessfulCreate", "FailedCreate", "create"}, pod.Name)
	p.Act(action)
}

// Remove brings a pod closer to its deletion: it deletes it, makes it wait at its preDelete hook, or lets it
// wait there. A terminating pod is left alone.
//
// The deletion of an available pod is tied to its exact version: a newer one could have changed the decision.
func (p *Draft) Remove(pod *Pod, reason string) {
	p.remove(pod, reason, "", outcome{"SuccessfulDelete", "FailedDelete", "delete"})
}

// RemoveFinished is Remove for a finished pod. Another one at the revision next gets its slot.
func (p *Draft) RemoveFinished(pod *Pod, next string) {
	p.remove(pod, ReasonFinished, next, outcome{"SuccessfulDelete", "FailedDelete", "delete"})
}

// Recreate is Remove for the sake of an update, and says so in its events.
func (p *Draft) Recreate(pod *Pod, reason string) {
	p.remove(pod, reason, "", outcome{"SuccessfulUpdatePodReCreate", "FailedUpdatePodReCreate", "delete for an update"})
}

// HeldByPreDelete is a pod with an unreleased preDelete hook.
func (p *Draft) HeldByPreDelete(pod *Pod) bool {
	return lifecycle.Hooked(p.spec.Lifecycle.PreDelete, pod.Object)
}

func (p *Draft) remove(pod *Pod, reason, next string, o outcome) {
	if pod.Terminating {
		return
	}
	p.Keep(pod)
	hooked := p.HeldByPreDelete(pod)
	switch {
	case hooked && pod.State == shared.StatePreparingDelete:
		p.Wait(pod, ReasonHook, "the preDelete hook is not released yet")
	case hooked:
		p.Edit(pod, lifecycle.Transition(&p.spec.Lifecycle, pod.Object, shared.StatePreparingDelete, p.Snapshot.Now), ReasonHook)
	default:
		action := DeletePod(pod.Slot, pod.Object, reason)
		action.MadeFrom, action.ExactVersion = next, pod.Available
		action.Success, action.Failure = p.events(o, pod.Object.Name)
		action.Success.Message += p.remarks[keyOf(pod.Object)]
		p.Act(action)
	}
}

// Edit plans to write an edit. Success is silent: the larger step has its own event.
func (p *Draft) Edit(pod *Pod, e edit.Edit, reason string) { p.Act(p.write(pod, e, reason)) }

func (p *Draft) write(pod *Pod, e edit.Edit, reason string) planning.Action {
	action := EditPod(pod.Slot, pod.Object, e, reason)
	_, action.Failure = p.events(outcome{"SuccessfulUpdate", "FailedUpdate", "update"}, pod.Object.Name)
	return action
}

// outcome names an action in events: a reason for each end, and the verb.
type outcome struct{ success, failure, verb string }

// events are those of an action on a pod.
func (p *Draft) events(o outcome, pod string) (success, failure planning.Event) {
	what := fmt.Sprintf("%s Pod %s in %s %s", o.verb, pod, p.spec.Owner.Kind, p.spec.Owner.Name)
	success = planning.Event{Reason: o.success, Message: what + " successful"}
	return success, planning.Event{Warning: true, Reason: o.failure, Message: what + " failed error"}
}

// keyOf identifies a pod. A workload may have pods in several namespaces.
func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
