// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Status is the status after a pass: the observed state, the plan, and its outcome.
func Status(spec *united.Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.UnitedDeploymentStatus {
	before := &spec.Set.Status
	status := appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration: spec.Set.Generation,
		CollisionCount:     before.CollisionCount,
		UpdatedRevision:    s.Update.Name,
		CurrentRevision:    s.Current.Name,
		LabelSelector:      spec.LabelSelector(),
	}
	if spec.Invalid != nil || spec.Deleting {
		status = *before.DeepCopy()
		status.ObservedGeneration = spec.Set.Generation
	} else {
		count(spec, s, d, &status)
	}
	r := report{spec: spec, s: &s, d: &d, outcome: outcome, status: &status}
	keeps := func(sub united.Subset) bool { return sub.Partition > 0 }
	if r.done() && !slices.ContainsFunc(spec.Subsets, keeps) {
		status.CurrentRevision = s.Update.Name
	}
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	r.conditions(list)
	status.Conditions = conditions.To[appsv1beta1.UnitedDeploymentCondition](list)
	return status
}

// Urgent is a change to write at once: of a subset's workload, replicas or conditions.
func Urgent(before, after *appsv1beta1.UnitedDeploymentStatus) bool {
	return !slices.EqualFunc(before.SubsetStatuses, after.SubsetStatuses, func(a, b appsv1beta1.UnitedDeploymentSubsetStatus) bool {
		return a.Name == b.Name && a.Replicas == b.Replicas && a.Partition == b.Partition && a.Workload == b.Workload && slices.Equal(a.Conditions, b.Conditions)
	})
}

// count fills in the numbers, of all workloads and of each subset.
func count(spec *united.Spec, s Snapshot, d Decision, status *appsv1beta1.UnitedDeploymentStatus) {
	for i := range s.Children {
		c := &s.Children[i]
		status.Replicas += int32(c.Replicas)
		status.ReadyReplicas += int32(c.Ready)
	}
	status.SubsetReplicas = map[string]int32{}
	status.UpdateStatus = &appsv1beta1.UnitedDeploymentUpdateStatus{UpdatedRevision: s.Update.Name, CurrentPartitions: map[string]int32{}}
	for i := range spec.Subsets {
		sub, r := &spec.Subsets[i], &d.rooms[i]
		entry := appsv1beta1.UnitedDeploymentSubsetStatus{
			Name: sub.Name, Replicas: int32(d.Shares.Sizes[i]), Partition: int32(d.partitions[i]), ReservedPods: int32(r.reserved),
		}
		if r.condition != nil {
			entry.Conditions = []appsv1beta1.UnitedDeploymentSubsetCondition{*r.condition}
		}
		if child := d.kept[sub.Name]; child != nil {
			entry.Workload, entry.ReadyReplicas = child.Object.GetName(), int32(child.Ready)
			if s.isUpdated(child.Revision) {
				// Reserved pods are the unready ones.
				entry.UpdatedReplicas = int32(max(min(child.Updated, child.Replicas-r.reserved), 0))
				status.UpdatedReplicas += entry.UpdatedReplicas
				status.UpdatedReadyReplicas += int32(child.UpdatedReady)
			}
		}
		status.ReservedPods += entry.ReservedPods
		status.SubsetReplicas[sub.Name] = entry.Replicas
		status.UpdateStatus.CurrentPartitions[sub.Name] = entry.Partition
		status.SubsetStatuses = append(status.SubsetStatuses, entry)
	}
	status.Replicas = max(status.Replicas-status.ReservedPods, 0)
}

// report is the input of the conditions.
type report struct {
	spec    *united.Spec
	s       *Snapshot
	d       *Decision
	outcome planning.Outcome
	status  *appsv1beta1.UnitedDeploymentStatus
}

// done: every pod is at the update revision and ready.
func (r *report) done() bool {
	if r.spec.Invalid != nil || r.spec.Deleting || int(r.status.UpdatedReadyReplicas) < r.spec.Replicas {
		return false
	}
	for i := range r.spec.Subsets {
		child := r.d.kept[r.spec.Subsets[i].Name]
		if child == nil || child.Terminating || !r.s.isUpdated(child.Revision) || !child.Observed || child.Updated < child.Replicas {
			return false
		}
	}
	return true
}

