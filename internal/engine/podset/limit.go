// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"slices"
	"strings"
)

// Limit is how many pods of a workload may be unavailable at a time, and who uses it up.
type Limit struct {
	// Name is how the limit is called in messages: the field that sets it.
	Name string
	// Max is the number of pods.
	Max int
	// Extra is how much of Max the field does not say: it is for pods that exist beyond replicas.
	Extra int

	names  map[string]struct{}
	others int
}

// Use counts a pod, or a pod that should exist, as unavailable. Counting it twice changes nothing.
func (l *Limit) Use(name string) {
	if l.names == nil {
		l.names = map[string]struct{}{}
	}
	l.names[name] = struct{}{}
}

// UseOthers counts n more pods that have no name yet: they should exist, and do not.
func (l *Limit) UseOthers(n int) { l.others += n }

// Used is how many pods count as unavailable.
func (l *Limit) Used() int { return len(l.names) + l.others }

// Room says whether one more pod may become unavailable.
func (l *Limit) Room() bool { return l.Used() < l.Max }

// Admit says whether the pod may be taken out of service now, and counts it if so.
//
//  1. A pod that serves nobody may: it costs nothing, and it may need just this to recover.
//  2. An available pod may while there is room.
//  3. A pod that is ready, but not for long enough, is counted already, yet it serves. It may unless the limit is exceeded:
//     otherwise a fleet that has just become ready would be taken down as a whole.
func (l *Limit) Admit(pod *Pod) bool {
	name := pod.Object.Name
	_, counted := l.names[name]
	switch {
	case !pod.InService():
	case counted && l.Used() > l.Max:
		return false
	case !counted && !l.Room():
		return false
	}
	l.Use(name)
	return true
}

// Select splits the pods, which come in the order in which they should go, into those that may be taken out of service now
// and those that wait. Pods that serve nobody are taken first, wherever they stand, so that none of them waits behind a pod
// that has to wait for it.
func (l *Limit) Select(pods []*Pod) (admitted, waiting []*Pod) {
	for _, pod := range pods {
		if !pod.InService() {
			l.Use(pod.Object.Name)
			admitted = append(admitted, pod)
		}
	}
	for _, pod := range pods {
		switch {
		case !pod.InService():
		case len(waiting) == 0 && l.Admit(pod):
			admitted = append(admitted, pod)
		default:
			waiting = append(waiting, pod)
		}
	}
	return admitted, waiting
}

// Note says that n pods wait for room; some of their slots are named.
func (l *Limit) Note(reason string, n int, waiting []Slot) Note {
	message := fmt.Sprintf("%s: %s is %d", Waits(n), l.Name, l.Max-l.Extra)
	if users := l.users(); users != "" {
		more := ""
		if l.Extra > 0 {
			more = fmt.Sprintf(", and %d more for pods above replicas,", l.Extra)
		}
		message = fmt.Sprintf("%s: %s %d%s is used up by %s", Waits(n), l.Name, l.Max-l.Extra, more, users)
	}
	return Note{Reason: reason, Message: message, Slots: waiting}
}

// users says who uses the limit; nothing if nobody does.
func (l *Limit) users() string {
	used := make([]string, 0, len(l.names))
	for name := range l.names {
		used = append(used, name)
	}
	slices.SortFunc(used, compareNames)
	var users []string
	if len(used) > 0 {
		users = append(users, List(used))
	}
	switch {
	case l.others == 1:
		users = append(users, "1 pod that does not exist")
	case l.others > 1:
		users = append(users, fmt.Sprintf("%d pods that do not exist", l.others))
	}
	return strings.Join(users, " and ")
}

// Waits begins a message: "3 pods wait".
func Waits(n int) string {
	if n == 1 {
		return "1 pod waits"
	}
	return fmt.Sprintf("%d pods wait", n)
}

// shown is how many names a message has at most: conditions are read by people.
const shown = 3

// List names the first few of the sorted names.
func List(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// compareNames orders names that end in numbers by number: web-2 comes before web-10.
func compareNames(a, b string) int {
	if len(a) != len(b) && strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func names(pods []*Pod) []string {
	out := make([]string, len(pods))
	for i, pod := range pods {
		out[i] = pod.Object.Name
	}
	slices.SortFunc(out, compareNames)
	return out
}

// Slots are the slots of the pods, sorted.
func Slots(pods []*Pod) []Slot {
	out := make([]Slot, len(pods))
	for i, pod := range pods {
		out[i] = pod.Slot
	}
	slices.SortFunc(out, func(a, b Slot) int { return compareNames(string(a), string(b)) })
	return out
}
