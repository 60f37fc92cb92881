// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	kinds "github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// revisionAnnotation numbers the ReplicaSets of a Deployment.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// memory keeps what was known of a further kind, between passes.
type memory struct {
	listed  bool
	between []schema.GroupKind
}

// custom adds what is listed of the workload's kind. Hooks follow when that changes: nobody watches the list.
func (r *Reconciler) custom(ctx context.Context, pass *workload.Pass, s *spread.Spread, seen *plan.Snapshot) (*spread.Spread, error) {
	if !s.IsCustom() {
		return s, nil
	}
	pass.LookAgain(plan.LookAgain)
	listed, err := kinds.Spreads(ctx, r.Live, r.namespace).Complete(s)
	if err != nil {
		return s, err
	}
	is, was := memory{listed: listed != nil}, workload.Own(pass.Memory, func() *memory { return &memory{} })
	if is.listed {
		s, is.between = listed, listed.Between
	} else {
		seen.Unsupported = fmt.Sprintf("%s is not a kind that the ConfigMap %s lists under %s.", s.Target.GroupKind(), kinds.ConfigMap, kinds.SpreadKey)
	}
	if is.listed == was.listed && slices.Equal(is.between, was.between) {
		return s, nil
	}
	if err := r.hooked.Want(ctx); err != nil {
		return s, err
	}
	*was = is
	return s, nil
}

// observe reads the workload, its pods, and the nodes of those without a subset.
func (r *Reconciler) observe(ctx context.Context, s *spread.Spread, seen *plan.Snapshot) error {
	r.observeHook(s, seen)
	if seen.Unsupported != "" {
		return nil
	}
	target := workload.Object(s.Target)
	var selector labels.Selector
	err := r.Writer.Read(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.TargetName}, target)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		selector, err = r.selector(ctx, s, target)
	}
	switch {
	case err != nil && s.IsCustom():
		seen.Unsupported = fmt.Sprintf("%s %s cannot be read: %v", s.Target.Kind, s.TargetName, err)
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", s.Target.Kind, s.TargetName, err)
	}
	seen.Found, seen.Replicas = true, s.Replicas(target.Object)
	var pods corev1.PodList
	if err := r.Cache.List(ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if owns(s, target, pod) && s.Selector.Matches(labels.Set(pod.Labels)) {
			seen.Pods = append(seen.Pods, pod)
		}
	}
	slices.SortFunc(seen.Pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if err := r.observeNodes(ctx, s, seen); err != nil {
		return err
	}
	if err := r.readWhole(ctx, s, seen); err != nil {
		return err
	}
	for i := range s.Subsets {
		if _, err := s.PatchedPod(i, target); err != nil && seen.PatchFault == "" {
			seen.PatchFault = fmt.Sprintf("spec.subsets[%d].patch: %v", i, err)
		}
	}
	seen.Latest, err = r.latest(ctx, s, target, selector, seen.Pods)
	return err
}

// selector selects the workload's pods; of a further kind by the scale.
func (r *Reconciler) selector(ctx context.Context, s *spread.Spread, target *unstructured.Unstructured) (labels.Selector, error) {
	if !s.IsCustom() {
		return spread.SelectorOf(target)
	}
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	return kinds.Selector(ctx, r.Client, target)
}

// observeHook tells whether new pods reach the webhook.
func (r *Reconciler) observeHook(s *spread.Spread, seen *plan.Snapshot) {
	if !NeedsHook(s) {
		return
	}
	switch state := r.hooked.State(hooks.NameOf(prefix, s.Namespace, s.Name)); state.Reason {
	case hooks.InForce:
	case hooks.Pending:
		seen.HookPending = true
	default:
		seen.HookFault = state.Message
	}
}

// owns: the pod is controlled by the target, or by a ReplicaSet of the Deployment.
func owns(s *spread.Spread, target *unstructured.Unstructured, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	if s.IsCustom() && slices.Contains(s.Between, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()) {
		return true // its labels say the rest
	}
	return isOf(s, owner, pod) && (s.Target.Kind == "Deployment" || owner.UID == target.GetUID())
}

// observeNodes reads the nodes of pods without a subset. Nodes are watched from the first such pod on.
func (r *Reconciler) observeNodes(ctx context.Context, s *spread.Spread, seen *plan.Snapshot) error {
	for _, pod := range seen.Pods {
		name := pod.Spec.NodeName
		if _, marked := s.SubsetOf(pod); marked || name == "" || seen.Nodes[name] != nil {
			continue
		}
		if err := r.WatchLate(ctx, &corev1.Node{}, nil); err != nil {
			return err
		}
		node := &corev1.Node{}
		err := r.Cache.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		lazy.Put(&seen.Nodes, name, node)
	}
	return nil
}

// maxRead is how many pods are read from the API server in a pass.
const maxRead = 20

// readWhole reads pods whose template decides between subsets. The cache has it of our own pods only.
func (r *Reconciler) readWhole(ctx context.Context, s *spread.Spread, seen *plan.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	read := 0
	seen.Unread = sets.New[string]()
	for i, pod := range seen.Pods {
		if isWhole(pod) || !plan.TemplateDecides(s, pod, seen.Nodes[pod.Spec.NodeName]) {
			continue
		}
		whole := &corev1.Pod{}
		if read++; read <= maxRead {
			err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), whole)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading pod %s: %w", pod.Name, err)
			}
		}
		if whole.UID == pod.UID {
			seen.Pods[i] = whole
		} else {
			seen.Unread.Insert(pod.Name)
		}
	}
	return nil
}

func isWhole(pod *corev1.Pod) bool {
	return len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Image != ""
}

// latest is the newest version among pods of several versions; empty when there is one, or versions do not count.
func (r *Reconciler) latest(ctx context.Context, s *spread.Spread, target *unstructured.Unstructured, selector labels.Selector, pods []*corev1.Pod) (string, error) {
	versions := map[string]bool{}
	for _, pod := range pods {
		versions[s.Counted(pod.Labels)] = true
	}
	if len(versions) < 2 {
		return "", nil
	}
	if s.Target.Kind == "ReplicaSet" {
		return target.GetLabels()[shared.LabelPodTemplateHash], nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSetList"})
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	if err := r.Live.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("listing ReplicaSets: %w", err)
	}
	for i := range list.Items {
		set := &list.Items[i]
		if metav1.IsControlledBy(set, target) && set.Annotations[revisionAnnotation] == target.GetAnnotations()[revisionAnnotation] {
			return set.Labels[shared.LabelPodTemplateHash], nil
		}
	}
	return "", nil
}
