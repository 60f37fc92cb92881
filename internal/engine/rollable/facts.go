// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollable

import (
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// everyPod is a partition that keeps all pods.
const everyPod = math.MaxInt32

// Facts are what the stored object of a workload says by itself.
type Facts struct {
	Generation int64
	// Settled: its controller has seen its spec.
	Settled bool
	// Replicas is its size.
	Replicas int
	// InRelease: the brake has caught a change. Guarded: the label of the brake is there.
	InRelease, Guarded bool
	// RolloutID is its rollout-id. ByID: it has one as an annotation, and only another one begins a release.
	RolloutID string
	ByID      bool
	// Revision is that of its template, Stable that of its pods before. Both are empty where only its pods or revisions tell: Deployments
	// and DaemonSets.
	Revision, Stable string
	// Updated and Available are pods by its status, Kept is how many stay. Start is the first ordinal of a StatefulSet of Kubernetes.
	Updated, Available, Kept, Start int
	// Ordered: its pods are updated from the last ordinal down.
	Ordered bool
	// MaxUnavailable is how many pods may be unavailable.
	MaxUnavailable int
	// Unsupported says why it has no batches; empty: it has.
	Unsupported string
}

// FactsOf reads the stored object of a workload.
func (w Workload) FactsOf(o *unstructured.Unstructured) Facts {
	f := Facts{Generation: o.GetGeneration(), RolloutID: RolloutID(o)}
	f.ByID = o.GetAnnotations()[shared.RolloutID] != ""
	_, f.InRelease = o.GetAnnotations()[shared.AnnotationInProgressing]
	_, f.Guarded = o.GetLabels()[shared.LabelWorkloadType]
	f.Settled = number(o, 0, "status", "observedGeneration") >= o.GetGeneration()
	f.Revision, f.Stable = tree.Text(o.Object, "status", "updateRevision"), tree.Text(o.Object, "status", "currentRevision")
	f.Updated, f.Available = int(number(o, 0, "status", "updatedReplicas")), int(number(o, 0, "status", "availableReplicas"))
	f.Replicas = int(number(o, 1, "spec", "replicas"))
	if !w.Sized {
		f.Replicas, f.Available = int(number(o, 0, "status", "desiredNumberScheduled")), int(number(o, 0, "status", "numberAvailable"))
		f.Updated = int(number(o, 0, "status", "updatedNumberScheduled"))
	}
	if w.Native && w.Partition != nil {
		f.Start = int(number(o, 0, "spec", "ordinals", "start"))
	}
	_, unordered, _ := unstructured.NestedMap(o.Object, "spec", "updateStrategy", "rollingUpdate", "unorderedUpdate")
	f.Ordered = w.Kind.Kind == "StatefulSet" && !unordered
	f.Kept = w.partition(o, f.Replicas)
	f.MaxUnavailable = max(1, maxUnavailable(o, f.Replicas))
	f.Unsupported = w.unsupported(o)
	return f
}

// RolloutID is the rollout-id of a workload: its label, else its annotation.
func RolloutID(o metav1.Object) string {
	if id, found := o.GetLabels()[shared.RolloutID]; found {
		return id
	}
	return o.GetAnnotations()[shared.RolloutID]
}

// unsupported says why a workload has no batches.
func (w Workload) unsupported(o *unstructured.Unstructured) string {
	_, advanced := o.GetAnnotations()[shared.AnnotationAdvancedStrategy]
	switch {
	case w.Kind.Kind == "Deployment" && !advanced && tree.Text(o.Object, "spec", "strategy", "type") == "Recreate":
		return "a Deployment of the type Recreate has no batches"
	case w.Partition != nil && tree.Text(o.Object, "spec", "updateStrategy", "type") == "OnDelete":
		return "a " + w.Kind.Kind + " of the type OnDelete has no batches"
	}
	return ""
}

// partition of a workload. A percentage is that of a CloneSet.
func (w Workload) partition(o *unstructured.Unstructured, replicas int) int {
	if w.Partition == nil {
		return 0
	}
	value, found, _ := unstructured.NestedFieldNoCopy(o.Object, append([]string{"spec"}, w.Partition...)...)
	if !found {
		return 0
	}
	if share, is := value.(string); is {
		if n, err := budget.CloneSetPartition(ptr.To(intstr.FromString(share)), int32(replicas)); err == nil {
			return int(n)
		}
	}
	if n, is := value.(int64); is {
		return int(min(max(n, 0), everyPod))
	}
	return everyPod
}

// maxUnavailable is that of the strategy of any kind.
func maxUnavailable(o *unstructured.Unstructured, replicas int) int {
	for _, path := range [][]string{
		{"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"}, {"spec", "updateStrategy", "maxUnavailable"},
	} {
		if value, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...); found {
			n, _ := budget.Count(intstr.Parse(fmt.Sprint(value)), int32(replicas), budget.Down)
			return int(n)
		}
	}
	return 0
}

func number(o *unstructured.Unstructured, omitted int64, path ...string) int64 {
	if n, found, err := unstructured.NestedInt64(o.Object, path...); found && err == nil {
		return n
	}
	return omitted
}
