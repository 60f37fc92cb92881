// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// stored has three distributions of a ConfigMap each: by name, by label, and with a selector that cannot be read.
func stored(t *testing.T) *Reconciler {
	t.Helper()
	var all []client.Object
	for name, targets := range map[string]appsv1beta1.ResourceDistributionTargets{
		"named":  {IncludedNamespaces: appsv1beta1.ResourceDistributionTargetNamespaces{List: []appsv1beta1.ResourceDistributionNamespace{{Name: "a"}}}},
		"chosen": {NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}},
		"broken": {NamespaceSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Like"}}}},
	} {
		object := &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
		object.Spec.Resource.Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"of-%s"}}`, name)
		object.Spec.Targets = targets
		object.Status = appsv1beta1.ResourceDistributionStatus{Desired: 3, Succeeded: 2, Failed: 1}
		all = append(all, object)
	}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.ResourceDistribution{}, Stored: all})
	return New(fake.Dependencies)
}

func TestANamespaceConcernsTheDistributionsThatChooseIt(t *testing.T) {
	r := stored(t)
	for want, namespace := range map[string]*corev1.Namespace{
		"named":        {ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		"chosen":       {ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"team": "x"}}},
		"chosen named": {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "x"}}},
		"":             {ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"team": "y"}}},
	} {
		if got := named(r.byNamespace(t.Context(), namespace)); got != want {
			t.Errorf("%s with %v concerns %q, want %q", namespace.Name, namespace.Labels, got, want)
		}
	}
}

func named(names []types.NamespacedName) string {
	var all []string
	for _, name := range names {
		all = append(all, name.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestTheMetricAddsUpStatuses(t *testing.T) {
	r := stored(t)
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(r.Metrics.Copies); err != nil {
		t.Fatal(err)
	}
	measured := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, series := range family.GetMetric() {
				got[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
			}
		}
		return got
	}
	if got := measured(); len(got) > 0 {
		t.Errorf("while the kind is off: %v", got)
	}
	r.Metrics.Copies.Add(r.copies)
	if got, want := measured(), map[string]float64{"desired": 9, "succeeded": 6, "failed": 3}; !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}
