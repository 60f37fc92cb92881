// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// measured returns the nonzero series of SidecarSets, in words.
func measured(t *testing.T, registry prometheus.Gatherer) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if !strings.HasPrefix(family.GetName(), "kruise_sidecarset_") || series.GetGauge().GetValue() == 0 {
				continue
			}
			var labels []string
			for _, label := range series.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			all = append(all, fmt.Sprintf("%s %v", strings.Join(labels, " "), series.GetGauge().GetValue()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestMetricsAddUpAllSets(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	c := newCounts(m.SidecarSetInjection, m.SidecarSetPods)
	policy := contribution{reason: "Policy", status: "True", pods: podCounts{matched: 5, updated: 3, ready: 4, updatedReady: 2, withoutSidecar: 1}}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { c.saw("a", policy) }, "Policy True 1, matched 5, ready 4, updated 3, updated_ready 2, without_sidecar 1"},
		{func() { c.saw("a", policy) }, "Policy True 1, matched 5, ready 4, updated 3, updated_ready 2, without_sidecar 1"},
		{func() { c.saw("b", policy) }, "Policy True 2, matched 10, ready 8, updated 6, updated_ready 4, without_sidecar 2"},
		{func() { c.saw("b", contribution{reason: "Webhook", status: "False", pods: podCounts{matched: 1}}) },
			"Policy True 1, Webhook False 1, matched 6, ready 4, updated 3, updated_ready 2, without_sidecar 1"},
		{func() { c.forget("a"); c.forget("never") }, "Webhook False 1, matched 1"},
		{func() { c.saw("b", contribution{}) }, ""},
	} {
		if step.do(); measured(t, registry) != step.want {
			t.Errorf("%s, want %s", measured(t, registry), step.want)
		}
	}
}

// Each pass counts its set, until the set is gone.
func TestASetIsCountedAsItsStatusSays(t *testing.T) {
	set := newSet()
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", set), newPod(t, "b", "shop", set))
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	lacking := &corev1.Pod{}
	lacking.Namespace, lacking.Name, lacking.UID, lacking.Labels = "shop", "c", "uid-c", map[string]string{"app": "web"}
	r := newRig(t, true, lacking)
	r.everywhere(r.byPolicies)
	r.set(`{metadata: {name: logs}, spec: {selector: {matchLabels: {app: web}}, containers: [{name: agent, image: "agent:1"}]},
		status: {conditions: [{type: InjectionPath, status: "True", reason: Policy}]}}`)
	s.Injection, s.counts = r.Injection, newCounts(m.SidecarSetInjection, m.SidecarSetPods)
	s.passes("logs")
	if got := measured(t, registry); got != "Policy True 1, matched 2, ready 2, updated 2, updated_ready 2, without_sidecar 1" {
		t.Errorf("with three pods: %s", got)
	}
	if err := s.server.Delete(t.Context(), &appsv1beta1.SidecarSet{ObjectMeta: set.ObjectMeta}); err != nil {
		t.Fatal(err)
	}
	r.sets = nil
	r.clock.SetTime(r.clock.Now().Add(time.Minute))
	if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "logs"}}); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, registry); got != "" {
		t.Errorf("when it is gone: %s", got)
	}
}
