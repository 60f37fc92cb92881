// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// target is a state's workload.
type target struct {
	plan.Target
	selector labels.Selector
}

// observe reads a state's workload, its pods and their nodes.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (*plan.Snapshot, error) {
	s := &plan.Snapshot{Now: r.Clock.Now(), Node: r.node(ctx), Nodes: sticky.Nodes(ctx, r.Client), NotSteered: r.notSteered(spec)}
	at, err := r.target(ctx, pass, spec)
	s.Target = at.Target
	if err != nil || at.Missing || at.Unsupported != "" {
		return s, err
	}
	name := types.NamespacedName{Namespace: spec.State.Namespace, Name: spec.State.Name}
	if kindOf(spec) == sticky.Own() {
		s.Pods, err = cache.ControlledPods(ctx, r.Cache, name.Namespace, at.UID)
		return s, err
	}
	var pods corev1.PodList
	if err := r.Cache.List(ctx, &pods, client.InNamespace(name.Namespace), client.MatchingLabelsSelector{Selector: at.selector}, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		if owner := metav1.GetControllerOfNoCopy(&pods.Items[i]); owner != nil && owner.UID == at.UID {
			s.Pods = append(s.Pods, &pods.Items[i])
		}
	}
	return s, nil
}

func (r *Reconciler) node(ctx context.Context) func(string) (map[string]string, bool) {
	return func(name string) (map[string]string, bool) {
		node := &corev1.Node{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
		return node.Labels, err == nil
	}
}

func kindOf(spec *plan.Spec) schema.GroupKind {
	ref := spec.State.Spec.TargetRef
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

// target reads the workload: ours from the cache, which has others by their metadata alone.
func (r *Reconciler) target(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (target, error) {
	ref, kind := spec.State.Spec.TargetRef, kindOf(spec)
	name := types.NamespacedName{Namespace: spec.State.Namespace, Name: ref.Name}
	var watched client.Object
	var object *unstructured.Unstructured
	reader := r.Live
	switch kind {
	case sticky.Own():
		object, reader = workload.Object(ownSets()), r.Cache
		watched = object
	case sticky.Native():
		object, watched = workload.Object(nativeSets()), workload.Metadata(nativeSets())
	default:
		pass.LookAgain(lookEvery)
		return r.listedTarget(ctx, kind.WithVersion(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Version), name)
	}
	if err := r.WatchLateSpecs(ctx, watched, r.ofWorkload(kind)); err != nil {
		return target{}, err
	}
	return parsed(object, reader.Get(ctx, name, object, client.UnsafeDisableDeepCopy))
}

// listedTarget asks a workload of a listed kind for its scale. Rights on it are the administrator's to give.
func (r *Reconciler) listedTarget(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (target, error) {
	supported, err := sticky.Supports(ctx, r.Live, r.namespace, kind.GroupKind())
	if err != nil || !supported {
		return unsupported(fmt.Sprintf("%s is not a kind that the ConfigMap %s lists.", kind.GroupKind(), listed.ConfigMap)), err
	}
	object := workload.Object(kind)
	switch err := r.Live.Get(ctx, name, object); {
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return unsupported(err.Error()), nil
	case err != nil || object.GetDeletionTimestamp() != nil:
		return missing(client.IgnoreNotFound(err))
	}
	replicas, selector, err := listed.Scale(ctx, r.Client, object)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return unsupported("its scale cannot be read: " + err.Error()), nil
	case err != nil:
		return target{}, fmt.Errorf("reading the scale of %s %s: %w", kind.Kind, name.Name, err)
	case selector.Empty():
		return unsupported("its scale names no selector"), nil
	}
	at := target{Target: plan.Target{UID: object.GetUID()}, selector: selector}
	at.Ordinals, err = ordinal.New(0, replicas, nil)
	return at, err
}

func unsupported(why string) target { return target{Target: plan.Target{Unsupported: why}} }

func missing(err error) (target, error) { return target{Target: plan.Target{Missing: true}}, err }

// parsed reads what StatefulSets of both groups have in common.
func parsed(object *unstructured.Unstructured, err error) (target, error) {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && object.GetDeletionTimestamp() != nil {
		return missing(nil)
	}
	if err != nil {
		return target{}, fmt.Errorf("reading the workload: %w", err)
	}
	var set struct {
		Spec struct {
			Replicas *int32                `json:"replicas"`
			Selector *metav1.LabelSelector `json:"selector"`
			Ordinals struct {
				Start int32 `json:"start"`
			} `json:"ordinals"`
			ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals"`
		} `json:"spec"`
	}
	if err := quantity.FromUnstructured(object.Object, &set); err != nil {
		return unsupported("it cannot be read: " + err.Error()), nil
	}
	replicas := int32(1)
	if set.Spec.Replicas != nil {
		replicas = *set.Spec.Replicas
	}
	at := target{Target: plan.Target{UID: object.GetUID()}}
	if at.selector, err = metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil {
		at.Ordinals, err = ordinal.New(set.Spec.Ordinals.Start, replicas, set.Spec.ReserveOrdinals)
	}
	if err != nil {
		return unsupported("it cannot be read: " + err.Error()), nil
	}
	return at, nil
}
