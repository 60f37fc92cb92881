// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/selecting"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// maxWorkloads and maxWorkloadBytes limit one kind's workloads, and their bytes.
const (
	maxWorkloads     = 500
	maxWorkloadBytes = 4 << 20
)

// Workloads finds the labels workloads select pods by.
type Workloads struct {
	// Reader asks the API server, not a cache: most of these kinds are not cached.
	Reader client.Reader
}

// check refuses new policies writing a label some workload selects
// by: results would take its pods away. On a failed read it admits.
func (w Workloads) check(ctx context.Context, m, old *appsv1alpha1.PodProbeMarker) (field.ErrorList, []string) {
	added := policyLabels(m)
	if old != nil {
		added = added.Difference(policyLabels(old))
	}
	if len(added) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	found := sets.New[string]()
	for _, kind := range selecting.Workloads() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		limits := pages.Limits{Objects: maxWorkloads, Bytes: maxWorkloadBytes}
		_, err := pages.Read(ctx, w.Reader, list, limits, func(page *unstructured.UnstructuredList) bool {
			for i := range page.Items {
				found = found.Union(selecting.Keys(&page.Items[i]).Intersection(added))
			}
			return len(found) < len(added)
		}, client.InNamespace(m.Namespace))
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Error(err, "Letting labels of a PodProbeMarker in without a look at the workloads", "kind", kind.Kind)
		}
	}
	return refused(m, found), nil
}

func policyLabels(m *appsv1alpha1.PodProbeMarker) sets.Set[string] {
	keys := sets.New[string]()
	for i := range m.Spec.Probes {
		for j := range m.Spec.Probes[i].MarkerPolicy {
			keys = keys.Union(sets.KeySet(m.Spec.Probes[i].MarkerPolicy[j].Labels))
		}
	}
	return keys
}

func refused(m *appsv1alpha1.PodProbeMarker, keys sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	for i := range m.Spec.Probes {
		for j := range m.Spec.Probes[i].MarkerPolicy {
			path := field.NewPath("spec", "probes").Index(i).Child("markerPolicy").Index(j).Child("labels")
			for _, key := range sets.List(keys.Intersection(sets.KeySet(m.Spec.Probes[i].MarkerPolicy[j].Labels))) {
				errs = append(errs, field.Forbidden(path.Key(key), "must not be a label by which a workload of the namespace selects its pods"))
			}
		}
	}
	return errs
}
