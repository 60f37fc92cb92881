// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		parts     []string
		separator string
		want      string
	}{
		{nil, ", ", ""},
		{[]string{"a", "b"}, ", ", "a, b"},
		{[]string{"a", "b", "c"}, ", ", "a, b and 1 more"},
		{[]string{"a", "b", "c", "d"}, "; ", "a; b; and 2 more"},
	} {
		if got := conditions.First(tc.parts, 2, tc.separator); got != tc.want {
			t.Errorf("of %v: %q, want %q", tc.parts, got, tc.want)
		}
	}
}
