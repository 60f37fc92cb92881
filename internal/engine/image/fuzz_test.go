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

// FuzzReference reads images as users and other programs write them. What is accepted can be named in full, and the full name means the same.
func FuzzReference(f *testing.F) {
	for _, seed := range []string{
		"nginx", "nginx:1.27", "docker.io/library/nginx", "registry.example:5000/team/app:v1", "[::1]:5000/a", "a@sha256:" + digits, "a:b@sha256:" + digits, "",
		":", "@", "a:", "A", "a//b", "a@sha256:0", " a", "localhost/a", "a.b/c:d-e_f.g", "index.docker.io/a", digits,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzing.Within(t, len(text), func() {
			r, err := ParseReference(text)
			if err != nil {
				return
			}
			full, err := r.Full()
			if err != nil {
				t.Fatalf("%q is accepted as %+v, and is no image: %v", text, r, err)
			}
			if again, err := ParseReference(full); err != nil || again != r {
				t.Errorf("%q is %+v, in full %q, and that is %+v, %v", text, r, full, again, err)
			}
		})
	})
}

// digits are as many as a digest has.
const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
