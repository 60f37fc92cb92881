// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// prepare reads the pods, revisions and claims of a set. Unless the set is being deleted, it also
// adopts and releases objects and records the template.
func (r *Reconciler) prepare(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (observed workload.Observed, err error) {
	set := spec.Set
	ours := func(pod *corev1.Pod) bool { _, is := ordinal.OfPod(set.Name, pod.Name); return is }
	pods, refused, err := r.OwnPods(ctx, set, &spec.Spec, ours)
	if err != nil {
		return observed, err
	}
	recorded := workload.Recorded{
		Template: &set.Spec.Template, Annotations: revision.RecordClaims(set.Annotations, set.Spec.VolumeClaimTemplates),
		CollisionCount: set.Status.CollisionCount, Current: set.Status.CurrentRevision,
	}
	observed, err = pass.Observe(ctx, set, recorded, func(now time.Time) []podset.Pod { return plan.Pods(spec, pods, &pass.Memory.Pods, now) })
	if err != nil {
		return observed, err
	}
	observed.Failed = errors.Join(refused, observed.Failed)
	s := &observed.Snapshot
	// The claims of existing pods are found even if the spec cannot be parsed.
	if s.Claims, err = r.readClaims(ctx, spec, s.Current, pods); err != nil {
		return observed, err
	}
	if spec.Resize {
		if s.Expandable, err = r.readStorageClasses(ctx); err != nil {
			return observed, err
		}
	}
	if s.Spread, err = pass.Spread(ctx); err != nil {
		return observed, err
	}
	s.Return, err = pass.Places(ctx)
	return observed, err
}

// readClaims reads the claims of present and wanted pods, those of dropped templates included. A
// set without claim templates and mounts of such has none, and costs nothing: the claims of the
// cluster are watched only from the first set with some.
func (r *Reconciler) readClaims(ctx context.Context, spec *plan.Spec, current revision.Revision, pods []*corev1.Pod) (map[string]*corev1.PersistentVolumeClaim, error) {
	former := func(pod *corev1.Pod) bool { return len(plan.FormerClaims(spec, pod)) > 0 }
	recorded, _ := revision.RecordedClaims(current)
	templates := slices.Concat(spec.Claims.Claims, recorded)
	if len(templates) == 0 && !slices.ContainsFunc(pods, former) {
		return nil, nil
	}
	if err := r.WatchLate(ctx, &corev1.PersistentVolumeClaim{}, r.ownersOfClaim); err != nil {
		return nil, err
	}
	var names []string
	add := func(pod string) {
		for i := range templates {
			names = append(names, claims.Name(templates[i].Name, pod))
		}
	}
	for _, pod := range pods {
		names = append(names, plan.FormerClaims(spec, pod)...)
		add(pod.Name)
	}
	for _, pod := range plan.MissingPods(spec, pods) {
		add(pod)
	}
	found := make(map[string]*corev1.PersistentVolumeClaim, len(names))
	for _, name := range names {
		if found[name] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: spec.Namespace, Name: name}, claim, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading claim %s: %w", name, err)
		default:
			found[name] = claim
		}
	}
	return found, nil
}

// readStorageClasses reads which storage classes let claims grow. They are watched only from the
// first set with growing claims.
func (r *Reconciler) readStorageClasses(ctx context.Context) (map[string]bool, error) {
	if err := r.WatchLate(ctx, &storagev1.StorageClass{}, nil); err != nil {
		return nil, err
	}
	var classes storagev1.StorageClassList
	if err := r.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing storage classes: %w", err)
	}
	expandable := make(map[string]bool, len(classes.Items))
	for i := range classes.Items {
		expandable[classes.Items[i].Name] = ptr.Deref(classes.Items[i].AllowVolumeExpansion, false)
	}
	return expandable, nil
}
