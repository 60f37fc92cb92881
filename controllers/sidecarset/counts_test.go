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

// A set counts as its status says, until it is gone.
func TestASetIsCountedAsItsStatusSays(t *testing.T) {
	set := newSet()
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", set), newPod(t, "b", "shop", set))
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	lacking := &corev1.Pod{}
	lacking.Namespace, lacking.Name, lacking.UID, lacking.Labels = "shop", "c", "uid-c", map[string]string{"app": "web"}
	r := newRig(t, true, lacking)
	r.everywhere(r.byPolicies)
	r.set(`{metadata: {name: logs}, spec: {selector: {matchLabels: {app: web}}, containers: [{name: agent, image: "agent:1"}]},
		status: {conditions: [{type: InjectionPath, status: "True", reason: Policy}]}}`)
	s.Injection = r.Injection
	m.SidecarSetInjection.Add(s.countPaths)
	m.SidecarSetPods.Add(s.countPods)
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
