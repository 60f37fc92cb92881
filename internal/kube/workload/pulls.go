// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// pullSlice is for how long a pass goes on with the next request about ImagePullJobs.
	pullSlice = time.Second
	// pullTimeout is the deadline of such a request. It is short, since a pass must not wait for jobs.
	pullTimeout = 5 * time.Second
	// pullsAtOnce is how many jobs one pass creates or deletes.
	pullsAtOnce = 10
	// pullPause is how long a workload's jobs are left alone after a failure.
	pullPause = 30 * time.Second
	// pullLook is how often jobs are looked at while nodes pull.
	pullLook = 5 * time.Second
	// pullSoon is when to come back for the rest of a pass.
	pullSoon = 200 * time.Millisecond
)

// kindPullJob is the jobs' kind, in the stored version.
func kindPullJob() schema.GroupVersionKind {
	return appsv1beta1.GroupVersion().WithKind("ImagePullJob")
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=list;watch;create;delete

// pulls is the last pass's failure with a workload's jobs. The zero value is none.
type pulls struct {
	generation int64
	at         time.Time
	message    string
	// listed: the jobs were known. Otherwise they are not even asked for again.
	listed bool
}

// conditionPulls is the type of the reported condition, for all kinds of workload.
const conditionPulls = appsv1beta1.StatefulSetImagePreDownload

// PullImages brings the ImagePullJobs for the images of a workload's update closer to the wanted ones, as engine/image decides, and returns the
// condition about it, if any. about describes the workload; nil: its feature gate is off.
//
//   - It never holds back a rollout. A pass spends at most a second on jobs, beyond one
//     request with its own deadline; a failure leaves the workload's jobs alone for half a
//     minute, is reported, and is no error of the pass.
//   - The jobs of a set are as many as its template has containers, and a pass writes a few of them at a time.
//   - ImagePullJobs are watched from the first pass of a workload on; without one nothing asks for them.
//   - It needs no state in memory. Names are deterministic, so repeating a creation or
//     deletion on a stale cache has no effect, and a label of the revision records its
//     created jobs.
func (p *Pass) PullImages(ctx context.Context, object client.Object, about *image.Workload) []conditions.Condition {
	if about == nil {
		return nil
	}
	said, wait := p.pullImages(ctx, object, about)
	p.LookAgain(wait)
	return said
}

func (p *Pass) pullImages(ctx context.Context, object client.Object, about *image.Workload) ([]conditions.Condition, time.Duration) {
	last := &p.Memory.pulls
	var wait time.Duration // for how long nothing is asked of the server
	if last.message != "" && last.generation == object.GetGeneration() {
		wait = max(pullPause-p.Clock.Since(last.at), 0)
	}
	if wait > 0 && !last.listed {
		return pullsAre(appsv1beta1.ReasonRequestFailed, last.message), wait
	}
	jobs, err := p.pullJobs(ctx, object)
	if errors.Is(err, ErrNotSynced) {
		return p.pullsBefore(), pullSoon
	}
	failed := pulls{generation: object.GetGeneration(), at: p.Clock.Now(), listed: err == nil}
	var decision image.Decision
	var left bool
	if err == nil {
		decision = image.Decide(*about, jobs)
		if wait > 0 && decision.Writes() {
			return pullsAre(appsv1beta1.ReasonRequestFailed, last.message), wait
		}
		left, err = p.writePulls(ctx, object, about, decision)
	}
	if err != nil {
		failed.message = "Images are not pulled ahead of updates: " + err.Error()
		if last.message != failed.message {
			ctrl.LoggerFrom(ctx).Info("Images are not pulled ahead", "err", err.Error())
		}
		*last = failed
		return pullsAre(appsv1beta1.ReasonRequestFailed, failed.message), pullPause
	}
	*last = pulls{}
	said, recheck := p.reportPulls(about, decision, jobs)
	if left {
		recheck = pullSoon
	}
	return said, recheck
}

// pullJobs are the jobs of a workload. One that cannot be decoded is left alone.
func (p *Pass) pullJobs(ctx context.Context, object client.Object) ([]*appsv1beta1.ImagePullJob, error) {
	if err := p.WatchLate(ctx, Object(kindPullJob()), nil); err != nil {
		return nil, err
	}
	stored, err := p.List(ctx, kindPullJob(), client.InNamespace(object.GetNamespace()))
	if err != nil {
		return nil, err
	}
	var jobs []*appsv1beta1.ImagePullJob
	for i := range stored {
		if !metav1.IsControlledBy(&stored[i], object) {
			continue
		}
		if job, err := decode[appsv1beta1.ImagePullJob](&stored[i]); err == nil {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// pullsBefore is the stored condition: it holds until something new is known.
func (p *Pass) pullsBefore() []conditions.Condition {
	for c := range conditions.OfObject(p.Stored.Object) {
		if c.Type == string(conditionPulls) {
			return []conditions.Condition{c}
		}
	}
	return nil
}

// reportPulls is the condition of an executed decision; none without a rollout. It returns when
// to look at the jobs again.
func (p *Pass) reportPulls(about *image.Workload, d image.Decision, jobs []*appsv1beta1.ImagePullJob) ([]conditions.Condition, time.Duration) {
	switch {
	case d.State == image.NotUseful:
		return pullsAre(appsv1beta1.ReasonPreDownloadNotUseful, d.Message), 0
	case d.State == image.Waiting:
		return pullsAre(appsv1beta1.ReasonWaitingForUpdatedPods, d.Message), 0
	case d.State == image.Wanted && !p.PullsImages:
		return pullsAre(appsv1beta1.ReasonNoNodeDaemon, d.Message+
			" Nobody works on them: the kind ImagePullJob is off. The rollout does not wait for them, and a node pulls an image when its pod is updated."), 0
	case d.State == image.Wanted:
		return pullProgress(about, d, jobs)
	}
	return nil, 0
}

// pullProgress is the condition of jobs under way.
func pullProgress(about *image.Workload, d image.Decision, jobs []*appsv1beta1.ImagePullJob) ([]conditions.Condition, time.Duration) {
	var desired, succeeded, failed int32
	under := len(d.Create) > 0
	for _, job := range jobs {
		if job.DeletionTimestamp == nil && job.Labels[shared.LabelRevisionHash] == about.Update.Hash() {
			desired, succeeded, failed = desired+job.Status.Desired, succeeded+job.Status.Succeeded, failed+job.Status.Failed
			under = under || job.Status.CompletionTime == nil
		}
	}
	message := fmt.Sprintf("%s %d of %d pulls have succeeded, and %d have failed.", d.Message, succeeded, desired, failed)
	switch {
	case under:
		return pullsAre(appsv1beta1.ReasonPulling, message+" The rollout does not wait for them."), pullLook
	case failed > 0:
		return pullsAre(appsv1beta1.ReasonPullFailed, message+" The jobs say more. A node pulls again when its pod is updated."), 0
	}
	return []conditions.Condition{conditions.New(conditionPulls, true, appsv1beta1.ReasonPulled, message)}, 0
}

func pullsAre(reason, message string) []conditions.Condition {
	return []conditions.Condition{conditions.New(conditionPulls, false, reason, message)}
}

// writePulls executes a decision. Left: it did not get to everything.
func (p *Pass) writePulls(ctx context.Context, object client.Object, about *image.Workload, d image.Decision) (left bool, err error) {
	owner, began, written := freshness.OwnerOf(object), p.Clock.Now(), 0
	enough := func() bool {
		written++
		return written > pullsAtOnce || p.Clock.Since(began) >= pullSlice
	}
	for _, job := range d.Delete {
		if enough() {
			return true, nil
		}
		err := p.pullWriter().Delete(ctx, owner, freshness.RefOf(kindPullJob(), job), writer.Delete{Propagation: metav1.DeletePropagationBackground})
		if err != nil && !apierrors.IsConflict(err) { // that would be another one of that name
			return false, fmt.Errorf("deleting ImagePullJob %s: %w", job.Name, err)
		}
	}
	for _, job := range d.Create {
		if enough() {
			return true, nil
		}
		if err := p.createPull(ctx, object, job); err != nil {
			return false, err
		}
	}
	for _, r := range d.Forget {
		if enough() {
			return true, nil
		}
		if err := p.History.Label(ctx, owner, r.Object, map[string]*string{shared.LabelPreDownloadCreated: nil}); err != nil {
			return false, err
		}
	}
	if d.Record == "" || about.Update.Object == nil {
		return false, nil
	}
	labels := map[string]*string{d.Record: ptr.To("true")}
	if d.Record == shared.LabelPreDownloadCreated && about.Update.Object.Labels[shared.LabelPreDownloadIgnored] != "" {
		labels[shared.LabelPreDownloadIgnored] = nil
	}
	return false, p.History.Label(ctx, owner, about.Update.Object, labels)
}

// pullWriter writes jobs. Nobody waits to see these writes, so it has no tracker.
func (p *Pass) pullWriter() *writer.Writer {
	return &writer.Writer{Client: p.Client, Live: p.Live, Timeout: pullTimeout}
}

func (p *Pass) createPull(ctx context.Context, object client.Object, job *appsv1beta1.ImagePullJob) error {
	err := p.pullWriter().Create(ctx, freshness.OwnerOf(object), kindPullJob(), job, "")
	if apierrors.IsAlreadyExists(err) {
		if err = p.checkPullOwner(ctx, object, job); err == nil {
			return nil
		}
	}
	if err != nil {
		err = fmt.Errorf("creating ImagePullJob %s: %w", job.Name, err)
		p.Recorder.Eventf(object, nil, corev1.EventTypeNormal, "FailedCreateImagePullJob", "Create", "%s", err.Error())
		return err
	}
	p.Recorder.Eventf(object, nil, corev1.EventTypeNormal, "CreatedImagePullJob", "Create", "created ImagePullJob %s for image %s", job.Name, job.Spec.Image)
	return nil
}

// checkPullOwner fails for an existing job of another owner: its images and end say nothing
// about the update.
func (p *Pass) checkPullOwner(ctx context.Context, object client.Object, job *appsv1beta1.ImagePullJob) error {
	found, err := p.pullWriter().Look(ctx, kindPullJob(), client.ObjectKeyFromObject(job))
	if err == nil && !metav1.IsControlledBy(found, object) {
		err = errors.New("there is one of this name that does not belong to the workload; delete it, or let the update go without")
	}
	return err
}
