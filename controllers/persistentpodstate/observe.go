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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// observe reads a state's workload, its pods and their nodes.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (*plan.Snapshot, error) {
	s := &plan.Snapshot{Now: r.Clock.Now(), Node: r.node(ctx), Nodes: sticky.Nodes(ctx, r.Client), NotSteered: r.notSteered(spec)}
	var err error
	if s.Target, err = r.target(ctx, pass, spec); err != nil || s.Target.Missing || s.Target.Unsupported != "" {
		return s, err
	}
	var pods corev1.PodList
	options := []client.ListOption{client.InNamespace(spec.State.Namespace), client.MatchingLabelsSelector{Selector: s.Target.Selector}, client.UnsafeDisableDeepCopy}
	if err := r.Cache.List(ctx, &pods, options...); err != nil {
		return s, fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		if owner := metav1.GetControllerOfNoCopy(&pods.Items[i]); owner != nil && owner.UID == s.Target.UID {
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
func (r *Reconciler) target(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (plan.Target, error) {
	ref, kind := spec.State.Spec.TargetRef, kindOf(spec)
	name := types.NamespacedName{Namespace: spec.State.Namespace, Name: ref.Name}
	stored, reader := nativeSets(), r.Live
	switch kind {
	case sticky.Own():
		stored, reader = ownSets(), r.Cache
	case sticky.Native():
	default:
		pass.LookAgain(lookEvery)
		return r.listedTarget(ctx, kind.WithVersion(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Version), name)
	}
	if err := r.WatchLateSpecs(ctx, watchedAs(stored), r.ofWorkload(kind)); err != nil {
		return plan.Target{}, err
	}
	object := workload.Object(stored)
	return parsed(object, reader.Get(ctx, name, object, client.UnsafeDisableDeepCopy))
}

// listedTarget asks a workload of a listed kind for its scale. Rights on it are the administrator's to give.
func (r *Reconciler) listedTarget(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (plan.Target, error) {
	supported, err := sticky.Supports(ctx, r.Live, r.namespace, kind.GroupKind())
	if err != nil || !supported {
		return unsupported(fmt.Sprintf("%s is not a kind that the ConfigMap %s lists.", kind.GroupKind(), listed.ConfigMap)), err
	}
	object := workload.Object(kind)
	switch err := r.Live.Get(ctx, name, object); {
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return unsupported(err.Error()), nil
	case err != nil || object.GetDeletionTimestamp() != nil:
		return plan.Target{Missing: true}, client.IgnoreNotFound(err)
	}
	replicas, selector, err := listed.Scale(ctx, r.Client, object)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return unsupported("its scale cannot be read: " + err.Error()), nil
	case err != nil:
		return plan.Target{}, fmt.Errorf("reading the scale of %s %s: %w", kind.Kind, name.Name, err)
	case selector.Empty():
		return unsupported("its scale names no selector"), nil
	}
	at := plan.Target{UID: object.GetUID(), Selector: selector}
	at.Ordinals, err = ordinal.New(0, replicas, nil)
	return at, err
}

func unsupported(why string) plan.Target { return plan.Target{Unsupported: why} }

// parsed reads what StatefulSets of both groups have in common.
func parsed(object *unstructured.Unstructured, err error) (plan.Target, error) {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && object.GetDeletionTimestamp() != nil {
		return plan.Target{Missing: true}, nil
	}
	if err != nil {
		return plan.Target{}, fmt.Errorf("reading the workload: %w", err)
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
	at := plan.Target{UID: object.GetUID()}
	if at.Selector, err = metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil {
		at.Ordinals, err = ordinal.New(set.Spec.Ordinals.Start, ptr.Deref(set.Spec.Replicas, 1), set.Spec.ReserveOrdinals)
	}
	if err != nil {
		return unsupported("it cannot be read: " + err.Error()), nil
	}
	return at, nil
}
