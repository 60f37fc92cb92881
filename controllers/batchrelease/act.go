// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// Steps of a release.
const (
	stepFinalizer planning.Step = "EditFinalizers"
	stepControl   planning.Step = "TakeControl"
	stepMove      planning.Step = "MoveBatch"
	stepRestore   planning.Step = "RestoreWorkload"
)

const (
	// cloneSet is the kind whose partition may be a percentage.
	cloneSet = "CloneSet"
	// everyOrdinal is a partition beyond all ordinals.
	everyOrdinal = 32767
)

// fields are members of a merge patch.
type fields = map[string]any

// finalizers adds our finalizer, or removes it.
func finalizers(release *v1beta1.BatchRelease, add bool) planning.Action {
	all := slices.DeleteFunc(slices.Clone(release.Finalizers), func(f string) bool { return f == shared.FinalizerBatchRelease })
	if add {
		all = append(all, shared.FinalizerBatchRelease)
	}
	return planning.Action{
		Verb: planning.VerbPatch, Step: stepFinalizer, Kind: plan.Kind(), Object: release, Change: planning.MetadataPatch(release, fields{"finalizers": all}),
	}
}

// actions are the writes of a decision.
func (o *observed) actions(release *v1beta1.BatchRelease, d plan.Decision) []planning.Action {
	switch act := d.Act; {
	case len(d.Label) > 0:
		return append(o.actions(release, plan.Decision{Act: act}), o.labels(release, d.Label)...)
	case act.Control:
		owner, _ := json.Marshal(metav1.NewControllerRef(release, plan.Kind()))
		return o.patch(stepControl, fields{
			shared.AnnotationControl: string(owner), shared.AnnotationOriginal: o.original(),
			shared.AnnotationAdvancedStrategy: nil, shared.AnnotationAdvancedStatus: nil,
		}, o.braked())
	case act.Partition != nil:
		return o.patch(stepMove, nil, nested(o.partition(release, d.Status.CanaryStatus.CurrentBatch, *act.Partition), o.row.Partition...))
	case act.Beside != nil:
		twin := rollable.Twin{Revision: o.snapshot.Workload.Revision, Pods: *act.Beside}
		return o.patch(stepMove, fields{shared.AnnotationOriginal: twin.Encode()}, nil)
	case act.Rolling != nil:
		return o.rolling(*act.Rolling)
	case act.Restore && act.Keep && o.beside && o.deployment != nil: // with other numbers old pods would go
		return o.patch(stepRestore, fields{shared.AnnotationControl: nil}, fields{"paused": true})
	case act.Restore:
		return o.patch(stepRestore, fields{
			shared.AnnotationControl: nil, shared.AnnotationOriginal: nil, shared.AnnotationAdvancedStrategy: nil, shared.AnnotationAdvancedStatus: nil,
		}, o.restored(act.Keep))
	case act.Size != nil:
		return o.size(*act.Size)
	case len(act.Drop) > 0:
		return o.drop(act.Drop)
	case act.Hold || act.Free:
		return o.scale(act.Hold)
	default:
		return o.deletions(act.Delete)
	}
}

// patch writes annotations and the spec of the workload, as it was read, with the number by which the brake knows that it is ours.
func (o *observed) patch(step planning.Step, more, spec fields) []planning.Action {
	annotations := fields{shared.AnnotationSequence: brake.Next(o.object)}
	maps.Copy(annotations, more)
	metadata := fields{"annotations": annotations}
	if o.advanced {
		metadata["labels"] = fields{shared.LabelAdvanced: nil}
	}
	body := fields{"metadata": metadata}
	if spec != nil {
		body["spec"] = spec
	}
	return []planning.Action{{
		Verb: planning.VerbPatch, Step: step, Kind: o.row.Kind, Object: o.object, Change: planning.MergePatch(o.object, body),
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Changing the " + o.row.Kind.Kind},
	}}
}