// outdated: some pods may differ from the template and the patch of their subset. After a rollback
// these are pods of the unwanted revision.
func (r *report) outdated() bool {
	for i := range r.spec.Subsets {
		if child := r.d.kept[r.spec.Subsets[i].Name]; child != nil && (!r.s.isUpdated(child.Revision) || child.Updated < child.Replicas) {
			return true
		}
	}
	return false
}

// failures are sentences about refused and impossible requests of some steps, or all; the subsets are named.
func (r *report) failures(steps ...planning.Step) []string {
	var all []string
	for _, f := range r.outcome.Failures {
		if len(steps) == 0 || slices.Contains(steps, f.Step) {
			all = append(all, fmt.Sprintf("subset %s: %s", f.Slot, f.Message))
		}
	}
	return all
}

// faults are sentences about subsets with an impossible workload; missing: those without one, or
// the others.
func (r *report) faults(missing bool) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.d.Faults)) {
		if (r.d.kept[name] == nil) == missing {
			all = append(all, fmt.Sprintf("subset %s: %s", name, r.d.Faults[name]))
		}
	}
	return all
}

// few are the first of many sentences, as parts of one: a child's may end with a full stop.
func few(sentences []string) string {
	parts := make([]string, len(sentences))
	for i, sentence := range sentences {
		parts[i] = strings.TrimSuffix(sentence, ".")
	}
	return conditions.First(parts, 5, "; ")
}

// conditions are the status's, in their order.
func (r *report) conditions(list *conditions.List) {
	if r.spec.Deleting || r.spec.Invalid != nil {
		list.Keep(string(appsv1beta1.UnitedDeploymentSubsetProvisioned), string(appsv1beta1.UnitedDeploymentSubsetUpdated))
		list.Keep(string(appsv1beta1.UnitedDeploymentUpdated))
		list.Set(r.progress().Conditions()...)
		return
	}
	provisioning := append(r.faults(true), r.failures(StepCreateSubset, StepDeleteSubset)...)
	updating := append(r.faults(false), r.failures(StepUpdateSubset, StepMoveFields, StepLabelPod, StepDeletePod)...)
	state := func(kind appsv1beta1.UnitedDeploymentConditionType, faults []string) conditions.Condition {
		if len(faults) > 0 {
			return conditions.New(kind, false, appsv1beta1.ReasonUnitedDeploymentError, few(faults))
		}
		return conditions.New(kind, true, "", "")
	}
	list.Set(state(appsv1beta1.UnitedDeploymentSubsetProvisioned, provisioning), state(appsv1beta1.UnitedDeploymentSubsetUpdated, updating))
	if all := slices.Concat(provisioning, updating); len(all) > 0 {
		list.Set(conditions.New(appsv1beta1.UnitedDeploymentSubsetFailure, true, appsv1beta1.ReasonUnitedDeploymentError, few(all)))
	}
	list.Set(r.updated())
	if r.d.Shares.Adjusted {
		list.Set(conditions.New(appsv1beta1.UnitedDeploymentReplicasAdjusted, true, appsv1beta1.ReasonReplicasAdjusted,
			fmt.Sprintf("The replicas of the subsets do not add up to %d; they are cut or filled up in the order of the list.", r.spec.Replicas)))
	}
	list.Set(r.progress().Conditions()...)
}

func (r *report) updated() conditions.Condition {
	if r.done() {
		return conditions.New(appsv1beta1.UnitedDeploymentUpdated, true, appsv1beta1.ReasonUnitedDeploymentUpdated,
			"Every pod is at revision "+r.s.Update.Name+" and ready.")
	}
	if r.status.CurrentRevision == r.s.Update.Name && !r.outdated() {
		return conditions.New(appsv1beta1.UnitedDeploymentUpdated, false, appsv1beta1.ReasonUnitedDeploymentPodsNotReady,
			"Pods are missing or not ready. No revision is being rolled out.")
	}
	return conditions.New(appsv1beta1.UnitedDeploymentUpdated, false, appsv1beta1.ReasonUnitedDeploymentUpdating,
		"Pods are not all at revision "+r.s.Update.Name+" and ready.")
}

