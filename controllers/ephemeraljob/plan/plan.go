// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Steps of plans.
const (
	// StepAdd adds the containers to a pod.
	StepAdd planning.Step = "AddContainers"
	// StepReleaseJob takes OpenKruise's finalizer from a job being deleted.
	StepReleaseJob planning.Step = "ReleaseJob"
)

const (
	// maxAdded is how many pods one plan serves: more could not be written in its time slice.
	maxAdded = 500
	// storedSoon is the wait after a write to the status: it triggers no pass.
	storedSoon = 100 * time.Millisecond
)

// Stage is the stage of a job.
type Stage string

// The stages of a job.
const (
	// Active: containers are added where targets need them.
	Active Stage = "Active"
	// Paused: its user has paused it.
	Paused Stage = "Paused"
	// Ended: it has succeeded or failed, before or in this pass.
	Ended Stage = "Ended"
)

// Decision is a plan, and its reasons.
type Decision struct {
	planning.Plan
	// Stage is the job's progress. Failure is why a job ending in this pass fails; empty: it does not.
	Stage   Stage
	Failure string
	// bare is how many targets wait to be served, unscheduled how many of them have no node yet.
	bare, unscheduled int
	view              view
}

func ended(spec *Spec) bool { return spec.Job.Status.CompletionTime != nil }

// Plan takes these steps:
//
//  1. take OpenKruise's finalizer from a job being deleted, and stop;
//  2. delete an ended job when its time to live is over;
//  3. fail a job whose deadline is over, at any stage;
//  4. do nothing for a spec that cannot work;
//  5. end the job when all targets have: failed if one of them has;
//  6. add nothing while the job is paused;
//  7. add containers to scheduled targets, as parallelism allows, those never refused by the server first.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{Stage: Active, view: look(spec, s)}
	v := &d.view
	targets := len(v.targets)
	switch {
	case spec.Deleting:
		d.Unfinalize(StepReleaseJob, Kind(), spec.Job, shared.FinalizerEphemeralJob, "Deleting",
			planning.Event{Warning: true, Reason: "RemoveFailed", Message: "Taking the finalizer " + shared.FinalizerEphemeralJob + " from the job"})
	case ended(spec):
		d.Stage = Ended
		d.Expire(Kind(), spec.Job, spec.Job.Status.CompletionTime, spec.TTL, s.Now)
	case d.Overdue(spec.Job.Status.StartTime, spec.Deadline, s.Now):
		d.end(spec, appsv1beta1.ReasonDeadlineExceeded)
	case spec.Invalid != nil:
	case targets > 0 && v.counts[Succeeded] == targets:
		d.end(spec, "")
	case targets > 0 && v.counts[Succeeded]+v.counts[Failed] == targets:
		d.end(spec, appsv1beta1.ReasonEphemeralJobFailed)
	case spec.Paused:
		d.Stage = Paused
	default:
		d.add(spec)
	}
	return d
}

// end lets the job end, and looks again when its time to live is over.
func (d *Decision) end(spec *Spec, failure string) {
	d.Stage, d.Failure = Ended, failure
	d.Ends(spec.TTL)
}

// add adds the containers to targets as parallelism allows.
func (d *Decision) add(spec *Spec) {
	var ready []*target
	for i := range d.view.targets {
		t := &d.view.targets[i]
		if t.state != Bare {
			continue
		}
		d.bare++
		if t.pod.Spec.NodeName == "" {
			d.unscheduled++
			continue
		}
		ready = append(ready, t)
	}
	slices.SortStableFunc(ready, func(a, b *target) int { return cmp.Compare(a.tries, b.tries) })
	room := max(spec.Parallelism-d.view.inProgress, 0)
	if len(ready) > maxAdded && room > maxAdded {
		d.Recheck(time.Second)
	}
	for _, t := range ready[:min(len(ready), room, maxAdded)] {
		d.addTo(spec, t)
	}
}

func (d *Decision) addTo(spec *Spec, t *target) {
	what := fmt.Sprintf("ephemeral containers %s to pod %s", strings.Join(spec.Names, ", "), t.pod.Name)
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepAdd, Kind: podset.KindPod(), Object: t.pod, Slot: planning.Slot(t.pod.Name), Reason: "Target",
		Change:  planning.RawPatch{Subresource: "ephemeralcontainers", Type: types.StrategicMergePatchType, Body: spec.body(t.pod.UID)},
		Success: planning.Event{Reason: "Injected", Message: "Added " + what},
		Failure: planning.Event{Warning: true, Reason: appsv1beta1.ReasonCreateFailed, Message: "Adding " + what},
	})
}