// original are the numbers of the user, which an earlier release may have kept. Only a Deployment whose pods move gets others.
func (o *observed) original() any {
	if o.surged() != nil { // its new pods stay
		return rollable.Twin{Revision: o.snapshot.Workload.Revision, Pods: o.snapshot.Workload.Updated}.Encode()
	}
	if kept, found := o.object.GetAnnotations()[shared.AnnotationOriginal]; found {
		return kept
	}
	if o.deployment == nil || o.canary != nil {
		return nil
	}
	return o.numbers.Encode()
}

// surged are a user's numbers, kept by OpenKruise while a CloneSet has pods beside old ones.
func (o *observed) surged() *rolling.Numbers {
	if !o.beside || o.deployment != nil {
		return nil
	}
	kept, found := o.object.GetAnnotations()[shared.AnnotationOriginal]
	if _, ours := rollable.TwinOf(o.object.GetAnnotations()); !found || ours {
		return nil
	}
	n := rolling.DecodeNumbers(kept)
	return &n
}

// unsurged is the spec of a CloneSet with the numbers of its user.
func unsurged(n *rolling.Numbers, partition any) fields {
	rollingUpdate := n.RollingUpdate()
	rollingUpdate["partition"] = partition
	return fields{"minReadySeconds": n.MinReadySeconds, "updateStrategy": fields{"rollingUpdate": rollingUpdate}}
}

// braked is the spec of a workload that keeps its pods. One that is braked already, or has updated pods, stays as it is.
func (o *observed) braked() fields {
	switch kept := o.surged(); {
	case kept != nil:
		return unsurged(kept, "100%")
	case o.advanced:
		return o.numbers.Parked(*o.snapshot.Workload.Rolling).Fields(true)
	case o.deployment != nil && o.beside && o.deployment.Spec.MinReadySeconds != rolling.MinReadySeconds:
		return rolling.Moving(1).Fields(true)
	case o.deployment != nil:
		return fields{"paused": true}
	case o.row.Partition == nil:
		return fields{"updateStrategy": fields{"type": string(appsv1.OnDeleteDaemonSetStrategyType)}}
	case o.snapshot.Workload.Kept > 0:
		kept, _, _ := unstructured.NestedFieldNoCopy(o.object.Object, append([]string{"spec"}, o.row.Partition...)...)
		return o.unpaused(kept)
	}
	w := o.snapshot.Workload
	if w.Updated > 0 && w.Revision != w.Stable {
		return o.unpaused(int64(max(0, w.Replicas-w.Updated)))
	}
	if w.Kind.Kind == cloneSet {
		return o.unpaused("100%")
	}
	return o.unpaused(int64(everyOrdinal))
}

// unpaused is the spec of a workload with a partition. Paused by its user, it would never finish a batch.
func (o *observed) unpaused(partition any) fields {
	if paused, _, _ := unstructured.NestedBool(o.object.Object, "spec", "updateStrategy", "rollingUpdate", "paused"); paused {
		return fields{"updateStrategy": fields{"rollingUpdate": fields{"partition": partition, "paused": false}}}
	}
	return nested(partition, o.row.Partition...)
}

// partition of a batch. That of a CloneSet is a percentage, where the batch is and one says the same: then it holds when the CloneSet is scaled.
func (o *observed) partition(release *v1beta1.BatchRelease, batch int32, pods int) any {
	value, percent, err := rollable.Size(release.Spec.ReleasePlan.Batches[batch].CanaryReplicas)
	replicas := o.snapshot.Workload.Replicas
	if err != nil || !percent || o.row.Kind.Kind != cloneSet {
		return int64(pods)
	}
	for _, hundredths := range []int{10000 - 100*value, 10000 * pods / replicas} {
		share := intstr.FromString(strconv.FormatFloat(float64(hundredths)/100, 'f', -1, 64) + "%")
		if n, err := budget.CloneSetPartition(&share, int32(replicas)); err == nil && int(n) == pods {
			return share.StrVal
		}
	}
	return int64(pods)
}

