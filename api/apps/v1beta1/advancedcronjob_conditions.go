// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of an AdvancedCronJob.
const (
	// AdvancedCronJobReconciling is True while a run is due and not started yet; the reason says what it waits for.
	AdvancedCronJobReconciling = "Reconciling"
	// AdvancedCronJobStalled is True when no run can be started until the user changes something.
	AdvancedCronJobStalled = "Stalled"
	// AdvancedCronJobFailedCreate is present and True while the server refuses to create what a run consists of, or to delete what it replaces.
	AdvancedCronJobFailedCreate = "FailedCreate"
	// AdvancedCronJobFailedDelete is present and True while the server refuses to delete a run of the history.
	AdvancedCronJobFailedDelete = "FailedDelete"
)

// Reasons of the conditions of an AdvancedCronJob.
const (
	// ReasonScheduled: the next run is not due yet.
	ReasonScheduled = "Scheduled"
	// ReasonStarting: a run is due and is being started.
	ReasonStarting = "Starting"
	// ReasonRunActive: a run is due and waits because an earlier one is active and concurrencyPolicy is Forbid, or because so many are active
	// that Replace deletes them in several steps.
	ReasonRunActive = "RunActive"
	// ReasonRunStalled: a run is due and waits because an earlier one is active and concurrencyPolicy is Forbid, and that one is Stalled itself, or is a
	// Job with a pod that will hardly start: it needs somebody before any other run is started.
	ReasonRunStalled = "RunStalled"
	// ReasonMissedDeadline: the newest run was left out because it could not be started within startingDeadlineSeconds.
	ReasonMissedDeadline = "MissedDeadline"
	// ReasonClockBehind: lastScheduleTime lies in the future, so the clock went back. The schedule goes on from there, or at once if that
	// is more than a day away, so that no run is started twice.
	ReasonClockBehind = "ClockBehind"
	// ReasonNeverDue: the schedule names no time within the next years.
	ReasonNeverDue = "NeverDue"
	// ReasonKindOff: the kind of the template is not managed by this operator, so no run is started.
	ReasonKindOff = "KindOff"
)
