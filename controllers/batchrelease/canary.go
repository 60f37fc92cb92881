// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/kube/released"
)

const (
	stepCanary planning.Step = "SizeCanary"
	stepDrop   planning.Step = "DropCanary"
)

// readCanaries lists the canary Deployments of a release, past the cache.
func (r *Reconciler) readCanaries(ctx context.Context, o *observed, release *v1beta1.BatchRelease) error {
	order := release.Spec.ReleasePlan
	if !o.row.Extra || order.RollingStyle != v1beta1.CanaryRollingStyle && (order.RollingStyle != "" || !order.EnableExtraWorkloadForCanary) {
		return nil
	}
	var list appsv1.DeploymentList
	named := client.MatchingLabels{shared.LabelCanary: rolling.CanaryOf(release.Spec.WorkloadRef.Name)}
	if err := r.Live.List(ctx, &list, client.InNamespace(release.Namespace), named); err != nil {
		return fmt.Errorf("listing its canary Deployments: %w", err)
	}
	o.snapshot.Canary = &plan.Canary{}
	for i := range list.Items {
		c := &list.Items[i]
		if made(c, release) && (c.DeletionTimestamp == nil || slices.Contains(c.Finalizers, shared.FinalizerCanary)) {
			o.canaries = append(o.canaries, c)
			o.snapshot.Canary.Others = append(o.snapshot.Canary.Others, c.Name)
		}
	}
	return nil
}

// made says that a canary Deployment is of this release. OpenKruise says it by an annotation.
func made(c *appsv1.Deployment, release *v1beta1.BatchRelease) bool {
	var owner metav1.OwnerReference
	if json.Unmarshal([]byte(c.Annotations[shared.AnnotationControl]), &owner) == nil && owner.UID == release.UID {
		return true
	}
	by := metav1.GetControllerOf(c)
	return by != nil && slices.Contains([]types.UID{release.UID, ownerOf(release).UID}, by.UID)
}

// ownerOf is who gets a canary Deployment: the Rollout, so that another BatchRelease can go on with it. Without one it is the BatchRelease.
func ownerOf(release *v1beta1.BatchRelease) *metav1.OwnerReference {
	if rollout := metav1.GetControllerOf(release); rollout != nil {
		return rollout
	}
	return metav1.NewControllerRef(release, plan.Kind())
}

// ofCanary finds the canary Deployment for the present template. Until the release ends, the new pods are its pods.
func (o *observed) ofCanary(release *v1beta1.BatchRelease, d *released.Deployment) {
	c, w := o.snapshot.Canary, o.snapshot.Workload
	if c == nil {
		return
	}
	o.canary = rolling.Canary(d.Deployment, ptr.Deref(release.Spec.ReleasePlan.PatchPodTemplateMetadata, v1beta1.PatchPodTemplateMetadata{}))
	o.canary.OwnerReferences = []metav1.OwnerReference{*ownerOf(release)}
	if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && !selector.Matches(labels.Set(o.canary.Spec.Template.Labels)) {
		w.Unsupported = "patchPodTemplateMetadata changes a label that the selector of the Deployment asks for"
	}
	for _, stored := range o.canaries {
		if stored.DeletionTimestamp == nil && c.Name == "" && rolling.IsCanary(stored, o.canary) {
			c.Name, c.Replicas, c.Ready = stored.Name, int(ptr.Deref(stored.Spec.Replicas, 1)), int(stored.Status.ReadyReplicas)
			c.Others = slices.DeleteFunc(c.Others, func(name string) bool { return name == stored.Name })
		}
	}
	if release.DeletionTimestamp != nil || release.Spec.ReleasePlan.BatchPartition == nil {
		return
	}
	w.Updated, w.Ready, o.newest = 0, 0, nil
	if set := d.CanarySet(c.Name); set != nil {
		o.newest, w.Updated, w.Ready = set, int(set.Status.Replicas), int(set.Status.ReadyReplicas)
	}
}

// size makes the canary Deployment, or gives it more pods.
func (o *observed) size(replicas int) []planning.Action {
	a := planning.Action{
		Verb: planning.VerbCreate, Step: stepCanary, Kind: o.row.Kind, Object: o.canary,
		Success: planning.Event{Reason: "CanaryCreated", Message: "made the Deployment " + o.canary.Name + " for pods of the new version"},
		Failure: planning.Event{Warning: true, Reason: "FailedCanary", Message: "Making the Deployment " + o.canary.Name},
	}
	if i := o.indexOf(o.snapshot.Canary.Name); i >= 0 {
		stored := o.canaries[i]
		a.Verb, a.Object, a.Change = planning.VerbPatch, stored, planning.MergePatch(stored, fields{"spec": fields{"replicas": replicas}})
		a.Success, a.Failure.Message = planning.Event{}, "Scaling the Deployment "+stored.Name
	}
	return []planning.Action{a}
}

func (o *observed) indexOf(canary string) int {
	return slices.IndexFunc(o.canaries, func(c *appsv1.Deployment) bool { return c.Name == canary })
}

// drop deletes canary Deployments. OpenKruise's have a finalizer that nobody else removes.
func (o *observed) drop(names []string) []planning.Action {
	var all []planning.Action
	for _, name := range names {
		c := o.canaries[o.indexOf(name)]
		a := planning.Action{
			Verb: planning.VerbDelete, Step: stepDrop, Kind: o.row.Kind, Object: c, Propagation: metav1.DeletePropagationBackground,
			Success: planning.Event{Reason: "CanaryDeleted", Message: "deleted the Deployment " + name},
			Failure: planning.Event{Warning: true, Reason: "FailedCanary", Message: "Deleting the Deployment " + name},
		}
		if slices.Contains(c.Finalizers, shared.FinalizerCanary) {
			kept := slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == shared.FinalizerCanary })
			a.Verb, a.Change, a.Success = planning.VerbPatch, planning.MetadataPatch(c, fields{"finalizers": kept}), planning.Event{}
		}
		all = append(all, a)
	}
	return all
}
