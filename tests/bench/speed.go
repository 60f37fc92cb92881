// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/platform/cputime"
)

// speed is how much processor time it takes to encode and decode one pod here and now: the median of several looks. Processors differ, and one
// that is shared differs by the minute, so figures of processor time can be compared only beside it.
func speed() (time.Duration, error) {
	const looks, pods = 9, 500
	template := podTemplate("speed", "example/web:v1")
	pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	for range looks {
		began := cputime.Thread()
		for range pods {
			text, err := json.Marshal(&pod)
			if err != nil {
				return 0, err
			}
			if err := json.Unmarshal(text, &corev1.Pod{}); err != nil {
				return 0, err
			}
		}
		took = append(took, (cputime.Thread()-began)/pods)
	}
	slices.Sort(took)
	return took[looks/2], nil
}
