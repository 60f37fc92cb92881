// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// What OpenKruise spread is taken over without a write to any pod.
func TestPodsOfOpenKruiseAreTakenOver(t *testing.T) {
	var spreads []*appsv1beta1.WorkloadSpread
	pods := map[string][]*corev1.Pod{}
	for _, object := range fixtures.Objects(t, "workloadspread/state.yaml") {
		switch object.GetKind() {
		case "WorkloadSpread":
			ws := &appsv1beta1.WorkloadSpread{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, ws); err != nil {
				t.Fatal(err)
			}
			spreads = append(spreads, ws)
		case "Pod":
			pod := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
				t.Fatal(err)
			}
			pods[pod.Labels["app"]] = append(pods[pod.Labels["app"]], pod)
		}
	}
	if len(spreads) != 2 {
		t.Fatalf("there are %d", len(spreads))
	}
	for _, ws := range spreads {
		s, err := spread.Parse(ws)
		if err != nil {
			t.Fatal(err)
		}
		seen := Snapshot{Now: time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC), Found: true, Replicas: len(pods[ws.Name]), Pods: pods[ws.Name]}
		d := Plan(s, ws, seen)
		for _, action := range d.Actions {
			t.Errorf("%s: %s of %s: %+v", ws.Name, action.Step, action.Object.GetName(), action.Change)
		}
		for i, status := range d.subsets {
			if before := ws.Status.SubsetStatuses[i]; status.Replicas != before.Replicas || status.MissingReplicas != before.MissingReplicas {
				t.Errorf("%s: subset %s had %+v, and has %+v", ws.Name, status.Name, before, status)
			}
		}
	}
}
