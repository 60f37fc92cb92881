// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzSettings reads what annotations say about pulling images ahead. Nothing is below zero, and what is ignored is named.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"", "1", "50%", "-1", "1.5", "99999999999", "abc", "１"} {
		f.Add(seed, seed, seed, int32(10))
	}
	f.Fuzz(func(t *testing.T, parallelism, timeout, ready string, replicas int32) {
		if replicas < 0 {
			return
		}
		fuzzing.Within(t, len(parallelism)+len(timeout)+len(ready), func() {
			s, _ := ReadSettings(nil, map[string]string{
				shared.AnnotationPreDownloadParallelism: parallelism, shared.AnnotationPreDownloadTimeoutSeconds: timeout,
				shared.AnnotationPreDownloadMinUpdatedReadyPods: ready,
			}, replicas)
			if s.Parallelism < 0 || s.TimeoutSeconds < 0 || s.MinUpdatedReady < 0 {
				t.Errorf("%q, %q and %q give %+v", parallelism, timeout, ready, s)
			}
		})
	})
}
