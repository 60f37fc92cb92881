// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// maxObjects is how many pods, and how many claims, a state under exploration has at most.
const maxObjects = 12

// maxNodes is how many nodes, gone ones included, a state under exploration has at most.
const maxNodes = 4

// id is an object that a table knows; 0 is none.
type id int32

// table gives equal objects the same number, so that a state is a few numbers.
type table[T any] struct {
	mu      sync.RWMutex
	ids     map[string]id
	objects []*T
	encode  func(*T) ([]byte, error)
}

func newTable[T any](encode func(*T) ([]byte, error)) *table[T] {
	return &table[T]{ids: map[string]id{}, objects: []*T{nil}, encode: encode}
}

func (t *table[T]) add(object *T) id {
	data, err := t.encode(object)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", object, err))
	}
	t.mu.RLock()
	known, found := t.ids[string(data)]
	t.mu.RUnlock()
	if found {
		return known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, found := t.ids[string(data)]; found {
		return known
	}
	added := id(len(t.objects))
	t.ids[string(data)] = added
	t.objects = append(t.objects, object)
	return added
}

func (t *table[T]) get(i id) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects[i]
}

// unchanged says that nobody changed the object since it was added.
func (t *table[T]) unchanged(i id) bool {
	data, err := t.encode(t.get(i))
	if err != nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ids[string(data)] == i
}

// podMove is a move of the cluster on one pod, with its result; 0 when the pod is gone.
type podMove struct {
	move Move
	to   id
}

// podTable knows all pods and claims that were met, and what can happen to each pod.
type podTable struct {
	cluster Cluster
	// reduce says that what no decision can depend on is left out.
	reduce bool
	pods   *table[corev1.Pod]
	claims *table[corev1.PersistentVolumeClaim]
	nodes  *table[corev1.Node]

	mu    sync.RWMutex
	moves map[id][]podMove
	// started are pods that start on a node.
	started map[startOf]id
	// results are what requests make of pods that are known; normalized says that a pod is one of them. reduced is what is kept of a
	// pod, numbers what it is called. They save most of the time of an exploration.
	results    map[result]*corev1.Pod
	normalized map[*corev1.Pod]bool
	reduced    map[*corev1.Pod]*corev1.Pod
	numbers    map[*corev1.Pod]id

	// classes are the numbers of pods without their names, members the pods of a class by name.
	classes map[id]id
	members map[member]id
}

// member is the i-th pod of a state, of a class.
type member struct {
	class id
	i     int
}

// classOf is the number of a pod without its name: that of the same pod as the first one.
func (a *podTable) classOf(pod id, rename func(*corev1.Pod, int)) id {
	a.mu.RLock()
	class, known := a.classes[pod]
	a.mu.RUnlock()
	if known {
		return class
	}
	first := a.pods.get(pod).DeepCopy()
	rename(first, 0)
	class = a.pods.add(first)
	a.mu.Lock()
	a.classes[pod] = class
	a.mu.Unlock()
	return class
}

// member is a pod of the class with the i-th name.
func (a *podTable) member(class id, i int, rename func(*corev1.Pod, int)) id {
	key := member{class, i}
	a.mu.RLock()
	pod, known := a.members[key]
	a.mu.RUnlock()
	if known {
		return pod
	}
	named := a.pods.get(class).DeepCopy()
	rename(named, i)
	pod = a.pods.add(named)
	a.mu.Lock()
	a.members[key], a.classes[pod] = pod, class
	a.mu.Unlock()
	return pod
}

// result is a request to a pod: an edit, a deletion, or the creation of a pod with its first edit.
type result struct {
	pod           *corev1.Pod
	step          planning.Step
	edit, created string
}

func (a *podTable) resultOf(r result) *corev1.Pod {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.results[r]
}

// remember keeps what a request makes of a pod. Nobody changes either pod any more.
func (a *podTable) remember(r result, normal *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results[r] = normal
	a.normalized[normal] = true
}

// normal is the pod as a cluster keeps it. It may change the pod that it is given.
func (a *podTable) normal(pod *corev1.Pod) *corev1.Pod {
	a.mu.RLock()
	is := a.normalized[pod]
	a.mu.RUnlock()
	if is {
		return pod
	}
	return a.cluster.normalize(pod)
}

