// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// How long a failed pod stays depends on what the next one is made from: another template is another try, and other replicas are not.
func TestAFailedPodMakesRoomForOneOfARevision(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []func(*simulation)
		want  string
	}{
		"as it was":                              {want: "web-1"},
		"with other replicas":                    {steps: []func(*simulation){replicas(5)}, want: "web-1"},
		"with another template":                  {steps: []func(*simulation){image("2")}, want: "web-2"},
		"with one that the partition keeps":      {steps: []func(*simulation){image("2"), partition(2)}, want: "web-1"},
		"with one that the partition lets go":    {steps: []func(*simulation){image("2"), partition(1)}, want: "web-2"},
		"in order":                               {steps: []func(*simulation){ordered}, want: "web-1"},
		"where any pods may stay, and two have":  {steps: []func(*simulation){unordered(nil), image("2"), partition(2)}, want: "web-2"},
		"where any pods may stay, and none else": {steps: []func(*simulation){unordered(nil), image("2"), partition(3)}, want: "web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, running)
			for _, step := range append(tc.steps, fail(1)) {
				step(w)
			}
			for _, action := range Plan(Parse(w.set, w.o), w.snapshot()).Actions {
				if action.Step == podset.StepDelete && action.Slot == "1" {
					if !action.ReplacesFailed || action.MadeFrom != tc.want {
						t.Errorf("the deletion makes room for a pod of %q, want %q, and slows down: %t", action.MadeFrom, tc.want, action.ReplacesFailed)
					}
					return
				}
			}
			t.Error("the failed pod stays")
		})
	}
}

// Who labels a failed pod for deletion waited for as long as it would have stayed anyhow, up to a quarter of an hour.
func TestAFailedPodThatItsUserDeletesIsDeletedAtOnce(t *testing.T) {
	for name, steps := range map[string][]func(*simulation){"at once": nil, "in order": {ordered}} {
		w := newSimulation(t, 3, running)
		for _, step := range append(steps, fail(1), specified(1)) {
			step(w)
		}
		actions := Plan(Parse(w.set, w.o), w.snapshot()).Actions
		if len(actions) != 1 || actions[0].Step != podset.StepDelete || actions[0].Slot != "1" || actions[0].ReplacesFailed {
			t.Errorf("%s: %+v", name, actions)
		}
	}
}
