// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Options says what may change in place.
type Options struct {
	// Resources allows cpu and memory of containers to change (feature gate InPlaceWorkloadVerticalScaling).
	Resources bool
	// EnvFromMetadata allows metadata to change that a container reads through its environment. It needs the feature gate
	// InPlaceUpdateEnvFromMetadata and a node daemon that restarts such containers.
	EnvFromMetadata bool
	// ShortHash makes the revision label of pods the hash alone (DaemonSet; CloneSet with feature gate CloneSetShortHash).
	ShortHash bool
}

// Difference is what tells one template from another, as far as updating in place is concerned.
type Difference struct {
	// InPlace says that everything that differs may change in place.
	InPlace bool
	// Reason says in one sentence why not.
	Reason string
	// MetadataOnly says that nothing but metadata differs, or nothing at all: no container restarts.
	MetadataOnly bool
	// Images are the new images of the containers whose image differs.
	Images map[string]string
	// Resources are the new resources of the containers whose resources differ.
	Resources map[string]corev1.ResourceRequirements
}

// Compare says whether a pod of the old template may be changed in place to the target.
func Compare(old, target *corev1.PodTemplateSpec, o Options) Difference { return Difference{} }

// Begin returns the first Edit of an update in place.
func Begin(pod *corev1.Pod, from, to revision.Revision, grace time.Duration, lifecycleUpdating bool, o Options, now time.Time) (edit.Edit, error) {
	return edit.Edit{}, nil
}

// Status is how far the update of one pod in place has come.
type Status struct {
	// Progress is the step it is at.
	Progress Progress
	// Reason is a CamelCase word that says what it waits for; empty for None and Done.
	Reason string
	// Message is one sentence for the user.
	Message string
	// RecheckAfter is above zero when time alone could change the answer.
	RecheckAfter time.Duration
}

// Check says how far the update of the pod has come.
func Check(pod *corev1.Pod, o Options, now time.Time) Status { return Status{} }

// Continue ends the grace period or begins the next batch.
func Continue(pod *corev1.Pod, o Options, now time.Time) (edit.Edit, bool) { return edit.Edit{}, false }

// Finish puts the pod back in service.
func Finish(pod *corev1.Pod, now time.Time) edit.Edit { return edit.Edit{} }
