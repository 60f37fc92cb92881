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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observe reads a job's nodes and their answers, and has its pull secrets copied. It returns when to look at the secrets again.
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
	unknown := sets.New(spec.Names...)
	for _, node := range chosen {
		unknown.Delete(node.Name)
		image, err := r.imageOf(ctx, node.Name, spec)
		if err != nil {
			return snapshot, wait, err
		}
		snapshot.Nodes = append(snapshot.Nodes, plan.Node{Name: node.Name, UID: node.UID, Labels: node.Labels, Ready: ready(node), Image: image})
	}
	snapshot.Unknown = sets.List(unknown)
	return snapshot, wait, nil
}

// choose returns a job's nodes, sorted by name.
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
	slices.SortFunc(chosen, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return chosen, nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// imageOf reads the job's repository in a NodeImage: decoding everything for every node would dominate a pass.
func (r *Reconciler) imageOf(ctx context.Context, node string, spec *plan.Spec) (*plan.NodeImage, error) {
	stored := workload.Object(plan.KindNodeImage())
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
	shared, namespaced := entriesOf(stored, "spec", "images"), entriesOf(stored, "spec", "namespacedImages")
	namespace, repository := spec.Job.Namespace, spec.Image.Repository
	err = decode(shared[repository], &image.Entry)
	_, here := shared[repository]
	_, apart := namespaced[engineimage.Place{Namespace: namespace, Repository: repository}.Key()]
	image.Place = engineimage.PlaceFor(namespace, repository, spec.Job.UID, image.Entry, apart || !here && len(shared) >= engineimage.MaxShared)
	statuses := "imageStatuses"
	if image.Place.Namespace != "" {
		image.Entry, statuses, here = appsv1beta1.ImageSpec{}, "namespacedImageStatuses", apart
		err = errors.Join(err, decode(namespaced[image.Place.Key()], &image.Entry))
	}
	image.Full = full(shared, namespaced, namespace, here)
	err = errors.Join(err, decode(entriesOf(stored, "status", statuses)[image.Place.Key()], &image.Status))
	if err != nil {
		return nil, fmt.Errorf("decoding the NodeImage of %s: %w", node, err)
	}
	return image, nil
}

// entriesOf is a map of a NodeImage by repository.
func entriesOf(stored *unstructured.Unstructured, fields ...string) map[string]any {
	found, _, _ := unstructured.NestedFieldNoCopy(stored.Object, fields...)
	entries, _ := found.(map[string]any)
	return entries
}

func decode(entry, into any) error {
	content, found := entry.(map[string]any)
	if !found {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}

// full: a NodeImage has no room for a namespace's next tag. here: the entry exists.
func full(shared, namespaced map[string]any, namespace string, here bool) bool {
	images, tags, ofImages, ofTags := 0, 0, 0, 0
	count := func(entry any, whose func(tag any) string) {
		content, _ := entry.(map[string]any)
		list, _ := content["tags"].([]any)
		mine := 0
		for _, tag := range list {
			if whose(tag) == namespace {
				mine++
			}
		}
		images, tags, ofTags = images+1, tags+len(list), ofTags+mine
		ofImages += min(mine, 1)
	}
	for _, entry := range shared {
		count(entry, signer)
	}
	for key, entry := range namespaced {
		of, _, _ := strings.Cut(key, "/")
		count(entry, func(any) string { return of })
	}
	return !here && engineimage.Crowded(ofImages, images, engineimage.MaxRepositories) || engineimage.Crowded(ofTags, tags, engineimage.MaxTags)
}

// signer is the namespace of the first job of a tag.
func signer(tag any) string {
	content, _ := tag.(map[string]any)
	owners, _ := content["ownerReferences"].([]any)
	if len(owners) == 0 {
		return ""
	}
	first, _ := owners[0].(map[string]any)
	namespace, _ := first["namespace"].(string)
	return namespace
}
