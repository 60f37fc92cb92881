// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package speed says how fast the machine is at the moment.
package speed

import (
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/testutil/cputime"
)

// Measure is the processor time to encode and decode one pod here and now, while every
// processor does: the median of several looks. Processors differ, a shared one by the
// minute, and two of one core slow each other down. So figures of processor time can be
// compared only beside it.
func Measure() (time.Duration, error) {
	const looks, pods = 9, 250
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "speed"}},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}, {ConditionType: "KruisePodReady"}},
			Containers:     []corev1.Container{{Name: "main", Image: "example/web:v1"}},
		},
	}
	var mu sync.Mutex
	var took []time.Duration
	var all errgroup.Group
	for range runtime.NumCPU() {
		all.Go(func() error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range looks {
				began := cputime.Thread()
				for range pods {
					text, err := json.Marshal(&pod)
					if err != nil {
						return err
					}
					if err := json.Unmarshal(text, &corev1.Pod{}); err != nil {
						return err
					}
				}
				mu.Lock()
				took = append(took, (cputime.Thread()-began)/pods)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
