// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

func TestAClaimTemplateThatReachesNoPodIsTold(t *testing.T) {
	mounts := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
	}
	templates := []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	without, with, going := Pod{Object: object("a")}, Pod{Object: object("b", mounts)}, Pod{Object: object("c"), Terminating: true}
	if got := LackClaims(conditions.Ignored{}, templates, []Pod{without, with, going}).NoEffect; len(got) != 1 || !strings.Contains(got[0], "1 pod lacks the claim of template data") {
		t.Errorf("told %q", got)
	}
	if got := LackClaims(conditions.Ignored{}, templates, []Pod{with, going}).NoEffect; len(got) != 0 {
		t.Errorf("told %q of pods that have all claims", got)
	}
}
