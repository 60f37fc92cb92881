// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package released reads workloads in a release, past the cache: their ReplicaSets, revisions and pods are not watched for it.
package released

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// ErrMoved means that a Deployment changed while its ReplicaSets were read.
var ErrMoved = errors.New("it changed while it was read")

// Deployment is one with its ReplicaSets, as they were at one moment.
type Deployment struct {
	*appsv1.Deployment
	Sets []*appsv1.ReplicaSet
	// Others are ReplicaSets of its selector with another owner.
	Others []*appsv1.ReplicaSet
}

// ReadDeployment reads a Deployment and its ReplicaSets. It fails with ErrMoved when the spec of the first changes meanwhile, or with
// status its status.
func ReadDeployment(ctx context.Context, live client.Reader, name types.NamespacedName, status bool) (*Deployment, error) {
	d, after := &Deployment{Deployment: &appsv1.Deployment{}}, &metav1.PartialObjectMetadata{}
	if err := live.Get(ctx, name, d.Deployment); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading its selector: %w", err)
	}
	var sets appsv1.ReplicaSetList
	if err := live.List(ctx, &sets, client.InNamespace(name.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing its ReplicaSets: %w", err)
	}
	after.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := live.Get(ctx, name, after); err != nil {
		return nil, err
	}
	if after.UID != d.UID || after.Generation != d.Generation || status && after.ResourceVersion != d.ResourceVersion {
		return nil, ErrMoved
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], d.Deployment) {
			d.Sets = append(d.Sets, &sets.Items[i])
		} else {
			d.Others = append(d.Others, &sets.Items[i])
		}
	}
	return d, nil
}

// Unstructured is the Deployment as other workloads are read.
func (d *Deployment) Unstructured() (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.Deployment)
	if err != nil {
		return nil, fmt.Errorf("reading the Deployment: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return object, nil
}

// CanarySet is the newest ReplicaSet of a canary Deployment; nil: there is none.
func (d *Deployment) CanarySet(canary string) (newest *appsv1.ReplicaSet) {
	for _, set := range d.Others {
		owner := metav1.GetControllerOfNoCopy(set)
		if owner != nil && owner.Kind == "Deployment" && owner.Name == canary && (newest == nil || newest.CreationTimestamp.Before(&set.CreationTimestamp)) {
			newest = set
		}
	}
	return newest
}

// PodHash is the label of pods of its template, its own or of its canary Deployment; empty while there is no ReplicaSet for it.
func (d *Deployment) PodHash() string {
	_, newest, _ := rolling.Read(d.Deployment, d.Sets, rolling.Numbers{})
	if newest == nil {
		newest = d.CanarySet(rolling.CanaryName(d.Name, rolling.Revision(&d.Spec.Template)))
	}
	if newest == nil {
		return ""
	}
	return newest.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
}

// HashOf is the label of pods of a revision; empty when no ReplicaSet has it.
func (d *Deployment) HashOf(revision string) string {
	for _, set := range d.Sets {
		if rolling.Revision(&set.Spec.Template) == revision {
			return set.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	return ""
}

// Revisions are those of its template and of its pods before.
func (d *Deployment) Revisions() (revision, stable string) {
	_, _, old := rolling.Read(d.Deployment, d.Sets, rolling.Numbers{})
	return rolling.Revision(&d.Spec.Template), rolling.Stable(d.Deployment, old)
}

// Fullest is the revision of the most of its ready pods before, as package rolling has it.
func (d *Deployment) Fullest(preferred string) string {
	_, _, old := rolling.Read(d.Deployment, d.Sets, rolling.Numbers{})
	return rolling.Fullest(d.Deployment, old, preferred)
}

// Pods are those of a workload that an owner controls: itself, or a ReplicaSet. They have these labels, too, and meet the other requirements.
func Pods(
	ctx context.Context, live client.Reader, workload *unstructured.Unstructured, by types.UID, more labels.Set, others ...labels.Requirement,
) ([]*corev1.Pod, error) {
	selector, err := selectorOf(workload, more)
	if err != nil {
		return nil, err
	}
	var all []*corev1.Pod
	matching := client.MatchingLabelsSelector{Selector: selector.Add(others...)}
	for page, err := range pages.All(ctx, live, &corev1.PodList{}, client.InNamespace(workload.GetNamespace()), matching) {
		if err != nil {
			return nil, fmt.Errorf("listing its pods: %w", err)
		}
		for i := range page.Items {
			if owner := metav1.GetControllerOfNoCopy(&page.Items[i]); owner != nil && owner.UID == by {
				all = append(all, &page.Items[i])
			}
		}
	}
	return all, nil
}

// Lacks says that one of those pods, and not one that is being deleted, has another value of a label, or none.
func Lacks(ctx context.Context, live client.Reader, workload *unstructured.Unstructured, by types.UID, more labels.Set, label, value string) (bool, error) {
	other, err := labels.NewRequirement(label, selection.NotEquals, []string{value})
	if err != nil {
		return false, fmt.Errorf("selecting pods: %w", err)
	}
	all, err := Pods(ctx, live, workload, by, more, *other)
	return slices.ContainsFunc(all, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podstate.Finished(pod) }), err
}

func selectorOf(workload *unstructured.Unstructured, more labels.Set) (labels.Selector, error) {
	var selector metav1.LabelSelector
	fields, _, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	if err := quantity.FromUnstructured(fields, &selector); err != nil {
		return nil, fmt.Errorf("reading its selector: %w", err)
	}
	all, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("reading its selector: %w", err)
	}
	if all.Empty() {
		return labels.Nothing(), nil
	}
	requirements, _ := more.AsSelector().Requirements()
	return all.Add(requirements...), nil
}

// NewestRevision is the label of pods of the newest ControllerRevision of a DaemonSet of Kubernetes.
func NewestRevision(ctx context.Context, live client.Reader, set *unstructured.Unstructured) (string, error) {
	selector, err := selectorOf(set, nil)
	if err != nil {
		return "", err
	}
	var list appsv1.ControllerRevisionList
	if err := live.List(ctx, &list, client.InNamespace(set.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("listing its ControllerRevisions: %w", err)
	}
	own := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set) })
	if len(own) == 0 {
		return "", nil
	}
	newest := slices.MaxFunc(own, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return newest.Labels[appsv1.ControllerRevisionHashLabelKey], nil
}

// StableOf is the revision that most pods have beside the new one; without others it is the new one.
func StableOf(pods []*corev1.Pod, revision string) string {
	count := map[string]int{}
	stable := revision
	for _, pod := range pods {
		hash := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		if hash == "" || hash == revision {
			continue
		}
		count[hash]++
		if stable == revision || count[hash] > count[stable] || count[hash] == count[stable] && hash < stable {
			stable = hash
		}
	}
	return stable
}

// Revisions are those of the template and of the pods before, of all kinds but Deployments.
func Revisions(ctx context.Context, live client.Reader, row rollable.Workload, workload *unstructured.Unstructured) (revision, stable string, err error) {
	facts := row.FactsOf(workload)
	revision, stable = facts.Revision, facts.Stable
	switch {
	case row.Native && row.Partition == nil:
		if revision, err = NewestRevision(ctx, live, workload); err != nil {
			return "", "", err
		}
	case row.Sized:
		return revision, stable, nil
	}
	pods, err := Pods(ctx, live, workload, workload.GetUID(), nil)
	if err != nil {
		return "", "", err
	}
	return revision, StableOf(pods, revision), nil
}
