// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package subset divides a number of pods among subsets: by fixed numbers, by percentages, between
// lower and upper bounds, and around subsets with unschedulable pods.
//
// Every input has a result: wrong sums are cut or filled up, in the order of the list, and never
// keep the pods of other subsets from being created. The result depends only on the arguments, and
// a small change of them moves few pods.
package subset

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Size is a number of pods, or a whole percentage of all.
type Size struct {
	value   int
	percent bool
	up      bool
}

// Pods is a number of pods.
func Pods(n int) *Size { return &Size{value: n} }

// Percent is a percentage of all pods.
func Percent(n int) *Size { return &Size{value: n, percent: true} }

// Parse reads a size: a number of at least 0, or a percentage such as "30%", from 0% to 100%.
func Parse(v intstr.IntOrString) (*Size, error) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return nil, fmt.Errorf("%d is negative", v.IntVal)
		}
		return Pods(int(v.IntVal)), nil
	}
	digits, found := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !found || err != nil || n > 100 {
		return nil, fmt.Errorf("%q is neither a number nor a whole percentage from 0%% to 100%%", v.StrVal)
	}
	return Percent(int(n)), nil
}

// RoundedUp is the size with every part of a pod rounded up.
func (s *Size) RoundedUp() *Size { return &Size{value: s.value, percent: s.percent, up: true} }

// Of is the size in pods; a percentage is of replicas, and half a pod is rounded up.
func (s *Size) Of(replicas int) int {
	switch {
	case !s.percent:
		return s.value
	case s.up:
		return (replicas*s.value + 99) / 100
	}
	return (replicas*s.value*2 + 100) / 200
}

// Subset is one part of the pods.
type Subset struct {
	// Name identifies a subset, and breaks ties.
	Name string
	// Replicas is a fixed size. Nil: none is given.
	Replicas *Size
	// Min and Max are bounds. Nil: no pod is needed, and any number is fine.
	Min, Max *Size
	// Present is how many pods the subset has been given before.
	Present int
	// Scheduled is how many of them have a node, or are not known to find none. Only for Reschedule.
	Scheduled int
	// Reserved is how many of them wait for a node, or have not proved themselves since. Only for Reserve.
	Reserved int
	// Unschedulable: the subset has no room for more pods just now. Only for Reschedule and
	// Reserve.
	Unschedulable bool
	// Unproven: more pods may be given to the subset, and do not count yet. Only for Reserve.
	Unproven bool
}

// Shares are the subsets' pods.
type Shares struct {
	// Sizes are the numbers of pods, in the order of the subsets.
	Sizes []int
	// Unplaced is how many pods no subset may have: all have an upper bound, and there are more pods.
	Unplaced int
	// Adjusted: fixed sizes did not add up to all pods, and were cut or filled up.
	Adjusted bool
}

// Mode says how unschedulable pods are handled.
type Mode string

const (
	// Stay leaves them where they are.
	Stay Mode = "Stay"
	// Reschedule moves them to other subsets.
	Reschedule Mode = "Reschedule"
	// Reserve leaves them where they are, and other subsets run replacements until they run.
	Reserve Mode = "Reserve"
)

// Divide divides replicas among the subsets.
//
// Without any bound and with mode Stay, fixed sizes are given in the order of the list, and the other subsets get equal parts of the rest.
// Otherwise subsets are filled in the order of the list: all to their lower bounds first, then to their upper ones. A fixed size counts as
// both.
func Divide(replicas int, subsets []Subset, mode Mode) Shares {
	replicas = max(replicas, 0)
	if len(subsets) == 0 {
		return Shares{Unplaced: replicas}
	}
	bounded := mode != Stay
	for _, s := range subsets {
		bounded = bounded || s.Min != nil || s.Max != nil
	}
	switch {
	case !bounded:
		return fixed(replicas, subsets)
	case mode == Reserve:
		return reserve(replicas, subsets)
	default:
		return fill(replicas, subsets, mode == Reschedule)
	}
}

// Add gives n further pods to subsets in the order of the list, up to the upper bound and none where one is
// unschedulable. Pods present stay, also beyond a bound. It returns the further pods of each subset.
func Add(n, replicas int, subsets []Subset) Shares {
	room := make([]Subset, len(subsets))
	for i, s := range subsets {
		_, most := bounds(s, replicas)
		room[i] = Subset{Name: s.Name, Max: Pods(max(most-s.Present, 0))}
		if s.Unschedulable {
			room[i].Max = Pods(0)
		}
	}
	return fill(max(n, 0), room, false)
}
