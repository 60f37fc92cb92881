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
	// StepCreateRun creates a run.
	StepCreateRun planning.Step = "CreateRun"
	// StepDeleteRun deletes a run: from the history, or a replaced one.
	StepDeleteRun planning.Step = "DeleteRun"
)

// Reasons of actions.
const (
	reasonDue      = "Due"
	reasonHistory  = "History"
	reasonReplaced = "Replaced"
)

const (
	// manyMissed runs are worth an event. Only the newest starts anyway.
	manyMissed = 100
	// maxDeleted limits a plan's deletions from the history, and its replacements of active runs.
	maxDeleted = 200
)

// Snapshot is the planner's input beside the object.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Runs are the controlled objects of the template's kind.
	Runs []Run
	// Evaluated is the end of the schedule evaluated by this process;
	// zero at first. It matters only with lastScheduleTime in the future.
	Evaluated time.Time
	// Started is the due time of the newest run started by this process;
	// zero: none. The status may lag behind, and the run be gone.
	Started time.Time
}

// Due is the state of the schedule now.
type Due struct {
	// Last is the due time of the newest run ever started; zero: none.
	Last time.Time
	// Run is the newest instant due and not started; zero: none. Missed counts them, at most manyMissed + 1.
	Run    time.Time
	Missed int
	// TooLate: startingDeadlineSeconds is over for Run.
	TooLate bool
	// Behind: Last lies in the future, since the clock went back.
	Behind bool
	// Since is until when all instants count as over.
	Since time.Time
	// Next is the next instant; zero: none.
	Next time.Time
}

// longestWait bounds the pause before evaluating again: timers stop while
// the machine sleeps and ignore clock changes, so a long wait may end late.
const longestWait = 5 * time.Minute

// farAhead bounds the wait for a lastScheduleTime in the future. Beyond it, the clock was wrong.
const farAhead = 24 * time.Hour

// Evaluate finds the due instant.
//
//  1. Instants until Last never start again, even with their run gone. Last is the latest of lastScheduleTime, the newest
//     existing run and this process's starts, so it survives deleted runs and failed status writes.
//  2. Of the instants since, only the newest counts.
//  3. Instants before an edit of the schedule are over.
//  4. With Last in the future, the clock went back: instants evaluated by this process, else until Last, are over. The schedule
//     waits until then, to start nothing twice; if that is more than a day away, it goes on from now.
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
	d.TooLate = !d.Run.IsZero() && spec.StartingDeadline >= 0 && s.Now.Sub(d.Run) > spec.StartingDeadline
	from := s.Now
	if d.Since.After(from) {
		from = d.Since
	}
	if d.Next = spec.Schedule.Next(anchor, from); !d.Next.IsZero() && d.Next.Equal(d.Last) {
		d.Next = spec.Schedule.Next(anchor, d.Next)
	}
	return d
}

// EvaluatedUntil is the end of the schedule evaluated after a pass; see Snapshot. A due run not started stays due.
//
// It drops Go's monotonic reading: times would not compare after the wall clock went back.
func EvaluatedUntil(s Snapshot, due Due, started bool) time.Time {
	waits := !due.Run.IsZero() && !due.TooLate && !started
	if waits || due.Behind && due.Since.After(s.Now) {
		return due.Since.Round(0)
	}
	return s.Now.Round(0)
}

// Started reports whether the plan's run was created, regardless of deletions.
func Started(outcome planning.Outcome) bool { return outcome.Steps[StepCreateRun] > 0 }

func creates(plan planning.Plan) bool {
	return slices.ContainsFunc(plan.Actions, func(a planning.Action) bool { return a.Step == StepCreateRun })
}

// Plan decides:
//
//  1. the history is trimmed, even while paused;
//  2. nothing else happens to an object being deleted, paused or unparsable, or with nobody to carry out runs;
//  3. the due run starts, unless it is too late, or waits for an active one (Forbid);
//  4. Replace deletes active runs first, a limited number in each plan; the last of them together with the start. The start does
//     not wait until they are gone, only until the server accepts the deletions.
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

// activeRuns are the unfinished runs, oldest first. A terminating one may still have pods.
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

// startTimeout is how long pods may start before a look, if no run waits.
const startTimeout = time.Minute

// Unready returns an active run with unexplained unready pods: one in another run's way (waits),
// or else the oldest beyond startTimeout. Nil: none, or, if in is not zero, none before then.
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

// TroubleOf explains why a run's pod will hardly start; empty: none has such trouble.
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

// trimHistory deletes the oldest finished runs of either outcome beyond their limit. The stored
// lastScheduleTime has to cover them: until then the run is the only record of its instant.
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
