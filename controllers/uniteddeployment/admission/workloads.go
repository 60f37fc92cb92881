// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=create
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=create

// maxAsked is the largest number of subsets to ask the API server about. Faults of others show in
// the status.
const maxAsked = 10

// maxTogether is how much memory all workloads of a new set may take, by weight of their template:
// a few kilobytes of template, once for each of hundreds of subsets, would be gigabytes in the
// operator.
const maxTogether = 256 << 20

// Workloads asks the API server about the workloads of a UnitedDeployment.
type Workloads struct {
	// Client creates them, as a dry run.
	Client client.Writer
}

// check returns the API server's faults with new workloads, or new values. An update is not refused
// for faults of the stored ones.
func (w Workloads) check(ctx context.Context, set, old *appsv1beta1.UnitedDeployment) field.ErrorList {
	if w.Client == nil {
		return nil
	}
	now, was := sync.OnceValue(func() *united.Spec { return united.Parse(set) }), sync.OnceValue(func() *united.Spec { return united.Parse(old) })
	stored, sameTemplate := map[string]*appsv1beta1.Subset{}, false
	if old != nil {
		stored, sameTemplate = subsetsByName(old), equality.Semantic.DeepEqual(set.Spec.Template, old.Spec.Template)
	}
	if !sameTemplate || len(set.Spec.Topology.Subsets) > len(old.Spec.Topology.Subsets) {
		if takes := memoryOf(now()); takes > maxTogether && (old == nil || takes > memoryOf(was())) {
			return together(now(), takes)
		}
	}
	asked := 0
	var fine []*appsv1beta1.Subset
	for i := range set.Spec.Topology.Subsets {
		sub := &set.Spec.Topology.Subsets[i]
		before := sameButSizes(stored[sub.Name], sub)
		if before && sameTemplate || slices.ContainsFunc(fine, func(other *appsv1beta1.Subset) bool { return acceptedTogether(sub, other) }) {
			continue
		}
		if asked++; asked > maxAsked || ctx.Err() != nil {
			return nil
		}
		errs := w.ask(ctx, now(), sub.Name)
		if len(errs) == 0 {
			fine = append(fine, sub)
		}
		if len(errs) > 0 && before {
			if ctx.Err() != nil {
				return nil // whether they are new is not known
			}
			errs = admit.Introduced(errs, w.ask(ctx, was(), sub.Name))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// together refuses a template too large for all subsets together.
func together(now *united.Spec, takes int) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec", "topology", "subsets"), len(now.Subsets), fmt.Sprintf(
		"the workloads of all subsets would take about %d MiB of memory, at most %d MiB are allowed: have fewer subsets, or a smaller template",
		takes>>20, maxTogether>>20))}
}

// memoryOf is about how many bytes the workloads of a set take.
func memoryOf(spec *united.Spec) int { return len(spec.Subsets) * weight(spec.Template) }

// acceptedTogether: the API server takes the workloads of both subsets or of none. Node selectors
// and tolerations have been judged one by one; only their presence matters, and comparisons.
func acceptedTogether(a, b *appsv1beta1.Subset) bool {
	return equality.Semantic.DeepEqual(a.Patch, b.Patch) && (len(a.Tolerations) > 0) == (len(b.Tolerations) > 0) &&
		slices.ContainsFunc(a.Tolerations, compares) == slices.ContainsFunc(b.Tolerations, compares) &&
		(len(a.NodeSelectorTerm.MatchExpressions) > 0) == (len(b.NodeSelectorTerm.MatchExpressions) > 0)
}

// sameButSizes: the stored object has the subset as it is, sizes excepted.
func sameButSizes(stored, sub *appsv1beta1.Subset) bool {
	return stored != nil && equality.Semantic.DeepEqual(stored.NodeSelectorTerm, sub.NodeSelectorTerm) &&
		equality.Semantic.DeepEqual(stored.Tolerations, sub.Tolerations) && equality.Semantic.DeepEqual(stored.Patch, sub.Patch)
}

// ask returns the API server's faults with the workload of a subset. Without an answer there are
// none.
func (w Workloads) ask(ctx context.Context, spec *united.Spec, name string) field.ErrorList {
	i := slices.IndexFunc(spec.Subsets, func(s united.Subset) bool { return s.Name == name })
	if spec.Invalid != nil || i < 0 {
		return nil
	}
	wanted, err := spec.Manifest(&spec.Subsets[i], united.Target{Name: united.Names(spec.Set.Name, name)[0], Revision: spec.Set.Name + "-0000000000", Size: 1})
	path := field.NewPath("spec", "template", spec.Adapter.Field)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", fmt.Sprintf("subset %s: %v", name, err))}
	}
	wanted.SetGenerateName(wanted.GetName() + "-")
	wanted.SetName("")
	wanted.SetOwnerReferences(nil)
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	return faultsOf(ctx, w.Client.Create(ctx, wanted, client.DryRunAll), path, name)
}

// faultsOf are the faults of an answer. Answers about something else, such as a quota, are no
// faults.
func faultsOf(ctx context.Context, err error, path *field.Path, name string) field.ErrorList {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Letting a workload in unchecked", "subset", name, "reason", err.Error())
		}
		return nil
	}
	var errs field.ErrorList
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field == "<nil>" && len(details.Causes) > 1 {
				continue // that rules were not checked, because of the other causes
			}
			at := path
			if cause.Field != "" && cause.Field != "<nil>" {
				at = path.Child(cause.Field)
			}
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("subset %s: %s", name, strings.TrimPrefix(cause.Message, "Invalid value: "))))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("subset %s: %s", name, status.Status().Message)))
	}
	return errs
}
