// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"strings"
	"testing"
)

func TestDifferenceNamesTheField(t *testing.T) {
	want := `jobs {"name":"scan","status":{"desired":3,"phase":"completed"}}` + "\npods {\"name\":\"a\"}\npods {\"name\":\"b\"}\nclaims {}"
	got := `jobs {"name":"scan","status":{"desired":2,"phase":"completed"}}` + "\npods {\"name\":\"a\"}\nnodes {}"
	text := strings.ReplaceAll(difference(want, got), "\u00a0", " ")
	for _, expected := range []string{"jobs, wanted with -", "desired", "float64(3)", "float64(2)", `want pods {"name":"b"}`, "want claims {}", "got  nodes {}"} {
		if !strings.Contains(text, expected) {
			t.Errorf("nothing about %q in:\n%s", expected, text)
		}
	}
	if strings.Contains(text, `"a"`) {
		t.Errorf("what is equal is named:\n%s", text)
	}
}
