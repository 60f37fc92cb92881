// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
	edited := func(ended *metav1.Time, paused, before bool) []string {
		ttl := appsv1beta1.CompletionPolicy{TTLSecondsAfterFinished: ptr.To[int32](5)}
		spec, old := appsv1beta1.ImagePullJobSpec{Image: fmt.Sprint(paused)}, appsv1beta1.ImagePullJobSpec{Image: fmt.Sprint(before)}
		spec.CompletionPolicy = ttl
		return rules.EndedJob(ended, spec, old, func(spec *appsv1beta1.ImagePullJobSpec) { spec.CompletionPolicy.TTLSecondsAfterFinished = nil })
	}
	onlyInPlace := func(policy shared.PodUpdatePolicy) []string {
		set := &rules.Set{
			Template: &corev1.PodTemplateSpec{}, Rolling: true, Policy: policy, InPlace: &shared.InPlaceUpdateStrategy{GracePeriodSeconds: 5},
			Hooks: &shared.Lifecycle{InPlaceUpdate: &shared.LifecycleHook{}},
		}
		return set.Updates(nil, true, false)
	}
	cases := map[string]struct {
		got  []string
		want int
	}{
		"the same claim templates":                 {rules.ClaimTemplates(claims(data), claims(data), false), 0},
		"a claim template that is added later":     {rules.ClaimTemplates(claims(data, more), claims(data), false), 1},
		"a larger claim":                           {rules.ClaimTemplates(claims(grown), claims(data), false), 1},
		"a larger claim of those that grow":        {rules.ClaimTemplates(claims(grown), claims(data), true), 0},
		"a job that has ended is edited":           {edited(&metav1.Time{}, true, false), 1},
		"it is only labeled":                       {edited(&metav1.Time{}, true, true), 0},
		"a job at work is edited":                  {edited(nil, true, false), 0},
		"a grace period and a hook, pods replaced": {onlyInPlace(shared.RecreatePods), 2},
		"they are edited in place":                 {onlyInPlace(shared.InPlaceIfPossible), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if len(tc.got) != tc.want {
				t.Errorf("warnings %q, want %d", tc.got, tc.want)
			}
		})
	}
}
