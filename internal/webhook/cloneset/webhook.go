// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloneset is admission for CloneSets: it fills in defaults and refuses what cannot work.
//
// What holds for every request:
//
//   - an update that leaves the spec as it is passes unseen, so that finalizers and metadata can always be edited;
//   - what is written back are the defaults and nothing else: fields that this version does not know survive, and pod and claim
//     templates stay as written;
//   - the rules are about v1beta1, to which the API server converts first; a client of v1alpha1 is answered in its own terms, and a
//     manifest of v1alpha1 does not switch off what only v1beta1 can say;
//   - a template that the API server would refuse is refused, when it is new. Without an answer it is let in, and the controller
//     reports.
//
// Default, Keep, Validate and Warnings are pure. What needs the cluster are two steps of the validator: Templates and Pods.
package cloneset

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/webhook/wire"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

const (
	// MutatePath is where the API server calls the defaulter.
	MutatePath = "/mutate-apps-kruise-io-v1beta1-cloneset"
	// ValidatePath is where the API server calls the validator.
	ValidatePath = "/validate-apps-kruise-io-v1beta1-cloneset"
)

// Defaulter is the mutating webhook.
type Defaulter struct{}

// Handle fills in defaults.
func (d *Defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	if workload.SpecUnchanged(req) {
		return admission.Allowed("")
	}
	return workload.Default(ctx, req, req.Object.Raw, func(set *appsv1beta1.CloneSet) {
		if old := stored(ctx, req); old != nil && throughV1alpha1(req) {
			Keep(set, old)
		}
		Default(set)
	})
}

// Validator is the validating webhook.
type Validator struct {
	Options Options
	// Templates checks pod templates; what it finds is refused.
	Templates templatecheck.Checker
	// Pods looks up the pods that an update asks to delete.
	Pods Pods
}

// Handle refuses what cannot work and warns of what may not.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if workload.SpecUnchanged(req) {
		return admission.Allowed("")
	}
	set := &appsv1beta1.CloneSet{}
	unknown, errs := wire.Decode(req.Object.Raw, set)
	if len(errs) > 0 {
		return refuse(req, errs)
	}
	// There may be three questions to the API server; together they must leave time to answer.
	ctx, cancel := context.WithTimeout(ctx, 2*workload.LookupTimeout)
	defer cancel()

	old := stored(ctx, req)
	if errs := Validate(set, old); len(errs) > 0 {
		return refuse(req, errs)
	}
	if old != nil {
		if errs := v.Pods.check(ctx, set, old); len(errs) > 0 {
			return refuse(req, errs)
		}
	}
	if faults := v.checkTemplate(ctx, req.Namespace, set, old); len(faults) > 0 {
		return workload.RefuseTemplate(kind(), req.Name, faults)
	}
	return admission.Allowed("").WithWarnings(append(Warnings(set, old, v.Options), workload.UnknownFields(unknown)...)...)
}

// checkTemplate returns the faults of a new template. Those that the stored one has too are not held against an update.
func (v *Validator) checkTemplate(ctx context.Context, namespace string, set, old *appsv1beta1.CloneSet) []templatecheck.Fault {
	if old != nil && workload.SameTemplates(&set.Spec.Template, &old.Spec.Template, set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates) {
		return nil
	}
	faults := v.ask(ctx, namespace, set)
	if len(faults) == 0 || old == nil {
		return faults
	}
	known := v.ask(ctx, namespace, old)
	return slices.DeleteFunc(faults, func(f templatecheck.Fault) bool { return slices.Contains(known, f) })
}

// ask returns what the API server finds wrong with the template of a set, or nothing when it does not answer.
func (v *Validator) ask(ctx context.Context, namespace string, set *appsv1beta1.CloneSet) []templatecheck.Fault {
	ctx, cancel := context.WithTimeout(ctx, workload.LookupTimeout)
	defer cancel()
	faults, err := v.Templates.Check(ctx, namespace, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Letting a pod template in unchecked", "reason", err.Error())
	}
	return faults
}

// stored is the object before an update, nil for a creation. What is unreadable is left out, so that an update is welcome to mend it.
func stored(ctx context.Context, req admission.Request) *appsv1beta1.CloneSet {
	if req.Operation != admissionv1.Update {
		return nil
	}
	old := &appsv1beta1.CloneSet{}
	if _, errs := wire.Decode(req.OldObject.Raw, old); len(errs) > 0 {
		ctrl.LoggerFrom(ctx).Info("A stored CloneSet has values that cannot be read", "reason", errs.ToAggregate().Error())
	}
	return old
}

func refuse(req admission.Request, errs field.ErrorList) admission.Response {
	if throughV1alpha1(req) {
		errs = InV1alpha1(errs)
	}
	return workload.Refuse(kind(), req.Name, errs)
}

func throughV1alpha1(req admission.Request) bool {
	return workload.Through(req, appsv1alpha1.GroupVersion().Version)
}

func kind() schema.GroupKind {
	return schema.GroupKind{Group: appsv1beta1.GroupVersion().Group, Kind: "CloneSet"}
}
