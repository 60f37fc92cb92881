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
	// StepReleaseJob takes the finalizer of OpenKruise from a job that is being deleted.
	StepReleaseJob planning.Step = "ReleaseJob"
)

const subresource = "ephemeralcontainers"

const (
	// maxAdded is how many pods one plan serves: more could not be written in its time slice.
	maxAdded = 500
	// storedSoon is when to look again after something was written to the status, which triggers no pass.
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
	// Stage is what the job is at. Failure says why a job that ends in this pass fails; empty when it does not.
	Stage   Stage
	Failure string
	// bare is how many targets wait to be served, unscheduled how many of them have no node yet.
	bare, unscheduled int
	view              view
}

// ended says whether a job has ended before.
func ended(spec *Spec) bool { return spec.Job.Status.CompletionTime != nil }

// Plan says what to do now:
//
//  1. a job that is being deleted loses the finalizer that OpenKruise has given it, and nothing else is done;
//  2. a job that has ended is deleted when its time to live is over;
//  3. a job whose deadline is over fails, whatever it is at;
//  4. nothing is done for one whose spec cannot work;
//  5. the job ends when all of its targets have: it has failed if one of them has;
//  6. nothing is added while the job is paused;
//  7. targets that have a node get the containers as parallelism allows, those first to which the server has not refused to add them.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{Stage: Active, view: look(spec, s)}
	v := &d.view
	targets := len(v.targets)
	switch {
	case spec.Deleting:
		d.release(spec)
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
	d.Recheck(max(spec.TTL, storedSoon))
}

// release takes the finalizer of OpenKruise from the job.
func (d *Decision) release(spec *Spec) {
	if !spec.HasFinalizer {
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(spec.Job.Finalizers), func(name string) bool { return name == shared.FinalizerEphemeralJob })
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepReleaseJob, Kind: Kind(), Object: spec.Job, Reason: "Deleting",
		Change:  planning.MetadataPatch(spec.Job, map[string]any{"finalizers": finalizers}),
		Failure: planning.Event{Warning: true, Reason: "RemoveFailed", Message: "Taking the finalizer " + shared.FinalizerEphemeralJob + " from the job"},
	})
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

// addTo adds the containers to one target.
func (d *Decision) addTo(spec *Spec, t *target) {
	what := fmt.Sprintf("ephemeral containers %s to pod %s", strings.Join(spec.Names, ", "), t.pod.Name)
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepAdd, Kind: podset.KindPod(), Object: t.pod, Slot: planning.Slot(t.pod.Name), Reason: "Target",
		Change:  containers{spec: spec},
		Success: planning.Event{Reason: "Injected", Message: "Added " + what},
		Failure: planning.Event{Warning: true, Reason: appsv1beta1.ReasonCreateFailed, Message: "Adding " + what},
	})
}

// containers is the change that adds the containers of a job to a pod. It is tied to the pod's UID alone: what else is written to the pod
// meanwhile takes nothing from the decision, and the server refuses to change a container that another has added under the same name.
type containers struct{ spec *Spec }

// Requests implements planning.Change.
func (c containers) Requests(object planning.Object) []planning.Request {
	return []planning.Request{{
		Subresource: subresource, Type: types.StrategicMergePatchType,
		Body: func(planning.Version) ([]byte, error) { return c.spec.Body(object.GetUID()) },
	}}
}
