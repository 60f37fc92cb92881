// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// defaultTTL is the default of spec.ttlSecondsAfterFinished.
const defaultTTL = 1800

// Kind is EphemeralJob in its stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("EphemeralJob") }

// Spec is the job's spec, read once per pass.
type Spec struct {
	// Job is the job as it is stored. Read-only.
	Job *appsv1beta1.EphemeralJob
	// Selector selects the targets. It matches nothing while Invalid is set.
	Selector labels.Selector
	// Replicas is how many pods are targets at most, Parallelism in how many containers may be at work.
	Replicas, Parallelism int
	// Names are the containers'.
	Names []string
	// Deadline limits the job; below 0: no limit. TTL keeps the job after its end.
	Deadline, TTL time.Duration
	// Paused adds nothing. Deleting: the job is being deleted.
	Paused, Deleting bool
	// Invalid is why nothing can be done for the job; nil when something can.
	Invalid error
}

// Parse reads a job as it is stored.
func Parse(job *appsv1beta1.EphemeralJob) *Spec {
	s := &Spec{
		Job: job, Selector: labels.Nothing(), Paused: job.Spec.Paused, Deleting: job.DeletionTimestamp != nil,
		Replicas:    int(max(ptr.Deref(job.Spec.Replicas, math.MaxInt32), 0)),
		Parallelism: int(max(ptr.Deref(job.Spec.Parallelism, 1), 0)),
		Deadline:    planning.Limit(job.Spec.ActiveDeadlineSeconds),
		TTL:         planning.Seconds(int64(ptr.Deref(job.Spec.TTLSecondsAfterFinished, defaultTTL))),
	}
	for i := range job.Spec.Template.EphemeralContainers {
		s.Names = append(s.Names, job.Spec.Template.EphemeralContainers[i].Name)
	}
	selector, err := podset.Selector(job.Spec.Selector)
	switch {
	case err != nil:
		s.Invalid = err
	case len(s.Names) == 0:
		s.Invalid = errors.New("spec.template.ephemeralContainers: must not be empty")
	default:
		s.Selector = selector
	}
	return s
}

// NeedsPods reports if the plan depends on pods. Ended, deleted or unworkable jobs do not.
func (s *Spec) NeedsPods() bool { return !ended(s) && !s.Deleting && s.Invalid == nil }

// body patches the containers into the pod with this UID. Adding them twice changes nothing. It is tied to the UID
// alone: other writes to the pod do not matter, and the server refuses to change another's container of the same name.
func (s *Spec) body(pod types.UID) []byte {
	containers := make([]corev1.EphemeralContainer, len(s.Job.Spec.Template.EphemeralContainers))
	for i := range containers {
		container := s.Job.Spec.Template.EphemeralContainers[i]
		env := slices.DeleteFunc(slices.Clone(container.Env), func(v corev1.EnvVar) bool { return v.Name == shared.EnvEphemeralJob })
		container.Env = append(env, corev1.EnvVar{Name: shared.EnvEphemeralJob, Value: string(s.Job.UID)})
		containers[i] = container
	}
	// API types can always be rendered.
	body, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod},
		"spec":     map[string]any{"ephemeralContainers": containers},
	})
	return body
}
