// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// setState is what of a set changes while it is explored.
type setState struct {
	template  int8
	partition int8
	paused    bool
	refused   podsettest.Refused
}

// layout is what of an explored set stays the same.
type layout struct {
	kind                     appsv1beta1.RollingUpdateType
	nodes                    int
	maxUnavailable, maxSurge int
	partition                int8
	// images are the templates; one that begins with "!" never becomes ready. A template that ends with "+" has one variable more.
	images []string
	hooks  *shared.Lifecycle
	faults []podsettest.Move
	edits  int8
	// pauses lets the user pause and resume, refusals the server refuse pods and nodes.
	pauses, refusals int8
	onDelete         bool
	minReady         int32
	least            int
	large            bool

	revisions map[string]revision.Revision
	facts     podsettest.Facts[setState]
	mu        sync.Mutex
	sets      map[setState]*appsv1beta1.DaemonSet
}

func hashOf(i int8) string { return "r" + strconv.Itoa(int(i)) }

func (l *layout) template(i int8) *corev1.PodTemplateSpec {
	image := l.images[i]
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: strings.TrimSuffix(image, "+")}}},
	}
	if strings.HasSuffix(image, "+") {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MORE", Value: "1"}}
	}
	if l.hooks != nil {
		for key, value := range l.hooks.PreDelete.LabelsHandler {
			t.Labels[key] = value
		}
	}
	return t
}

// set is the DaemonSet of a setState, the same object for the same setState.
func (l *layout) set(w setState) *appsv1beta1.DaemonSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.sets[w]; known != nil {
		return known
	}
	set := &appsv1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "set-uid", Generation: 1},
		Spec: appsv1beta1.DaemonSetSpec{
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template:  *l.template(w.template),
			Lifecycle: l.hooks, MinReadySeconds: l.minReady,
			UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1beta1.RollingUpdateDaemonSet{
				Type: l.kind, Paused: ptr.To(w.paused), Partition: ptr.To(intstr.FromInt32(int32(w.partition))),
				MaxUnavailable: ptr.To(intstr.FromInt(l.maxUnavailable)), MaxSurge: ptr.To(intstr.FromInt(l.maxSurge)),
			}},
		},
	}
	if l.onDelete {
		set.Spec.UpdateStrategy = appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.OnDeleteDaemonSetStrategyType}
	}
	l.sets[w] = set
	return set
}

func (l *layout) seen(w *podsettest.State[setState]) (*Spec, Snapshot) {
	set := l.set(w.Set)
	objects := make([]corev1.Node, len(w.Nodes))
	for i, node := range w.Nodes {
		objects[i] = *node
	}
	nodes := Nodes(Compile(set), objects)
	spec := Parse(set, Desired(nodes), Options{})
	pods := l.facts.Of(w, func(pods []*corev1.Pod) []podset.Pod { return Pods(spec, pods, nil, podsettest.Now()) })
	update := l.revisions["agent-"+hashOf(w.Set.template)]
	s := Snapshot{
		Snapshot: podset.Snapshot{
			Now: podsettest.Now(), Pods: pods, Update: update, Current: update, Revisions: l.revisions, Retries: w.Set.refused.Retries(),
		},
		Nodes: nodes,
		PodName: func(node string) string {
			for letter := 'a'; ; letter++ {
				if name := "agent-" + node + string(letter); w.Pod(name) == nil {
					return name
				}
			}
		},
	}
	return spec, s
}

// step is one pass of the controller.
func (l *layout) step(w *podsettest.State[setState]) (planning.Plan, setState) {
	spec, s := l.seen(w)
	plan := Plan(spec, s)
	Status(spec, s, plan, planning.Outcome{})
	return w.Set.refused.Tried(plan), w.Set
}

func staying(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed
}

func (l *layout) seconds() time.Duration { return time.Duration(l.minReady) * time.Second }

func (l *layout) stopped(w setState) bool { return l.onDelete || w.paused }

