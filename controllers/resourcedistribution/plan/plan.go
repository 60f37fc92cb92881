// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// The steps of a distribution.
const (
	// StepCreate applies a copy where there is none.
	StepCreate planning.Step = "CreateCopy"
	// StepUpdate applies a copy again, or takes out what others added.
	StepUpdate planning.Step = "UpdateCopy"
	// StepDelete deletes a copy from a namespace that is no target.
	StepDelete planning.Step = "DeleteCopy"
)

// Reasons of actions.
const (
	reasonMissing  = "Missing"
	reasonOutdated = "Outdated"
	reasonWidened  = "Widened"
	reasonNoTarget = "NoTarget"
)

// Namespace is the part of a namespace that matters.
type Namespace struct {
	Labels      map[string]string
	Terminating bool
}

// Snapshot is the input of a plan.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Namespaces are all of the cluster.
	Namespaces map[string]Namespace
	// Copies are the known objects with the name of the copies, by namespace.
	Copies map[string]Copy
	// Unread are namespaces yet to be looked into.
	Unread map[string]bool
	// Unreadable says why a namespace cannot be looked into, Forbidden which of them need a role.
	Unreadable map[string]string
	Forbidden  map[string]bool
}

// Decision is a plan, and the namespaces without a copy it can do nothing about, sorted.
type Decision struct {
	planning.Plan
	// desired counts the targets, current those with a copy that needs nothing.
	desired, current int
	// missing do not exist.
	missing []string
	faults  faults
	// waiting: something not in this plan is to come.
	waiting bool
}

// Plan takes these steps:
//
//  1. do nothing while the distribution is being deleted, or cannot be read: its copies go with it, or stay;
//  2. in each target apply the copy that is missing or outdated, and take out what others added to it;
//  3. in each other namespace delete the copy.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{faults: faults{}}
	if spec.Deleting || spec.Invalid != nil {
		return d
	}
	names := slices.Collect(maps.Keys(s.Namespaces))
	for name := range spec.Targets.included {
		if _, exists := s.Namespaces[name]; !exists && spec.Targets.Names(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		namespace, exists := s.Namespaces[name]
		switch named := spec.Targets.Names(name); {
		case !exists, namespace.Terminating && named:
			d.desired++
			d.missing = append(d.missing, name)
			d.faults.add(appsv1beta1.ResourceDistributionNamespaceNotExists, name, noNamespace)
		case namespace.Terminating: // Its copy goes with it.
		case spec.Targets.Chooses(name, namespace.Labels):
			d.desired++
			d.fill(spec, s, name)
		default:
			d.clear(spec, s, name)
		}
	}
	return d
}

// fill decides about a target.
func (d *Decision) fill(spec *Spec, s Snapshot, namespace string) {
	if s.Unreadable[namespace] != "" {
		d.faults.add(appsv1beta1.ResourceDistributionGetResourceFailed, namespace, s.Unreadable[namespace])
		return
	}
	c, known := s.Copies[namespace]
	switch {
	case s.Unread[namespace], known && c.Terminating:
		d.waiting = true
	case !known:
		d.apply(spec, namespace, nil)
	case c.State == Foreign:
		d.faults.add(appsv1beta1.ResourceDistributionConflictOccurred, namespace, fmt.Sprintf("%s %s belongs to somebody else", spec.Kind.Kind, spec.Name))
	case c.State == Outdated:
		d.apply(spec, namespace, &c)
	case c.State == Widened:
		d.narrow(spec, namespace, c)
	default:
		d.current++
	}
}

// apply applies a copy: a missing one must not meet an object of somebody else, a known one must still be it.
func (d *Decision) apply(spec *Spec, namespace string, known *Copy) {
	object := spec.copyIn(namespace)
	action := planning.Action{
		Verb: planning.VerbApply, Step: StepCreate, Kind: spec.Kind, Object: object, Slot: planning.Slot(namespace), Reason: reasonMissing,
		FieldManager: shared.FieldManagerDistribution, Force: true, OnlyNew: known == nil,
	}
	if known != nil {
		action.Step, action.Reason = StepUpdate, reasonOutdated
		object.SetUID(known.Object.UID)
	}
	d.Actions = append(d.Actions, action)
}

// narrow takes out the keys that others added.
func (d *Decision) narrow(spec *Spec, namespace string, c Copy) {
	change := map[string]any{"metadata": map[string]any{"uid": c.Object.UID}}
	for field, keys := range c.extra {
		without := map[string]any{}
		for _, key := range keys {
			without[key] = nil
		}
		change[field] = without
	}
	body, _ := json.Marshal(change) // Texts and nulls can always be rendered.
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepUpdate, Kind: spec.Kind, Object: c.Object, Slot: planning.Slot(namespace), Reason: reasonWidened,
		FieldManager: shared.FieldManagerDistribution, Change: planning.RawPatch{Type: types.MergePatchType, Body: body},
	})
}

// clear deletes the copy from a namespace that is no target.
func (d *Decision) clear(spec *Spec, s Snapshot, namespace string) {
	c, known := s.Copies[namespace]
	if !known || c.State == Foreign {
		return
	}
	d.waiting = true
	if c.Terminating {
		return
	}
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbDelete, Step: StepDelete, Kind: spec.Kind, Object: c.Object, Slot: planning.Slot(namespace), Reason: reasonNoTarget,
		Propagation: metav1.DeletePropagationBackground,
	})
}
