// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/nodedaemon"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// secretNamespace is the node daemon's namespace.
	secretNamespace = image.SecretNamespace
	// Of a copy: the jobs using it, its source, and the mark of a shared one.
	annotationReferences = "imagepulljobs.kruise.io/references"
	annotationSource     = image.AnnotationSource
	annotationMode       = "imagepulljobs.kruise.io/mode"
	modeShared           = image.ModeShared
	// followSecrets is how often the sources of copies are read while a job is at work.
	followSecrets = time.Minute
	// awaitSecrets is the wait for missing or unreadable secrets: users often apply them with the job.
	awaitSecrets = 10 * time.Second
	// retrySoonest and retryLatest are when copying is tried again after it has failed: each time twice as late.
	retrySoonest = time.Second
	retryLatest  = 30 * time.Second
)

// copies is the memory of a job's pull secrets.
type copies struct {
	// due is when they are to be copied again; zero: now.
	due  time.Time
	held []appsv1beta1.ImagePullSecret
	// missing Secrets do not exist, unreadable ones are forbidden to the operator.
	missing, unreadable []string
	// failure is why the last try has failed, and retry how long the next one was put off; zero when it has not.
	failure  string
	retry    time.Duration
	released bool
}

// failed notes a failed try. Earlier copies are still there.
func (c *copies) failed(why error, now time.Time) {
	c.retry = min(max(2*c.retry, retrySoonest), retryLatest)
	c.failure, c.due = why.Error(), now.Add(c.retry)
}

// errNoNamespace: there is no place for copies.
var errNoNamespace = errors.New("the node daemon's namespace does not exist")

// keepSecrets copies the pull secrets of a working job, and releases an ended one's. It returns when to look
// again. Refusals go into the snapshot: nodes' answers and deadlines count all the same.
func (r *Reconciler) keepSecrets(ctx context.Context, pass *workload.Pass, spec *plan.Spec, s *plan.Snapshot) (time.Duration, error) {
	if len(spec.Secrets) == 0 || spec.Job.Namespace == secretNamespace {
		for _, name := range spec.Secrets {
			s.Secrets = append(s.Secrets, image.PullSecret(secretNamespace, name))
		}
		s.Released = true
		return 0, nil
	}
	known := &remember(pass).copies
	if !plan.Wants(spec) {
		return 0, r.release(ctx, spec, known, s)
	}
	now, held := r.Clock.Now(), slices.Contains(spec.Job.Finalizers, plan.Finalizer)
	if !now.Before(known.due) || !held && known.failure == "" {
		made, err := r.copyAll(ctx, spec, held)
		switch {
		case errors.Is(err, workload.ErrViewChanged), err != nil && ctx.Err() != nil:
			return 0, err
		case errors.Is(err, errNoNamespace):
			s.NoNamespace = true
			return 0, nil
		case err != nil:
			ctrl.LoggerFrom(ctx).Info("Copying the pull secrets failed", "err", err.Error())
			known.failed(err, now)
		default:
			made.due = now.Add(followSecrets)
			if len(made.missing)+len(made.unreadable) > 0 {
				made.due = now.Add(awaitSecrets)
			}
			*known = made
		}
	}
	s.Secrets, s.Missing, s.Unreadable, s.Uncopied = known.held, known.missing, known.unreadable, known.failure
	return max(known.due.Sub(r.Clock.Now()), time.Second), nil
}

// hold puts the finalizer on a job before anything is copied for it.
func (r *Reconciler) hold(ctx context.Context, spec *plan.Spec) error {
	job := spec.Job
	change := map[string]any{"metadata": map[string]any{
		"uid": job.UID, "resourceVersion": job.ResourceVersion, "finalizers": append(slices.Clone(job.Finalizers), plan.Finalizer),
	}}
	_, err := r.Writer.Patch(ctx, freshness.OwnerOf(job), freshness.RefOf(plan.Kind(), job), writer.Patch{Type: types.MergePatchType, Content: change})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return workload.ErrViewChanged
}

// copyAll brings the copies up to date, after holding the job by its finalizer. Missing Secrets are left out,
// and unreadable ones too: reading needs kruise-operator-read-pull-secrets bound to the operator's account.
func (r *Reconciler) copyAll(ctx context.Context, spec *plan.Spec, held bool) (copies, error) {
	var made copies
	if !held {
		return made, r.hold(ctx, spec)
	}
	sources, err := r.sources(ctx, spec, &made)
	if err != nil || len(sources) == 0 {
		return made, err
	}
	namespace, err := nodedaemon.Namespace(ctx, r.Live)
	switch {
	case err != nil:
		return made, err
	case namespace == nil || namespace.DeletionTimestamp != nil:
		return made, errNoNamespace
	}
	for _, source := range sources {
		target := copyName(source.Namespace, source.Name)
		err := retry.OnError(retry.DefaultRetry, others, func() error { return r.copyOne(ctx, spec, source, target) })
		if (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) && r.noNamespace(ctx) {
			return copies{}, errNoNamespace
		}
		if err != nil {
			return copies{}, fmt.Errorf("copying the Secret %s to %s/%s: %w", source.Name, secretNamespace, target, err)
		}
		made.held = append(made.held, image.PullSecret(source.Namespace, source.Name))
	}
	return made, nil
}

// sources are the copyable Secrets; made gets the names of the others.
func (r *Reconciler) sources(ctx context.Context, spec *plan.Spec, made *copies) ([]*corev1.Secret, error) {
	var all []*corev1.Secret
	for _, name := range spec.Secrets {
		source := &corev1.Secret{}
		err := r.Writer.Read(ctx, types.NamespacedName{Namespace: spec.Job.Namespace, Name: name}, source)
		switch {
		case apierrors.IsNotFound(err):
			made.missing = append(made.missing, name)
		case apierrors.IsForbidden(err):
			made.unreadable = append(made.unreadable, name)
		case err != nil:
			return nil, fmt.Errorf("reading the Secret %s: %w", name, err)
		default:
			source.Namespace, source.Name = spec.Job.Namespace, name
			all = append(all, source)
		}
	}
	return all, nil
}

