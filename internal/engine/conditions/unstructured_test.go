// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

func TestTrueConditionsOfStoredObjects(t *testing.T) {
	status := func(list any) map[string]any { return map[string]any{"status": map[string]any{"conditions": list}} }
	stalled := map[string]any{"type": "Stalled", "status": "True", "reason": "Refused", "message": "no quota"}
	for name, tc := range map[string]struct {
		object map[string]any
		want   string
	}{
		"no status":               {object: map[string]any{}},
		"no list":                 {object: status("none")},
		"another type":            {object: status([]any{map[string]any{"type": "Complete", "status": "True"}})},
		"not true":                {object: status([]any{map[string]any{"type": "Stalled", "status": "False", "message": "Nothing needs the user"}})},
		"true":                    {object: status([]any{stalled}), want: "Refused: no quota"},
		"after what is none":      {object: status([]any{7, map[string]any{"type": 7, "status": true}, nil, stalled}), want: "Refused: no quota"},
		"false first, then true":  {object: status([]any{map[string]any{"type": "Stalled", "status": "False"}, stalled}), want: "Refused: no quota"},
		"without reason and text": {object: status([]any{map[string]any{"type": "Stalled", "status": "True"}}), want: ": "},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c, is := conditions.True(tc.object, "Stalled"); is {
				got = c.Reason + ": " + c.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
