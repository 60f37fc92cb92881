// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podset holds the vocabulary of every workload that looks after pods, and the stages they share.
//
// A workload observes a Snapshot, composes stages into a Plan, and hands the Plan to the executor. Nothing here talks to a
// server, reads a clock or keeps state: the same Snapshot gives the same Plan.
package podset

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Slot says who a pod is: the decimal ordinal of a StatefulSet's pod, the instance ID of a CloneSet's, the node of a
// DaemonSet's. A slot has at most one pod that stays.
type Slot string

// Doom says why a pod should go. Empty: it stays.
type Doom string

const (
	// DoomFinished is a pod that succeeded or failed and has to be replaced.
	DoomFinished Doom = "Finished"
	// DoomSurplus is a pod whose slot is not wanted.
	DoomSurplus Doom = "Surplus"
	// DoomSpecified is a pod that its user asked to be deleted, under the workload's limits.
	DoomSpecified Doom = "SpecifiedDelete"
)

// Pod is one pod with every fact a decision may need, derived once when the snapshot is taken.
type Pod struct {
	// Object is the pod as observed. Read-only.
	Object *corev1.Pod
	// Slot is who the pod is.
	Slot Slot
	// Revision is the name of the revision the pod runs, or is being moved to.
	Revision string
	// State is its lifecycle state; empty when the pod has no such label.
	State shared.LifecycleState
	// Update says how far an update in place has come, and what it waits for.
	Update inplace.Status
	// Terminating says that the pod has a deletion timestamp, or that we have deleted it and the view does not show it yet.
	Terminating bool
	// Ready says that the pod runs and its Ready condition is True.
	Ready bool
	// Available says that the pod is ready, has been for the minimum time, waits at no hook and is not being updated or deleted.
	Available bool
	// AvailableIn is above zero when time alone will make the pod available.
	AvailableIn time.Duration
	// Doom is why the pod should go.
	Doom Doom
}

// Snapshot is all a planner may look at, beside the workload itself.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Pods are the pods that the workload owns, terminating ones included.
	Pods []Pod
	// Claims are the workload's volume claims, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Current is the revision the fleet was last completely on, Update that of the present template.
	Current, Update revision.Revision
	// UpdateFault is what the server finds wrong with the template of Update, in one line. Pods are not moved to such a revision: an
	// edit would be refused halfway, and a replacement refused after its pod is gone. Empty: nothing, or the server was not asked.
	UpdateFault string
	// Revisions are all stored revisions, Current and Update included, by name: what outdated pods came from.
	Revisions map[string]revision.Revision
	// Expandable says, by the name of a storage class that exists, whether it lets claims grow. Only read where a workload lets
	// claims grow with their template.
	Expandable map[string]bool
	// FreshSlots are candidates for new slots, in the order in which they are tried; the same ones each time. Only for workloads
	// whose slots have random names; those in use are skipped.
	FreshSlots iter.Seq[Slot]
}

// Plan is what to do now, why, and when time alone could change the answer.
type Plan struct {
	// Actions are independent of each other and in order of urgency: what is first is begun first.
	Actions []Action
	// Held says what was held back, and by which limit.
	Held []Note
	// RecheckAfter is when to plan again even if nothing happens. Zero: only an event can change the answer.
	RecheckAfter time.Duration
}

// Verb says what an Action does.
type Verb string

const (
	// VerbCreate creates a pod, its claims first.
	VerbCreate Verb = "Create"
	// VerbDelete deletes a pod.
	VerbDelete Verb = "Delete"
	// VerbEdit writes an Edit to a pod.
	VerbEdit Verb = "Edit"
	// VerbEditClaim patches a claim: owners, labels, annotations or its requested size.
	VerbEditClaim Verb = "EditClaim"
	// VerbCreateClaim creates a claim for a pod that exists.
	VerbCreateClaim Verb = "CreateClaim"
	// VerbDeleteClaim deletes a claim that has no pod, in the version that was observed.
	VerbDeleteClaim Verb = "DeleteClaim"
)

// Action is one step on one pod or claim.
type Action struct {
	// Verb says what to do.
	Verb Verb
	// Slot is whose step it is.
	Slot Slot
	// Pod is the pod to create, complete but for its name's uniqueness, or the pod as observed. Read-only.
	Pod *corev1.Pod
	// Edit is what to write: to the pod, for VerbEdit; right after creating it, for VerbCreate.
	Edit edit.Edit
	// Claims are created before the pod (VerbCreate), or are the claim to create (VerbCreateClaim).
	Claims []*corev1.PersistentVolumeClaim
	// Claim is the claim to patch (VerbEditClaim) or to delete (VerbDeleteClaim), ClaimPatch the merge patch.
	Claim      *corev1.PersistentVolumeClaim
	ClaimPatch []byte
	// ExactVersion ties a delete to the observed resourceVersion, not only to the UID: the pod was counted as available, and a
	// newer state of it could have changed the decision.
	ExactVersion bool
	// Reason is a short CamelCase word for logs, metrics and stories: ScaleOut, ScaleIn, Outdated, SpecifiedDelete, ...
	Reason string
	// Success and Failure are the events to emit on the workload; an empty reason emits none.
	Success, Failure Event
}

// Event is an event to emit when an action is over. On failure the error is appended to the message.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Note says what was held back and why, for conditions, logs and stories.
type Note struct {
	// Reason is a CamelCase word such as MaxUnavailable, Partition, Paused, Hook, GracePeriod, ScaleMaxUnavailable, PodNotReady.
	Reason string
	// Message is one sentence with the next place to look; stable while nothing changes.
	Message string
	// Slots are the pods concerned, sorted.
	Slots []Slot
}

// Ref names a pod beyond its own life.
type Ref struct {
	Name string
	UID  types.UID
}

// Add appends another stage's result: its actions after those already there, its notes, and the earlier recheck.
func (p *Plan) Add(other Plan) {
	p.Actions = append(p.Actions, other.Actions...)
	p.Held = append(p.Held, other.Held...)
	p.Recheck(other.RecheckAfter)
}

// Recheck asks for planning again after d at the latest. Zero asks for nothing.
func (p *Plan) Recheck(d time.Duration) {
	if d > 0 && (p.RecheckAfter == 0 || d < p.RecheckAfter) {
		p.RecheckAfter = d
	}
}
