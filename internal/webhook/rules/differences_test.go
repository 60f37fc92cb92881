// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

func TestDifferences(t *testing.T) {
	many := map[string]any{}
	for i := range 12 {
		many[fmt.Sprintf("f%02d", i)] = i
	}
	cases := map[string]struct {
		was, is any
		want    string
	}{
		"none":           {was: map[string]any{"a": 1}, is: map[string]any{"a": 1}},
		"a value":        {was: map[string]any{"a": map[string]any{"b": 1}}, is: map[string]any{"a": map[string]any{"b": 2}}, want: "a.b"},
		"a new field":    {was: map[string]any{}, is: map[string]any{"a": map[string]any{"b": 2}}, want: "a"},
		"an item":        {was: map[string]any{"a": []any{1, 2}}, is: map[string]any{"a": []any{1, 3}}, want: "a[1]"},
		"a longer list":  {was: map[string]any{"a": []any{1}}, is: map[string]any{"a": []any{1, 3, 4}}, want: "a[1]"},
		"a shorter list": {was: map[string]any{"a": []any{1, 2}}, is: map[string]any{"a": []any{}}, want: "a[0]"},
		"more than ten":  {was: map[string]any{}, is: many, want: "f00, f01, f02, f03, f04, f05, f06, f07, f08, f09, 2 more fields"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := rules.Differences(tc.was, tc.is); got != tc.want {
				t.Errorf("differences %q, want %q", got, tc.want)
			}
		})
	}
}
