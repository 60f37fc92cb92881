// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Steps of plans.
const (
	// StepCreateRun creates what a run consists of.
	StepCreateRun planning.Step = "CreateRun"
	// StepDeleteRun deletes a run: of the history, or an active one that is replaced.
	StepDeleteRun planning.Step = "DeleteRun"
)

// Reasons of actions.
const (
	reasonDue      = "Due"
	reasonHistory  = "History"
	reasonReplaced = "Replaced"
)

const (
	// manyMissed is how many missed runs are worth an event. Only the newest is started, however many there are.
	manyMissed = 100
	// maxDeleted is how many runs of the history one plan deletes, and how many active ones it replaces; the rest is for the next one.
	maxDeleted = 200
)

// Snapshot is all that the planner may look at, beside the object itself.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Runs are what the object controls of the kind of its template.
	Runs []Run
	// Evaluated is until when the schedule was evaluated in this process; zero before the first time. It only matters while
	// lastScheduleTime lies in the future.
	Evaluated time.Time
	// Started is when the newest run was due that this process has started; zero before the first one. The status may not say so yet, and the run may be
	// gone already.
	Started time.Time
}

// Due is what the schedule says about now.
type Due struct {
	// Last is when the newest run that was ever started was due; zero without one.
	Last time.Time
	// Run is the newest instant that is due and not started; zero without one. Missed is how many there were, at most manyMissed + 1.
	Run    time.Time
	Missed int
	// TooLate says that Run is left out because startingDeadlineSeconds is over.
	TooLate bool
	// Behind says that Last lies in the future: the clock went back.
	Behind bool
	// Since is until when all instants count as over.
	Since time.Time
	// Next is the first instant after now that counts; zero when there is none.
	Next time.Time
}

// longestWait is when to look at the schedule again at the latest. A wait counts by a clock that stands still while the machine sleeps, and that does not follow
// when the time is set: what is due in hours would be late by as much.
const longestWait = 5 * time.Minute

// farAhead is how far in the future lastScheduleTime can lie and still be waited for. A clock that showed more was wrong.
const farAhead = 24 * time.Hour

// Evaluate says what is due.
//
//  1. What was due until Last is never started again, whether its run still exists or not. Last is the latest of lastScheduleTime, the newest existing
//     run and what this process has started, so that it survives the deletion of runs as well as a status that could not be written.
//  2. Of all instants since then, only the newest counts.
//  3. What was due before an edit of the schedule counts as over.
//  4. If Last lies in the future, the clock went back. Then what this process has evaluated counts as over, else Last. The schedule waits
//     until then, so that nothing is started twice, unless that is more than a day: then it goes on from now.
func Evaluate(spec *Spec, s Snapshot) Due {
	d := Due{}
	if t := spec.Cron.Status.LastScheduleTime; t != nil {
		d.Last = t.UTC()
	}
	known := map[int64]bool{}
	for i := range s.Runs {
		known[s.Runs[i].Due.Unix()] = true
		if s.Runs[i].Due.After(d.Last) {
			d.Last = s.Runs[i].Due
		}
	}
	if s.Started.After(d.Last) {
		d.Last = s.Started
	}
	if spec.Invalid != nil {
		return d
	}
	anchor := d.Last
	if anchor.IsZero() {
		anchor = spec.Cron.CreationTimestamp.UTC()
	}
	d.Since = anchor
	if d.Behind = anchor.After(s.Now); d.Behind {
		if !s.Evaluated.IsZero() {
			d.Since = s.Evaluated
		}
		if d.Since.After(s.Now.Add(farAhead)) {
			d.Since = s.Now
		}
	}
	if edited := spec.edited(s.Now); edited.After(d.Since) && !edited.After(s.Now) {
		d.Since = edited
	}
	d.Run, d.Missed = spec.Schedule.Missed(anchor, d.Since, s.Now, manyMissed+1)
	if known[d.Run.Unix()] || d.Run.Equal(d.Last) {
		d.Run, d.Missed = time.Time{}, 0
	}
	if !d.Run.IsZero() && spec.StartingDeadline >= 0 && s.Now.Sub(d.Run) > spec.StartingDeadline {
		d.TooLate = true
	}
	from := s.Now
	if d.Since.After(from) {
		from = d.Since
	}
	if d.Next = spec.Schedule.Next(anchor, from); !d.Next.IsZero() && d.Next.Equal(d.Last) {
		d.Next = spec.Schedule.Next(anchor, d.Next)
	}
	return d
}