// progress is the UnitedDeployment's, the first that holds:
//
//  1. it is being deleted, or its spec is not readable;
//  2. a workload cannot be made: stalled; the server refuses something: stalled after half a
//     minute;
//  3. a workload is stalled by its own word, or its kind is switched off: stalled;
//  4. more pods are wanted than the subsets may have: stalled;
//  5. workloads are created, changed or deleted, or have not answered yet;
//  6. pods are missing, not ready, or not at the update revision;
//  7. nothing is left to move now: workloads are paused or wait for deletions, or the partitions
//     keep pods at the revision before;
//  8. everything is done.
func (r *report) progress() podset.Progress {
	spec := r.spec
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The set is being deleted, and its workloads with it.")
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, few(strings.Split(spec.Invalid.Error(), "\n")))
	}
	all := slices.Concat(r.faults(true), r.faults(false), r.failures())
	switch {
	case len(r.d.Faults) > 0:
		return podset.Stalled(appsv1beta1.ReasonRequestFailed, few(all))
	case len(all) > 0:
		longest := slices.MinFunc(r.outcome.Failures, func(a, b planning.Failure) int { return a.Since.Compare(b.Since) })
		return podset.Refused(longest, few(all), r.s.Now)
	}
	if troubles := r.troubles(); len(troubles) > 0 {
		return podset.Stalled(appsv1beta1.ReasonSubsetStalled, few(troubles))
	}
	if n := r.d.Shares.Unplaced; n > 0 {
		return podset.Stalled(appsv1beta1.ReasonNoRoom, podset.Of(n, spec.Replicas, "pod has", "pods have")+" no subset: there is none, or all have maxReplicas.")
	}
	return r.movement()
}

// troubles are the workloads' own words, or their pods' where they are silent.
func (r *report) troubles() []string {
	var all []string
	for i := range r.spec.Subsets {
		child := r.d.kept[r.spec.Subsets[i].Name]
		if child == nil {
			continue
		}
		kind := child.Adapter.Kind
		trouble, noRoom := r.troubleOf(child)
		if trouble == "" {
			trouble, noRoom = child.Trouble, child.noRoom
		}
		switch {
		case trouble != "" && (!noRoom || !r.stoodIn(i, child)):
			all = append(all, fmt.Sprintf("subset %s: %s %s: %s", child.Subset, kind.Kind, child.Object.GetName(), trouble))
		case r.s.Disabled[kind.GroupKind()]: // What it says of its pods may be old, too.
			all = append(all, fmt.Sprintf("subset %s: nothing is done for %s %s: its kind is switched off in the operator", child.Subset, kind.Kind, child.Object.GetName()))
		}
	}
	return all
}

// stoodIn: other subsets run replacements for all missing pods of a subset. This is how adaptive
// sets are meant to be.
func (r *report) stoodIn(i int, child *Child) bool {
	reserved := r.d.rooms[i].reserved
	return reserved > 0 && child.Size-child.Ready <= reserved
}

// moves are clauses about the subsets, by their state.
type moves struct {
	applying, waiting, stopped, kept []string
	// reason is why stopped ones are.
	reason string
	// pods is how many pods the partitions keep.
	pods int
}

// movement is the progress of moving workloads, or of those stopped by the user.
func (r *report) movement() podset.Progress {
	var m moves
	for i := range r.spec.Subsets {
		r.move(i, &m)
	}
	_, removing := r.d.HeldFor(NoteRemoved)
	switch {
	case len(m.applying) > 0:
		return podset.Reconciling(appsv1beta1.ReasonScaling, sentence(m.applying))
	case len(m.waiting) > 0 && r.spec.Mode == subset.Stay && int(r.status.UpdatedReplicas) == r.spec.Replicas:
		return podset.Reconciling(appsv1beta1.ReasonPodsNotAvailable, sentence(m.waiting))
	case len(m.waiting) > 0:
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, sentence(m.waiting))
	case removing:
		return podset.Reconciling(appsv1beta1.ReasonSubsetRemoved, r.d.HeldMessages(""))
	case len(r.d.Actions) > 0:
		return podset.Reconciling(appsv1beta1.ReasonScaling, "Workloads are being changed or deleted.")
	case len(m.stopped) > 0:
		return podset.Progress{Reason: m.reason, Message: sentence(m.stopped)}
	case m.pods > 0:
		return podset.Progress{Reason: appsv1beta1.ReasonPartitionReached,
			Message: fmt.Sprintf("The partitions keep %s at the revision before: %s.", podset.Count(m.pods, "pod", "pods"), few(m.kept))}
	}
	return podset.Progress{Reason: appsv1beta1.ReasonComplete, Message: "Every pod is at the update revision and ready."}
}

