// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// otherOrders adds what the controller does when the names of the pods are in another order, unless it is what is planned in this one.
func (x *explorer[W]) otherOrders(s *encoded[W], out *expansion[W], recheck *bool, planned string) {
	known := map[string]bool{"": true, planned: true}
	var classes, last []markedClass
	for i, p := range s.pods {
		switch {
		case p == 0:
		case passedOver(x.podTable.pods.get(p)):
			last = append(last, x.markedClassOf(s, i))
		default:
			classes = append(classes, x.markedClassOf(s, i))
		}
	}
	slices.Sort(classes)
	orders, all := ordersOf(classes, x.MaxOrders)
	out.unordered = !all
	for _, order := range orders[1:] {
		named := *s
		x.assign(&named, append(order, last...))
		w := decode(x.podTable, &named)
		plan, after := x.Step(w)
		if out.failure = x.leftUndone(w, plan, after); out.failure != "" {
			return
		}
		*recheck = *recheck || plan.RecheckAfter > 0
		out.goal = out.goal && x.Goal(w, plan)
		out.idle = out.idle && len(plan.Actions) == 0 && after == w.Set
		// The same actions on pods of the same classes lead to the same states.
		if text := x.planOf(&named, w, plan, after); !known[text] {
			known[text] = true
			x.controllerSteps(&named, w, plan, after, func(e edge[W]) {
				e.whole = false
				out.edges = append(out.edges, e)
			})
		}
	}
}

// passedOver says that a pod is terminating or has finished. No planner chooses among such pods, so where they stand in the order of names
// means nothing; that this is harmless is shown where names are compared.
func passedOver(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// planOf is what a plan does, without the names of pods; empty if that is nothing.
func (x *explorer[W]) planOf(s *encoded[W], w *State[W], plan planning.Plan, after W) string {
	if len(plan.Actions) == 0 && after == w.Set {
		return ""
	}
	parts := make([]string, 0, len(plan.Actions))
	for _, action := range plan.Actions {
		class := id(0)
		text, err := json.Marshal(EditOf(action))
		if err != nil {
			panic(fmt.Sprintf("encoding an edit: %v", err))
		}
		if at, found := w.find(podset.PodOf(action).Name); found {
			class = id(x.markedClassOf(s, at))
		} else {
			created := podset.PodOf(action).DeepCopy()
			x.Rename(created, 0)
			if class = x.podTable.pods.add(created); action.Step != podset.StepCreate {
				class = -1
			}
		}
		parts = append(parts, string(action.Step)+" "+strconv.Itoa(int(class))+" "+string(text))
	}
	slices.Sort(parts)
	if x.Marked != nil && x.Marked(after) != "" {
		after = x.Mark(after, "marked")
	}
	return fmt.Sprintf("%+v\n", after) + strings.Join(parts, "\n")
}

// ordersOf are all orders that sorted numbers can be in, the sorted one first, and true. If there are more than most, they are those that
// begin with any number and go up or down from there, and false.
func ordersOf(numbers []markedClass, most int) ([][]markedClass, bool) {
	var orders [][]markedClass
	for order := slices.Clone(numbers); ; {
		orders = append(orders, slices.Clone(order))
		if !nextOrder(order) {
			return orders, true
		}
		if len(orders) == most {
			break
		}
	}
	orders = nil
	up, down := slices.Clone(numbers), slices.Clone(numbers)
	slices.Reverse(down)
	for i := range numbers {
		for _, from := range [][]markedClass{up, down} {
			order := slices.Concat(from[i:], from[:i])
			if !slices.ContainsFunc(orders, func(known []markedClass) bool { return slices.Equal(known, order) }) {
				orders = append(orders, order)
			}
		}
	}
	return orders, false
}

// nextOrder makes the next larger order of the numbers, and reports whether there is one.
func nextOrder(numbers []markedClass) bool {
	i := len(numbers) - 2
	for i >= 0 && numbers[i] >= numbers[i+1] {
		i--
	}
	if i < 0 {
		return false
	}
	j := len(numbers) - 1
	for numbers[j] <= numbers[i] {
		j--
	}
	numbers[i], numbers[j] = numbers[j], numbers[i]
	slices.Reverse(numbers[i+1:])
	return true
}

// canonical gives the pods the names that go with their order, if names mean nothing.
func (x *explorer[W]) canonical(s encoded[W]) encoded[W] {
	if x.Rename == nil {
		return s
	}
	var buffer [maxObjects]markedClass
	classes := buffer[:0]
	terminating := 0
	for i, p := range s.pods {
		if p == 0 {
			continue
		}
		if pod := x.podTable.pods.get(p); x.MaxTerminating > 0 && pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
			if terminating++; terminating > x.MaxTerminating {
				x.hurried.Add(1)
				continue
			}
		}
		classes = append(classes, x.markedClassOf(&s, i))
	}
	slices.Sort(classes)
	x.assign(&s, classes)
	return s
}

// markedClass is all that matters of a pod whose name means nothing: twice its class, and one more if the set names it.
type markedClass id

func (x *explorer[W]) markedClassOf(s *encoded[W], i int) markedClass {
	r := markedClass(2 * x.podTable.classOf(s.pods[i], x.Rename))
	if x.Marked != nil {
		if name := x.Marked(s.set); name != "" && name == x.podTable.pods.get(s.pods[i]).Name {
			r++
		}
	}
	return r
}

// assign gives the classes to pods, in the order of their names.
func (x *explorer[W]) assign(s *encoded[W], classes []markedClass) {
	const nobody = "nobody" // all names of pods that are gone are one
	marked := nobody
	s.pods = [maxObjects]id{}
	for i, r := range classes {
		s.pods[i] = x.podTable.member(id(r/2), i, x.Rename)
		if r%2 == 1 {
			marked = x.podTable.pods.get(s.pods[i]).Name
		}
	}
	if x.Marked != nil && x.Marked(s.set) != "" {
		s.set = x.Mark(s.set, marked)
	}
}
