// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Child is an observed workload of the UnitedDeployment.
type Child struct {
	// Object is the workload. Read-only.
	Object *unstructured.Unstructured
	// Adapter is its kind's.
	Adapter united.Adapter
	// Subset is the name of its subset.
	Subset string
	// Terminating workloads are being deleted.
	Terminating bool
	// Observed: its status is about its present spec. Otherwise Updated and UpdatedReady are 0,
	// unless the status's spec has the same template: see Memory.
	Observed bool
	// Size is spec.replicas. Replicas, Ready, Available, Updated and UpdatedReady are from its
	// status; the last is a lower bound where the kind does not tell.
	Size, Replicas, Ready, Available, Updated, UpdatedReady int
	// Revision is its revision of the UnitedDeployment.
	Revision string
	// Trouble is what keeps it from going on by itself, in its own words. Empty: nothing does.
	Trouble string
	// Lacks: some of its pods have not been ready for a while, without a word about it: see
	// Memory.Look.
	Lacks bool
	// noRoom: the trouble may be pods without a node.
	noRoom bool
	// MoveFields is a patch to take our applied fields from OpenKruise. Nil: it has none.
	MoveFields []byte
	// InSync is the target it met at the last comparison or apply, if neither spec has changed
	// since. Nil: it has to be compared.
	InSync *united.Target
}

// NewChild reads a workload.
func NewChild(object *unstructured.Unstructured, adapter united.Adapter) Child {
	labels := object.GetLabels()
	content := object.Object
	c := Child{
		Object: object, Adapter: adapter, Subset: labels[shared.LabelSubsetName], Revision: labels[shared.LabelUnitedDeploymentRevision],
		Terminating: object.GetDeletionTimestamp() != nil,
		Observed:    int64(united.Number(content, "status", "observedGeneration")) >= object.GetGeneration(),
		Size:        united.Number(content, "spec", "replicas"),
		Replicas:    united.Number(content, "status", "replicas"),
		Ready:       united.Number(content, "status", "readyReplicas"),
		Available:   united.Number(content, "status", "availableReplicas"),
	}
	c.Trouble, c.noRoom = troubleOf(object)
	if _, found, _ := unstructured.NestedFieldNoCopy(content, "spec", "replicas"); !found {
		c.Size = 1
	}
	if c.Observed {
		c.countUpdated()
	}
	return c
}

// countUpdated takes from the status how many pods are updated.
func (c *Child) countUpdated() {
	content := c.Object.Object
	c.Updated = united.Number(content, "status", "updatedReplicas")
	c.UpdatedReady = max(c.Ready-max(c.Replicas-c.Updated, 0), 0)
	if _, told, _ := unstructured.NestedFieldNoCopy(content, "status", "updatedReadyReplicas"); told {
		c.UpdatedReady = united.Number(content, "status", "updatedReadyReplicas")
	}
}

// Adopting says that it was applied for the first time, and some of its fields may be OpenKruise's, too.
func (c *Child) Adopting() bool {
	return c.Object.GetAnnotations()[shared.AnnotationAppliedHash] == shared.Adopting
}

// spec is the spec of the workload. Read-only.
func (c *Child) spec() map[string]any {
	spec, _, _ := unstructured.NestedFieldNoCopy(c.Object.Object, "spec")
	object, _ := spec.(map[string]any)
	return object
}

// held says why the pods of a workload do not follow it by themselves, although nothing is wrong: a reason, and a clause about the workload.
// Both are empty when they do.
func (c *Child) held() (reason, why string) {
	switch spec := c.spec(); {
	case c.Adapter.Paused(spec):
		return appsv1beta1.ReasonPaused, "its updates are paused"
	case c.Adapter.UpdatesOnDelete(spec):
		return appsv1beta1.ReasonOnDelete, "with OnDelete, a pod is updated when somebody deletes it"
	}
	return "", ""
}

// troubleOf is a workload's own word about its trouble: the condition Stalled of our kinds, those
// of a Deployment.
func troubleOf(object *unstructured.Unstructured) (trouble string, noRoom bool) {
	for c := range conditions.OfObject(object.Object) {
		is := c.Status == corev1.ConditionTrue
		switch c.Type {
		case "Stalled", string(appsv1.DeploymentReplicaFailure), string(appsv1beta1.CloneSetFailedScale), string(appsv1beta1.StatefulSetFailedCreatePod):
		case string(appsv1.DeploymentProgressing):
			is = c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
		default:
			is = false
		}
		if is {
			// A Deployment does not say why it makes no progress.
			return cmp.Or(c.Message, c.Reason), c.Reason == appsv1beta1.ReasonUnschedulable || c.Type == string(appsv1.DeploymentProgressing)
		}
	}
	return "", false
}

// sortChildren puts the workloads in a fixed order: by subset, those of the wanted kind first, the
// oldest first.
func sortChildren(children []Child, wanted schema.GroupVersionKind) {
	slices.SortFunc(children, func(a, b Child) int {
		other := func(c Child) int {
			if c.Adapter.Kind == wanted {
				return 0
			}
			return 1
		}
		born, otherBorn := a.Object.GetCreationTimestamp(), b.Object.GetCreationTimestamp()
		return cmp.Or(
			cmp.Compare(a.Subset, b.Subset), cmp.Compare(other(a), other(b)),
			born.Compare(otherBorn.Time), cmp.Compare(a.Object.GetName(), b.Object.GetName()),
		)
	})
}
