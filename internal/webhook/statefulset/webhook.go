// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefulset is admission for StatefulSets of apps.kruise.io: it fills in defaults and refuses what cannot work.
//
// What holds for every request:
//
//   - an update that leaves the spec as it is passes unseen, so that finalizers and metadata can always be edited;
//   - what is written back are the defaults and nothing else: fields that this version does not know survive, and pod and claim
//     templates stay as written;
//   - an update through v1alpha1 does not lose the fields that only v1beta1 clients know;
//   - a template that cannot be read as one is refused with the path of the value, one that the API server would refuse is let
//     in with a warning, as OpenKruise lets it in.
//
// Default, Validate and Warnings are pure. What needs the cluster are two steps of the validator: Templates and Classes.
package statefulset

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/webhook/wire"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-statefulset,mutating=true,groups=apps.kruise.io,resources=statefulsets,verbs=create;update,versions=v1beta1,name=default.statefulsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-statefulset,mutating=false,groups=apps.kruise.io,resources=statefulsets,verbs=create;update,versions=v1beta1,name=validate.statefulsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

const (
	// MutatePath is where the API server calls the defaulter.
	MutatePath = "/mutate-apps-kruise-io-v1beta1-statefulset"
	// ValidatePath is where the API server calls the validator.
	ValidatePath = "/validate-apps-kruise-io-v1beta1-statefulset"
)

// newerFields are the fields of the spec that clients of v1alpha1 do not know, and leave out when they write a whole object.
func newerFields() []string {
	return []string{
		"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy", "volumeClaimUpdateStrategy",
	}
}

// Defaulter is the mutating webhook.
type Defaulter struct {
	Options Options
}

// Handle fills in defaults. What cannot be read passes: the schema or the validator refuses it, and says where it is wrong.
func (d *Defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	if workload.SpecUnchanged(req) {
		return admission.Allowed("")
	}
	raw := req.Object.Raw
	if req.Operation == admissionv1.Update && workload.Through(req, appsv1alpha1.GroupVersion().Version) {
		restored, err := wire.Restore(raw, req.OldObject.Raw, newerFields()...)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		raw = restored
	}
	return workload.Default(ctx, req, raw, func(set *appsv1beta1.StatefulSet) { Default(set, d.Options) })
}

// Validator is the validating webhook.
type Validator struct {
	Options Options
	// Templates checks pod templates; its findings become warnings.
	Templates templatecheck.Checker
	// Classes looks up storage classes for the size of claims. It is asked only while claims are resized.
	Classes StorageClasses
}

// Handle refuses what cannot work and warns of what may not.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if workload.SpecUnchanged(req) {
		return admission.Allowed("")
	}
	set := &appsv1beta1.StatefulSet{}
	unknown, errs := wire.Decode(req.Object.Raw, set)
	if len(errs) > 0 {
		return workload.Refuse(kind(), req.Name, errs)
	}
	var old *appsv1beta1.StatefulSet
	if req.Operation == admissionv1.Update {
		old = &appsv1beta1.StatefulSet{}
		if _, errs := wire.Decode(req.OldObject.Raw, old); len(errs) > 0 {
			// What is unreadable is left out of old, so this update is welcome to mend it.
			ctrl.LoggerFrom(ctx).Info("A stored StatefulSet has values that cannot be read", "reason", errs.ToAggregate().Error())
		}
	}

	if errs := Validate(set, old, v.Options); len(errs) > 0 {
		return workload.Refuse(kind(), req.Name, errs)
	}
	if old != nil && resizes(set, v.Options) {
		if errs := v.Classes.check(ctx, set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates); len(errs) > 0 {
			return workload.Refuse(kind(), req.Name, errs)
		}
	}

	warnings := Warnings(set, old, v.Options)
	warnings = append(warnings, workload.UnknownFields(unknown)...)
	warnings = append(warnings, v.checkTemplate(ctx, req.Namespace, set, old)...)
	return admission.Allowed("").WithWarnings(warnings...)
}

// checkTemplate warns of a new template that the API server would refuse. Without an answer the set is let in: its controller
// asks again and reports.
func (v *Validator) checkTemplate(ctx context.Context, namespace string, set, old *appsv1beta1.StatefulSet) []string {
	if old != nil && workload.SameTemplates(&set.Spec.Template, &old.Spec.Template, set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workload.LookupTimeout)
	defer cancel()
	faults, err := v.Templates.Check(ctx, namespace, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Letting a pod template in unchecked", "reason", err.Error())
		return nil
	}
	var warnings []string
	for i, fault := range faults {
		if i == workload.MaxFaults {
			return append(warnings, fmt.Sprintf("spec.template: %d more faults", len(faults)-workload.MaxFaults))
		}
		warnings = append(warnings, fault.String()+" (pods cannot be created from this template)")
	}
	return warnings
}

func kind() schema.GroupKind {
	return schema.GroupKind{Group: appsv1beta1.GroupVersion().Group, Kind: "StatefulSet"}
}
