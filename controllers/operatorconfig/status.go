// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/brief"
)

const (
	// longest is how long a condition's message may be.
	longest = 32768
	// longestOfKind is how long the message about a kind may be.
	longestOfKind = 1024
	// mostReplicas is how many replicas the status has room for.
	mostReplicas = 32
)

// Step is how far the replicas are with a configuration.
type Step struct {
	// Wanted is its hash. Current: this replica runs with it.
	Wanted  string
	Current bool
	// WaitsFor are the replicas taking it over before this one, sorted.
	WaitsFor []string
}

// Facts are the leader's input for the status.
type Facts struct {
	Now time.Time
	// Generation is of the spec read.
	Generation int64
	// Self is this replica, Running its configuration's hash. Replicas are all known ones.
	Self, Running string
	Step          Step
	Replicas      []Replica
	// Faults cannot be followed in the spec; Failures could not be applied.
	Faults, Failures []string
	// Ignored are the fields without effect.
	Ignored []string
	// DaemonConflict describes the effects of OpenKruise's node daemon running beside the operator's; empty when it does not.
	DaemonConflict string
	Kinds          []operatorv1alpha1.KindStatus
	// Gates are on.
	Gates    []string
	Versions []operatorv1alpha1.ComponentVersion
	// Upgrade tells if another version may replace the operator.
	Upgrade Upgrade
}

