// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// The steps.
const (
	stepFinalizer planning.Step = "Finalizer"
	stepWorkload  planning.Step = "Workload"
	stepOrder     planning.Step = "Order"
	stepDrop      planning.Step = "Drop"
)

func mergePatch(fields map[string]any) (client.Patch, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, body), nil
}

// patches are merge patches of a workload, one after the other.
type patches []map[string]any

// Requests implements planning.Change.
func (p patches) Requests(object planning.Object) []planning.Request {
	var all []planning.Request
	for _, fields := range p {
		all = append(all, planning.Request{Type: types.MergePatchType, Body: func(v planning.Version) ([]byte, error) {
			metadata, _ := fields["metadata"].(map[string]any)
			metadata = maps.Clone(metadata)
			if metadata == nil {
				metadata = map[string]any{}
			}
			metadata["uid"], metadata["resourceVersion"] = object.GetUID(), v.ResourceVersion
			body := maps.Clone(fields)
			body["metadata"] = metadata
			return json.Marshal(body)
		}})
	}
	return all
}

// difference is the patch from one state of an object to another.
func difference(before, after *unstructured.Unstructured) (map[string]any, error) {
	from, err := json.Marshal(before.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding a workload: %w", err)
	}
	to, err := json.Marshal(after.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding a workload: %w", err)
	}
	patch, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing a workload: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("comparing a workload: %w", err)
	}
	return fields, nil
}

// annotated sets annotations of an object; an empty value removes one.
func annotated(o *unstructured.Unstructured, values map[string]string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range values {
		if all[key] = value; value == "" {
			delete(all, key)
		}
	}
	o.SetAnnotations(all)
}

// raise lets a write pass the brake.
func raise(o *unstructured.Unstructured) {
	n, err := strconv.ParseInt(o.GetAnnotations()[shared.AnnotationSequence], 10, 64)
	if err != nil || n < 0 {
		n = 0
	}
	annotated(o, map[string]string{shared.AnnotationSequence: strconv.FormatInt(n+1, 10)})
}

// guarding puts a workload under the brake, and holds a change that went unseen.
func guarding(row rollable.Workload, w *unstructured.Unstructured, rollout string, hold bool) (planning.Change, error) {
	after := w.DeepCopy()
	labels := after.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[shared.LabelWorkloadType] = row.Type
	after.SetLabels(labels)
	annotated(after, map[string]string{shared.AnnotationRollout: rollout})
	if _, ours := w.GetAnnotations()[shared.AnnotationSequence]; !ours {
		annotated(after, map[string]string{shared.AnnotationControl: ""}) // of OpenKruise: its BatchRelease takes over anew
	}
	if hold {
		brake.Catch(brake.Resource(row.Kind.GroupKind()), after)
	}
	raise(after)
	fields, err := difference(w, after)
	return patches{fields}, err
}

// unmarking takes the note of a release away.
func unmarking(w *unstructured.Unstructured) (planning.Change, error) {
	after := w.DeepCopy()
	annotated(after, map[string]string{shared.AnnotationInProgressing: ""})
	if _, labeled := w.GetLabels()[shared.LabelWorkloadType]; labeled {
		raise(after)
	}
	fields, err := difference(w, after)
	return patches{fields}, err
}

// unguarding takes a workload from under the brake. Without its label nothing keeps the notes.
func unguarding() patches {
	return patches{
		{"metadata": map[string]any{"labels": map[string]any{shared.LabelWorkloadType: nil}}},
		{"metadata": map[string]any{"annotations": map[string]any{shared.AnnotationRollout: nil, shared.AnnotationSequence: nil}}},
	}
}

// abandoning takes a workload from under the brake, and lets go what is held.
func abandoning(row rollable.Workload, w *unstructured.Unstructured) (patches, error) {
	_, held := w.GetAnnotations()[shared.AnnotationInProgressing]
	if !held {
		return unguarding(), nil
	}
	after := w.DeepCopy()
	brake.Release(brake.Resource(row.Kind.GroupKind()), after)
	raise(after)
	fields, err := difference(w, after)
	return append(patches{fields}, unguarding()...), err
}

