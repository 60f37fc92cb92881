// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/platform/cputime"
)

// speed is how much processor time it takes to encode and decode one pod here and now, while every processor does that: the median of several looks.
// Processors differ, one that is shared differs by the minute, and two that are one core by turns are slower together. So figures of processor time can
// be compared only beside it.
func speed() (time.Duration, error) {
	const looks, pods = 9, 250
	template := podTemplate("speed", "example/web:v1")
	pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
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
