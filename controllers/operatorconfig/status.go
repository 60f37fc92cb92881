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
)

const (
	// longest is how long a condition's message may be.
	longest = 32768
	// longestOfKind is how long the message about a kind may be.
	longestOfKind = 1024
)

// Facts are what the status is made from.
type Facts struct {
	// Now is the time.
	Now time.Time
	// Generation is the generation of the spec that was read.
	Generation int64
	// Self is this replica; Leads says whether it is the leader.
	Self  string
	Leads bool
	// Running is the hash of the configuration that this replica runs with; Current says that it is the wanted one.
	Running string
	Current bool
	// Step is what it does about the one that is wanted.
	Step Step
	// Faults are what cannot be followed in the spec.
	Faults []string
	// Failures are what the operator deploys for itself and could not apply.
	Failures []string
	// Ignored are the fields that others decide, with the reason for all of them.
	Ignored       []string
	IgnoredReason string
	// DaemonConflict is what follows from OpenKruise's node daemon running beside the operator's; empty when it does not.
	DaemonConflict string
	// Kinds are all kinds.
	Kinds []operatorv1alpha1.KindStatus
	// Gates are those that are on.
	Gates []string
	// Versions are those of the operator and of what it works with.
	Versions []operatorv1alpha1.ComponentVersion
	// Upgrade says whether the operator may be replaced by another version.
	Upgrade Upgrade
}

// Status returns the status that this replica should write over the old one. A standby reports itself and leaves the rest alone.
func Status(old operatorv1alpha1.KruiseStatus, f Facts) operatorv1alpha1.KruiseStatus {
	status := *old.DeepCopy()
	status.Replicas = replicas(old.Replicas, f)
	if !f.Leads {
		return status
	}
	status.ObservedGeneration = f.Generation
	status.Kinds, status.FeatureGates, status.Versions = f.Kinds, f.Gates, f.Versions
	set := func(kind string, is bool, reason, message string) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: short(message, longest), ObservedGeneration: f.Generation,
			LastTransitionTime: metav1.NewTime(f.Now.UTC().Truncate(time.Second)),
		})
	}

	available, reason, message := availability(f.Kinds)
	set(operatorv1alpha1.KruiseAvailable, available, reason, message)
	moving, reason, message := movement(&f.Step)
	set(operatorv1alpha1.KruiseProgressing, moving, reason, message)
	set(operatorv1alpha1.KruiseReconciling, moving, reason, message)

	switch {
	case len(f.Faults) > 0:
		set(operatorv1alpha1.KruiseDegraded, true, operatorv1alpha1.ReasonInvalidConfiguration, "these are left out: "+strings.Join(f.Faults, "; "))
	case len(f.Failures) > 0:
		set(operatorv1alpha1.KruiseDegraded, true, operatorv1alpha1.ReasonOperandsFailed, strings.Join(f.Failures, "; "))
	default:
		set(operatorv1alpha1.KruiseDegraded, false, operatorv1alpha1.ReasonAsExpected, "the whole spec is in force")
	}
	unconfirmed := unconfirmed(f.Kinds)
	if len(unconfirmed) > 0 {
		set(operatorv1alpha1.KruiseConfirmationRequired, true, operatorv1alpha1.ReasonObjectsFromBefore, strings.Join(unconfirmed, "; "))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, operatorv1alpha1.KruiseConfirmationRequired)
	}
	switch {
	case !moving && len(f.Faults) > 0:
		set(operatorv1alpha1.KruiseStalled, true, operatorv1alpha1.ReasonInvalidConfiguration, "see the condition Degraded")
	case !moving && len(unconfirmed) > 0:
		set(operatorv1alpha1.KruiseStalled, true, operatorv1alpha1.ReasonObjectsFromBefore, "see the condition ConfirmationRequired")
	default:
		set(operatorv1alpha1.KruiseStalled, false, operatorv1alpha1.ReasonAsExpected, "")
	}
	if len(f.Ignored) > 0 {
		set(operatorv1alpha1.KruiseFieldsIgnored, true, f.IgnoredReason, strings.Join(f.Ignored, "; "))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, operatorv1alpha1.KruiseFieldsIgnored)
	}
	if f.DaemonConflict != "" {
		set(operatorv1alpha1.KruiseNodeDaemonConflict, true, operatorv1alpha1.ReasonOpenKruiseDaemon, f.DaemonConflict)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, operatorv1alpha1.KruiseNodeDaemonConflict)
	}
	set(operatorv1alpha1.KruiseUpgradeable, f.Upgrade.Allowed, f.Upgrade.Reason, f.Upgrade.Message)
	return status
}

// availability says whether every kind that is enabled is managed, and which are or are not.
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

// unconfirmed says for each kind that waits for the administrator why it waits.
func unconfirmed(kinds []operatorv1alpha1.KindStatus) (messages []string) {
	for _, kind := range kinds {
		if kind.Reason == operatorv1alpha1.KindUnconfirmed {
			messages = append(messages, kind.Kind+": "+kind.Message)
		}
	}
	return messages
}

// movement says whether a replica has yet to take over a change.
func movement(step *Step) (moving bool, reason, message string) {
	switch {
	case len(step.WaitsFor) > 0:
		return true, operatorv1alpha1.ReasonRestarting, "these replicas have yet to take over a change: " + strings.Join(step.WaitsFor, ", ")
	case step.Restart, step.Recheck > 0:
		return true, operatorv1alpha1.ReasonRestarting, "the operator restarts to take over a change"
	}
	return false, operatorv1alpha1.ReasonAsExpected, "every replica that reports runs with this configuration"
}

// replicas returns the reports with this replica's own, and without those that say nothing any more, in the order of names.
func replicas(old []operatorv1alpha1.ReplicaStatus, f Facts) []operatorv1alpha1.ReplicaStatus {
	own := operatorv1alpha1.ReplicaStatus{Name: f.Self, Role: operatorv1alpha1.ReplicaStandby, ConfigurationHash: f.Running}
	if at := slices.IndexFunc(old, func(r operatorv1alpha1.ReplicaStatus) bool { return r.Name == f.Self }); at >= 0 {
		own.ObservedGeneration = old[at].ObservedGeneration
	}
	if f.Current {
		own.ObservedGeneration = f.Generation
	}
	if f.Leads {
		own.Role = operatorv1alpha1.ReplicaLeader
	}
	all := []operatorv1alpha1.ReplicaStatus{own}
	for _, replica := range old {
		if replica.Name == f.Self || slices.Contains(f.Step.Forget, replica.Name) {
			continue
		}
		if f.Leads {
			replica.Role = operatorv1alpha1.ReplicaStandby // there is one leader
		}
		all = append(all, replica)
	}
	slices.SortFunc(all, func(a, b operatorv1alpha1.ReplicaStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// short cuts a message to what the server takes.
func short(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	return strings.ToValidUTF8(message[:limit-4], "") + " ..."
}
