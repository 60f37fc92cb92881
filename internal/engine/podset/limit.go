// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Limit is how many pods of a workload may be unavailable at a time, and who uses it up.
type Limit struct {
	// Name is the field of the limit, for messages.
	Name string
	// Max is the number of pods.
	Max int
	// Extra is the part of Max for pods beyond replicas.
	Extra int
	// Refill is how many pods may be unavailable while missing ones are created, RefillName its field. No more
	// pods are replaced than may come back. Without a name there is no such limit.
	Refill     int
	RefillName string

	used   map[types.NamespacedName]bool
	others int
}

// Use counts a pod as unavailable. Counting it twice changes nothing.
func (l *Limit) Use(pod *Pod) { lazy.Put(&l.used, keyOf(pod.Object), true) }

// UseName counts a missing pod as unavailable, by its name alone.
func (l *Limit) UseName(name string) { lazy.Put(&l.used, types.NamespacedName{Name: name}, true) }

// UseOthers counts n more missing pods, without names yet.
func (l *Limit) UseOthers(n int) { l.others += n }

// Used is how many pods count as unavailable.
func (l *Limit) Used() int { return len(l.used) + l.others }

// Room says whether one more pod may become unavailable.
func (l *Limit) Room() bool { return l.Used() < l.Max }

// most is how many pods may be unavailable. replaced: another pod has to be created.
func (l *Limit) most(replaced bool) int {
	if replaced && l.RefillName != "" {
		return min(l.Max, l.Refill)
	}
	return l.Max
}

// TryUse counts the pod as unavailable, if it may be taken out of service now. replaced: it is deleted, and
// another one takes its place.
//
//  1. A pod out of service may always go: the change may repair it.
//  2. An available pod may go while there is room.
//  3. A ready pod short of the minimum time counts as unavailable although it is in service. It may go unless
//     the limit is exceeded. Otherwise all pods that have just become ready would go together.
func (l *Limit) TryUse(pod *Pod, replaced bool) bool {
	counted, most := l.used[keyOf(pod.Object)], l.most(replaced)
	switch {
	case !pod.InService():
	case counted && l.Used() > most:
		return false
	case !counted && l.Used() >= most:
		return false
	}
	l.Use(pod)
	return true
}

// Select splits the pods, in the given order, into those to take out of service now and those to wait. Pods out
// of service come first, wherever they stand: they never wait for room. replaced: other pods take their place.
func (l *Limit) Select(pods []*Pod, replaced func(*Pod) bool) (admitted, waiting []*Pod) {
	for _, pod := range pods {
		if !pod.InService() {
			l.Use(pod)
			admitted = append(admitted, pod)
		}
	}
	for _, pod := range pods {
		switch {
		case !pod.InService():
		case len(waiting) == 0 && l.TryUse(pod, replaced(pod)):
			admitted = append(admitted, pod)
		default:
			waiting = append(waiting, pod)
		}
	}
	return admitted, waiting
}

// Note says that n pods wait for room, and names some of their slots.
func (l *Limit) Note(reason string, n int, waiting []planning.Slot) planning.Note {
	name, most := l.Name, l.Max-l.Extra
	if l.Room() { // then it is the other limit that has none
		name, most = l.RefillName, l.Refill-l.Extra
	}
	message := fmt.Sprintf("%s: %s is %d", Waits(n), name, most)
	if users := l.users(); users != "" {
		more := ""
		if l.Extra > 0 {
			more = fmt.Sprintf(", and %d more for pods above replicas,", l.Extra)
		}
		message = fmt.Sprintf("%s: %s %d%s is used up by %s", Waits(n), name, most, more, users)
	}
	return planning.Note{Reason: reason, Message: message, Slots: waiting}
}

// users says who uses the limit; nothing if nobody does.
func (l *Limit) users() string {
	used := namesOf(slices.Collect(maps.Keys(l.used)))
	var users []string
	if len(used) > 0 {
		users = append(users, List(used))
	}
	if l.others > 0 {
		users = append(users, Count(l.others, "pod that does not exist", "pods that do not exist"))
	}
	return strings.Join(users, " and ")
}

// Waits begins a message: "3 pods wait".
func Waits(n int) string { return Count(n, "pod waits", "pods wait") }

// Count is a number with its noun and verb, in the singular or the plural: "1 pod waits", "3 pods wait".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Of is a part of a number of things, such as 0 of 1 pod, or 1 of 2 pods.
func Of(part, all int, one, many string) string {
	return fmt.Sprintf("%d of %s", part, Count(all, one, many))
}

// shown is how many names a message has at most: conditions are read by people.
const shown = 3

// List names the first few of the sorted names.
func List(names []string) string {
	return conditions.First(names, shown, ", ")
}

// compareNames orders by the number at the end: web-2 comes before web-10.
func compareNames(a, b string) int {
	if len(a) != len(b) && strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// names are the sorted names of the pods, with their namespaces if these differ.
func names(pods []*Pod) []string {
	keys := make([]types.NamespacedName, len(pods))
	for i, pod := range pods {
		keys[i] = keyOf(pod.Object)
	}
	return namesOf(keys)
}

// namesOf are the sorted names of pods, with their namespaces if these differ. A missing pod has none.
func namesOf(keys []types.NamespacedName) []string {
	namespaces := sets.New[string]()
	for _, key := range keys {
		if key.Namespace != "" {
			namespaces.Insert(key.Namespace)
		}
	}
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.Name
		if len(namespaces) > 1 {
			out[i] = strings.TrimPrefix(key.String(), "/")
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// Slots are the slots of the pods, sorted.
func Slots(pods []*Pod) []planning.Slot {
	out := make([]planning.Slot, len(pods))
	for i, pod := range pods {
		out[i] = pod.Slot
	}
	slices.SortFunc(out, func(a, b planning.Slot) int { return compareNames(string(a), string(b)) })
	return out
}
