// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const stepScaling planning.Step = "HoldAutoscaler"

const (
	// disabled is the policy of an autoscaler that takes no pods.
	disabled = "Disabled"
	// none stands for a value that was not there.
	none = "none"
	// pausedScaleIn is KEDA's: its object takes no pods.
	pausedScaleIn = "autoscaling.keda.sh/paused-scale-in"
	// switchedOff is appended to the name of a target by OpenKruise. No workload can have such a name.
	switchedOff = "-DisableByRollout"
)

// scaler is an autoscaler of a workload. That of KEDA has one of Kubernetes, and would write its policy back.
type scaler struct {
	kind   schema.GroupVersionKind
	object *unstructured.Unstructured
	// target is its name before OpenKruise changed it; empty: it did not.
	target string
}

// before is what stood there before the release; false: it is not held.
func (s scaler) before() (string, bool) {
	text, held := s.object.GetAnnotations()[shared.AnnotationScaleIn]
	return text, held
}

// readScalers lists the autoscalers of a workload while they are to be held or freed.
func (r *Reconciler) readScalers(ctx context.Context, o *observed, release *v1beta1.BatchRelease) error {
	begins := release.Status.Phase != v1beta1.BatchReleasePhaseProgressing && release.Status.Phase != v1beta1.BatchReleasePhaseCompleted
	ends := release.DeletionTimestamp != nil || release.Spec.ReleasePlan.BatchPartition == nil
	if !o.beside || !begins && !ends {
		return nil
	}
	like := &unstructured.UnstructuredList{}
	like.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscalerList"))
	for page, err := range pages.All(ctx, r.Live, like, client.InNamespace(release.Namespace)) {
		if err != nil {
			return fmt.Errorf("listing autoscalers: %w", err)
		}
		for i := range page.Items {
			s, err := r.scalerOf(ctx, o, &page.Items[i], release.Spec.WorkloadRef.Name)
			if err != nil {
				return err
			}
			if s == nil {
				continue
			}
			o.scalers = append(o.scalers, *s)
			_, held := s.before()
			o.snapshot.Held, o.snapshot.Scaling = o.snapshot.Held || held || s.target != "", o.snapshot.Scaling || !held || s.target != ""
		}
	}
	return nil
}

// scalerOf is who decides for an autoscaler of the workload; nil: it is that of another one.
func (r *Reconciler) scalerOf(ctx context.Context, o *observed, autoscaler *unstructured.Unstructured, name string) (*scaler, error) {
	target, _, _ := unstructured.NestedStringMap(autoscaler.Object, "spec", "scaleTargetRef")
	named, off := strings.CutSuffix(target["name"], switchedOff)
	if named != name || schema.FromAPIVersionAndKind(target["apiVersion"], target["kind"]).GroupKind() != o.row.Kind.GroupKind() {
		return nil, nil
	}
	owner := metav1.GetControllerOf(autoscaler)
	if owner == nil || owner.Kind != "ScaledObject" {
		s := &scaler{kind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), object: autoscaler}
		if off {
			s.target = name
		}
		return s, nil
	}
	s := &scaler{kind: schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)}
	s.object = workload.Object(s.kind)
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: autoscaler.GetNamespace(), Name: owner.Name}, s.object)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil // its autoscaler goes, too
	case err != nil:
		return nil, fmt.Errorf("reading the ScaledObject %s: %w", owner.Name, err)
	}
	return s, nil
}

// scale holds autoscalers, or frees those that are held.
func (o *observed) scale(hold bool) []planning.Action {
	var all []planning.Action
	for _, s := range o.scalers {
		body := s.change(hold)
		if len(body) == 0 {
			continue
		}
		all = append(all, planning.Action{
			Verb: planning.VerbPatch, Step: stepScaling, Kind: s.kind, Object: s.object, Change: planning.MergePatch(s.object, body), Key: s.kind.Kind + " " + s.object.GetName(),
			Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Changing the " + s.kind.Kind + " " + s.object.GetName()},
		})
	}
	return all
}

// change holds it, or frees it, and gives it its target back; empty: there is nothing to change.
func (s scaler) change(hold bool) fields {
	body := fields{}
	switch before, held := s.before(); {
	case hold && !held:
		body = s.held()
	case held && !hold:
		body = s.freed(before)
	}
	if s.target != "" {
		put(body, s.target, "spec", "scaleTargetRef", "name")
	}
	return body
}

// put sets a field of a patch.
func put(body fields, value any, path ...string) {
	_ = unstructured.SetNestedField(body, value, path...)
}

// field is where it says that it takes no pods, with the value for that. outer is all of it that may not be there.
func (s scaler) field() (value string, path, outer []string) {
	if s.kind.Kind == "ScaledObject" {
		path = []string{"metadata", "annotations", pausedScaleIn}
		return "true", path, path
	}
	path = []string{"spec", "behavior", "scaleDown", "selectPolicy"}
	return disabled, path, path[:2] // the API server fills in the rest of it
}

// now is what stands there.
func (s scaler) now() string {
	_, path, _ := s.field()
	value, _, _ := unstructured.NestedString(s.object.Object, path...)
	return value
}

// held keeps it from taking pods, and notes what stands there.
func (s scaler) held() fields {
	value, path, _ := s.field()
	body := nested(cmp.Or(s.now(), none), "metadata", "annotations", shared.AnnotationScaleIn)
	put(body, value, path...)
	return body
}

// freed puts back what stood there. What somebody else has written meanwhile stays.
func (s scaler) freed(before string) fields {
	value, path, outer := s.field()
	body := nested(nil, "metadata", "annotations", shared.AnnotationScaleIn)
	switch {
	case s.now() != value:
	case before == none:
		put(body, nil, outer...)
	default:
		put(body, before, path...)
	}
	return body
}
