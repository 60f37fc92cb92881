// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watch starts all watches but that of claims.
func (r *Reconciler) watch(ctx context.Context) error {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(Kind())
	for object, kind := range map[client.Object]source.Source{
		set:                          source.Kind(r.Cache, client.Object(set), &handler.EnqueueRequestForObject{}, predicate.Funcs{UpdateFunc: asksForSomething}),
		&corev1.Pod{}:                source.Kind(r.Cache, client.Object(&corev1.Pod{}), r.mapping(r.setOfPod)),
		&appsv1.ControllerRevision{}: source.Kind(r.Cache, client.Object(&appsv1.ControllerRevision{}), r.mapping(r.setOfRevision)),
	} {
		if err := r.follow(ctx, object); err != nil {
			return err
		}
		if err := r.controller.Watch(kind); err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return nil
}

// follow tells the tracker where writes of this kind will show.
func (r *Reconciler) follow(ctx context.Context, object client.Object) error {
	informer, err := r.Cache.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("getting the informer of %T: %w", object, err)
	}
	kind, err := r.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("naming the kind of %T: %w", object, err)
	}
	return r.tracker.Watch(kind, informer)
}

// watchClaims starts the watch of claims, once, and returns when the cache holds them.
func (r *Reconciler) watchClaims(ctx context.Context) error {
	r.claims.Lock()
	defer r.claims.Unlock()
	if r.watchesClaims {
		return nil
	}
	if err := r.follow(ctx, &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	claim := client.Object(&corev1.PersistentVolumeClaim{})
	if err := r.controller.Watch(source.Kind(r.Cache, claim, r.mapping(r.setOfClaim))); err != nil {
		return fmt.Errorf("watching claims: %w", err)
	}
	r.watchesClaims = true
	return nil
}

// asksForSomething drops updates of a set that change nothing but its status, which only we write.
func asksForSomething(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectNew.GetDeletionTimestamp() != nil ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
}

// mapping wakes the set that an object belongs to, no earlier than it is its turn, and on a change also the one it belonged to.
func (r *Reconciler) mapping(setOf func(context.Context, client.Object) (types.NamespacedName, bool)) handler.EventHandler {
	wake := func(ctx context.Context, object client.Object, q queue) {
		if name, ok := setOf(ctx, object); ok {
			q.AddAfter(reconcile.Request{NamespacedName: name}, r.pacer.Wait(name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				return // A resync.
			}
			wake(ctx, e.ObjectNew, q)
			if !sameController(e.ObjectOld, e.ObjectNew) {
				wake(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, e.Object, q) },
	}
}

func sameController(a, b client.Object) bool {
	before, after := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if before == nil || after == nil {
		return before == after
	}
	return before.UID == after.UID
}

// slotName splits the name of a slot's pod.
var slotName = regexp.MustCompile(`^(.+)-[0-9]+$`)

// setOfPod is the set that controls a pod or, for one that nothing controls, the set whose slot it is named after.
func (r *Reconciler) setOfPod(_ context.Context, pod client.Object) (types.NamespacedName, bool) {
	if name, ok := controllingSet(pod); ok {
		return name, true
	}
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return types.NamespacedName{}, false
	}
	parts := slotName.FindStringSubmatch(pod.GetName())
	if parts == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: pod.GetNamespace(), Name: parts[1]}, true
}

// setOfRevision is the set that controls a revision.
func (r *Reconciler) setOfRevision(_ context.Context, object client.Object) (types.NamespacedName, bool) {
	return controllingSet(object)
}

// setOfClaim is the set whose claim template and slot a claim is named after.
func (r *Reconciler) setOfClaim(ctx context.Context, claim client.Object) (types.NamespacedName, bool) {
	parts := slotName.FindStringSubmatch(claim.GetName())
	if parts == nil {
		return types.NamespacedName{}, false
	}
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(Kind())
	if err := r.Cache.List(ctx, stored, client.InNamespace(claim.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return types.NamespacedName{}, false
	}
	for i := range stored.Items {
		name := stored.Items[i].GetName()
		if strings.HasSuffix(parts[1], "-"+name) && hasClaimTemplate(stored.Items[i].Object, parts[1], name) {
			return types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}, true
		}
	}
	return types.NamespacedName{}, false
}

// hasClaimTemplate says whether claims of the set, without their ordinal, are called name. It reads the set as it is stored.
func hasClaimTemplate(stored map[string]any, name, set string) bool {
	templates, _, _ := unstructured.NestedFieldNoCopy(stored, "spec", "volumeClaimTemplates")
	list, _ := templates.([]any)
	for _, entry := range list {
		template, _ := entry.(map[string]any)
		templateName, _, _ := unstructured.NestedString(template, "metadata", "name")
		if claims.Name(templateName, set) == name {
			return true
		}
	}
	return false
}

func controllingSet(object client.Object) (types.NamespacedName, bool) {
	owner := index.ControllerOf(object, sets.New(Kind().GroupKind()))
	if owner == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}, true
}
