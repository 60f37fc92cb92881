// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Steps of a plan.
const (
	// StepCreateSubset applies a subset's missing workload.
	StepCreateSubset planning.Step = "CreateSubset"
	// StepUpdateSubset applies a different workload.
	StepUpdateSubset planning.Step = "UpdateSubset"
	// StepMoveFields takes applied fields of a workload from OpenKruise.
	StepMoveFields planning.Step = "MoveFields"
	// StepDeleteSubset deletes an unwanted workload.
	StepDeleteSubset planning.Step = "DeleteSubset"
	// StepLabelPod labels a pod with replacements in other subsets, or removes the label.
	StepLabelPod planning.Step = "LabelPod"
	// StepDeletePod deletes a pod in the way of an update.
	StepDeletePod planning.Step = "DeletePod"
)

// Reasons of notes.
const (
	// NoteRemoved: an unwanted workload waits for its replacements.
	NoteRemoved = "Removed"
	// NoteTerminating: a workload is being deleted, and is created again when it is gone.
	NoteTerminating = "Terminating"
)

// askAgain is when to look again without any event: the API server may serve a kind, or a foreign
// name be free.
const askAgain = 30 * time.Second

// lookAgain is when to read pods in the way of an update again: no event of the workload reports
// them.
const lookAgain = 10 * time.Second

// Snapshot is the observed state of a UnitedDeployment.
type Snapshot struct {
	Now time.Time
	// Children are its workloads, of all kinds.
	Children []Child
	// Pods are the answer to PodsNeeded.
	Pods []Pod
	// Update is the revision of the present template, Current the last known one of all pods.
	Update, Current united.Revision
	// Taken are foreign workloads' names in the namespace.
	Taken map[string]bool
	// First moves on while there is not time for all subsets, and says with which one to begin. A webhook of others may make an apply slow, and each
	// could come again and again.
	First int
	// Unserved are kinds unknown to the API server, Disabled those switched off in the operator.
	Unserved, Disabled map[schema.GroupKind]bool
}

// isUpdated: the label of a workload or pod names the revision of the present template.
func (s *Snapshot) isUpdated(label string) bool { return label == united.RevisionLabel(s.Update.Name) }

// Decision is a plan and its words in the status.
type Decision struct {
	planning.Plan
	// Shares are the sizes of the subsets, in their order.
	Shares subset.Shares
	// Faults say, by the name of a subset, why its workload cannot be made or changed.
	Faults map[string]string
	// Targets are the wanted states of workloads that have met them, or will as far as the server
	// lets them.
	Targets map[types.UID]united.Target

	rooms      []room
	partitions []int
	// kept are the workloads of the subsets, by name, pods the living ones.
	kept map[string]*Child
	pods map[string][]*Pod
}

// Plan decides the next step of a UnitedDeployment.
//
//  1. Every subset gets its number of pods.
//  2. Missing and different workloads are applied. Trouble with one concerns no other.
//  3. Unwanted workloads are deleted: those of removed subsets, of other kinds, and the younger of
//     two of one subset.
//  4. Pods with replacements in other subsets are labeled, and pods in the way of an update are
//     deleted.
//
// One in deletion plans nothing: the garbage collector deletes its workloads. One with an
// unreadable spec leaves everything as it is.
func Plan(spec *united.Spec, s Snapshot) Decision {
	p := &planner{Spec: spec, s: &s, Decision: Decision{
		Faults: map[string]string{}, Targets: map[types.UID]united.Target{}, kept: map[string]*Child{}, pods: map[string][]*Pod{},
	}}
	p.index()
	unwanted := p.classify()
	if spec.Deleting || spec.Invalid != nil {
		return p.Decision
	}
	p.divide()
	p.partitions = make([]int, len(p.Subsets))
	for i := range p.Subsets {
		p.subset((s.First + i) % len(p.Subsets))
	}
	p.remove(unwanted)
	p.Actions = append(p.Actions, p.labels...)
	p.unblock()
	return p.Decision
}

// planner is shared by the steps of one Plan.
type planner struct {
	*united.Spec
	s *Snapshot
	Decision
	// going is the number of terminating pods, by subset. conditions are the status's former ones about the subsets' room.
	going      map[string]int
	conditions map[string]*appsv1beta1.UnitedDeploymentSubsetCondition
	// updating: the status has said since then that an update goes on.
	updating bool
	since    time.Time
	// labels are the actions for labels of pods.
	labels []planning.Action
}

