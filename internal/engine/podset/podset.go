// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podset has the types of all workloads with pods, and the stages of planning for them.
//
// A workload observes a Snapshot, composes stages into a planning.Plan, and passes the Plan to the executor.
// Nothing here talks to a server, reads a clock or keeps state: the same Snapshot gives the same Plan.
package podset

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// Unwanted says why a pod should be deleted. Empty: it stays.
type Unwanted string

const (
	// UnwantedFinished means the pod succeeded or failed and has to be replaced.
	UnwantedFinished Unwanted = "Finished"
	// UnwantedSurplus means the spec does not ask for the slot.
	UnwantedSurplus Unwanted = "Surplus"
	// UnwantedSpecified means the user asked for the deletion, within the workload's limits.
	UnwantedSpecified Unwanted = "SpecifiedDelete"
)

// Pod is one pod with every fact a decision may need, derived once when the snapshot is taken.
type Pod struct {
	// Object is the pod as observed. Read-only.
	Object *corev1.Pod
	// Slot is who the pod is.
	Slot planning.Slot
	// Revision is the name of the revision the pod runs, or is being moved to.
	Revision string
	// State is its lifecycle state; empty when the pod has no such label.
	State shared.LifecycleState
	// Update is the progress of an update in place.
	Update inplace.Status
	// Trouble is why the pod does not get ready, as far as known.
	Trouble podstate.Trouble
	// Terminating pods have a deletion timestamp, or we have deleted them and the view lags.
	Terminating bool
	// Ready pods run, with the condition Ready.
	Ready bool
	// Available pods have been ready for the minimum time, wait at no hook and are not being updated or
	// deleted.
	Available bool
	// AvailableIn is above zero when time alone will make the pod available.
	AvailableIn time.Duration
	// Unwanted is why the pod should be deleted; empty when it stays.
	Unwanted Unwanted
}

// Snapshot is all a planner may look at, beside the workload itself.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Pods are the workload's, terminating ones included.
	Pods []Pod
	// Claims are the workload's volume claims, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Current is the last revision of all pods, Update the present template's.
	Current, Update revision.Revision
	// UpdateFault is the server's fault with the template of Update, in one line. No pod is moved to such a
	// revision: an edit would be refused halfway, and a replacement after the end of its pod. Empty: none, or
	// the server was not asked.
	UpdateFault string
	// Unrecorded is why the server refuses to record the present template, in one line. Update is then the
	// newest recorded revision. Updates under way go on to it, and lost pods are replaced at it. No further pod
	// is moved to it: the user wants another template by now. Empty: Update is the present template's.
	Unrecorded string
	// Wanted is the future name of the present template's revision. Only while it is not recorded.
	Wanted string
	// CollisionCount is the new one for the status.
	CollisionCount *int32
	// Revisions are all stored revisions by name, Current and Update included.
	Revisions map[string]revision.Revision
	// Taken are slots of claims with a pod outside of Pods: the workload no longer controls it, or its label
	// names another slot.
	Taken map[planning.Slot]bool
	// Expandable says of storage classes, by name, whether claims can grow. Only for workloads with growing
	// claims.
	Expandable map[string]bool
	// FreshSlots are candidates for new slots, in this order, the same ones until a pod was created with one.
	// Only for workloads with random names of slots. Used ones are skipped.
	FreshSlots iter.Seq[planning.Slot]
	// OverRequests hold pods out of service after their end: nobody else gives up their holds.
	OverRequests map[shared.ReadinessHolder]bool
	// Retries are the actions with a failed last try. Only for limits without an order, and for deletions after
	// other actions.
	Retries planning.Retries
	// NodeLabel is the value of a label of a node; "" when the node has none or is not known. Only asked for the keys of the template's
	// topology spread constraints. Nil without any.
	NodeLabel func(node, key string) string
	// Spread gives new pods their subsets of a WorkloadSpread. Nil: there is none.
	Spread *spread.Placing
	// Return makes a new pod return to its place, if one is remembered. Nil: none are.
	Return func(*corev1.Pod)
}

// MovesNoPods says that no pod may be moved to the update revision: the server would refuse its pods, or
// refuses to record the present template.
func (s *Snapshot) MovesNoPods() bool { return s.UpdateFault != "" || s.Unrecorded != "" }

// Reported is the snapshot for a status: its update revision is the present template's, recorded or not. Until
// the record no pod counts as updated: clients read the end of a rollout from the counters.
func (s Snapshot) Reported() Snapshot {
	if s.Unrecorded != "" {
		s.Update = revision.Revision{Name: s.Wanted}
	}
	return s
}
