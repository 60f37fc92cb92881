// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// The policy finds references by a regular expression. The webhook has to find the same.
func TestReferencesAreThoseOfTheRegularExpression(t *testing.T) {
	expression := regexp.MustCompile(`[$][(][A-Za-z_][A-Za-z0-9_.-]*[)]`)
	random := rand.New(rand.NewPCG(1, 2))
	some := 0
	for range 200_000 {
		text := make([]byte, random.IntN(40))
		for i := range text {
			text[i] = "$$(()A_b0.-/é"[random.IntN(13)]
		}
		var want []string
		for _, found := range expression.FindAllString(string(text), -1) {
			if name := found[2 : len(found)-1]; !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		if got := references(string(text)); !slices.Equal(got, want) {
			t.Fatalf("of %q the references are %q, want %q", text, got, want)
		}
		some += len(want)
	}
	if some < 1000 {
		t.Errorf("only %d references were found in all", some)
	}
}