// index puts everything for each subset into maps.
func (p *planner) index() {
	p.going = map[string]int{}
	ours := ownPods(p.s.Children)
	for i := range p.s.Pods {
		switch pod := &p.s.Pods[i]; {
		case !ours(pod.Pod):
		case pod.DeletionTimestamp != nil:
			p.going[pod.subset()]++
		default:
			p.pods[pod.subset()] = append(p.pods[pod.subset()], pod)
		}
	}
	if c, ok := conditions.Find(conditions.From(p.Set.Status.Conditions), appsv1beta1.UnitedDeploymentUpdated); ok {
		p.updating, p.since = c.Status == corev1.ConditionFalse, c.LastTransitionTime.Time
	}
	p.conditions = map[string]*appsv1beta1.UnitedDeploymentSubsetCondition{}
	for i := range p.Set.Status.SubsetStatuses {
		known := &p.Set.Status.SubsetStatuses[i]
		for j := range known.Conditions {
			if known.Conditions[j].Type == appsv1beta1.SubsetSchedulable && p.conditions[known.Name] == nil {
				p.conditions[known.Name] = &known.Conditions[j]
			}
		}
	}
}

// classify finds the workload of every subset, and returns the unwanted ones.
func (p *planner) classify() (unwanted []*Child) {
	sortChildren(p.s.Children, p.Adapter.Kind)
	named := make(map[string]bool, len(p.Subsets))
	for i := range p.Subsets {
		named[p.Subsets[i].Name] = true
	}
	for i := range p.s.Children {
		c := &p.s.Children[i]
		known := p.kept[c.Subset]
		switch {
		case !named[c.Subset] || c.Adapter.Kind != p.Adapter.Kind:
			unwanted = append(unwanted, c)
		case known == nil, known.Terminating && !c.Terminating:
			p.kept[c.Subset] = c
		default:
			unwanted = append(unwanted, c)
		}
	}
	return unwanted
}

// subset plans the workload of one subset.
func (p *planner) subset(i int) {
	sub, size := &p.Subsets[i], p.Shares.Sizes[i]
	child := p.kept[sub.Name]
	goal := united.Target{Revision: p.s.Update.Name, Size: size, Partition: min(sub.Partition, size)}
	p.partitions[i] = goal.Partition
	if size == 0 {
		goal.Partition = sub.Partition // for when there are pods again
	}
	if child != nil {
		goal.Name = child.Object.GetName()
		if p.Mode == subset.Reserve {
			goal.Unable = min(p.rooms[i].unable, size)
		}
	} else if goal.Name = p.freeName(sub.Name); goal.Name == "" {
		tried := united.Names(p.Set.Name, sub.Name)
		p.Faults[sub.Name] = fmt.Sprintf("the names %s and %s are taken by workloads of others", tried[0], tried[1])
		p.Recheck(askAgain)
		return
	}
	if p.s.Unserved[p.Adapter.Kind.GroupKind()] {
		p.Faults[sub.Name] = fmt.Sprintf("the API server does not serve %s", p.Adapter.Kind.GroupKind())
		p.Recheck(askAgain)
		return
	}
	if child != nil && child.Terminating {
		p.Held = append(p.Held, planning.Note{
			Reason: NoteTerminating, Slots: []planning.Slot{planning.Slot(sub.Name)},
			Message: fmt.Sprintf("%s %s of subset %s is being deleted, and is created again when it is gone", child.Adapter.Kind.Kind, goal.Name, sub.Name),
		})
		return
	}
	if child != nil && child.InSync != nil && *child.InSync == goal {
		p.Targets[child.Object.GetUID()] = goal
		return
	}
	p.apply(sub, child, goal)
}