// move adds a clause about one subset, unless it is where it should be.
func (r *report) move(i int, m *moves) {
	name, size := r.spec.Subsets[i].Name, r.d.Shares.Sizes[i]
	child := r.d.kept[name]
	if child == nil {
		m.applying = append(m.applying, fmt.Sprintf("subset %s is being created", name))
		return
	}
	goal := size - r.d.partitions[i]
	reason, why := child.held()
	switch {
	case child.Terminating:
		m.applying = append(m.applying, fmt.Sprintf("subset %s: %s %s is being deleted, and is created again when it is gone", name, child.Adapter.Kind.Kind, child.Object.GetName()))
	case !child.Observed || child.Size != size || !r.s.isUpdated(child.Revision):
		m.applying = append(m.applying, fmt.Sprintf("subset %s is being changed", name))
	case r.d.rooms[i].reserved > 0:
		m.waiting = append(m.waiting, fmt.Sprintf("subset %s: others stand in for %s", name, podset.Of(r.d.rooms[i].reserved, size, "pod", "pods")))
	case child.Replicas != size || child.Ready < size:
		m.waiting = append(m.waiting, fmt.Sprintf("subset %s: %s ready", name, podset.Of(min(child.Ready, size), size, "pod is", "pods are")))
	case child.Updated < goal && reason != "":
		m.reason = reason
		m.stopped = append(m.stopped, fmt.Sprintf("subset %s: %s updated: %s", name, podset.Of(child.Updated, goal, "pod is", "pods are"), why))
	case child.Updated < goal:
		m.waiting = append(m.waiting, fmt.Sprintf("subset %s: %s updated", name, podset.Of(child.Updated, goal, "pod is", "pods are")))
	case child.Updated < size:
		m.kept = append(m.kept, fmt.Sprintf("%s %d", name, size-child.Updated))
		m.pods += size - child.Updated
	}
}

// sentence makes one of several clauses.
func sentence(clauses []string) string {
	text := few(clauses)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Events are the events about new statements, or about another spec.
func Events(spec *united.Spec, after appsv1beta1.UnitedDeploymentStatus) []planning.Event {
	old := conditions.From(spec.Set.Status.Conditions)
	var events []planning.Event
	for _, c := range conditions.From(after.Conditions) {
		told := conditions.Contains(old, c) && spec.Set.Status.ObservedGeneration == after.ObservedGeneration
		adjusted := c.Type == string(appsv1beta1.UnitedDeploymentReplicasAdjusted)
		stalled := c.Type == string(appsv1beta1.UnitedDeploymentStalled) && c.Status == "True" && c.Reason != appsv1beta1.ReasonRequestFailed
		if !told && (adjusted || stalled) {
			events = append(events, planning.Event{Warning: true, Reason: c.Reason, Message: c.Message})
		}
	}
	return append(events, schedulingEvents(&spec.Set.Status, &after)...)
}

// schedulingEvents tell of subsets without room now, or with replacements elsewhere.
func schedulingEvents(before, after *appsv1beta1.UnitedDeploymentStatus) []planning.Event {
	full := func(c appsv1beta1.UnitedDeploymentSubsetCondition) bool {
		return isFull(&c) && c.Reason == appsv1beta1.ReasonReschedule
	}
	told := map[string]bool{}
	for _, s := range before.SubsetStatuses {
		told[s.Name] = slices.ContainsFunc(s.Conditions, full)
	}
	var events []planning.Event
	for _, s := range after.SubsetStatuses {
		i := slices.IndexFunc(s.Conditions, full)
		if i < 0 || told[s.Name] {
			continue
		}
		message := "Pods of subset " + s.Name + " find no node"
		if s.Conditions[i].Message == messageStandIn {
			message = "Other subsets run replacements for pods of subset " + s.Name
		}
		events = append(events, planning.Event{Warning: true, Reason: "SubsetUnschedulable", Message: message})
	}
	return events
}
