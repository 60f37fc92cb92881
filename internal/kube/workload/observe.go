// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
)

// ErrViewChanged says that objects changed hands: the workload has to be looked at again before it is planned.
var ErrViewChanged = errors.New("objects were adopted or released")

// ErrNotSynced says that the cache does not hold yet what the workload needs.
var ErrNotSynced = errors.New("the cache is being filled")

// historyLimit is revisionHistoryLimit when it is omitted.
const historyLimit = 10

// Stored returns a workload as it is stored; nil, and nothing remembered of it, when it is gone. It is the cache's own: read-only. A copy
// would be the dearest part of a look at a workload that is not to be planned yet.
func (t *Tools) Stored(ctx context.Context, name types.NamespacedName) (*unstructured.Unstructured, error) {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(t.Kind)
	err := t.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		t.Forget(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return stored, nil
}

// Decode reads a stored object into its type. The error names the field that does not fit.
func Decode[T any](stored *unstructured.Unstructured) (*T, error) {
	object := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, object)
	if err == nil {
		return object, nil
	}
	// The converter is the faster one, but only JSON says where.
	if body, marshalErr := json.Marshal(stored.Object); marshalErr == nil {
		err = cmp.Or(json.Unmarshal(body, new(T)), err)
	}
	return nil, err
}

// ControlledPods returns the pods that the workload controls, and apart from them those that its selector no longer matches, which it
// should let go of. Without a selector it keeps all. They are the cache's own: read-only.
func (t *Tools) ControlledPods(ctx context.Context, owner freshness.Owner, selector labels.Selector) (pods []*corev1.Pod, strangers []client.Object, err error) {
	var controlled corev1.PodList
	if err := index.Controlled(ctx, t.Client, &controlled, owner.Namespace, owner.UID); err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	pods = make([]*corev1.Pod, 0, len(controlled.Items))
	for i := range controlled.Items {
		pod := &controlled.Items[i]
		if selector != nil && !selector.Matches(labels.Set(pod.Labels)) {
			strangers = append(strangers, pod)
			continue
		}
		pods = append(pods, pod)
	}
	return pods, strangers, nil
}

// Departed marks the pods that we deleted and that the view still shows whole: nothing may count on them.
func (t *Tools) Departed(owner freshness.Owner, pods []podset.Pod) {
	objects := make([]*corev1.Pod, len(pods))
	for i := range pods {
		objects[i] = pods[i].Object
	}
	going := t.Tracker.Going(owner, objects)
	for i := range pods {
		if pod := &pods[i]; going.Has(pod.Object.UID) {
			pod.Terminating, pod.Available, pod.AvailableIn = true, false, 0
		}
	}
}

// Revisions are the revisions of a workload.
type Revisions struct {
	// Stored are all that there were before, ByName these and that of the present template.
	Stored []revision.Revision
	ByName map[string]revision.Revision
	// Update is that of the present template.
	Update revision.Revision
	// CollisionCount is what the status should say.
	CollisionCount *int32
}

// Revise reads the revisions and makes sure that the present template has one, which gets the annotations if it is new. For a workload that
// is being deleted it only finds it.
func (t *Tools) Revise(ctx context.Context, object client.Object, annotations map[string]string, template *corev1.PodTemplateSpec, collisionCount *int32) (Revisions, error) {
	stored, err := t.History.List(ctx, freshness.OwnerOf(object))
	if err != nil {
		return Revisions{}, err
	}
	owner := revision.Owner{
		Namespace: object.GetNamespace(), Name: object.GetName(), Annotations: annotations,
		Reference: *metav1.NewControllerRef(object, t.Kind),
	}
	var decision revision.Decision
	if object.GetDeletionTimestamp() != nil {
		decision, err = revision.Decide(owner, template, stored, collisionCount)
	} else {
		decision, err = t.History.Ensure(ctx, owner, template, stored, collisionCount)
	}
	if err != nil {
		return Revisions{}, err
	}
	revisions := Revisions{
		Stored: stored, ByName: make(map[string]revision.Revision, len(stored)+1),
		Update: decision.Update, CollisionCount: decision.CollisionCount,
	}
	for _, known := range stored {
		revisions.ByName[known.Name] = known
	}
	revisions.ByName[decision.Update.Name] = decision.Update
	return revisions, nil
}

// Trim deletes revisions that neither a pod nor the status needs, beyond the limit. The status must have been written: what it named
// before may go. A workload that is being deleted keeps them all.
func (t *Tools) Trim(ctx context.Context, object client.Object, limit *int32, stored []revision.Revision, pods []podset.Pod, inStatus ...string) error {
	most := historyLimit
	if limit != nil {
		most = int(*limit)
	}
	if object.GetDeletionTimestamp() != nil || len(stored) <= most {
		return nil
	}
	live := sets.New(inStatus...)
	for i := range pods {
		live.Insert(pods[i].Revision)
	}
	return t.History.Trim(ctx, freshness.OwnerOf(object), stored, live, most)
}
