// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podorder

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// UpdateOrder is a user's wish about the order of an update.
type UpdateOrder struct {
	// Priority ranks the pods; nil keeps the order.
	Priority *shared.UpdatePriorityStrategy
	// Scatter spreads pods evenly over the order, term by term.
	Scatter []shared.UpdateScatterTerm
}

// ByActivity returns the pods with those first that do the least: without a node, Pending before Unknown before Running, not ready, ready
// for a shorter time, more container restarts, younger. It is the order in which a workload whose pods are all alike updates them when its user
// has no wish.
func ByActivity[P any](pods []P, victim func(P) Victim) []P {
	return sortBy(pods, func(p P) *deletionKey { return newDeletionKey(victim(p)) }, func(a, b *deletionKey) int {
		return cmp.Or(
			FalseFirst(a.node != "", b.node != ""),
			cmp.Compare(a.phase, b.phase),
			FalseFirst(a.ready, b.ready),
			a.age(b),
		)
	})
}

// ForUpdate returns the waiting pods in the order in which they should be updated: by priority, then scattered. They come in the
// workload's own order, which holds among equals. all are all pods of the workload, updated ones included; only scattering
// looks at them. object gives the Pod object of a P. The error names the term that cannot be used.
func ForUpdate[P any](waiting, all []P, object func(P) *corev1.Pod, order UpdateOrder) ([]P, error) {
	ordered, err := byPriority(waiting, object, order.Priority)
	if err != nil {
		return nil, err
	}
	return scatter(ordered, all, object, order.Scatter), nil
}

func byPriority[P any](pods []P, object func(P) *corev1.Pod, strategy *shared.UpdatePriorityStrategy) ([]P, error) {
	switch {
	case strategy == nil || len(strategy.WeightPriority)+len(strategy.OrderPriority) == 0:
		return slices.Clone(pods), nil
	case len(strategy.WeightPriority) > 0 && len(strategy.OrderPriority) > 0:
		return nil, fmt.Errorf("priorityStrategy: weightPriority and orderPriority exclude each other")
	case len(strategy.WeightPriority) > 0:
		return byWeight(pods, object, strategy.WeightPriority)
	default:
		place := func(p P) place { return placeOf(object(p), strategy.OrderPriority) }
		return sortBy(pods, place, comparePlaces), nil
	}
}

// byWeight puts the larger sum of weights first.
func byWeight[P any](pods []P, object func(P) *corev1.Pod, terms []shared.UpdatePriorityWeightTerm) ([]P, error) {
	selectors := make([]labels.Selector, len(terms))
	for i := range terms {
		selector, err := metav1.LabelSelectorAsSelector(&terms[i].MatchSelector)
		if err != nil {
			return nil, fmt.Errorf("weightPriority %d: reading its selector: %w", i, err)
		}
		selectors[i] = selector
	}
	weight := func(p P) int64 {
		var sum int64
		for i, selector := range selectors {
			if selector.Matches(labels.Set(object(p).Labels)) {
				sum += int64(terms[i].Weight)
			}
		}
		return sum
	}
	return sortBy(pods, weight, func(a, b int64) int { return cmp.Compare(b, a) }), nil
}

// place is where an order term puts a pod.
type place struct {
	// level is the index of the first term whose key the pod has. Pods with none of the keys are at -1, before all others: that
	// is what fleets rely on, although the other end would be easier to guess.
	level int
	// number is the trailing number of the label's value, without leading zeros.
	number string
}

func placeOf(pod *corev1.Pod, terms []shared.UpdatePriorityOrderTerm) place {
	for i, term := range terms {
		if value, has := pod.Labels[term.OrderedKey]; has {
			rest := strings.TrimRight(value, "0123456789")
			return place{level: i, number: strings.TrimLeft(value[len(rest):], "0")}
		}
	}
	return place{level: -1}
}

// comparePlaces puts the lower level first, and the larger number inside a level.
func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(len(b.number), len(a.number)), cmp.Compare(b.number, a.number))
}

// scatter applies the terms one after another. The term that most waiting pods match goes first, so that the order of the rarer
// ones, applied later, holds.
func scatter[P any](waiting, all []P, object func(P) *corev1.Pod, terms []shared.UpdateScatterTerm) []P {
	matched := func(term shared.UpdateScatterTerm) int {
		count := 0
		for _, p := range waiting {
			if matches(object(p), term) {
				count++
			}
		}
		return count
	}
	for _, term := range sortBy(terms, matched, func(a, b int) int { return cmp.Compare(b, a) }) {
		waiting = scatterTerm(waiting, all, func(p P) bool { return matches(object(p), term) })
	}
	return waiting
}

func matches(pod *corev1.Pod, term shared.UpdateScatterTerm) bool {
	value, has := pod.Labels[term.Key]
	return has && value == term.Value
}

// scatterTerm spreads the matching pods over the others:
//
//  1. With at most one pod on either side there is nothing to spread, and the order stays. But the order is made again after each
//     pod that was updated, and rule 2 has to hold beyond that: a single matching pod comes at the very end if it is the last of
//     several. Else the last of three among ten, held back until two were updated, would be free to go as soon as it is alone.
//     So only a pod that never had others like it stays where it was.
//  2. The last matching pod is held back for the very end.
//  3. Groups of matching pods, each followed by its share of the others, fill the rest. The sizes follow from the waiting
//     pods; or from all pods, when among these there are fewer others to each matching one: then more matching pods than
//     others were updated so far, and the surplus of others goes first, to catch up.
func scatterTerm[P any](waiting, all []P, match func(P) bool) []P {
	matching, others := split(waiting, match)
	allMatching, allOthers := split(all, match)
	if len(matching) == 1 && len(allMatching) > 1 {
		return append(others, matching...)
	}
	if len(matching) <= 1 || len(others) <= 1 {
		return waiting
	}
	last := matching[len(matching)-1]
	matching = matching[:len(matching)-1]

	ordered := make([]P, 0, len(waiting))
	perGroup := groupSizes(len(matching), len(others))
	if len(allMatching) > 1 && len(allOthers) > 0 && len(allOthers)*(len(matching)+1) < len(others)*len(allMatching) {
		perGroup = groupSizes(len(allMatching)-1, len(allOthers))
		groups := (len(matching) + perGroup.matching - 1) / perGroup.matching
		surplus := max(len(others)-groups*perGroup.others, 0)
		ordered = append(ordered, others[:surplus]...)
		others = others[surplus:]
	}
	for len(matching) > 0 && len(others) > 0 {
		ordered = append(ordered, take(&matching, perGroup.matching)...)
		ordered = append(ordered, take(&others, perGroup.others)...)
	}
	ordered = append(ordered, matching...)
	ordered = append(ordered, others...)
	return append(ordered, last)
}

type sizes struct{ matching, others int }

// groupSizes spreads both sorts over as many groups as the rarer one has pods.
func groupSizes(matching, others int) sizes {
	groups := float64(min(matching, others))
	return sizes{
		matching: int(math.Round(float64(matching) / groups)),
		others:   int(math.Round(float64(others) / groups)),
	}
}

func take[P any](from *[]P, n int) []P {
	n = min(n, len(*from))
	taken := (*from)[:n]
	*from = (*from)[n:]
	return taken
}

func split[P any](pods []P, match func(P) bool) (matching, others []P) {
	for _, p := range pods {
		if match(p) {
			matching = append(matching, p)
		} else {
			others = append(others, p)
		}
	}
	return matching, others
}
