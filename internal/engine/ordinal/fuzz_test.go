// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ordinal

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzNew reads reserved ordinals and ranges, separated by commas. What is accepted leaves as many ordinals as there are replicas, in order, from
// the start on.
func FuzzNew(f *testing.F) {
	for _, seed := range []string{"", "1", "0,2-5", "2-1", "-1", "0-2147483647", "1-3,2-8,9", "99999999999999999999", "1 - 2", "+1", "1-", "--"} {
		f.Add(seed, int32(0), int32(3))
		f.Add(seed, int32(5), int32(1000))
	}
	f.Fuzz(func(t *testing.T, text string, start, replicas int32) {
		if start < 0 || replicas < 0 {
			return
		}
		fuzzing.Within(t, len(text), func() {
			var reserve []intstr.IntOrString
			for part := range strings.SplitSeq(text, ",") {
				reserve = append(reserve, intstr.FromString(part))
			}
			set, err := New(start, replicas, reserve)
			if err != nil {
				return
			}
			if set.Len() != int(replicas) {
				t.Errorf("%q leaves %d of %d", text, set.Len(), replicas)
			}
			last, seen := int(start)-1, 0
			for n := range set.Iterate() {
				if n <= last || !set.Contains(n) || set.Nth(seen) != n {
					t.Fatalf("%q: number %d after %d is %d", text, seen, last, n)
				}
				if last, seen = n, seen+1; seen == 1000 {
					break
				}
			}
		})
	})
}

// FuzzOfPod reads ordinals from the names of pods.
func FuzzOfPod(f *testing.F) {
	for _, seed := range []string{"web-0", "web-10", "web-01", "web--1", "web-", "web", "web-9999999999999999999"} {
		f.Add("web", seed)
	}
	f.Fuzz(func(t *testing.T, set, pod string) {
		if n, ok := OfPod(set, pod); ok && PodName(set, n) != pod {
			t.Errorf("pod %q of %q has the ordinal %d, whose pod is %q", pod, set, n, PodName(set, n))
		}
	})
}
