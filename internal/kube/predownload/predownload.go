// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package predownload creates and deletes the ImagePullJobs for images of a workload's
// update, as engine/image decides.
//
// Its promises:
//
//   - It never holds back a rollout. A pass spends at most a second on jobs, beyond one
//     request with its own deadline; a failure leaves the workload's jobs alone for half a
//     minute, is reported, and is no error of the pass.
//   - The jobs of a set are as many as its template has containers, and a pass writes a few of them at a time.
//   - ImagePullJobs are watched from the first pass of a workload on; without one nothing asks for them.
//   - It needs no state in memory. Names are deterministic, so repeating a creation or
//     deletion on a stale cache has no effect, and a label of the revision records its
//     created jobs.
//
// The status of the jobs is read from time to time while a rollout lasts, and reported.
package predownload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// slice is for how long a pass goes on with the next request.
	slice = time.Second
	// Timeout is the Writer's intended deadline.
	Timeout = 5 * time.Second
	// atOnce is how many jobs one pass creates or deletes.
	atOnce = 10
	// pause is how long a workload's jobs are left alone after a failure.
	pause = 30 * time.Second
	// look is how often jobs are looked at while nodes pull.
	look = 5 * time.Second
	// soon is when to come back for the rest of a pass.
	soon = 200 * time.Millisecond
)

// Kind is the jobs' kind, in the stored version.
func Kind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("ImagePullJob") }

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=list;watch;create;delete

// Jobs writes the ImagePullJobs of workloads of one kind. It is safe for concurrent use by different workloads.
type Jobs struct {
	// Watch tells if the cache holds the jobs.
	Watch *Watch
	// Client reads the cache.
	Client client.Reader
	// Writer writes. Its deadline is short, since a pass must not wait for jobs; nobody waits to see these writes, so it has no tracker.
	Writer *writer.Writer
	// History labels revisions.
	History *history.Store
	// Status is the status of a job, as the cache has it. Nil: nobody carries jobs out.
	Status func(ctx context.Context, job types.NamespacedName) (*v1beta1.ImagePullJobStatus, error)
	// Recorder takes events.
	Recorder events.EventRecorder
	// Clock is the time.
	Clock clock.PassiveClock
}

// State is the last pass's failure with a workload's jobs. The zero value is none.
type State struct {
	generation int64
	at         time.Time
	message    string
}

// conditionType is the type of the reported condition, for all kinds of workload.
const conditionType = string(v1beta1.StatefulSetImagePreDownload)

// Pass brings a workload's jobs closer to the wanted ones. It returns their condition, if
// any, and when to come back without events; zero if only an event matters. before are the
// workload's conditions: they hold until something new is known.
//
// Nothing is done without Jobs (nil), when the feature gate is off, and without a description of the workload (nil).
func (j *Jobs) Pass(ctx context.Context, last *State, workload client.Object, w *image.Workload, before []conditions.Condition) ([]conditions.Condition, time.Duration) {
	if j == nil || w == nil {
		return nil, 0
	}
	failed := last.message != ""
	var wait time.Duration // for how long nothing is asked of the server
	if failed && last.generation == workload.GetGeneration() {
		wait = max(pause-j.Clock.Since(last.at), 0)
	}
	if wait > 0 && !j.Watch.started() {
		return condition(v1beta1.ReasonRequestFailed, last.message), wait
	}
	jobs, err := j.list(ctx, workload)
	if errors.Is(err, errNotSynced) {
		return slices.DeleteFunc(slices.Clone(before), func(c conditions.Condition) bool { return c.Type != conditionType }), soon
	}
	var decision image.Decision
	var left bool
	if err == nil {
		decision = image.Decide(*w, jobs)
		if wait > 0 && decision.Writes() {
			return condition(v1beta1.ReasonRequestFailed, last.message), wait
		}
		left, err = j.carryOut(ctx, workload, *w, decision)
	}
	if err != nil {
		message := "Images are not pulled ahead of updates: " + err.Error()
		if last.message != message {
			ctrl.LoggerFrom(ctx).Info("Images are not pulled ahead", "err", err.Error())
		}
		*last = State{workload.GetGeneration(), j.Clock.Now(), message}
		return condition(v1beta1.ReasonRequestFailed, message), pause
	}
	*last = State{}
	said, recheck := j.report(ctx, w, decision, jobs)
	if left {
		recheck = soon
	}
	return said, recheck
}

// report is the condition of an executed decision; none without a rollout. It returns when
// to look at the jobs again.
func (j *Jobs) report(ctx context.Context, w *image.Workload, d image.Decision, jobs []*metav1.PartialObjectMetadata) ([]conditions.Condition, time.Duration) {
	switch d.State {
	case image.NotUseful:
		return condition(v1beta1.ReasonPreDownloadNotUseful, d.Message), 0
	case image.Waiting:
		return condition(v1beta1.ReasonWaitingForUpdatedPods, d.Message), 0
	case image.Wanted:
		if j.Status == nil {
			return condition(v1beta1.ReasonNoNodeDaemon, d.Message+
				" Nobody works on them: the kind ImagePullJob is off. The rollout does not wait for them, and a node pulls an image when its pod is updated."), 0
		}
		return j.progress(ctx, w, d, jobs)
	case image.Idle:
	}
	return nil, 0
}