func outdated(w setState, pod *corev1.Pod) bool {
	return pod.Labels[shared.LabelControllerRevisionHash] != hashOf(w.template)
}

// waits says that nothing can be done about a node now, because the server has refused it.
func waits(w *podsettest.State[setState], node string) bool {
	return w.Set.refused.Waits(node) ||
		slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return podsettest.NodeOf(pod) == node && w.Set.refused.Waits(pod.Name) })
}

// complete: every node has a pod, or one that is going.
func (l *layout) complete(w *podsettest.State[setState]) error {
	for _, node := range w.Nodes {
		if len(podsOf(w, node.Name, func(*corev1.Pod) bool { return true })) == 0 && !waits(w, node.Name) {
			return fmt.Errorf("node %s has no pod", node.Name)
		}
	}
	return nil
}

func podsOf(w *podsettest.State[setState], node string, is func(*corev1.Pod) bool) []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range w.Pods {
		if podsettest.NodeOf(pod) == node && is(pod) {
			found = append(found, pod)
		}
	}
	return found
}

// goal: every node has exactly one pod, which is available and what it says it is, no more of them outdated than the partition keeps; there
// are no other pods; and nothing is planned. Of nodes that the server has refused nothing is demanded, and as long as
// their pods are available they do not keep the others waiting.
func (l *layout) goal(w *podsettest.State[setState], plan planning.Plan) bool {
	refused := slices.ContainsFunc(w.Nodes, func(node *corev1.Node) bool { return waits(w, node.Name) })
	if len(plan.Actions) > 0 || len(w.Pods) != len(w.Nodes) && !refused {
		// With an image that never becomes ready only the user can help.
		return strings.HasPrefix(l.images[w.Set.template], "!")
	}
	old := 0
	for _, node := range w.Nodes {
		pods := podsOf(w, node.Name, staying)
		if waits(w, node.Name) {
			if len(pods) > 0 && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !podsettest.Available(pod, l.seconds()) }) {
				continue
			}
			return true
		}
		if len(pods) != 1 {
			return false
		}
		hash := pods[0].Labels[shared.LabelControllerRevisionHash]
		broken := strings.HasPrefix(pods[0].Spec.Containers[0].Image, "!")
		if !broken && !podsettest.Available(pods[0], l.seconds()) || !broken && !podsettest.Runs(pods[0], hash, l.revisions["agent-"+hash].Template) {
			return false
		}
		if broken && !strings.HasPrefix(l.images[w.Set.template], "!") && !l.stopped(w.Set) {
			return false
		}
		if outdated(w.Set, pods[0]) {
			old++
		}
	}
	return old <= int(w.Set.partition) || l.stopped(w.Set) || strings.HasPrefix(l.images[w.Set.template], "!")
}

// needs says that a pod has a reason to go or to change: it is outdated, has failed, or is not the only one of its node; or its user has been
// asked to let it go.
func needs(w *podsettest.State[setState], pod *corev1.Pod) bool {
	return outdated(w.Set, pod) || pod.Status.Phase == corev1.PodFailed || len(podsOf(w, podsettest.NodeOf(pod), staying)) > 1 ||
		pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete) || w.Node(podsettest.NodeOf(pod)) == nil
}

func (l *layout) changes(w *podsettest.State[setState]) []podsettest.Change[setState] {
	var all []podsettest.Change[setState]
	for i := range l.images {
		if to := w.Set; int8(i) != w.Set.template {
			to.template = int8(i)
			all = append(all, podsettest.Change[setState]{Name: "template " + l.images[i], To: to, Edit: true})
		}
	}
	if to := w.Set; l.pauses > 0 {
		to.paused = !to.paused
		all = append(all, podsettest.Change[setState]{Name: fmt.Sprintf("paused %v", to.paused), To: to})
	}
	if l.refusals > 0 {
		var names []string
		for _, node := range w.Nodes {
			names = append(names, node.Name)
		}
		for _, pod := range w.Pods {
			names = append(names, pod.Name)
		}
		next := w.Set.refused.Next(names)
		for _, name := range slices.Sorted(maps.Keys(next)) {
			to := w.Set
			to.refused = next[name]
			all = append(all, podsettest.Change[setState]{Name: name, To: to})
		}
	}
	return all
}