// apply plans the request for the workload of a subset, if it differs.
func (p *planner) apply(sub *united.Subset, child *Child, goal united.Target) {
	live := goal
	if child != nil {
		live.Live = child.Object
	}
	wanted, err := p.Manifest(sub, live)
	if err != nil {
		p.Faults[sub.Name] = err.Error()
		return
	}
	kind, name := p.Adapter.Kind, wanted.GetName()
	action := planning.Action{
		Verb: planning.VerbApply, Step: StepCreateSubset, Kind: kind, Object: wanted, Slot: planning.Slot(sub.Name), Reason: "Missing",
		FieldManager: shared.FieldManagerUnitedDeployment, Force: true,
		Success: planning.Event{Reason: "SuccessfulCreateSubset", Message: fmt.Sprintf("Created %s %s of subset %s", kind.Kind, name, sub.Name)},
		Failure: planning.Event{Warning: true, Reason: "FailedCreateSubset", Message: fmt.Sprintf("Creating %s %s of subset %s", kind.Kind, name, sub.Name)},
	}
	if child != nil {
		if united.SameApply(child.Object, wanted) {
			p.Targets[child.Object.GetUID()] = goal
		}
		if united.InSync(child.Object, wanted) {
			return
		}
		// With the UID, a later object of the name is left alone.
		wanted.SetUID(child.Object.GetUID())
		action.Step, action.Reason, action.Success = StepUpdateSubset, "Differs", planning.Event{}
		action.Failure = planning.Event{
			Warning: true, Reason: "FailedUpdateSubset", Message: fmt.Sprintf("Changing %s %s of subset %s", kind.Kind, name, sub.Name),
		}
	}
	if child != nil && child.MoveFields != nil && child.Adopting() {
		action.Verb, action.Step, action.Object, action.Reason = planning.VerbPatch, StepMoveFields, child.Object, "Adopting"
		action.Change = planning.RawPatch{Type: types.JSONPatchType, Body: child.MoveFields}
	}
	p.Actions = append(p.Actions, action)
}

// freeName is the name of a new workload; empty when there is none.
func (p *planner) freeName(sub string) string {
	for _, name := range united.Names(p.Set.Name, sub) {
		if !p.s.Taken[name] {
			return name
		}
	}
	return ""
}

// remove deletes unwanted workloads. A younger one of two goes at once, the others, if the user
// asks for it, when the pods of the wanted ones are available.
func (p *planner) remove(unwanted []*Child) {
	replaced := p.replaced()
	for _, c := range unwanted {
		if c.Terminating {
			continue
		}
		name, kind := c.Object.GetName(), c.Adapter.Kind
		twice := p.kept[c.Subset] != nil && p.kept[c.Subset].Adapter.Kind == kind
		if p.KeepRemoved && !replaced && !twice {
			p.Held = append(p.Held, planning.Note{
				Reason: NoteRemoved, Slots: []planning.Slot{planning.Slot(c.Subset)},
				Message: fmt.Sprintf("%s %s of subset %s is deleted when %s available in the other subsets", kind.Kind, name, c.Subset, podset.Count(p.Replicas, "pod is", "pods are")),
			})
			continue
		}
		p.Actions = append(p.Actions, planning.Action{
			Verb: planning.VerbDelete, Step: StepDeleteSubset, Kind: kind, Object: c.Object, Slot: planning.Slot(c.Subset), Reason: "NotWanted",
			Propagation: metav1.DeletePropagationBackground,
			Success:     planning.Event{Reason: "SuccessfulDeleteSubset", Message: fmt.Sprintf("Deleted %s %s of subset %s", kind.Kind, name, c.Subset)},
			Failure: planning.Event{
				Warning: true, Reason: "FailedDeleteSubset", Message: fmt.Sprintf("Deleting %s %s of subset %s", kind.Kind, name, c.Subset),
			},
		})
	}
}

// replaced: the wanted workloads have all pods, available: ready ones may still be in their
// minReadySeconds.
func (p *planner) replaced() bool {
	available := 0
	for i := range p.Subsets {
		if child := p.kept[p.Subsets[i].Name]; child != nil && !child.Terminating && child.Observed {
			available += min(child.Available, p.Shares.Sizes[i])
		}
	}
	return available >= p.Replicas
}

// unblock deletes unready pods at the revision before, beyond the partition: a StatefulSet of
// apps/v1 would wait for them for ever.
func (p *planner) unblock() {
	for _, child := range p.kept {
		if !child.Terminating && mayBeStuck(child) {
			p.Recheck(lookAgain)
		}
	}
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		child := p.kept[pod.subset()]
		if child == nil || !mayBeStuck(child) || pod.Ready || pod.DeletionTimestamp != nil || !metav1.IsControlledBy(pod, child.Object) {
			continue
		}
		at, isOrdinal := ordinal.OfPod(child.Object.GetName(), pod.Name)
		start := united.Number(child.Object.Object, "spec", "ordinals", "start")
		update, _, _ := unstructured.NestedString(child.Object.Object, "status", "updateRevision")
		if !isOrdinal || update == "" || at-start < child.Adapter.PartitionOf(child.Object) || pod.Labels[shared.LabelControllerRevisionHash] == update {
			continue
		}
		p.Actions = append(p.Actions, planning.Action{
			Verb: planning.VerbDelete, Step: StepDeletePod, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: pod.Pod,
			Slot: planning.Slot(pod.subset()), Reason: "BlocksUpdate", ExactVersion: true,
		})
	}
}
