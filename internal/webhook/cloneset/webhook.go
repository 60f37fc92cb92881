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

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-cloneset,mutating=true,groups=apps.kruise.io,resources=clonesets,verbs=create;update,versions=v1beta1,name=default.clonesets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-cloneset,mutating=false,groups=apps.kruise.io,resources=clonesets,verbs=create;update,versions=v1beta1,name=validate.clonesets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

const (
	// MutatePath is where the API server calls the defaulter.
	MutatePath = "/mutate-apps-kruise-io-v1beta1-cloneset"
	// ValidatePath is where the API server calls the validator.
	ValidatePath = "/validate-apps-kruise-io-v1beta1-cloneset"
)

// Defaulter is the mutating webhook.
type Defaulter struct{}

// Handle fills in defaults, and keeps what a client of v1alpha1 cannot say.
func (d *Defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	return workload.Default(ctx, req, nil, func(set *appsv1beta1.CloneSet) {
		if throughV1alpha1(req) {
			if old := workload.Stored[appsv1beta1.CloneSet](ctx, req, kind()); old != nil {
				Keep(set, old)
			}
		}
		Default(set)
	})
}

// Validator is the validating webhook.
type Validator struct {
	Options Options
	// Protects says whether the label policy.kruise.io/delete-protection is honored.
	Protects bool
	// Templates checks pod templates; what it finds is refused.
	Templates templatecheck.Checker
	// Pods looks up the pods that an update asks to delete.
	Pods Pods
}

// Handle refuses what cannot work and warns of what may not.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	// There may be three questions to the API server; together they must leave time to answer.
	ctx, cancel := context.WithTimeout(ctx, 2*workload.LookupTimeout)
	defer cancel()
	return workload.Validate(ctx, req, kind().Protecting(v.Protects), func(ctx context.Context, set, old *appsv1beta1.CloneSet) workload.Verdict {
		if errs := Validate(set, old); len(errs) > 0 {
			return workload.Verdict{Errors: errs}
		}
		if old != nil {
			if errs := v.Pods.check(ctx, set, old); len(errs) > 0 {
				return workload.Verdict{Errors: errs}
			}
		}
		verdict := workload.Verdict{Warnings: Warnings(set, old, v.Options)}
		if throughV1alpha1(req) {
			verdict.Warnings = WarningsInV1alpha1(verdict.Warnings)
		}
		for _, fault := range v.checkTemplate(ctx, req.Namespace, set, old) {
			if fault.PodsOnly {
				verdict.Warnings = append(verdict.Warnings, workload.WarnOfTemplate(fault))
			} else {
				verdict.Template = append(verdict.Template, fault)
			}
		}
		return verdict
	})
}

// checkTemplate returns the faults of a new template. Those that the stored one has too are not held against an update. OpenKruise takes
// what the server takes in a template and only refuses in a pod, so it is no reason to refuse the set.
func (v *Validator) checkTemplate(ctx context.Context, namespace string, set, old *appsv1beta1.CloneSet) []templatecheck.Fault {
	if old != nil && templates(set).Same(templates(old)) {
		return nil
	}
	faults := templates(set).Faults(ctx, v.Templates, namespace)
	if len(faults) == 0 || old == nil {
		return faults
	}
	known := templates(old).Faults(ctx, v.Templates, namespace)
	return slices.DeleteFunc(faults, func(f templatecheck.Fault) bool { return slices.Contains(known, f) })
}

func templates(set *appsv1beta1.CloneSet) workload.Templates {
	return workload.Templates{Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
}

func throughV1alpha1(req admission.Request) bool {
	return workload.Through(req, appsv1alpha1.GroupVersion().Version)
}

func kind() workload.Kind {
	return workload.Kind{
		GroupKind: schema.GroupKind{Group: appsv1beta1.GroupVersion().Group, Kind: "CloneSet"},
		Named: func(req admission.Request, errs field.ErrorList) field.ErrorList {
			if throughV1alpha1(req) {
				return InV1alpha1(errs)
			}
			return errs
		},
	}
}