// EvaluatedUntil is until when the schedule has been evaluated after a pass; see Snapshot. A run that is due and was not started stays due.
//
// It is a time of the clock on the wall alone: with the reading of a clock that never goes back, which times of a process have beside it, it
// could not be compared with a time after the clock on the wall went back.
func EvaluatedUntil(s Snapshot, due Due, started bool) time.Time {
	waits := !due.Run.IsZero() && !due.TooLate && !started
	if waits || due.Behind && due.Since.After(s.Now) {
		return due.Since.Round(0)
	}
	return s.Now.Round(0)
}

// Started says that the run which the plan creates was created. Whether the history was deleted beside that has nothing to do with it.
func Started(outcome planning.Outcome) bool { return outcome.Steps[StepCreateRun] > 0 }

func creates(plan planning.Plan) bool {
	return slices.ContainsFunc(plan.Actions, func(a planning.Action) bool { return a.Step == StepCreateRun })
}

// Plan says what to do now:
//
//  1. the history is cut to its limits, also while paused;
//  2. nothing else happens while the object is being deleted or paused, its spec cannot be parsed, or nobody would carry runs out;
//  3. the run that is due is started, unless it is too late, or waits for an active one (Forbid);
//  4. active runs are deleted before that (Replace), so many in each plan that the last ones are deleted in the one that starts the run. Nobody
//     waits until they are gone, but a run is not started beside one that the server does not delete.
func Plan(spec *Spec, s Snapshot, due Due) planning.Plan {
	var plan planning.Plan
	if spec.Deleting || spec.Adapter == nil {
		return plan
	}
	trimHistory(&plan, spec, s)
	if spec.Invalid != nil || spec.Paused || !spec.Managed {
		return plan
	}
	if !due.Next.IsZero() {
		plan.Recheck(min(max(due.Next.Sub(s.Now), time.Millisecond), longestWait))
	}
	if due.Run.IsZero() || due.TooLate {
		return plan
	}
	var replaced []planning.Action
	active := activeRuns(s)
	switch spec.ConcurrencyPolicy {
	case appsv1beta1.ForbidConcurrent:
		if len(active) > 0 {
			if spec.StartingDeadline >= 0 { // until then the status says that it waits
				plan.Recheck(spec.StartingDeadline - s.Now.Sub(due.Run) + time.Millisecond)
			}
			return plan
		}
	case appsv1beta1.ReplaceConcurrent:
		for _, run := range active {
			if !run.Terminating {
				replaced = append(replaced, deleteRun(spec, run, reasonReplaced))
			}
		}
		if len(replaced) > maxDeleted {
			plan.Actions = append(replaced[:maxDeleted:maxDeleted], plan.Actions...)
			plan.Recheck(time.Second)
			return plan
		}
	}
	run := spec.newRun(due.Run)
	create := planning.Action{
		Verb: planning.VerbCreate, Step: StepCreateRun, Kind: spec.Adapter.Kind, Object: run, Slot: planning.Slot(run.GetName()), Reason: reasonDue,
		Before:  replaced,
		Success: planning.Event{Reason: "SuccessfulCreate", Message: fmt.Sprintf("Created %s %s", spec.Adapter.Kind.Kind, run.GetName())},
		Failure: planning.Event{Warning: true, Reason: "FailedCreate", Message: fmt.Sprintf("Creating %s %s", spec.Adapter.Kind.Kind, run.GetName())},
	}
	plan.Actions = append([]planning.Action{create}, plan.Actions...)
	return plan
}

