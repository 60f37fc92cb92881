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

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
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

// Handle fills in defaults, and restores what a client of v1alpha1 does not know.
func (d *Defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	var restore func(raw, stored []byte) ([]byte, error)
	if workload.Through(req, appsv1alpha1.GroupVersion().Version) {
		restore = func(raw, stored []byte) ([]byte, error) { return wire.Restore(raw, stored, newerFields()...) }
	}
	return workload.Default(ctx, req, restore, func(set *appsv1beta1.StatefulSet) { Default(set, d.Options) })
}

// Validator is the validating webhook.
type Validator struct {
	Options Options
	// Protects says whether the label policy.kruise.io/delete-protection is honored.
	Protects bool
	// Templates checks pod templates; its findings become warnings.
	Templates templatecheck.Checker
	// Classes looks up storage classes for the size of claims. It is asked only while claims are resized.
	Classes StorageClasses
}

// Handle refuses what cannot work and warns of what may not.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	return workload.Validate(ctx, req, kind().Protecting(v.Protects), func(ctx context.Context, set, old *appsv1beta1.StatefulSet) workload.Verdict {
		if errs := Validate(set, old, v.Options); len(errs) > 0 {
			return workload.Verdict{Errors: errs}
		}
		if old != nil && resizes(set, v.Options) {
			if errs := v.Classes.check(ctx, set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates); len(errs) > 0 {
				return workload.Verdict{Errors: errs}
			}
		}
		return workload.Verdict{Warnings: append(Warnings(set, old, v.Options), v.checkTemplate(ctx, req.Namespace, set, old)...)}
	})
}

// checkTemplate warns of a new template that the API server would refuse.
func (v *Validator) checkTemplate(ctx context.Context, namespace string, set, old *appsv1beta1.StatefulSet) []string {
	if old != nil && templates(set).Same(templates(old)) {
		return nil
	}
	var warnings []string
	faults := templates(set).Faults(ctx, v.Templates, namespace)
	for i, fault := range faults {
		if i == workload.MaxFaults {
			return append(warnings, fmt.Sprintf("spec.template: %d more faults", len(faults)-workload.MaxFaults))
		}
		warnings = append(warnings, workload.WarnOfTemplate(fault))
	}
	return warnings
}

func templates(set *appsv1beta1.StatefulSet) workload.Templates {
	return workload.Templates{Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
}

func kind() workload.Kind {
	return workload.Kind{GroupKind: schema.GroupKind{Group: appsv1beta1.GroupVersion().Group, Kind: "StatefulSet"}}
}
