// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observation is the observed state of a UnitedDeployment.
type observation struct {
	snapshot plan.Snapshot
	// stored are its revisions.
	stored         []united.Revision
	collisionCount *int32
	// lookAgain is when to look again at silent workloads with unready pods; zero without any.
	lookAgain time.Duration
}

// prepare reads the workloads and revisions of a UnitedDeployment, and the pods for the plan. It
// records the template, unless the object is being deleted or unreadable: then it changes nothing.
func (r *Reconciler) prepare(ctx context.Context, spec *united.Spec, remembered *plan.Memory) (observation, error) {
	observed := observation{collisionCount: spec.Set.Status.CollisionCount}
	s := &observed.snapshot
	s.Now, s.First, s.Disabled, s.Unserved = r.Clock.Now(), remembered.First(), map[schema.GroupKind]bool{}, map[schema.GroupKind]bool{}
	if err := r.readChildren(ctx, spec, s); err != nil {
		return observation{}, err
	}
	if !spec.Deleting && spec.Invalid == nil {
		if err := r.ensureRevision(ctx, spec, &observed); err != nil {
			return observation{}, err
		}
	}
	for i := range s.Children {
		c := &s.Children[i]
		remembered.Recall(spec.Set.Generation, c)
		if wait := remembered.Look(c, s.Now); wait > 0 && (observed.lookAgain == 0 || wait < observed.lookAgain) {
			observed.lookAgain = wait
		}
		if spec.Deleting || spec.Invalid != nil || c.Terminating || !c.Adopting() {
			continue
		}
		var err error
		if c.MoveFields, err = r.moveFields(ctx, c); err != nil {
			return observation{}, err
		}
	}
	needed := plan.PodsNeeded(spec, s.Children)
	if needed == plan.NoPods {
		return observed, nil
	}
	var err error
	s.Pods, err = r.readPods(ctx, spec, needed)
	return observed, err
}

// readChildren reads the workloads of all kinds of subsets, and taken names.
func (r *Reconciler) readChildren(ctx context.Context, spec *united.Spec, s *plan.Snapshot) error {
	s.Taken = map[string]bool{}
	for _, adapter := range united.Adapters() {
		s.Disabled[adapter.Kind.GroupKind()] = !r.managed(adapter.Kind)
		err := r.follow(ctx, workload.Object(adapter.Kind))
		if meta.IsNoMatchError(err) {
			s.Unserved[adapter.Kind.GroupKind()] = true
			continue
		}
		if err != nil {
			return err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(adapter.Kind.GroupVersion().WithKind(adapter.Kind.Kind + "List"))
		if err := cache.Controlled(ctx, r.Cache, list, spec.Set.Namespace, spec.Set.UID); err != nil {
			return fmt.Errorf("listing objects of kind %s: %w", adapter.Kind.Kind, err)
		}
		for i := range list.Items {
			s.Children = append(s.Children, plan.NewChild(&list.Items[i], adapter))
		}
	}
	return r.readTaken(ctx, spec, s)
}

// readTaken notes the names of missing workloads that belong to others. Pods of StatefulSets of
// either kind are named after them, so the kinds share their names.
func (r *Reconciler) readTaken(ctx context.Context, spec *united.Spec, s *plan.Snapshot) error {
	if spec.Invalid != nil {
		return nil
	}
	present := map[string]bool{}
	for i := range s.Children {
		if s.Children[i].Adapter.Kind == spec.Adapter.Kind {
			present[s.Children[i].Subset] = true
		}
	}
	var names []string
	for i := range spec.Subsets {
		if tried := united.Names(spec.Set.Name, spec.Subsets[i].Name); !present[spec.Subsets[i].Name] {
			names = append(names, tried[:]...)
		}
	}
	for _, adapter := range united.Adapters() {
		if adapter.Kind.Kind != spec.Adapter.Kind.Kind || s.Unserved[adapter.Kind.GroupKind()] {
			continue
		}
		for _, name := range names {
			found := workload.Object(adapter.Kind)
			err := r.Cache.Get(ctx, client.ObjectKey{Namespace: spec.Set.Namespace, Name: name}, found, client.UnsafeDisableDeepCopy)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("looking for %s %s: %w", adapter.Kind.Kind, name, err)
			}
			if err == nil && (adapter.Kind != spec.Adapter.Kind || !metav1.IsControlledBy(found, spec.Set)) {
				s.Taken[name] = true
			}
		}
	}
	return nil
}

// ensureRevision records the template as the newest revision.
func (r *Reconciler) ensureRevision(ctx context.Context, spec *united.Spec, observed *observation) error {
	set, codec, ownerKey := spec.Set, united.Templates(), freshness.OwnerOf(spec.Set)
	var err error
	if observed.stored, err = history.List(ctx, r.History, codec, set.Namespace, set.UID); err != nil {
		return err
	}
	owner := revision.Owner{
		Namespace: set.Namespace, Name: set.Name, Annotations: set.Annotations, Reference: *metav1.NewControllerRef(set, united.Kind()),
	}
	decision, err := history.Ensure(ctx, r.History, codec, ownerKey, owner, &set.Spec.Template, observed.stored, set.Status.CollisionCount)
	if err != nil {
		return err
	}
	byName := make(map[string]united.Revision, len(observed.stored))
	for _, known := range observed.stored {
		byName[known.Name] = known
	}
	observed.collisionCount = decision.CollisionCount
	observed.snapshot.Update = decision.Update
	observed.snapshot.Current = revision.Current(set.Status.CurrentRevision, decision.Update, byName)
	return spec.Recorded(decision.Update.Template)
}

// readPods reads pods past the cache: it keeps most of them trimmed, and no watch of theirs is
// worth these few looks. It reads them in pages: a response is in memory as a whole before its
// unneeded parts can go.
func (r *Reconciler) readPods(ctx context.Context, spec *united.Spec, needed plan.Needed) ([]plan.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	ofSubset, err := labels.NewRequirement(shared.LabelSubsetName, "exists", nil)
	if err != nil {
		return nil, fmt.Errorf("selecting pods: %w", err)
	}
	options := []client.ListOption{
		client.InNamespace(spec.Set.Namespace), client.MatchingLabelsSelector{Selector: spec.Selector.Add(*ofSubset)},
	}
	if needed == plan.PendingPods {
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("status.phase", string(corev1.PodPending))})
	}
	var all []plan.Pod
	for page, err := range pages.All(ctx, r.Live, &corev1.PodList{}, options...) {
		if err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		all = append(all, plan.Pods(page.Items)...)
	}
	return all, nil
}
