// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// maxImages and maxTags are how many images and tags a NodeImage may have.
const (
	maxImages = 512
	maxTags   = 3000
)

// observe reads the nodes that a job chooses and what they answer, and has its pull secrets copied. It says when the secrets are to be looked at
// again.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (plan.Snapshot, time.Duration, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now()}
	if err := r.follow(ctx); err != nil {
		return snapshot, 0, err
	}
	wait, err := r.keepSecrets(ctx, pass, spec, &snapshot)
	if err != nil || spec.Invalid != nil || spec.Deleting || spec.Job.Status.CompletionTime != nil {
		return snapshot, wait, err
	}
	chosen, err := r.choose(ctx, spec)
	if err != nil {
		return snapshot, wait, err
	}
	for _, node := range chosen {
		image, err := r.imageOf(ctx, node.Name, spec.Image.Repository, spec.Job.Namespace)
		if err != nil {
			return snapshot, wait, err
		}
		snapshot.Nodes = append(snapshot.Nodes, plan.Node{Name: node.Name, UID: node.UID, Labels: node.Labels, Ready: ready(node), Image: image})
	}
	known := sets.New[string]()
	for i := range snapshot.Nodes {
		known.Insert(snapshot.Nodes[i].Name)
	}
	snapshot.Unknown = sets.List(sets.New(spec.Names...).Difference(known))
	return snapshot, wait, nil
}

// choose returns the nodes that a job is about, sorted by name.
func (r *Reconciler) choose(ctx context.Context, spec *plan.Spec) ([]*corev1.Node, error) {
	var places sets.Set[string]
	if spec.Pods != nil {
		var pods corev1.PodList
		err := r.Cache.List(ctx, &pods, client.InNamespace(spec.Job.Namespace), client.MatchingLabelsSelector{Selector: spec.Pods}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		places = sets.New[string]()
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Spec.NodeName != "" && !isOver(pod) {
				places.Insert(pod.Spec.NodeName)
			}
		}
	}
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var chosen []*corev1.Node
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.DeletionTimestamp == nil && !virtualnode.Is(node) && (places == nil || places.Has(node.Name)) && spec.Chooses(node.Name, node.Labels) {
			chosen = append(chosen, node)
		}
	}
	slices.SortFunc(chosen, func(a, b *corev1.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return chosen, nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func nodeImage() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(plan.KindNodeImage())
	return object
}

// imageOf reads of a NodeImage what is about one repository: decoding all of it for every node would be the most of a pass.
func (r *Reconciler) imageOf(ctx context.Context, node, repository, namespace string) (*plan.NodeImage, error) {
	stored := nodeImage()
	err := r.Cache.Get(ctx, client.ObjectKey{Name: node}, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the NodeImage of %s: %w", node, err)
	}
	image := &plan.NodeImage{Meta: &metav1.ObjectMeta{
		Name: stored.GetName(), UID: stored.GetUID(), ResourceVersion: stored.GetResourceVersion(), DeletionTimestamp: stored.GetDeletionTimestamp(),
		OwnerReferences: stored.GetOwnerReferences(),
	}}
	images, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", "images")
	entries, _ := images.(map[string]any)
	entry, found := entries[repository].(map[string]any)
	image.Full = full(entries, repository, namespace)
	if found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(entry, &image.Entry); err != nil {
			return nil, fmt.Errorf("decoding the NodeImage of %s: %w", node, err)
		}
	}
	statuses, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "status", "imageStatuses")
	all, _ := statuses.(map[string]any)
	if status, found := all[repository].(map[string]any); found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &image.Status); err != nil {
			return nil, fmt.Errorf("decoding the status of the NodeImage of %s: %w", node, err)
		}
	}
	return image, nil
}

// full says that a list has no room for a further tag of a namespace in a repository.
func full(entries map[string]any, repository, namespace string) bool {
	images, tags, ofImages, ofTags := 0, 0, 0, 0
	for _, entry := range entries {
		content, _ := entry.(map[string]any)
		list, _ := content["tags"].([]any)
		mine := 0
		for i := range list {
			if tag, _ := list[i].(map[string]any); tag["namespace"] == namespace {
				mine++
			}
		}
		images, tags, ofTags = images+1, tags+len(list), ofTags+mine
		ofImages += min(mine, 1)
	}
	_, found := entries[repository]
	return !found && engineimage.Crowded(ofImages, images, maxImages) || engineimage.Crowded(ofTags, tags, maxTags)
}