func (l *layout) size() podsettest.Size {
	return podsettest.Size{Least: max(l.least, 25), Large: l.large}
}

func (l *layout) exploration(t *testing.T) podsettest.Exploration[setState] {
	t.Helper()
	l.revisions, l.sets = map[string]revision.Revision{}, map[setState]*appsv1beta1.DaemonSet{}
	cluster := podsettest.Cluster{Hooks: l.hooks, Nodes: nodeNames(l.nodes), Clock: l.minReady > 0}
	for i, image := range l.images {
		name := "agent-" + hashOf(int8(i))
		l.revisions[name] = revision.Revision{Name: name, Number: int64(i + 1), Template: l.template(int8(i))}
		if strings.HasPrefix(image, "!") {
			cluster.NeverReady = append(cluster.NeverReady, image)
		}
	}
	start := &podsettest.State[setState]{Set: setState{partition: l.partition}}
	for _, name := range nodeNames(l.nodes) {
		start.Nodes = append(start.Nodes, podsettest.NewNode(name))
	}
	if err := podsettest.BringUp(start, cluster, l.step, 100); err != nil {
		t.Fatal(err)
	}
	surge := func(setState) int { return min(l.maxSurge, 1) }
	return podsettest.Exploration[setState]{
		Start: []*podsettest.State[setState]{start}, Step: l.step, Cluster: cluster, Faults: l.faults,
		Budget:  podsettest.Budget{Faults: 1, Edits: l.edits, Scalings: l.pauses + l.refusals},
		Changes: l.changes, Goal: l.goal, Resting: l.complete,
		Always: []podsettest.Invariant[setState]{
			podsettest.AtMostOnePodPerSlot(podsettest.SlotOfNode, surge),
			podsettest.AtMostUnavailableSlots(func(w *podsettest.State[setState]) []planning.Slot {
				var slots []planning.Slot
				for _, node := range w.Nodes {
					slots = append(slots, planning.Slot(node.Name))
				}
				return slots
			}, podsettest.SlotOfNode, func(w setState) int { return l.maxUnavailable + int(w.partition) }, l.seconds()), // nodes that the partition keeps use up nothing
			podsettest.OnlyNeededChanges(needs),
			podsettest.OneActionEach[setState](),
			podsettest.HooksHold[setState](l.hooks),
			podsettest.NothingMoves(func(w *podsettest.State[setState], pod *corev1.Pod) bool {
				node := podsettest.NodeOf(pod)
				return l.stopped(w.Set) && staying(pod) && w.Node(node) != nil && len(podsOf(w, node, staying)) == 1 &&
					pod.Labels[shared.LabelLifecycleState] != string(shared.StatePreparingDelete)
			}),
		},
	}
}

