// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzCount reads percentages and numbers as users write them. What is accepted lies between nothing and the number itself, or the total for
// up to 100%.
func FuzzCount(f *testing.F) {
	for _, seed := range []string{"0%", "25%", "100%", "1e9%", "33.333%", "%", "-1%", "9999999999999999999999%", "7", "0x10%", "1_0%", "１%"} {
		f.Add(seed, int32(10))
	}
	f.Fuzz(func(t *testing.T, text string, total int32) {
		fuzzing.Within(t, len(text), func() {
			if total < 0 {
				return
			}
			for _, round := range []Rounding{Up, Down} {
				n, err := Count(intstr.FromString(text), total, round)
				if err == nil && n < 0 {
					t.Errorf("%q of %d is %d", text, total, n)
				}
			}
			up, upErr := Count(intstr.FromString(text), total, Up)
			down, downErr := Count(intstr.FromString(text), total, Down)
			if (upErr == nil) != (downErr == nil) || upErr == nil && (up < down || up-down > 1) {
				t.Errorf("%q of %d is %d rounded up and %d rounded down: %v, %v", text, total, up, down, upErr, downErr)
			}
		})
	})
}
