// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
)

// BenchmarkPass observes and plans for 1 000 pods, of which half are updated.
func BenchmarkPass(b *testing.B) {
	old, set := newSet("agent:v1"), newSet("agent:v2")
	var pods []*corev1.Pod
	for i := range 1000 {
		of := old
		if i%2 == 0 {
			of = set
		}
		pods = append(pods, run(newPod(b, fmt.Sprintf("p%04d", i), of), true))
	}
	spec := parse(b, set)
	b.ReportAllocs()
	for b.Loop() {
		plan.Plan(spec, snapshot(spec, pods))
	}
}
