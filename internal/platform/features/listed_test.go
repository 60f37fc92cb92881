// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"os"
	"strings"
	"testing"
)

// OpenKruise's suite runs with AllAlpha=true, and who ran it on the Kruise object had to find the names of these gates.
func TestTheGatesOfAllAlphaAreListedForTheKruiseObject(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/feature-gates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "  featureGates: # those of AllAlpha\n")
	list, _, ended := strings.Cut(list, "```")
	var want strings.Builder
	for _, gate := range Known() {
		if gate.stage() == Alpha && gate.Ignored == "" && gate.Missing == "" {
			want.WriteString("  - {name: " + string(gate.Name) + ", state: Enabled}\n")
		}
	}
	if !found || !ended || list != want.String() {
		t.Errorf("the page lists\n%s\nwant\n%s", list, want.String())
	}
}
