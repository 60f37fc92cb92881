// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// maxNames is how many namespaces a condition names: thousands would make the status too large.
const maxNames = 500

// The ClusterRoles that the operator needs: one is bound by the installation, the other by users, in the namespaces that get Secrets.
const (
	ConfigMapsRole = "kruise-operator-distribute-configmaps"
	SecretsRole    = "kruise-operator-distribute-secrets"
)

// noNamespace is OpenKruise's text.
const noNamespace = "namespace not found or is terminating"

// kindsOfFailure are the conditions about failures, in their order.
func kindsOfFailure() []appsv1beta1.ResourceDistributionConditionType {
	return []appsv1beta1.ResourceDistributionConditionType{
		appsv1beta1.ResourceDistributionGetResourceFailed, appsv1beta1.ResourceDistributionCreateResourceFailed,
		appsv1beta1.ResourceDistributionUpdateResourceFailed, appsv1beta1.ResourceDistributionDeleteResourceFailed,
		appsv1beta1.ResourceDistributionConflictOccurred, appsv1beta1.ResourceDistributionNamespaceNotExists,
	}
}

// failed is what failed in one namespace.
type failed struct{ namespace, message string }

// faults are all failures, by condition and sorted by namespace.
type faults map[appsv1beta1.ResourceDistributionConditionType][]failed

func (f faults) add(kind appsv1beta1.ResourceDistributionConditionType, namespace, message string) {
	f[kind] = append(f[kind], failed{namespace, message})
}

// with are the faults with those of requests.
func (f faults) with(outcome planning.Outcome) faults {
	all := maps.Clone(f)
	for _, failure := range outcome.Failures {
		kind := appsv1beta1.ResourceDistributionUpdateResourceFailed
		switch {
		case failure.Taken:
			kind = appsv1beta1.ResourceDistributionConflictOccurred
		case failure.Step == StepCreate:
			kind = appsv1beta1.ResourceDistributionCreateResourceFailed
		case failure.Step == StepDelete:
			kind = appsv1beta1.ResourceDistributionDeleteResourceFailed
		}
		all.add(kind, string(failure.Slot), failure.Message)
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b failed) int { return strings.Compare(a.namespace, b.namespace) })
	}
	return all
}

// Status is the status after a pass.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.ResourceDistributionStatus {
	before := &spec.Object.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = spec.Object.Generation
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	if spec.Deleting || spec.Invalid != nil {
		for _, kind := range kindsOfFailure() {
			list.Keep(string(kind))
		}
		list.Set(progressOf(spec, s, d, outcome, nil, &status).Conditions()...)
		status.Conditions = named(list, namesIn(before.Conditions))
		return status
	}
	status.Desired = int32(d.desired)
	status.Succeeded = int32(min(d.current+outcome.Steps[StepCreate]+outcome.Steps[StepUpdate], d.desired))
	status.Failed = status.Desired - status.Succeeded
	all := d.faults.with(outcome)
	names := map[appsv1beta1.ResourceDistributionConditionType][]string{}
	for _, kind := range kindsOfFailure() {
		concerned := all[kind]
		if len(concerned) == 0 {
			list.Set(conditions.New(kind, false, appsv1beta1.ReasonSucceeded, ""))
			continue
		}
		for _, one := range concerned[:min(len(concerned), maxNames)] {
			names[kind] = append(names[kind], one.namespace)
		}
		message := fmt.Sprintf("%s (%s)", podset.Count(len(concerned), "namespace", "namespaces"), podset.List(names[kind]))
		list.Set(conditions.New(kind, true, concerned[0].message, message))
	}
	list.Set(progressOf(spec, s, d, outcome, all, &status).Conditions()...)
	status.Conditions = named(list, names)
	return status
}

// named are the conditions with the namespaces they are about.
func named(list *conditions.List, names map[appsv1beta1.ResourceDistributionConditionType][]string) []appsv1beta1.ResourceDistributionCondition {
	all := conditions.To[appsv1beta1.ResourceDistributionCondition](list)
	for i := range all {
		all[i].FailedNamespaces = names[all[i].Type]
	}
	return all
}