// Status returns the next status after the old one.
func Status(old operatorv1alpha1.KruiseStatus, f Facts) operatorv1alpha1.KruiseStatus {
	status := *old.DeepCopy()
	status.ObservedGeneration, status.Replicas = f.Generation, replicas(old.Replicas, f)
	status.Kinds, status.FeatureGates, status.Versions = f.Kinds, f.Gates, f.Versions
	for _, c := range all(&f) {
		if c.Status == "" {
			meta.RemoveStatusCondition(&status.Conditions, c.Type)
			continue
		}
		c.Message, c.ObservedGeneration = brief.Text(c.Message, longest), f.Generation
		c.LastTransitionTime = metav1.NewTime(f.Now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// all are all conditions. Those without a status are removed.
func all(f *Facts) []metav1.Condition {
	available, availableReason, managed := availability(f.Kinds)
	moving, movingReason, movement := movement(&f.Step)
	degraded, degradedReason, why := degradation(f)
	unconfirmed := strings.Join(unconfirmed(f.Kinds), "; ")
	stalled, stalledReason, see := false, operatorv1alpha1.ReasonAsExpected, ""
	switch {
	case moving:
	case len(f.Faults) > 0:
		stalled, stalledReason, see = true, operatorv1alpha1.ReasonInvalidConfiguration, "see the condition Degraded"
	case unconfirmed != "":
		stalled, stalledReason, see = true, operatorv1alpha1.ReasonObjectsFromBefore, "see the condition ConfirmationRequired"
	}
	return []metav1.Condition{
		said(operatorv1alpha1.KruiseAvailable, available, availableReason, managed),
		said(operatorv1alpha1.KruiseProgressing, moving, movingReason, movement),
		said(operatorv1alpha1.KruiseReconciling, moving, movingReason, movement),
		said(operatorv1alpha1.KruiseDegraded, degraded, degradedReason, why),
		said(operatorv1alpha1.KruiseStalled, stalled, stalledReason, see),
		said(operatorv1alpha1.KruiseUpgradeable, f.Upgrade.Allowed, f.Upgrade.Reason, f.Upgrade.Message),
		whileSaid(operatorv1alpha1.KruiseConfirmationRequired, operatorv1alpha1.ReasonObjectsFromBefore, unconfirmed),
		whileSaid(operatorv1alpha1.KruiseFieldsIgnored, operatorv1alpha1.ReasonDeprecated, strings.Join(f.Ignored, "; ")),
		whileSaid(operatorv1alpha1.KruiseNodeDaemonConflict, operatorv1alpha1.ReasonOpenKruiseDaemon, f.DaemonConflict),
	}
}

func said(kind string, is bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// whileSaid is a condition present only with a message.
func whileSaid(kind, reason, message string) metav1.Condition {
	if message == "" {
		return metav1.Condition{Type: kind}
	}
	return said(kind, true, reason, message)
}

// degradation looks for faults in the spec or in deployed objects.
func degradation(f *Facts) (degraded bool, reason, message string) {
	switch {
	case len(f.Faults) > 0:
		return true, operatorv1alpha1.ReasonInvalidConfiguration, "these are left out: " + strings.Join(f.Faults, "; ")
	case len(f.Failures) > 0:
		return true, operatorv1alpha1.ReasonOperandsFailed, strings.Join(f.Failures, "; ")
	}
	return false, operatorv1alpha1.ReasonAsExpected, "the whole spec is in force"
}

// availability: every enabled kind is managed; the message names them, or the others.
func availability(kinds []operatorv1alpha1.KindStatus) (available bool, reason, message string) {
	var waiting, ready []string
	for _, kind := range kinds {
		switch {
		case kind.State != operatorv1alpha1.Enabled:
		case kind.Ready == metav1.ConditionTrue:
			ready = append(ready, kind.Kind)
		default:
			why := kind.Reason
			if why == operatorv1alpha1.KindRightsMissing {
				why += " (" + kind.Message + ")"
			}
			waiting = append(waiting, fmt.Sprintf("%s: %s", kind.Kind, why))
		}
	}
	switch {
	case len(waiting) > 0:
		return false, operatorv1alpha1.ReasonKindsNotReady, "not managed: " + strings.Join(waiting, ", ")
	case len(ready) == 0:
		return true, operatorv1alpha1.ReasonAsExpected, "no kind is enabled"
	}
	return true, operatorv1alpha1.ReasonAsExpected, "managed: " + strings.Join(ready, ", ")
}

// unconfirmed explains, for each waiting kind, the wait for the administrator.
func unconfirmed(kinds []operatorv1alpha1.KindStatus) (messages []string) {
	for _, kind := range kinds {
		if kind.Reason == operatorv1alpha1.KindUnconfirmed {
			messages = append(messages, kind.Kind+": "+kind.Message)
		}
	}
	return messages
}

// movement: a replica has yet to take over a change.
func movement(step *Step) (moving bool, reason, message string) {
	switch {
	case len(step.WaitsFor) > 0:
		return true, operatorv1alpha1.ReasonRestarting, "these replicas have yet to take over a change: " + strings.Join(step.WaitsFor, ", ")
	case !step.Current:
		return true, operatorv1alpha1.ReasonRestarting, "the operator restarts to take over a change"
	}
	return false, operatorv1alpha1.ReasonAsExpected, "every replica runs with this configuration"
}

// replicas are all replicas, in the order of their names. This one leads.
func replicas(old []operatorv1alpha1.ReplicaStatus, f Facts) []operatorv1alpha1.ReplicaStatus {
	all := []operatorv1alpha1.ReplicaStatus{{Name: f.Self, Role: operatorv1alpha1.ReplicaLeader, ConfigurationHash: f.Running}}
	for _, replica := range f.Replicas {
		if replica.Name != f.Self && len(all) < mostReplicas {
			all = append(all, operatorv1alpha1.ReplicaStatus{Name: replica.Name, Role: operatorv1alpha1.ReplicaStandby, ConfigurationHash: replica.Configuration})
		}
	}
	for i := range all {
		at := slices.IndexFunc(old, func(r operatorv1alpha1.ReplicaStatus) bool { return r.Name == all[i].Name })
		switch {
		case all[i].ConfigurationHash == f.Step.Wanted:
			all[i].ObservedGeneration = f.Generation
		case at >= 0:
			all[i].ObservedGeneration = old[at].ObservedGeneration
		}
	}
	slices.SortFunc(all, func(a, b operatorv1alpha1.ReplicaStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}
