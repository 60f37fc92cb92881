// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import "testing"

func TestOneIsInTheSingular(t *testing.T) {
	for want, got := range map[string]string{
		"0 of 1 pod is":    Of(0, 1, "pod is", "pods are"),
		"1 of 2 pods are":  Of(1, 2, "pod is", "pods are"),
		"0 of 0 pods are":  Of(0, 0, "pod is", "pods are"),
		"1 node waits":     Count(1, "node waits", "nodes wait"),
		"200 pods wait":    Waits(200),
		"0 nodes wait":     Count(0, "node waits", "nodes wait"),
		"1 of 1 image was": Of(1, 1, "image was", "images were"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