func namesIn(all []appsv1beta1.ResourceDistributionCondition) map[appsv1beta1.ResourceDistributionConditionType][]string {
	names := map[appsv1beta1.ResourceDistributionConditionType][]string{}
	for i := range all {
		names[all[i].Type] = all[i].FailedNamespaces
	}
	return names
}

// progressOf describes the distribution, the first true one:
//
//  1. it is being deleted, or its spec cannot be used;
//  2. the operator has no right to Secrets in some namespaces;
//  3. the server, or an object of somebody else, stands in the way of copies;
//  4. copies are being written;
//  5. named namespaces are yet to be created;
//  6. every namespace has its copy.
func progressOf(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome, all faults, status *appsv1beta1.ResourceDistributionStatus) podset.Progress {
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The distribution is being deleted, and its copies with it.")
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	}
	if forbidden := forbiddenIn(s, d); len(forbidden) > 0 {
		return podset.Stalled(appsv1beta1.ReasonRightsMissing, fmt.Sprintf(
			"The operator may not write Secrets in %s (%s): bind the ClusterRole %s there to its account.",
			podset.Count(len(forbidden), "namespace", "namespaces"), podset.List(forbidden), SecretsRole))
	}
	for _, kind := range kindsOfFailure() {
		if concerned := all[kind]; len(concerned) > 0 && kind != appsv1beta1.ResourceDistributionNamespaceNotExists {
			return podset.Stalled(appsv1beta1.ReasonDistributionFailed, fmt.Sprintf("%s: %s in %s, first %s: %s", kind, podset.Of(len(concerned), int(status.Desired), "copy", "copies"),
				podset.Count(len(concerned), "namespace", "namespaces"), concerned[0].namespace, concerned[0].message))
		}
	}
	begun := outcome.Steps[StepCreate] + outcome.Steps[StepUpdate] + outcome.Steps[StepDelete]
	switch {
	case d.waiting || begun < len(d.Actions):
		return podset.Reconciling(appsv1beta1.ReasonDistributing, "Copies are being written, or deleted.")
	case len(d.missing) > 0:
		return podset.Reconciling(string(appsv1beta1.ResourceDistributionNamespaceNotExists), fmt.Sprintf("%s not there yet (%s).",
			podset.Of(len(d.missing), d.desired, "namespace is", "namespaces are"), podset.List(d.missing)))
	}
	message := "Every namespace has an up to date copy."
	if skipped := spec.Targets.Skipped(); len(skipped) > 0 {
		message += fmt.Sprintf(" None is copied to system namespaces (%s).", podset.List(skipped))
	}
	return podset.Progress{Reason: appsv1beta1.ReasonDistributed, Message: message}
}

// forbiddenIn are the targets in which a role is missing.
func forbiddenIn(s Snapshot, d Decision) (namespaces []string) {
	for _, fault := range d.faults[appsv1beta1.ResourceDistributionGetResourceFailed] {
		if s.Forbidden[fault.namespace] {
			namespaces = append(namespaces, fault.namespace)
		}
	}
	return namespaces
}

// Events are the events about new statements of a status.
func Events(before, after *appsv1beta1.ResourceDistributionStatus) []planning.Event {
	was, _ := conditions.Find(conditions.From(before.Conditions), appsv1beta1.ResourceDistributionReconciling)
	is, _ := conditions.Find(conditions.From(after.Conditions), appsv1beta1.ResourceDistributionReconciling)
	var events []planning.Event
	for _, c := range conditions.Begun(before.Conditions, after.Conditions) {
		if c.Type == string(appsv1beta1.ResourceDistributionStalled) {
			events = append(events, planning.Event{Warning: true, Reason: appsv1beta1.ReasonDistributionFailed, Message: c.Message})
		}
	}
	if is.Status == corev1.ConditionFalse && is.Reason == appsv1beta1.ReasonDistributed && was.Reason != is.Reason {
		events = append(events, planning.Event{Reason: is.Reason, Message: is.Message})
	}
	return events
}