// kept is what the podTable keeps of a normalized pod.
func (a *podTable) kept(pod *corev1.Pod) *corev1.Pod {
	if !a.reduce {
		return pod
	}
	a.mu.RLock()
	known, remembered := a.reduced[pod], a.normalized[pod]
	a.mu.RUnlock()
	if known != nil {
		return known
	}
	n := a.pods.add(a.cluster.reduce(pod.DeepCopy()))
	kept := a.pods.get(n)
	if remembered {
		a.mu.Lock()
		a.reduced[pod], a.numbers[kept] = kept, n
		a.mu.Unlock()
	}
	return kept
}

// number is what the pod is called.
func (a *podTable) number(pod *corev1.Pod) id {
	a.mu.RLock()
	n, known := a.numbers[pod]
	a.mu.RUnlock()
	if known {
		return n
	}
	return a.pods.add(pod)
}

func newPodTable(c Cluster, reduce bool) *podTable {
	return &podTable{
		cluster: c,
		reduce:  reduce,
		pods:    newTable(func(p *corev1.Pod) ([]byte, error) { return p.Marshal() }),
		claims:  newTable(func(c *corev1.PersistentVolumeClaim) ([]byte, error) { return c.Marshal() }),
		nodes:   newTable(func(n *corev1.Node) ([]byte, error) { return n.Marshal() }),
		started: map[startOf]id{},
		moves:   map[id][]podMove{}, classes: map[id]id{}, members: map[member]id{},
		results: map[result]*corev1.Pod{}, normalized: map[*corev1.Pod]bool{},
		reduced: map[*corev1.Pod]*corev1.Pod{}, numbers: map[*corev1.Pod]id{},
	}
}

// settle makes a pod what the podTable keeps of it. It changes the pod that it is given.
func (a *podTable) settle(pod *corev1.Pod) *corev1.Pod {
	pod = a.cluster.normalize(pod)
	if a.reduce {
		pod = a.cluster.reduce(pod)
	}
	return pod
}

// movesOf is what can happen to a pod, sorted by name; computed once.
func (a *podTable) movesOf(pod id) []podMove {
	a.mu.RLock()
	known, found := a.moves[pod]
	a.mu.RUnlock()
	if found {
		return known
	}
	all := []podMove{}
	for move, result := range a.cluster.moves(a.pods.get(pod)) {
		to := id(0)
		if result != nil {
			to = a.pods.add(a.settle(result))
		}
		if to != pod {
			all = append(all, podMove{move, to})
		}
	}
	slices.SortFunc(all, func(x, y podMove) int {
		if x.move < y.move {
			return -1
		}
		return 1
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moves[pod] = all
	return all
}

// startOf is a pod that starts on a node.
type startOf struct {
	pod  id
	node string
}

// startedOn is the started pod, on a node.
func (a *podTable) startedOn(started id, node string) id {
	key := startOf{started, node}
	a.mu.RLock()
	pod, known := a.started[key]
	a.mu.RUnlock()
	if known {
		return pod
	}
	bound := a.pods.get(started).DeepCopy()
	bound.Spec.NodeName = node
	pod = a.pods.add(bound)
	a.mu.Lock()
	a.started[key] = pod
	a.mu.Unlock()
	return pod
}

// encoded is a state as numbers. Pods and claims stand in the order of their names; among the nodes those that are gone have a deletion
// timestamp.
type encoded[W comparable] struct {
	set W
	// budget is zero unless nothing is to be reduced.
	budget Budget
	pods   [maxObjects]id
	claims [maxObjects]id
	nodes  [maxNodes]id
}

func decode[W comparable](a *podTable, s *encoded[W]) *State[W] {
	w := &State[W]{Set: s.set}
	for _, p := range s.pods {
		if p != 0 {
			w.Pods = append(w.Pods, a.pods.get(p))
		}
	}
	for _, c := range s.claims {
		if c != 0 {
			w.Claims = append(w.Claims, a.claims.get(c))
		}
	}
	for _, n := range s.nodes {
		if n == 0 {
			continue
		}
		if node := a.nodes.get(n); node.DeletionTimestamp == nil {
			w.Nodes = append(w.Nodes, node)
		} else {
			w.departed = append(w.departed, node)
		}
	}
	return w
}
