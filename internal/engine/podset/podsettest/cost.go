// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxPlan is how many bytes a plan may take for what its users wrote at its largest: the operator makes several at a time.
const MaxPlan = 40 << 20

// Cost fails the test when work allocates more bytes than most, given back in between or not. It logs what work takes.
func Cost(t testing.TB, most uint64, work func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	work()
	spent := time.Since(began)
	runtime.ReadMemStats(&after)
	memory := after.TotalAlloc - before.TotalAlloc
	t.Logf("measured: %d MiB, %v", memory>>20, spent.Round(time.Millisecond))
	if memory > most {
		t.Errorf("takes %d MiB, and may take %d", memory>>20, most>>20)
	}
}

// Largest gives a template as many containers and variables as admission lets an object have.
func Largest(template *corev1.PodTemplateSpec) {
	for i := range 800 {
		container := corev1.Container{Name: fmt.Sprintf("more-%d", i), Image: "more:1"}
		for j := range 20 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "x"})
		}
		template.Spec.Containers = append(template.Spec.Containers, container)
	}
}
