// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// A plan that is not carried out in its time slice is discarded, and planned again. So it begins a part of the updates, and later ones the rest.
func TestAPlanBeginsAPartOfTheUpdates(t *testing.T) {
	for name, tc := range map[string]struct{ pods, want int }{
		"few":  {60, 60},
		"some": {300, podset.LeastUpdates},
		"many": {2200, 110},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.pods, inPlace, maxUnavailable("100%"))
			w.do(image("2"))
			begun := 0
			for _, action := range Plan(Parse(w.set, w.o), w.snapshot()).Actions {
				if action.Reason == podset.ReasonInPlaceUpdate {
					begun++
				}
			}
			w.expect("updates begun", begun, tc.want)
			if tc.pods < 1000 { // many take long
				w.rest()
				w.expect("updated", w.at("2"), tc.pods)
			}
		})
	}
}
