// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit_test

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
)

func TestWhyNone(t *testing.T) {
	cases := map[string]struct {
		reasons []string
		want    string
	}{
		"no node":                       {want: "the cluster has no node."},
		"the most frequent comes first": {reasons: []string{"is cordoned", "has taint a", "has taint a"}, want: "2 of 3 because the node has taint a; 1 of 3 because the node is cordoned."},
		"three reasons at most":         {reasons: []string{"d", "c", "b", "a"}, want: "1 of 4 because the node a; 1 of 4 because the node b; 1 of 4 because the node c."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := nodefit.WhyNone(tc.reasons); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
