// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// ownersOfPod names the set that controls a pod, or, for a pod without controller, the sets whose selectors match it.
func (r *Reconciler) ownersOfPod() workload.MapFunc {
	selecting := r.Selecting(nil)
	return func(ctx context.Context, pod client.Object) []types.NamespacedName {
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.GetDeletionTimestamp() != nil {
			return r.Controller(ctx, pod)
		}
		return selecting(ctx, pod)
	}
}

// judge is how a stored set judges nodes; nil for one that cannot be decoded, since nothing is done for it.
func judge(stored *unstructured.Unstructured) workload.Judge {
	set := &appsv1beta1.DaemonSet{}
	if err := quantity.FromUnstructured(stored.Object, set); err != nil {
		return nil
	}
	pod := plan.Compile(set)
	var selector labels.Selector
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Selector != nil {
		selector, _ = metav1.LabelSelectorAsSelector(rolling.Selector) // one that cannot be parsed selects nothing
	}
	return func(node *corev1.Node) workload.NodeVerdict {
		fit := pod.Fit(node)
		return workload.NodeVerdict{
			Runs: fit.ShouldRun, Keeps: fit.ShouldContinueRunning, Why: fit.Reason,
			Selected: selector != nil && (fit.ShouldRun || fit.ShouldContinueRunning) && selector.Matches(labels.Set(node.Labels)),
		}
	}
}

// seenIn is what of the observed decides which nodes concern the set.
func seenIn(observed observation) workload.NodesSeen {
	pods := observed.Snapshot.Pods
	seen := workload.NodesSeen{Has: make(sets.Set[string], len(pods)), None: plan.Desired(observed.nodes) == 0}
	for i := range pods {
		seen.Has.Insert(string(pods[i].Slot))
	}
	return seen
}