// progress is the condition of jobs under way.
func (j *Jobs) progress(ctx context.Context, w *image.Workload, d image.Decision, jobs []*metav1.PartialObjectMetadata) ([]conditions.Condition, time.Duration) {
	var desired, succeeded, failed int32
	under := len(d.Create) > 0
	for _, job := range jobs {
		if job.DeletionTimestamp != nil || job.Labels[shared.LabelRevisionHash] != w.Update.Hash() {
			continue
		}
		status, err := j.Status(ctx, client.ObjectKeyFromObject(job))
		if err != nil {
			under = true // it has just been created, or goes
			continue
		}
		desired, succeeded, failed = desired+status.Desired, succeeded+status.Succeeded, failed+status.Failed
		under = under || status.CompletionTime == nil
	}
	message := fmt.Sprintf("%s %d of %d pulls have succeeded, and %d have failed.", d.Message, succeeded, desired, failed)
	switch {
	case under:
		return condition(v1beta1.ReasonPulling, message+" The rollout does not wait for them."), look
	case failed > 0:
		return condition(v1beta1.ReasonPullFailed, message+" The jobs say more. A node pulls again when its pod is updated."), 0
	}
	return []conditions.Condition{conditions.New(conditionType, true, v1beta1.ReasonPulled, message)}, 0
}

func condition(reason, message string) []conditions.Condition {
	return []conditions.Condition{conditions.New(conditionType, false, reason, message)}
}

// list returns the workload's jobs.
func (j *Jobs) list(ctx context.Context, workload client.Object) ([]*metav1.PartialObjectMetadata, error) {
	if err := j.Watch.ready(ctx); err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(Kind())
	if err := kubecache.Controlled(ctx, j.Client, list, workload.GetNamespace(), workload.GetUID()); err != nil {
		return nil, fmt.Errorf("listing ImagePullJobs: %w", err)
	}
	jobs := make([]*metav1.PartialObjectMetadata, len(list.Items))
	for i := range list.Items {
		jobs[i] = &list.Items[i]
	}
	return jobs, nil
}

// carryOut executes a decision. Left: it did not get to everything.
func (j *Jobs) carryOut(ctx context.Context, workload client.Object, w image.Workload, d image.Decision) (left bool, err error) {
	began := j.Clock.Now()
	written := 0
	enough := func() bool {
		written++
		return written > atOnce || j.Clock.Since(began) >= slice
	}
	for _, job := range d.Delete {
		if enough() {
			return true, nil
		}
		if err := j.remove(ctx, workload, job); err != nil {
			return false, fmt.Errorf("deleting ImagePullJob %s: %w", job.Name, err)
		}
	}
	for _, job := range d.Create {
		if enough() {
			return true, nil
		}
		if err := j.create(ctx, workload, job); err != nil {
			return false, err
		}
	}
	for _, r := range d.Forget {
		if enough() {
			return true, nil
		}
		if err := j.History.Label(ctx, freshness.OwnerOf(workload), r.Object, map[string]*string{shared.LabelPreDownloadCreated: nil}); err != nil {
			return false, err
		}
	}
	if d.Record == "" || w.Update.Object == nil {
		return false, nil
	}
	labels := map[string]*string{d.Record: ptr.To("true")}
	if d.Record == shared.LabelPreDownloadCreated && w.Update.Object.Labels[shared.LabelPreDownloadIgnored] != "" {
		labels[shared.LabelPreDownloadIgnored] = nil
	}
	return false, j.History.Label(ctx, freshness.OwnerOf(workload), w.Update.Object, labels)
}

func (j *Jobs) create(ctx context.Context, workload client.Object, job *v1beta1.ImagePullJob) error {
	err := j.Writer.Create(ctx, freshness.OwnerOf(workload), Kind(), job, "")
	if apierrors.IsAlreadyExists(err) {
		if err = j.checkOwner(ctx, workload, job); err == nil {
			return nil
		}
	}
	if err != nil {
		err = fmt.Errorf("creating ImagePullJob %s: %w", job.Name, err)
		j.Recorder.Eventf(workload, nil, corev1.EventTypeNormal, "FailedCreateImagePullJob", "Create", "%s", err.Error())
		return err
	}
	j.Recorder.Eventf(workload, nil, corev1.EventTypeNormal, "CreatedImagePullJob", "Create", "created ImagePullJob %s for image %s", job.Name, job.Spec.Image)
	return nil
}

// checkOwner fails for an existing job of another owner: its images and end say nothing
// about the update.
func (j *Jobs) checkOwner(ctx context.Context, workload client.Object, job *v1beta1.ImagePullJob) error {
	found, err := j.Writer.Look(ctx, Kind(), client.ObjectKeyFromObject(job))
	switch {
	case err != nil:
		return err
	case !metav1.IsControlledBy(found, workload):
		return errors.New("there is one of this name that does not belong to the workload; delete it, or let the update go without")
	}
	return nil
}

func (j *Jobs) remove(ctx context.Context, workload client.Object, job *metav1.PartialObjectMetadata) error {
	how := writer.Delete{Propagation: metav1.DeletePropagationBackground}
	err := j.Writer.Delete(ctx, freshness.OwnerOf(workload), freshness.RefOf(Kind(), job), how)
	if apierrors.IsConflict(err) {
		return nil // another one of that name
	}
	return err
}
