// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import "testing"

func TestParseReference(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for given, want := range map[string]struct{ repository, tag, full string }{
		"nginx":                                {"nginx", "latest", "docker.io/library/nginx:latest"},
		"nginx:1.25":                           {"nginx", "1.25", "docker.io/library/nginx:1.25"},
		"docker.io/library/nginx:1":            {"nginx", "1", "docker.io/library/nginx:1"},
		"foo/bar":                              {"foo/bar", "latest", "docker.io/foo/bar:latest"},
		"host:5000/a/b:v2":                     {"host:5000/a/b", "v2", "host:5000/a/b:v2"},
		"registry.example/app@" + digest:       {"registry.example/app", digest, "registry.example/app@" + digest},
		"registry.example/app:1.0.0@" + digest: {"registry.example/app", digest, "registry.example/app@" + digest},
	} {
		r, err := ParseReference(given)
		if err != nil || r.Repository != want.repository || r.Tag != want.tag {
			t.Errorf("%s: %+v, %v; want %+v", given, r, err, want)
			continue
		}
		if full, err := r.Full(); err != nil || full != want.full {
			t.Errorf("%s in full: %s, %v; want %s", given, full, err, want.full)
		}
	}
	for _, bad := range []string{"", "Nginx", "a b", "nginx:", "x@sha256:1"} {
		if r, err := ParseReference(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, r)
		}
	}
}
