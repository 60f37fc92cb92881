// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollable

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		version, kind string
		known         bool
	}{
		{"apps/v1", "Deployment", true},
		{"apps/v1", "StatefulSet", true},
		{"apps/v1", "DaemonSet", true},
		{"apps.kruise.io/v1alpha1", "CloneSet", true},
		{"apps.kruise.io/v1beta1", "StatefulSet", true},
		{"apps.kruise.io/v1alpha1", "DaemonSet", true},
		{"apps/v1", "CloneSet", false},
		{"apps.kruise.io/v1beta1", "Deployment", false},
		{"a/b/c", "Deployment", false},
	} {
		if _, known := Of(tc.version, tc.kind); known != tc.known {
			t.Errorf("%s %s is known: %t", tc.version, tc.kind, known)
		}
	}
}

func TestLimit(t *testing.T) {
	deployment, _ := Of("apps/v1", "Deployment")
	set, _ := Of("apps/v1", "StatefulSet")
	for _, tc := range []struct {
		step             string
		replicas         int
		ofDeployment, of int
	}{
		{"99%", 4, 3, 4}, {"100%", 4, 4, 4}, {"50%", 1, 1, 1}, {"50%", 3, 2, 2}, {"1", 10, 1, 1}, {"7", 5, 5, 5}, {"20%", 0, 0, 0}, {"many", 3, 0, 0},
	} {
		step := intstr.Parse(tc.step)
		if got, other := deployment.Limit(step, tc.replicas), set.Limit(step, tc.replicas); got != tc.ofDeployment || other != tc.of {
			t.Errorf("%s of %d: %d and %d, want %d and %d", tc.step, tc.replicas, got, other, tc.ofDeployment, tc.of)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]string{
		"0": "must be above 0", "0%": "must be above 0", "101%": "must be at most 100%", "x": "must be a number, or a percentage such as 20%",
		"+5%": "must be a number, or a percentage such as 20%", "1.5%": "must be a number, or a percentage such as 20%", "100%": "", "3": "",
	} {
		_, _, err := Size(intstr.Parse(text))
		if got := ""; err != nil {
			got = err.Error()
			if got != want {
				t.Errorf("%s: %s", text, got)
			}
		} else if want != "" {
			t.Errorf("%s is admitted", text)
		}
	}
}
