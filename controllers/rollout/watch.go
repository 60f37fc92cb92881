// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// byRollout is the index of workloads by the Rollout that they name.
const byRollout = "rollout"

// labeled are the workloads of Kubernetes under the brake. The label selects them on the server, so others cost nothing.
type labeled map[schema.GroupVersionKind]toolscache.SharedIndexInformer

// newLabeled follows what the server serves.
func newLabeled(watches metadata.Interface, mapper meta.RESTMapper, denied *kubecache.Denied) (labeled, error) {
	l := labeled{}
	for _, row := range rollable.All() {
		if !row.Native {
			continue
		}
		mapping, err := mapper.RESTMapping(row.Kind.GroupKind(), row.Kind.Version)
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", row.Kind.Kind, err)
		}
		only := func(o *metav1.ListOptions) { o.LabelSelector = shared.LabelWorkloadType }
		informer := metadatainformer.NewFilteredMetadataInformer(watches, mapping.Resource, "", 0, toolscache.Indexers{byRollout: rolloutNamed}, only).Informer()
		err = informer.SetTransform(cache.TransformStripManagedFields())
		if err == nil && denied != nil {
			err = informer.SetWatchErrorHandlerWithContext(denied.Handle)
		}
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", row.Kind.Kind, err)
		}
		l[row.Kind] = informer
	}
	return l, nil
}

// rolloutNamed is the Rollout that a workload names, as an index has it.
func rolloutNamed(object any) ([]string, error) {
	at, is := object.(metav1.Object)
	if !is || at.GetAnnotations()[shared.AnnotationRollout] == "" {
		return nil, nil
	}
	return []string{at.GetNamespace() + "/" + at.GetAnnotations()[shared.AnnotationRollout]}, nil
}

// follow has Rollouts planned when their workloads change.
func (l labeled) follow(ctx context.Context, enqueue func(types.NamespacedName)) error {
	tell := func(object any) {
		if gone, is := object.(toolscache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		if at, is := object.(metav1.Object); is && at.GetAnnotations()[shared.AnnotationRollout] != "" {
			enqueue(types.NamespacedName{Namespace: at.GetNamespace(), Name: at.GetAnnotations()[shared.AnnotationRollout]})
		}
	}
	for _, informer := range l {
		_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(before, after any) {
				if tells(before, after) {
					tell(after)
					tell(before)
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watching workloads: %w", err)
		}
		go informer.RunWithContext(ctx)
	}
	return nil
}

// tells: more than the status of a workload has changed. What it says about its pods, BatchReleases follow.
func tells(before, after any) bool {
	was, isWas := before.(client.Object)
	is, isIs := after.(client.Object)
	return isWas && isIs && workload.Changes().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is})
}

// of is the workload of a name; nil: it is not there, or not under the brake.
func (l labeled) of(kind schema.GroupVersionKind, key types.NamespacedName) metav1.Object {
	if l[kind] == nil {
		return nil
	}
	object, _, _ := l[kind].GetStore().GetByKey(key.String())
	at, _ := object.(metav1.Object)
	return at
}

// named are the workloads that name a Rollout.
func (l labeled) named(kind schema.GroupVersionKind, rollout types.NamespacedName) []metav1.Object {
	if l[kind] == nil {
		return nil
	}
	found, _ := l[kind].GetIndexer().ByIndex(byRollout, rollout.String()) // the index is there
	var all []metav1.Object
	for _, object := range found {
		if at, is := object.(metav1.Object); is {
			all = append(all, at)
		}
	}
	return all
}

// rolloutsOf names the Rollouts of a workload: the one that it names, else those that refer to it.
func (r *Reconciler) rolloutsOf(ctx context.Context, object client.Object) []types.NamespacedName {
	if name := object.GetAnnotations()[shared.AnnotationRollout]; name != "" {
		return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: name}}
	}
	return r.Concerned(ctx, object.GetNamespace(), func(stored *unstructured.Unstructured) bool {
		return refersTo(stored, object.GetObjectKind().GroupVersionKind().GroupKind(), object.GetName())
	})
}

// refersTo: a stored Rollout is for this workload.
func refersTo(rollout *unstructured.Unstructured, kind schema.GroupKind, name string) bool {
	ref, _, _ := unstructured.NestedStringMap(rollout.Object, "spec", "workloadRef")
	row, known := rollable.Of(ref["apiVersion"], ref["kind"])
	return known && row.Kind.GroupKind() == kind && ref["name"] == name
}

// releaseKind is BatchRelease.
func releaseKind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("BatchRelease") }

func kind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("Rollout") }

// awaited has a Rollout planned when its workload is created. Only Rollouts without a workload have all of its kind watched.
func (r *Reconciler) awaited(ctx context.Context, row rollable.Workload) error {
	if !row.Native {
		return nil // it is watched anyway
	}
	return r.WatchLateSpecs(ctx, workload.Metadata(row.Kind), r.rolloutsOf)
}
