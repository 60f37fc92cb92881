// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits Rollouts: it refuses faults, what this version does not do, and a second Rollout of a workload or Service.
package admission

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-rollouts-kruise-io-v1beta1-rollout,mutating=true,groups=rollouts.kruise.io,resources=rollouts,verbs=create;update,versions=v1beta1,name=default.rollouts.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-rollouts-kruise-io-v1beta1-rollout,mutating=false,groups=rollouts.kruise.io,resources=rollouts,verbs=create;update,versions=v1beta1,name=validate.rollouts.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// maxOthers and maxBytes limit the Rollouts read for one request.
const (
	maxOthers = 1000
	maxBytes  = 4 << 20
)

// Others finds the other Rollouts, and scripts for routes.
type Others struct{ routes.Judge }

// Kind are the rules for Rollouts. announce labels the workload of a valid one; nil: the controller does.
func Kind(others Others, announce func(context.Context, *unstructured.Unstructured) []string) admit.Kind[v1beta1.Rollout, *v1beta1.Rollout] {
	return admit.Kind[v1beta1.Rollout, *v1beta1.Rollout]{
		GroupVersionKind: v1beta1.GroupVersion().WithKind("Rollout"),
		Older:            v1alpha1.GroupVersion().Version,
		OlderField:       fieldInV1alpha1,
		OlderAllows:      inV1alpha1,
		Default:          func(*v1beta1.Rollout) {},
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp:           others.lookUp,
		Announce:         announce,
		Warnings:         warnings,
		ChecksMetadata:   true,
	}
}

// inV1alpha1: another number of steps in a release. OpenKruise lets clients of v1alpha1 write it.
func inV1alpha1(fault *field.Error) bool {
	return fault.Type == field.ErrorTypeForbidden && fault.Field == "spec.strategy.canary.steps"
}

// fieldInV1alpha1 is v1alpha1's name of a field.
func fieldInV1alpha1(path string) string {
	if rest, found := strings.CutPrefix(path, "spec.workloadRef"); found {
		return "spec.objectRef.workloadRef" + rest
	}
	return path
}

// lookUp finds faults by other objects. An unreadable one admits.
func (o Others) lookUp(ctx context.Context, r, old *v1beta1.Rollout) (field.ErrorList, []string) {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	errs := o.Faults(ctx, func(scripts map[string]string) field.ErrorList {
		return admit.IntroducedBy(func(o *v1beta1.Rollout) field.ErrorList { return unserved(o, scripts) }, r, old)
	})
	if len(errs) == 0 {
		errs = o.check(ctx, r, old)
	}
	return errs, nil
}

// check refuses a second Rollout of a workload or of its Service.
func (o Others) check(ctx context.Context, r, old *v1beta1.Rollout) field.ErrorList {
	service := serviceOf(r)
	if old != nil && old.Spec.WorkloadRef == r.Spec.WorkloadRef && serviceOf(old) == service {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("RolloutList"))
	var errs field.ErrorList
	_, err := pages.Read(ctx, o.Reader, list, pages.Limits{Objects: maxOthers, Bytes: maxBytes}, func(page *unstructured.UnstructuredList) bool {
		for i := range page.Items {
			if other := page.Items[i].Object; len(errs) == 0 && page.Items[i].GetName() != r.Name {
				errs = conflicts(r, service, other, page.Items[i].GetName())
			}
		}
		return len(errs) == 0
	}, client.InNamespace(r.Namespace))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a Rollout in without a look at the others")
	}
	return errs
}

// conflicts are those with another Rollout. Two would give one Service the pods of either workload in turn.
func conflicts(r *v1beta1.Rollout, service string, other map[string]any, name string) field.ErrorList {
	ref, _, _ := unstructured.NestedStringMap(other, "spec", "workloadRef")
	if same(r.Spec.WorkloadRef, v1beta1.ObjectRef{APIVersion: ref["apiVersion"], Kind: ref["kind"], Name: ref["name"]}) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "workloadRef"), r.Spec.WorkloadRef, "is the workload of Rollout "+name+" already")}
	}
	for _, style := range []string{"canary", "blueGreen"} {
		all, _, _ := unstructured.NestedSlice(other, "spec", "strategy", style, "trafficRoutings")
		for _, routing := range all {
			if fields, _ := routing.(map[string]any); service != "" && fields["service"] == service {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "strategy"), service, "is the Service of Rollout "+name+" already")}
			}
		}
	}
	return nil
}

// serviceOf is the Service that a release pins; empty: none.
func serviceOf(r *v1beta1.Rollout) string {
	r, _ = unified(r, field.NewPath("spec"))
	if canary := r.Spec.Strategy.Canary; canary != nil && len(canary.TrafficRoutings) > 0 {
		return canary.TrafficRoutings[0].Service
	}
	return ""
}

// same compares workloads, whatever the version of their group.
func same(a, b v1beta1.ObjectRef) bool {
	return a.Name == b.Name &&
		schema.FromAPIVersionAndKind(a.APIVersion, a.Kind).GroupKind() == schema.FromAPIVersionAndKind(b.APIVersion, b.Kind).GroupKind()
}