// copyName is the name of the copy of a Secret: the same for all jobs.
func copyName(namespace, name string) string { return image.PullSecret(namespace, name).Name }

func (r *Reconciler) copyOne(ctx context.Context, spec *plan.Spec, source *corev1.Secret, target string) error {
	reference := spec.Job.Namespace + "/" + spec.Job.Name
	// Only type and data: annotations of the source may hold the data once more.
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: target, Annotations: map[string]string{
			annotationReferences: reference, annotationSource: source.Namespace + "/" + source.Name, annotationMode: modeShared,
		}},
		Type: source.Type, Data: source.Data,
	}
	have := &corev1.Secret{}
	err := r.Writer.Read(ctx, client.ObjectKeyFromObject(wanted), have)
	if apierrors.IsNotFound(err) {
		return r.secrets().Create(ctx, freshness.Owner{}, kindSecret(), wanted, "")
	}
	if err != nil {
		return err
	}
	if of := have.Annotations[annotationSource]; of != wanted.Annotations[annotationSource] {
		return fmt.Errorf("there is another Secret of that name, a copy of %q", of)
	}
	if have.Type != source.Type || ptr.Deref(have.Immutable, false) {
		if err := r.deleteSecret(ctx, have); err != nil {
			return err
		}
		return r.secrets().Create(ctx, freshness.Owner{}, kindSecret(), wanted, "")
	}
	users := references(have)
	if users.Has(reference) && equality.Semantic.DeepEqual(have.Data, source.Data) {
		return nil
	}
	changed := have.DeepCopy()
	changed.Data = source.Data
	return r.patchSecret(ctx, have, changed, users.Insert(reference))
}

// others: somebody else has written a copy meanwhile.
func others(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// release takes the job out of its copies, and deletes unused ones. It looks at all: OpenKruise gave them random names.
func (r *Reconciler) release(ctx context.Context, spec *plan.Spec, known *copies, s *plan.Snapshot) error {
	if known.released || !slices.Contains(spec.Job.Finalizers, plan.Finalizer) {
		s.Released = true
		return nil
	}
	reference := spec.Job.Namespace + "/" + spec.Job.Name
	like := &metav1.PartialObjectMetadataList{} // Their data is not needed.
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	for list, err := range pages.All(ctx, r.Live, like, client.InNamespace(secretNamespace)) {
		if apierrors.IsForbidden(err) && r.noNamespace(ctx) {
			break
		}
		if err != nil {
			return fmt.Errorf("looking for copies of pull secrets: %w", err)
		}
		for i := range list.Items {
			copied := &corev1.Secret{ObjectMeta: list.Items[i].ObjectMeta}
			if copied.Annotations[annotationSource] == "" || !references(copied).Has(reference) {
				continue
			}
			err := retry.OnError(retry.DefaultRetry, others, func() error { return r.releaseOne(ctx, copied.Name, reference) })
			if err != nil {
				return fmt.Errorf("releasing the copy %s: %w", copied.Name, err)
			}
		}
	}
	*known = copies{released: true}
	s.Released = true
	return nil
}

func (r *Reconciler) releaseOne(ctx context.Context, target, reference string) error {
	have := &corev1.Secret{}
	err := r.Writer.Read(ctx, types.NamespacedName{Namespace: secretNamespace, Name: target}, have)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && r.noNamespace(ctx) {
		return nil
	}
	if err != nil {
		return err
	}
	users := references(have)
	if !users.Has(reference) {
		return nil
	}
	if users.Delete(reference); users.Len() == 0 {
		return r.deleteSecret(ctx, have)
	}
	return r.patchSecret(ctx, have, have.DeepCopy(), users)
}

// noNamespace: the node daemon's namespace is missing or going, and with it all copies and the right to read them.
func (r *Reconciler) noNamespace(ctx context.Context) bool {
	namespace := &corev1.Namespace{}
	err := r.Writer.Read(ctx, types.NamespacedName{Name: secretNamespace}, namespace)
	return apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil
}

// references are the jobs using a copy.
func references(secret *corev1.Secret) sets.Set[string] {
	users := sets.New[string]()
	for user := range strings.SplitSeq(secret.Annotations[annotationReferences], ",") {
		if user = strings.TrimSpace(user); user != "" {
			users.Insert(user)
		}
	}
	return users
}

// secrets writes the copies. They are not in the cache, so nobody waits to see these writes.
func (r *Reconciler) secrets() *writer.Writer {
	return &writer.Writer{Client: r.Client, Live: r.Live, Timeout: r.WriteTimeout}
}

func kindSecret() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Secret") }

func (r *Reconciler) patchSecret(ctx context.Context, have, changed *corev1.Secret, users sets.Set[string]) error {
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotationReferences, strings.Join(sets.List(users), ","))
	patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
	body, err := patch.Data(changed)
	if err != nil {
		return err
	}
	_, err = r.secrets().Patch(ctx, freshness.Owner{}, freshness.RefOf(kindSecret(), have), writer.Patch{Type: patch.Type(), Content: body})
	return err
}

func (r *Reconciler) deleteSecret(ctx context.Context, have *corev1.Secret) error {
	return r.secrets().Delete(ctx, freshness.Owner{}, freshness.RefOf(kindSecret(), have), writer.Delete{ExactVersion: true})
}
