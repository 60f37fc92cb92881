// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// The steps.
const (
	stepFinalizer planning.Step = "Finalizer"
	stepWorkload  planning.Step = "Workload"
	stepOrder     planning.Step = "Order"
	stepDrop      planning.Step = "Drop"
)

// patches are merge patches of a workload, one after the other.
type patches []map[string]any

// Requests implements planning.Change.
func (p patches) Requests(object planning.Object) []planning.Request {
	var all []planning.Request
	for _, fields := range p {
		all = append(all, planning.Request{Type: types.MergePatchType, Body: func(v planning.Version) ([]byte, error) {
			seen := &metav1.ObjectMeta{UID: object.GetUID(), ResourceVersion: v.ResourceVersion}
			return planning.MergePatch(seen, fields).Body, nil
		}})
	}
	return all
}

// annotate sets an annotation of an object; nil removes it.
func annotate(o *unstructured.Unstructured, key string, value any) {
	tree.Set(o.Object, value, "metadata", "annotations", key)
}

// raise lets a write pass the brake.
func raise(o *unstructured.Unstructured) { annotate(o, shared.AnnotationSequence, brake.Next(o)) }

// guarding puts a workload under the brake, and holds a change that went unseen.
func guarding(row rollable.Workload, w *unstructured.Unstructured, rollout string, hold bool) patches {
	after := w.DeepCopy()
	tree.Set(after.Object, row.Type, "metadata", "labels", shared.LabelWorkloadType)
	annotate(after, shared.AnnotationRollout, rollout)
	if _, ours := w.GetAnnotations()[shared.AnnotationSequence]; !ours {
		annotate(after, shared.AnnotationControl, nil) // of OpenKruise: its BatchRelease takes over anew
	}
	if hold {
		brake.Catch(after)
	}
	raise(after)
	return patches{tree.Patch(w.Object, after.Object)}
}

// unmarking takes the note of a release away.
func unmarking(w *unstructured.Unstructured) patches {
	after := w.DeepCopy()
	annotate(after, shared.AnnotationInProgressing, nil)
	if _, labeled := w.GetLabels()[shared.LabelWorkloadType]; labeled {
		raise(after)
	}
	return patches{tree.Patch(w.Object, after.Object)}
}

// unguarding takes a workload from under the brake. Without its label nothing keeps the notes.
func unguarding() patches {
	return patches{
		{"metadata": map[string]any{"labels": map[string]any{shared.LabelWorkloadType: nil}}},
		{"metadata": map[string]any{"annotations": map[string]any{shared.AnnotationRollout: nil, shared.AnnotationSequence: nil}}},
	}
}

// abandoning takes a workload from under the brake, and lets go what is held.
func abandoning(w *unstructured.Unstructured) patches {
	if _, held := w.GetAnnotations()[shared.AnnotationInProgressing]; !held {
		return unguarding()
	}
	after := w.DeepCopy()
	brake.Release(after)
	raise(after)
	return append(patches{tree.Patch(w.Object, after.Object)}, unguarding()...)
}

// onWorkload is the write to the workload; nil: none.
func onWorkload(r *v1beta1.Rollout, seen *seen, d plan.Decision) patches {
	switch w := seen.workload; {
	case w == nil:
		return nil
	case d.Guard || d.Catch:
		return guarding(seen.row, w, r.Name, d.Catch)
	case d.Unmark:
		return unmarking(w)
	case d.Unguard:
		return unguarding()
	}
	return nil
}

// actions are those of a decision. What is about the workload comes first, and alone.
func actions(r *v1beta1.Rollout, seen *seen, d plan.Decision) []planning.Action {
	if first := keeping(r); first != nil {
		return first
	}
	change := onWorkload(r, seen, d)
	switch {
	case change != nil:
		return []planning.Action{{
			Verb: planning.VerbPatch, Step: stepWorkload, Kind: seen.row.Kind, Object: seen.workload, Change: change, Reason: "Control",
			Failure: planning.Event{Warning: true, Reason: "FailedControl", Message: "Changing the notes on the workload"},
		}}
	case d.Hold || d.LetGo:
		return finalizers(sharedKind(), seen.shared.stored, shared.FinalizerInUse+r.Name, d.Hold)
	case d.Drop && seen.Release != nil:
		return []planning.Action{{
			Verb: planning.VerbDelete, Step: stepDrop, Kind: releaseKind(), Object: seen.Release, Reason: "Done", Propagation: metav1.DeletePropagationBackground,
			Failure: planning.Event{Warning: true, Reason: "FailedRelease", Message: "Deleting the BatchRelease"},
		}}
	case d.Act != "":
		return trafficActions(r, seen.requests, d.Act)
	case d.Order != nil:
		return order(r, seen.Release, d.Order)
	case d.Ended && slices.Contains(r.Finalizers, shared.FinalizerRollout):
		return finalizers(kind(), r, shared.FinalizerRollout, false)
	}
	return nil
}

// keeping adds our finalizer; nil: it is there, or comes too late.
func keeping(r *v1beta1.Rollout) []planning.Action {
	if r.DeletionTimestamp != nil || slices.Contains(r.Finalizers, shared.FinalizerRollout) {
		return nil
	}
	return finalizers(kind(), r, shared.FinalizerRollout, true)
}

// finalizers adds a finalizer to an object, or removes it.
func finalizers(kind schema.GroupVersionKind, o planning.Object, finalizer string, add bool) []planning.Action {
	all := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer })
	if add {
		all = append(all, finalizer)
	}
	return []planning.Action{{
		Verb: planning.VerbPatch, Step: stepFinalizer, Kind: kind, Object: o, Change: planning.MetadataPatch(o, map[string]any{"finalizers": all}), Reason: "Finalizer",
		Failure: planning.Event{Warning: true, Reason: "FailedFinalizer", Message: "Changing the finalizers of the " + kind.Kind},
	}}
}

// order creates or changes the BatchRelease.
func order(r *v1beta1.Rollout, release *v1beta1.BatchRelease, spec *v1beta1.BatchReleaseSpec) []planning.Action {
	action := planning.Action{
		Step: stepOrder, Kind: releaseKind(), Reason: "Order",
		Failure: planning.Event{Warning: true, Reason: "FailedRelease", Message: "Ordering a batch"},
	}
	if release == nil {
		made := &v1beta1.BatchRelease{Spec: *spec}
		made.Namespace, made.Name = r.Namespace, r.Name
		made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(r, kind())}
		if value, found := r.Annotations[shared.AnnotationRollbackInBatch]; found {
			made.Annotations = map[string]string{shared.AnnotationRollbackInBatch: value}
		}
		if sub := r.Status.CanaryStatus; sub != nil && spec.ReleasePlan.RollingStyle == v1beta1.BlueGreenRollingStyle {
			made.Annotations = map[string]string{shared.AnnotationStable: sub.StableRevision}
		}
		action.Verb, action.Object = planning.VerbCreate, made
		return []planning.Action{action}
	}
	if release.DeletionTimestamp != nil || equality.Semantic.DeepEqual(release.Spec, *spec) {
		return nil
	}
	body, _ := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": release.UID},
		{"op": "test", "path": "/metadata/resourceVersion", "value": release.ResourceVersion},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	action.Verb, action.Object, action.Change = planning.VerbPatch, release, planning.RawPatch{Type: types.JSONPatchType, Body: body}
	return []planning.Action{action}
}
