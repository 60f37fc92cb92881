// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

// Kind is what the frame of a kind's webhooks needs to know about the kind.
type Kind struct {
	schema.GroupKind
	// Named renames the fields of errors for a client of another version than the one that the rules are about. Nil: no field has
	// another name there.
	Named func(req admission.Request, errs field.ErrorList) field.ErrorList

	protects bool // see Protecting
}

// Verdict is what a kind's rules say about an object.
type Verdict struct {
	// Errors refuse it.
	Errors field.ErrorList
	// Template is what the API server says against the pod template; it refuses the object too.
	Template []templatecheck.Fault
	// Warnings go along with an object that is let in.
	Warnings []string
}

// Default answers a request to fill in defaults. fill sets what is missing. An update that leaves the spec as it is passes unseen,
// fields that the type does not have survive, and what cannot be read passes: the schema or the validator refuses it, and says where
// it is wrong.
//
// restore, where it is not nil, is given the object of an update before that, and the stored one, as they came.
func Default[T any](ctx context.Context, req admission.Request, restore func(raw, stored []byte) ([]byte, error), fill func(set *T)) admission.Response {
	if SpecUnchanged(req) {
		return admission.Allowed("")
	}
	raw := req.Object.Raw
	if restore != nil && req.Operation == admissionv1.Update {
		restored, err := restore(raw, req.OldObject.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		raw = restored
	}
	before, after := new(T), new(T)
	if _, errs := wire.Decode(raw, before); len(errs) > 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("No defaults for an object that cannot be read", "reason", errs.ToAggregate().Error())
		return admission.PatchResponseFromRaw(req.Object.Raw, raw)
	}
	wire.Decode(raw, after)
	fill(after)
	defaulted, err := wire.Merge(raw, before, after)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, defaulted)
}

// Validate answers a request to check an object. judge holds the rules; old is the stored object, nil for a creation. An update that
// leaves the spec as it is passes unseen. What cannot be read is refused with the path of the value.
func Validate[T any](ctx context.Context, req admission.Request, kind Kind, judge func(ctx context.Context, set, old *T) Verdict) admission.Response {
	unprotected := kind.unprotected(req)
	if SpecUnchanged(req) {
		return admission.Allowed("").WithWarnings(unprotected...)
	}
	set := new(T)
	unknown, errs := wire.Decode(req.Object.Raw, set)
	if len(errs) > 0 {
		return kind.refuse(req, errs)
	}
	verdict := judge(ctx, set, Stored[T](ctx, req, kind))
	switch {
	case len(verdict.Errors) > 0:
		return kind.refuse(req, verdict.Errors)
	case len(verdict.Template) > 0:
		return RefuseTemplate(kind.GroupKind, req.Name, verdict.Template)
	default:
		return admission.Allowed("").WithWarnings(slices.Concat(verdict.Warnings, UnknownFields(unknown), unprotected)...)
	}
}

// Stored is the object before an update, nil for a creation. What is unreadable is left out, so that an update is welcome to mend it.
func Stored[T any](ctx context.Context, req admission.Request, kind Kind) *T {
	if req.Operation != admissionv1.Update {
		return nil
	}
	old := new(T)
	if _, errs := wire.Decode(req.OldObject.Raw, old); len(errs) > 0 {
		ctrl.LoggerFrom(ctx).Info("A stored object has values that cannot be read", "kind", kind.Kind, "reason", errs.ToAggregate().Error())
	}
	return old
}

func (k Kind) refuse(req admission.Request, errs field.ErrorList) admission.Response {
	if k.Named != nil {
		errs = k.Named(req, errs)
	}
	return Refuse(k.GroupKind, req.Name, errs)
}

// Templates are what a set makes its pods from.
type Templates struct {
	Pod    *corev1.PodTemplateSpec
	Claims []corev1.PersistentVolumeClaim
}

// Faults returns what the API server finds wrong with templates. Without an answer there is nothing: the set is let in, and its
// controller asks again and reports.
func (t Templates) Faults(ctx context.Context, checker templatecheck.Checker, namespace string) []templatecheck.Fault {
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	faults, err := checker.Check(ctx, namespace, t.Pod, t.Claims)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Letting a pod template in unchecked", "reason", err.Error())
		return nil
	}
	return faults
}
