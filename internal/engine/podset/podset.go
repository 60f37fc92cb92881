// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podset has the types of all workloads that manage pods, and the planning stages they share.
//
// A workload observes a Snapshot, composes stages into a planning.Plan, and passes the Plan to the executor. Nothing here talks to a
// server, reads a clock or keeps state: the same Snapshot gives the same Plan.
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
)

// Unwanted says why a pod should be deleted. Empty: it stays.
type Unwanted string

const (
	// UnwantedFinished is that of a pod that succeeded or failed and has to be replaced.
	UnwantedFinished Unwanted = "Finished"
	// UnwantedSurplus is that of a pod whose slot the spec does not ask for.
	UnwantedSurplus Unwanted = "Surplus"
	// UnwantedSpecified is that of a pod whose deletion its user asked for, within the workload's limits.
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
	// Update says how far an update in place has come, and what it waits for.
	Update inplace.Status
	// Trouble is why the pod does not get ready, as far as that is known.
	Trouble podstate.Trouble
	// Terminating says that the pod has a deletion timestamp, or that we have deleted it and the view does not show it yet.
	Terminating bool
	// Ready says that the pod runs and its Ready condition is True.
	Ready bool
	// Available says that the pod is ready, has been for the minimum time, waits at no hook and is not being updated or deleted.
	Available bool
	// AvailableIn is above zero when time alone will make the pod available.
	AvailableIn time.Duration
	// Unwanted is why the pod should be deleted; empty when it stays.
	Unwanted Unwanted
	// ImagesPreDownloaded says that the node of an outdated pod has the images of the update already, because they were pulled ahead of it.
	ImagesPreDownloaded bool
}

// Snapshot is all a planner may look at, beside the workload itself.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Pods are the pods that the workload owns, terminating ones included.
	Pods []Pod
	// Claims are the workload's volume claims, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Current is the revision that all pods were at last, Update that of the present template.
	Current, Update revision.Revision
	// UpdateFault is what the server finds wrong with the template of Update, in one line. Pods are not moved to such a revision: an
	// edit would be refused halfway, and a replacement refused after its pod is gone. Empty: nothing, or the server was not asked.
	UpdateFault string
	// Unrecorded is why the server refuses to record the present template, in one line. Update is then the newest recorded revision. Updates
	// that are under way go on to it, and lost pods are replaced at it, but no further pod is moved to it, because the user wants another
	// template by now. Empty: Update is the revision of the present template.
	Unrecorded string
	// Wanted is the name that the revision of the present template gets when it is recorded. Only while it is not.
	Wanted string
	// Revisions are all stored revisions, Current and Update included, by name: what outdated pods came from.
	Revisions map[string]revision.Revision
	// Taken are the slots of claims whose pod exists but is not among Pods, because the workload no longer controls it or its label names another
	// slot.
	Taken map[planning.Slot]bool
	// Expandable says, by the name of a storage class that exists, whether it lets claims grow. Only read where a workload lets
	// claims grow with their template.
	Expandable map[string]bool
	// FreshSlots are candidates for new slots, in the order in which they are tried; the same ones each time, until a pod was created
	// with one. Only for workloads whose slots have random names; those in use are skipped.
	FreshSlots iter.Seq[planning.Slot]
	// OverRequests are those who hold pods out of service for a request that is over: nobody else will give up their holds.
	OverRequests map[shared.ReadinessHolder]bool
	// Retries says which actions failed at their last try. Only read where a limit says how many there may be at a time, and no order, and where a deletion
	// waits for other actions.
	Retries planning.Retries
	// NodeLabel is the value of a label of a node; "" when the node has none or is not known. Only asked for the keys of the template's
	// topology spread constraints. Nil: no node is known.
	NodeLabel func(node, key string) string
}

// MovesNoPods says that no pod may be moved to the update revision: the server would refuse its pods, or the user wants another template by now,
// which the server refuses to record.
func (s *Snapshot) MovesNoPods() bool { return s.UpdateFault != "" || s.Unrecorded != "" }

// Reported is the snapshot from which a status is computed: its update revision is that of the present template, recorded or not. While that one is not
// recorded, no pod counts as updated, because clients read from the counters whether the present template is rolled out.
func (s Snapshot) Reported() Snapshot {
	if s.Unrecorded != "" {
		s.Update = revision.Revision{Name: s.Wanted}
	}
	return s
}
