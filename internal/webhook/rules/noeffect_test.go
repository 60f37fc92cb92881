// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

func claim(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
	}}
}

func TestWhatHasNoEffectIsWarnedOf(t *testing.T) {
	data, grown, more := claim("data", "1Gi"), claim("data", "2Gi"), claim("more", "1Gi")
	claims := func(all ...corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim { return all }
	spec := func(paused bool) *appsv1beta1.BroadcastJobSpec { return &appsv1beta1.BroadcastJobSpec{Paused: paused} }
	grace := &shared.InPlaceUpdateStrategy{GracePeriodSeconds: 5}
	hooks := &shared.Lifecycle{InPlaceUpdate: &shared.LifecycleHook{}}
	cases := map[string]struct {
		got  []string
		want int
	}{
		"the same claim templates":                 {rules.ClaimTemplates(claims(data), claims(data), false), 0},
		"a claim template that is added later":     {rules.ClaimTemplates(claims(data, more), claims(data), false), 1},
		"a larger claim":                           {rules.ClaimTemplates(claims(grown), claims(data), false), 1},
		"a larger claim of those that grow":        {rules.ClaimTemplates(claims(grown), claims(data), true), 0},
		"a job that has ended is edited":           {rules.EndedJob(true, spec(true), spec(false)), 1},
		"it is only labeled":                       {rules.EndedJob(true, spec(true), spec(true)), 0},
		"a job at work is edited":                  {rules.EndedJob(false, spec(true), spec(false)), 0},
		"a grace period and a hook, pods replaced": {rules.OnlyInPlace(shared.RecreatePods, grace, hooks, "podUpdatePolicy"), 2},
		"they are edited in place":                 {rules.OnlyInPlace(shared.InPlaceIfPossible, grace, hooks, "podUpdatePolicy"), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if len(tc.got) != tc.want {
				t.Errorf("warnings %q, want %d", tc.got, tc.want)
			}
		})
	}
}
