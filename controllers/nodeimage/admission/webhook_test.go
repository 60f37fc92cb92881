// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// TestDefault fills in each tag's time and policy, keeps given values, and sorts each repository's tags.
func TestDefault(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	earlier := metav1.NewTime(created.Add(-time.Hour))
	policy := func(timeout, tries, kept int32) *appsv1beta1.ImageTagPullPolicy {
		return &appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: &timeout, BackoffLimit: &tries, TTLSecondsAfterFinished: &kept}
	}
	list := &appsv1beta1.NodeImage{Spec: appsv1beta1.NodeImageSpec{Images: map[string]appsv1beta1.ImageSpec{
		"busybox": {Tags: []appsv1beta1.ImageTagSpec{{Tag: "stable"}}},
		"nginx": {Tags: []appsv1beta1.ImageTagSpec{
			{Tag: "v2"},
			{Tag: "v10", CreatedAt: &earlier, PullPolicy: policy(60, 0, 5), Version: 3},
			{Tag: "latest", PullPolicy: &appsv1beta1.ImageTagPullPolicy{}},
		}},
	}}}
	Default(list, now)
	want := appsv1beta1.NodeImageSpec{Images: map[string]appsv1beta1.ImageSpec{
		"busybox": {Tags: []appsv1beta1.ImageTagSpec{{Tag: "stable", CreatedAt: &created, PullPolicy: policy(600, 3, 86400)}}},
		"nginx": {Tags: []appsv1beta1.ImageTagSpec{
			{Tag: "latest", CreatedAt: &created, PullPolicy: policy(600, 3, 86400)},
			{Tag: "v10", CreatedAt: &earlier, PullPolicy: policy(60, 0, 5), Version: 3},
			{Tag: "v2", CreatedAt: &created, PullPolicy: policy(600, 3, 86400)},
		}},
	}}
	if diff := cmp.Diff(want, list.Spec); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	again := list.DeepCopy()
	Default(again, now.Add(time.Hour))
	if diff := cmp.Diff(list.Spec, again.Spec); diff != "" {
		t.Errorf("filled in once more (-once +twice):\n%s", diff)
	}
}
