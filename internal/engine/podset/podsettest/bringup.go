// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// BringUp lets a set create its pods and the cluster run them, until nothing is left to do. Step plans one pass and returns what the set is
// after it. A set that is not up after that many passes is an error.
func BringUp[W any](w *State[W], cluster Cluster, step func(*State[W]) (planning.Plan, W), passes int) error {
	for range passes {
		plan, after := step(w)
		for _, action := range plan.Actions {
			if err := Apply(w, action); err != nil {
				return err
			}
		}
		w.Set = after
		moved := false
		for _, pod := range slices.Clone(w.Pods) {
			for _, move := range []Move{Start, BecomeReady, SyncReady, RestoreHook, PassTime} {
				if Do(w, cluster, pod.Name, move) == nil {
					moved = true
					break
				}
			}
		}
		if !moved && len(plan.Actions) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the set does not come up:\n%v", w)
}
