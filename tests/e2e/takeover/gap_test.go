// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// creations are pods created all the time, in dry runs.
type creations struct {
	t    *testing.T
	stop func()

	mutex         sync.Mutex
	refused, made int
	wrong         []string
}

// createPods creates pods for two SidecarSets, until it is checked.
func createPods(t *testing.T, c client.Client) *creations {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	made := &creations{t: t, stop: func() { cancel(); <-done }}
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				made.create(ctx, c)
			}
		}
	}()
	t.Cleanup(made.stop)
	return made
}

func (m *creations) create(ctx context.Context, c client.Client) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sidecarset", GenerateName: "gap-", Labels: map[string]string{"app": "front", "mesh": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "front", Image: "example/front:v1"}}},
	}
	err := c.Create(ctx, pod, client.DryRunAll)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err != nil {
		m.refused++
		return
	}
	m.made++
	var names []string
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, container.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "collector front logs-init proxy-1 proxy-2 shipper" {
		m.wrong = append(m.wrong, got)
	}
}

func (m *creations) counts() (refused, made int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.refused, m.made
}

// check: every pod had its sidecars exactly once.
func (m *creations) check() {
	m.t.Helper()
	m.stop()
	if len(m.wrong) > 0 {
		m.t.Errorf("%d of %d pods had other containers, the first %q", len(m.wrong), m.made, m.wrong[0])
	}
	m.t.Logf("measured: %d pods were refused, %d created with their sidecars", m.refused, m.made)
}
