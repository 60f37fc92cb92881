// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// byNode finds the unfinished jobs a node concerns.
func (r *Reconciler) byNode() workload.NodeMapFunc {
	judges := workload.NewParsed(r.judge)
	return r.ByNode(func(stored *unstructured.Unstructured) workload.Judge {
		if ended(stored.Object) {
			return nil
		}
		return judges.Of(stored)
	})
}

// judge returns a stored job's judgment of nodes; nil: undecodable, so nothing is done for it.
func (r *Reconciler) judge(stored *unstructured.Unstructured) workload.Judge {
	job := &appsv1beta1.BroadcastJob{}
	if err := quantity.FromUnstructured(stored.Object, job); err != nil {
		return nil
	}
	fitting := plan.Parse(job, r.bind).Fitting
	return func(node *corev1.Node) workload.NodeVerdict {
		fits, why := fitting.Fits(node)
		return workload.NodeVerdict{Runs: fits, Why: why}
	}
}

// seenIn returns the nodes concerning the job: fitting, finished, or with a pod.
func seenIn(s plan.Snapshot, finished func(*plan.Node) bool) workload.NodesSeen {
	seen := workload.NodesSeen{Has: sets.New[string](), None: true}
	for i := range s.Nodes {
		node := &s.Nodes[i]
		seen.None = seen.None && !node.Fits
		if node.Fits || finished(node) {
			seen.Has.Insert(node.Name)
		}
	}
	for i := range s.Pods {
		seen.Has.Insert(string(s.Pods[i].Slot))
	}
	return seen
}

// ended reports whether a stored job has completed or failed. It does not decode the job.
func ended(stored map[string]any) bool {
	never, _, _ := unstructured.NestedString(stored, "spec", "completionPolicy", "type")
	if _, failed := conditions.True(stored, appsv1beta1.BroadcastJobConditionFailed); failed {
		return true
	}
	_, complete := conditions.True(stored, appsv1beta1.BroadcastJobConditionComplete)
	return complete && never != string(appsv1beta1.BroadcastJobNever)
}