// restored is the spec of a workload that goes on by itself. A DaemonSet that was braked keeps the numbers of its type.
func (o *observed) restored(keep bool) fields {
	switch kept := o.surged(); {
	case kept != nil && keep:
		return unsurged(kept, "100%")
	case kept != nil:
		return unsurged(kept, nil)
	case keep && o.deployment != nil && o.canary == nil:
		return o.numbers.Fields(true)
	case keep:
		return nil
	case o.snapshot.Workload.Held:
		return fields{"paused": false}
	case o.deployment != nil:
		return o.numbers.Fields(false)
	case o.row.Partition != nil:
		return o.unpaused(nil)
	}
	if _, rolls, _ := unstructured.NestedMap(o.object.Object, "spec", "updateStrategy", "rollingUpdate"); rolls {
		return fields{"updateStrategy": fields{"type": string(appsv1.RollingUpdateDaemonSetStrategyType)}}
	}
	return nil
}

// rolling are the writes of a step of a Deployment.
func (o *observed) rolling(step rolling.Step) []planning.Action {
	spec := fields{"paused": true}
	switch step.Verb {
	case rolling.Uncount:
		spec = rolling.NumbersOf(o.deployment).Uncounting().Fields(true)
	case rolling.Move:
		spec = rolling.Moving(step.Surge).Fields(false)
	case rolling.Reached:
		spec = o.numbers.Parked(*o.snapshot.Workload.Rolling).Fields(true)
	case rolling.Free:
		spec = o.numbers.Fields(false)
	case rolling.Stop:
	case rolling.Lower, rolling.Note, rolling.Slow, rolling.Quick:
		return o.set(step)
	default:
		return nil
	}
	return o.patch(stepMove, nil, spec)
}

// set changes a ReplicaSet.
func (o *observed) set(step rolling.Step) []planning.Action {
	set := o.old[step.Set]
	body := fields{"spec": fields{"replicas": step.Replicas}}
	switch step.Verb {
	case rolling.Slow:
		body["spec"] = fields{"minReadySeconds": rolling.MinReadySeconds}
	case rolling.Quick:
		body["spec"] = fields{"minReadySeconds": o.numbers.MinReadySeconds}
	case rolling.Note:
		body["metadata"] = fields{"annotations": fields{rolling.DesiredAnnotation: strconv.Itoa(o.snapshot.Workload.Replicas)}}
	}
	return []planning.Action{{
		Verb: planning.VerbPatch, Step: stepMove, Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Object: set, Change: planning.MergePatch(set, body),
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Scaling the ReplicaSet " + set.Name},
	}}
}

// deletions delete pods as they were read.
func (o *observed) deletions(names []string) []planning.Action {
	var all []planning.Action
	for _, pod := range o.pods {
		if !slices.Contains(names, pod.Name) {
			continue
		}
		a := podset.DeletePod(planning.Slot(pod.Name), pod, "Outdated")
		a.ExactVersion = true
		a.Success = planning.Event{Reason: "PodDeleted", Message: "deleted the pod " + pod.Name + " for its replacement by the new version"}
		all = append(all, a)
	}
	return all
}

// labels write the labels of the release on pods.
func (o *observed) labels(release *v1beta1.BatchRelease, wanted []plan.Label) []planning.Action {
	var all []planning.Action
	for _, pod := range o.pods {
		i := slices.IndexFunc(wanted, func(l plan.Label) bool { return l.Name == pod.Name })
		if i < 0 {
			continue
		}
		e := edit.Edit{Fresh: true} // its labels are nobody else's
		if wanted[i].NoNeed {
			e.SetLabel(shared.LabelNoNeedUpdate, release.Spec.ReleasePlan.RolloutID)
		} else {
			e.SetLabel(shared.RolloutID, release.Spec.ReleasePlan.RolloutID)
			e.SetLabel(shared.LabelBatchID, strconv.Itoa(wanted[i].Batch))
		}
		all = append(all, podset.EditPod(planning.Slot(pod.Name), pod, e, "Batch"))
	}
	return all
}

// nested is a value below a path.
func nested(value any, path ...string) fields {
	for i := len(path) - 1; i >= 0; i-- {
		value = fields{path[i]: value}
	}
	all, _ := value.(fields)
	return all
}
