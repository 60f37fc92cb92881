// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

func TestAMetricSaysWhatIsStalledAndWhy(t *testing.T) {
	object := func(conditions ...any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	}
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	b := &Base{Kind: schema.GroupVersionKind{Kind: "CloneSet"}}
	b.Cache = &storedObjects{items: []unstructured.Unstructured{
		object(condition("Available", "False", "TooFew"), condition("Reconciling", "False", "Stuck"), condition("Stalled", "True", "InvalidImage")),
		object(condition("Reconciling", "True", "RollingOut"), condition("Stalled", "False", "NotStalled")),
		object(condition("Reconciling", "True", "RollingOut")),
		object(condition("Reconciling", "False", "Done"), condition("Stalled", "False", "NotStalled")),
		{Object: map[string]any{}},
	}}
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry)
	m.Objects.Add(b.states)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "kruise_objects" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			got[strings.Join(labels, " ")] = metric.GetGauge().GetValue()
		}
	}
	// The labels are in the order of their names: kind, reason, state.
	want := map[string]float64{"CloneSet  Settled": 2, "CloneSet InvalidImage Stalled": 1, "CloneSet RollingOut Reconciling": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
