// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package selecting finds the labels workloads select their pods by. A pod is lost to its
// workload when such a label changes.
package selecting

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;daemonsets;statefulsets;uniteddeployments,verbs=list
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;replicasets;statefulsets,verbs=list
// +kubebuilder:rbac:groups="",resources=replicationcontrollers,verbs=list

// Workloads are the kinds selecting pods by labels of users' choice.
func Workloads() []schema.GroupVersionKind {
	ours, native := appsv1beta1.GroupVersion(), appsv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		ours.WithKind("CloneSet"), ours.WithKind("StatefulSet"), ours.WithKind("DaemonSet"), ours.WithKind("UnitedDeployment"),
		native.WithKind("Deployment"), native.WithKind("StatefulSet"), native.WithKind("DaemonSet"), native.WithKind("ReplicaSet"),
		corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	}
}

// Keys are the keys of the labels a workload selects by.
func Keys(workload *unstructured.Unstructured) sets.Set[string] {
	path := []string{"spec", "selector", "matchLabels"}
	if workload.GroupVersionKind().Group == "" {
		path = path[:2]
	}
	exact, _, _ := unstructured.NestedMap(workload.Object, path...)
	keys := sets.KeySet(exact)
	expressions, _, _ := unstructured.NestedSlice(workload.Object, "spec", "selector", "matchExpressions")
	for _, expression := range expressions {
		if of, ok := expression.(map[string]any); ok {
			key, _, _ := unstructured.NestedString(of, "key")
			keys.Insert(key)
		}
	}
	return keys
}

const (
	// believed is how long an answer is taken to be true: selectors seldom change.
	believed = 10 * time.Minute
	// maxAnswers is how many are remembered.
	maxAnswers = 4096
)

// Controllers finds the labels pods' controllers select by.
type Controllers struct {
	// reader asks the API server: most of these kinds are not cached.
	reader  client.Reader
	answers *cache.LRUExpireCache
}

// NewControllers returns Controllers asking with a reader.
func NewControllers(reader client.Reader, c cache.Clock) *Controllers {
	return &Controllers{reader: reader, answers: cache.NewLRUExpireCacheWithClock(maxAnswers, c)}
}

// Keys are the keys of the labels the pod's controller selects by; none without a
// controller, or for one of another kind.
func (c *Controllers) Keys(ctx context.Context, pod *corev1.Pod) (sets.Set[string], error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil, nil
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	if !slices.ContainsFunc(Workloads(), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() }) {
		return nil, nil
	}
	if known, found := c.answers.Get(owner.UID); found {
		keys, _ := known.(sets.Set[string])
		return keys, nil
	}
	keys, err := c.ask(ctx, kind, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name})
	if err != nil {
		return nil, err
	}
	c.answers.Add(owner.UID, keys, believed)
	return keys, nil
}

// ask lists the one workload: the right to list is there for admission.
func (c *Controllers) ask(ctx context.Context, kind schema.GroupVersionKind, name client.ObjectKey) (sets.Set[string], error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.reader.List(ctx, list, client.InNamespace(name.Namespace), client.MatchingFields{metav1.ObjectNameField: name.Name})
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading by which labels %s %s selects: %w", kind.Kind, name, err)
	}
	keys := sets.New[string]()
	for i := range list.Items {
		keys = keys.Union(Keys(&list.Items[i]))
	}
	return keys, nil
}