// activeRuns are those that have not ended, oldest first. A terminating one may still have pods.
func activeRuns(s Snapshot) []*Run {
	var active []*Run
	for i := range s.Runs {
		if s.Runs[i].State == Active {
			active = append(active, &s.Runs[i])
		}
	}
	slices.SortFunc(active, oldestFirst)
	return active
}

// startTimeout is for how long the pods of a run for which no other one waits may take to get ready before anybody looks at them.
const startTimeout = time.Minute

// Unready is an active run with pods that are not ready and that does not say why, to be looked at: one for which another run waits or was left out, which
// waits says, or else the oldest that has had startTimeout. Nil: there is none, or not before in is over, if that is not zero.
func Unready(spec *Spec, s Snapshot, due Due) (run *Run, waits bool, in time.Duration) {
	if spec.Adapter == nil || !spec.Adapter.silent || spec.Deleting || spec.Invalid != nil || !spec.Managed {
		return nil, false, 0
	}
	waits = spec.ConcurrencyPolicy == appsv1beta1.ForbidConcurrent && !due.Run.IsZero() && !spec.Paused
	for _, run := range activeRuns(s) {
		active, _, _ := unstructured.NestedInt64(run.Object.Object, "status", "active")
		ready, _, _ := unstructured.NestedInt64(run.Object.Object, "status", "ready")
		if active <= ready || run.Terminating {
			continue
		}
		if left := run.Started.Add(startTimeout).Sub(s.Now); left > 0 && !waits {
			return nil, false, left // those after it are younger
		}
		return run, waits, 0
	}
	return nil, false, 0
}

// TroubleOf is why one of the pods of a run will hardly start by itself; empty when none has such trouble.
func TroubleOf(pods []corev1.Pod, now time.Time) string {
	never := func() time.Time { return time.Time{} } // nothing changes their containers
	for i := range pods {
		if t := podstate.TroubleOf(&pods[i], never, now); t.Lasting {
			return fmt.Sprintf("pod %s: %s", pods[i].Name, t.Message)
		}
	}
	return ""
}

func oldestFirst(a, b *Run) int {
	return cmp.Or(a.Started.Compare(b.Started), a.Due.Compare(b.Due), cmp.Compare(a.Object.GetName(), b.Object.GetName()))
}

// trimHistory deletes the oldest runs that have ended, of either outcome, beyond its limit. A run is only deleted when lastScheduleTime in
// the stored status covers it: until then the run itself is what says that its instant has been.
func trimHistory(plan *planning.Plan, spec *Spec, s Snapshot) {
	var stored time.Time
	if t := spec.Cron.Status.LastScheduleTime; t != nil {
		stored = t.Time
	}
	for _, of := range []struct {
		state State
		keep  int
	}{{Succeeded, spec.KeepSucceeded}, {Failed, spec.KeepFailed}} {
		var ended []*Run
		for i := range s.Runs {
			if s.Runs[i].State == of.state && !s.Runs[i].Terminating {
				ended = append(ended, &s.Runs[i])
			}
		}
		slices.SortFunc(ended, oldestFirst)
		for _, run := range ended[:max(len(ended)-of.keep, 0)] {
			if run.Due.After(stored) || len(plan.Actions) == maxDeleted {
				plan.Recheck(time.Second) // the status is written in this pass, which triggers no pass
				continue
			}
			plan.Actions = append(plan.Actions, deleteRun(spec, run, reasonHistory))
		}
	}
}

func deleteRun(spec *Spec, run *Run, reason string) planning.Action {
	name := run.Object.GetName()
	return planning.Action{
		Verb: planning.VerbDelete, Step: StepDeleteRun, Kind: spec.Adapter.Kind, Object: run.Object, Slot: planning.Slot(name),
		Propagation: metav1.DeletePropagationBackground, Reason: reason,
		Success: planning.Event{Reason: "SuccessfulDelete", Message: fmt.Sprintf("Deleted %s %s", spec.Adapter.Kind.Kind, name)},
		Failure: planning.Event{Warning: true, Reason: "FailedDelete", Message: fmt.Sprintf("Deleting %s %s", spec.Adapter.Kind.Kind, name)},
	}
}
