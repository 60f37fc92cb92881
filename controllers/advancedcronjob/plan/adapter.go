// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// State is how far a run has come.
type State string

// The states of a run.
const (
	Active    State = "Active"
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
)

// Adapter holds the differences between kinds of runs.
type Adapter struct {
	// Field is the field of spec.template.
	Field string
	// Kind of the runs.
	Kind schema.GroupVersionKind
	// silent: such an object does not report trouble of its pods, and takes their template as it is.
	silent bool
	// state reads how far a run has come.
	state func(run *unstructured.Unstructured) State
	// chosen: the template is of this kind.
	chosen func(*appsv1beta1.CronJobTemplate) bool
}

// Adapters are the kinds of runs.
func Adapters() []Adapter {
	return []Adapter{
		{
			Field: "jobTemplate", Kind: batchv1.SchemeGroupVersion.WithKind("Job"), silent: true, state: byCondition,
			chosen: func(t *appsv1beta1.CronJobTemplate) bool { return t.JobTemplate != nil },
		},
		{
			Field: "broadcastJobTemplate", Kind: appsv1beta1.GroupVersion().WithKind("BroadcastJob"), state: byCondition,
			chosen: func(t *appsv1beta1.CronJobTemplate) bool { return t.BroadcastJobTemplate != nil },
		},
		{
			Field: "imageListPullJobTemplate", Kind: appsv1beta1.GroupVersion().WithKind("ImageListPullJob"), state: byCount,
			chosen: func(t *appsv1beta1.CronJobTemplate) bool { return t.ImageListPullJobTemplate != nil },
		},
	}
}

// AdaptersOf returns a template's kinds: exactly one, if it is valid.
func AdaptersOf(template *appsv1beta1.CronJobTemplate) []Adapter {
	return slices.DeleteFunc(Adapters(), func(a Adapter) bool { return !a.chosen(template) })
}

// byCondition is the state of kinds with the conditions Complete and Failed.
func byCondition(run *unstructured.Unstructured) State {
	if _, failed := conditions.True(run.Object, batchv1.JobFailed); failed {
		return Failed
	}
	if _, complete := conditions.True(run.Object, batchv1.JobComplete); complete {
		return Succeeded
	}
	return Active
}

// byCount is the state of kinds counting nodes: success means all of them.
func byCount(run *unstructured.Unstructured) State {
	if at, _, _ := unstructured.NestedString(run.Object, "status", "completionTime"); at == "" {
		return Active
	}
	desired, _, _ := unstructured.NestedInt64(run.Object, "status", "desired")
	succeeded, _, _ := unstructured.NestedInt64(run.Object, "status", "succeeded")
	if desired == succeeded {
		return Succeeded
	}
	return Failed
}

// Run is one run of the schedule, observed.
type Run struct {
	// Object is the object as observed. Read-only.
	Object *unstructured.Unstructured
	State  State
	// Due is the instant it was created for; zero when its annotation cannot be read.
	Due time.Time
	// Started is when it began to work, else when it was created.
	Started time.Time
	// Terminating: it has a deletion timestamp, or we have deleted it and the view is behind.
	Terminating bool
	// Trouble keeps its pods from starting and is unreported by the run; empty: none known.
	Trouble string
}

// stalled reports whether the run needs somebody, by its condition Stalled or its pods' trouble.
func (r Run) stalled() (stalled bool, message string) {
	if r.Trouble != "" {
		return true, r.Trouble
	}
	c, stalled := conditions.True(r.Object.Object, appsv1beta1.AdvancedCronJobStalled)
	return stalled, c.Message
}

// doing describes an active run in the way of another. One being deleted may still have pods.
func (r Run) doing() string {
	finalizers := r.Object.GetFinalizers()
	switch {
	case !r.Terminating:
		return "is active"
	case len(finalizers) == 0:
		return "is being deleted"
	default:
		return "is being deleted, and finalizers keep it: " + conditions.First(finalizers, 3, ", ")
	}
}

// Observe derives the facts about one run.
func (a Adapter) Observe(object *unstructured.Unstructured) Run {
	run := Run{
		Object: object, State: a.state(object), Started: object.GetCreationTimestamp().Time,
		Terminating: object.GetDeletionTimestamp() != nil,
	}
	if due, err := time.Parse(time.RFC3339, object.GetAnnotations()[shared.AnnotationScheduledAt]); err == nil {
		run.Due = due.UTC()
	}
	text, _, _ := unstructured.NestedString(object.Object, "status", "startTime")
	if started, err := time.Parse(time.RFC3339, text); err == nil {
		run.Started = started
	}
	return run
}