// TestExplore visits every state that small clusters can get into, with everything that kubelets, nodes, users and bad luck can do in any order,
// and shows that the invariants hold in each step and that the set finds its way out of each state.
func TestExplore(t *testing.T) {
	const standard, inPlace = appsv1beta1.StandardRollingUpdateType, appsv1beta1.InplaceRollingUpdateType
	good, broken, mixed := []string{"agent:1", "agent:2"}, []string{"agent:1", "!agent:2", "agent:3"}, []string{"agent:1", "agent:2", "agent:3+"}
	pods := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.Evict, podsettest.LoseContact}
	nodes := []podsettest.Move{podsettest.AddNode, podsettest.RemoveNode, podsettest.RecreateNode, podsettest.CordonNode, podsettest.UncordonNode, podsettest.LoseNode}
	hold := &shared.Lifecycle{PreDelete: &shared.LifecycleHook{LabelsHandler: map[string]string{"drain": "wait"}}}
	podsettest.ExploreEach(t, map[string]*layout{
		"replaced, three nodes come and go":              {kind: standard, nodes: 3, maxUnavailable: 1, images: good, edits: 1, faults: nodes},
		"in place, three nodes come and go":              {kind: inPlace, nodes: 3, maxUnavailable: 1, images: good, edits: 1, faults: nodes},
		"surging, two nodes come and go":                 {kind: standard, nodes: 2, maxSurge: 1, images: good, edits: 1, faults: nodes},
		"replaced, three nodes, pods fail":               {kind: standard, nodes: 3, maxUnavailable: 1, images: good, edits: 1, faults: pods},
		"in place where possible, two nodes, pods fail":  {kind: inPlace, nodes: 2, maxUnavailable: 1, images: mixed, edits: 2, faults: pods},
		"surging, two nodes, pods fail":                  {kind: standard, nodes: 2, maxSurge: 1, images: good, edits: 1, faults: pods},
		"replaced, a broken image between":               {kind: standard, nodes: 3, maxUnavailable: 1, images: broken, edits: 2},
		"in place, a broken image between":               {kind: inPlace, nodes: 3, maxUnavailable: 1, images: broken, edits: 2},
		"surging, a broken image between":                {kind: standard, nodes: 2, maxSurge: 1, images: broken, edits: 2},
		"replaced, the partition keeps one, nodes":       {kind: standard, nodes: 3, maxUnavailable: 2, partition: 1, images: good, edits: 1, faults: nodes},
		"replaced, a hook before deletion, pods fail":    {kind: standard, nodes: 2, maxUnavailable: 1, images: good, edits: 2, hooks: hold, faults: pods},
		"replaced, a hook before deletion, nodes":        {kind: standard, nodes: 2, maxUnavailable: 1, images: good, edits: 1, hooks: hold, faults: nodes},
		"in place, paused on the way, pods fail":         {kind: inPlace, nodes: 2, maxUnavailable: 1, images: good, edits: 2, pauses: 2, faults: pods},
		"surging, paused on the way":                     {kind: standard, nodes: 2, maxSurge: 1, images: good, edits: 2, pauses: 2},
		"replaced, three nodes, some are refused":        {kind: standard, nodes: 3, maxUnavailable: 1, images: good, edits: 1, refusals: 3},
		"in place, three nodes, some are refused":        {kind: inPlace, nodes: 3, maxUnavailable: 1, images: good, edits: 1, refusals: 3},
		"in place, a broken image, some are refused":     {kind: inPlace, nodes: 3, maxUnavailable: 1, images: broken, edits: 2, refusals: 3},
		"surging, three nodes, some are refused":         {kind: standard, nodes: 3, maxSurge: 1, images: good, edits: 1, refusals: 3},
		"a hook before deletion, some are refused":       {kind: standard, nodes: 3, maxUnavailable: 1, images: good, edits: 1, hooks: hold, refusals: 3},
		"replaced, minimum time, a broken image between": {kind: standard, nodes: 3, maxUnavailable: 1, images: broken, edits: 2, minReady: 10},
		"replaced, two nodes, minimum time, pods fail":   {kind: standard, nodes: 2, maxUnavailable: 1, images: good, edits: 1, minReady: 10, faults: pods},
		"surging, minimum time, a broken image between":  {kind: standard, nodes: 2, maxSurge: 1, images: broken, edits: 2, minReady: 10},
		"OnDelete, nodes":                                {onDelete: true, nodes: 2, maxUnavailable: 1, images: good, edits: 1, faults: nodes},
		"surging, three nodes come and go":               {kind: standard, nodes: 3, maxSurge: 1, images: good, edits: 1, faults: nodes},
		"in place, three nodes, broken between, nodes":   {kind: inPlace, nodes: 3, maxUnavailable: 1, images: broken, edits: 2, faults: nodes},
	}, (*layout).size, (*layout).exploration)
}
