// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import "slices"

// Beside takes a batch of new pods one write further while all old ones stay. The rules are in the order of their numbers.
//
//  1. Old pods stop to count as available: when the template is set back, their set is the new one, and would have all others deleted.
//  2. The old version gets its pods back after a change of replicas. Its controller does not stand still.
//  3. Pods of another version in the middle go. Requests have left them.
//  4. New pods do not count as available, and there is room for so many.
func Beside(v View) Step {
	if !v.Observed {
		return Step{Verb: Wait}
	}
	if step := Slowed(v); step.Verb != Reached { // 1
		return step
	}
	if i := v.Stable; i >= 0 && v.Old[i].Replicas < v.Replicas { // 2
		return Step{Verb: Note, Set: i, Replicas: v.Replicas}
	}
	if step := v.remind(); step.Verb != Reached {
		return step
	}
	if step := v.withdraw(v.Stable); step.Verb != Reached { // 3
		if !v.CaughtUp && !v.Refused {
			return Step{Verb: Wait} // what its controller counts later would not tell whether it saw this
		}
		return step
	}
	switch surge := v.beside(); { // 4
	case v.Moving && v.InForce == surge && v.CaughtUp && v.New.Replicas >= v.limit():
		return Step{Verb: Reached}
	case v.Moving && v.InForce == surge, v.Counted, !v.CaughtUp && (!v.Moving || surge < v.InForce):
		return Step{Verb: Wait} // its controller would count pods that have gone, and take old ones for them
	default:
		return Step{Verb: Move, Surge: surge}
	}
}

// beside is the surge for the new pods of a batch. Those that are there stay.
func (v View) beside() int { return max(1, v.limit(), min(v.New.Replicas, v.Replicas)) }

// Slowed is the write after which no old pod counts as available; Reached: none does.
func Slowed(v View) Step {
	if i := slices.IndexFunc(v.Old, func(s Set) bool { return s.Replicas > 0 && !s.Slow }); i >= 0 {
		return Step{Verb: Slow, Set: i}
	}
	return Step{Verb: Reached}
}

// Withdraw takes all pods but those of the template, to which the Deployment has gone back. Its surge stays until then: with a smaller one
// its controller would take pods of any version.
func Withdraw(v View) Step { return v.withdraw(-1) }

func (v View) withdraw(but int) Step {
	for i, s := range v.Old {
		if i != but && s.Replicas > 0 {
			return Step{Verb: Lower, Set: i}
		}
	}
	return Step{Verb: Reached}
}

// Ended is the write after which nothing of the style is left in old sets; Reached: nothing is.
func Ended(v View) Step {
	if i := slices.IndexFunc(v.Old, func(s Set) bool { return s.Slow }); i >= 0 {
		return Step{Verb: Quick, Set: i}
	}
	return v.remind()
}

// Alone says that no pod of another version is left.
func (v View) Alone() bool { return v.old() == 0 && v.CaughtUp }
