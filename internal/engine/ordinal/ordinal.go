// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ordinal computes the ordinals of a StatefulSet's pods: upward from the first one, without
// the reserved ones, as many as replicas.
//
// Everything is interval arithmetic. The cost depends on the number of reserved entries, never on
// their width, so "0-2000000000" is as cheap as 7.
package ordinal

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Set is the wanted ordinals. The zero Set has none.
type Set struct {
	// runs are the valid ordinals: sorted, disjoint and not empty.
	runs   []interval
	length int
}

// interval is a closed range of ordinals.
type interval struct{ first, last int }

func (i interval) len() int { return i.last - i.first + 1 }

// New returns the ordinals of a set with this first ordinal, number of replicas and reserved
// ordinals. A reserved element is a number or a closed range such as "3-7"; elements may overlap,
// repeat and lie anywhere. The error names an unreadable element, or says that the reserved ones
// leave too little room.
func New(start, replicas int32, reserve []intstr.IntOrString) (Set, error) {
	if start < 0 {
		return Set{}, fmt.Errorf("first ordinal %d is negative", start)
	}
	reserved, err := parseAll(reserve)
	if err != nil {
		return Set{}, err
	}
	var set Set
	next, missing := int(start), int(max(replicas, 0))
	take := func(last int) {
		if run := (interval{next, min(last, next+missing-1)}); run.len() > 0 {
			set.runs = append(set.runs, run)
			set.length += run.len()
			missing -= run.len()
		}
	}
	for _, r := range reserved {
		take(r.first - 1)
		next = max(next, r.last+1)
	}
	take(math.MaxInt32)
	if missing > 0 {
		return Set{}, fmt.Errorf("reserved ordinals leave no room for %d replicas from %d on", replicas, start)
	}
	return set, nil
}

// parseAll parses the reserved elements and sorts them.
func parseAll(reserve []intstr.IntOrString) ([]interval, error) {
	all := make([]interval, 0, len(reserve))
	for i, element := range reserve {
		parsed, ok := parse(element)
		if !ok {
			return nil, fmt.Errorf("reserved ordinal %d, %q: neither a number nor a range such as \"3-7\"", i, element.String())
		}
		all = append(all, parsed)
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	return all, nil
}

func parse(element intstr.IntOrString) (interval, bool) {
	if element.Type == intstr.Int {
		return interval{int(element.IntVal), int(element.IntVal)}, element.IntVal >= 0
	}
	from, to, isRange := strings.Cut(element.StrVal, "-")
	first, beginning := number(from)
	last, end := number(to)
	return interval{first, last}, isRange && beginning && end && first <= last
}

// number reads decimal digits and nothing else.
func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// Len is how many ordinals there are.
func (s Set) Len() int { return s.length }

// Nth is the ordinal with n valid ordinals below it. It must be in [0, Len).
func (s Set) Nth(n int) int {
	for _, run := range s.runs {
		if n < run.len() {
			return run.first + n
		}
		n -= run.len()
	}
	panic(fmt.Sprintf("ordinal %d of a set that has %d", n, s.length))
}

// Contains says whether the ordinal is valid.
func (s Set) Contains(ordinal int) bool {
	_, found := slices.BinarySearchFunc(s.runs, ordinal, func(i interval, o int) int {
		switch {
		case i.last < o:
			return -1
		case i.first > o:
			return 1
		default:
			return 0
		}
	})
	return found
}

// Iterate yields the ordinals, ascending.
func (s Set) Iterate() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, run := range s.runs {
			for o := run.first; o <= run.last; o++ {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// PodName is the name of the pod with this ordinal.
func PodName(set string, ordinal int) string { return set + "-" + strconv.Itoa(ordinal) }

// OfPod is the ordinal in a pod's name, if PodName gives that name for this set. "web-01" is none:
// no slot has that name.
func OfPod(set, pod string) (int, bool) {
	digits, found := strings.CutPrefix(pod, set+"-")
	if n, ok := number(digits); ok && found && strconv.Itoa(n) == digits {
		return n, true
	}
	return 0, false
}