// onWorkload is the write to the workload; nil: none.
func onWorkload(r *v1beta1.Rollout, seen *seen, d plan.Decision) (planning.Change, error) {
	switch w := seen.workload; {
	case w == nil:
		return nil, nil
	case d.Guard || d.Catch:
		return guarding(seen.row, w, r.Name, d.Catch)
	case d.Unmark:
		return unmarking(w)
	case d.Unguard:
		return unguarding(), nil
	}
	return nil, nil
}

// actions are those of a decision. What is about the workload comes first, and alone.
func actions(r *v1beta1.Rollout, seen *seen, d plan.Decision) ([]planning.Action, error) {
	if first := keeping(r); first != nil {
		return first, nil
	}
	change, err := onWorkload(r, seen, d)
	if err != nil {
		return nil, err
	}
	switch {
	case change != nil:
		return []planning.Action{{
			Verb: planning.VerbPatch, Step: stepWorkload, Kind: seen.row.Kind, Object: seen.workload, Change: change, Reason: "Control",
			Failure: planning.Event{Warning: true, Reason: "FailedControl", Message: "Changing the notes on the workload"},
		}}, nil
	case d.Hold || d.LetGo:
		return seen.shared.hold(r.Name, d.Hold), nil
	case d.Drop && seen.release != nil:
		return []planning.Action{{
			Verb: planning.VerbDelete, Step: stepDrop, Kind: releaseKind(), Object: seen.release, Reason: "Done", Propagation: metav1.DeletePropagationBackground,
			Failure: planning.Event{Warning: true, Reason: "FailedRelease", Message: "Deleting the BatchRelease"},
		}}, nil
	case d.Act != "":
		return trafficActions(r, seen.requests, d.Act)
	case d.Order != nil:
		return order(r, seen.release, d.Order)
	case d.Ended && slices.Contains(r.Finalizers, shared.FinalizerRollout):
		return finalizers(r, slices.DeleteFunc(slices.Clone(r.Finalizers), func(f string) bool { return f == shared.FinalizerRollout })), nil
	}
	return nil, nil
}

// keeping adds our finalizer; nil: it is there, or comes too late.
func keeping(r *v1beta1.Rollout) []planning.Action {
	if r.DeletionTimestamp != nil || slices.Contains(r.Finalizers, shared.FinalizerRollout) {
		return nil
	}
	return finalizers(r, append(slices.Clone(r.Finalizers), shared.FinalizerRollout))
}

func finalizers(r *v1beta1.Rollout, all []string) []planning.Action {
	return []planning.Action{{
		Verb: planning.VerbPatch, Step: stepFinalizer, Kind: kind(), Object: r, Change: planning.MetadataPatch(r, map[string]any{"finalizers": all}), Reason: "Finalizer",
		Failure: planning.Event{Warning: true, Reason: "FailedFinalizer", Message: "Changing the finalizers"},
	}}
}

// order creates or changes the BatchRelease.
func order(r *v1beta1.Rollout, release *v1beta1.BatchRelease, spec *v1beta1.BatchReleaseSpec) ([]planning.Action, error) {
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
		return []planning.Action{action}, nil
	}
	if release.DeletionTimestamp != nil || sameOrder(release.Spec, *spec) {
		return nil, nil
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": release.UID},
		{"op": "test", "path": "/metadata/resourceVersion", "value": release.ResourceVersion},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding an order: %w", err)
	}
	action.Verb, action.Object, action.Change = planning.VerbPatch, release, planning.RawPatch{Type: types.JSONPatchType, Body: body}
	return []planning.Action{action}, nil
}

func sameOrder(a, b v1beta1.BatchReleaseSpec) bool {
	return equality.Semantic.DeepEqual(a, b)
}
