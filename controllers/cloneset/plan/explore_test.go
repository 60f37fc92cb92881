// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// setFields are what of a set changes while it is explored.
type setFields struct {
	// template is the present one, current the one that status.currentRevision names.
	template, current   int8
	replicas, partition int8
	// paused stops updates.
	paused bool
	// leaves is the pod that scaleStrategy.podsToDelete names.
	leaves string
	// refused are the pods whose actions the server has refused.
	refused podsettest.Refused
}

// userChange is something that a user may change beside the template.
type userChange struct {
	name string
	how  func(*setFields)
}

// scaling are the changes of a user who scales.
func scaling() []userChange {
	return []userChange{
		{"one replica more", func(f *setFields) { f.replicas++ }},
		{"one replica less", func(f *setFields) { f.replicas = max(f.replicas-1, 0); f.partition = min(f.partition, f.replicas) }},
	}
}

func keep(n int8) userChange {
	return userChange{fmt.Sprintf("partition %d", n), func(f *setFields) { f.partition = min(n, f.replicas) }}
}

// pausing are the changes of a user who stops updates and lets them go on.
func pausing() []userChange {
	return []userChange{{"pause", func(f *setFields) { f.paused = true }}, {"resume", func(f *setFields) { f.paused = false }}}
}

// layout is what of an explored set stays the same.
type layout struct {
	policy                   shared.PodUpdatePolicy
	maxUnavailable, maxSurge int
	replicas, partition      int8
	hooks                    *shared.Lifecycle
	// images are the templates; one that begins with "!" never becomes ready. A template that ends with "+" has one variable more.
	images          []string
	edits, scalings int8
	// userChanges are what the user may change beside the template; nil ones are one replica more or less. specify adds any pod to podsToDelete.
	// refuses lets the server refuse pods, each of which counts as such a change.
	userChanges []userChange
	specify     bool
	refuses     bool
	faults      []podsettest.Move
	// maxFaults is how much of it there is; when omitted, once.
	maxFaults int8
	// onDelete leaves updates to the user. first is the instance ID that updates begin with. exclude does not count pods at their
	// preDelete hook. gate gives pods the readiness gate of updates in place.
	onDelete, exclude, gate bool
	first                   string
	minReady, grace         int32
	// anonymous explores states once whatever the names of their pods are. orders is for how many orders of names it plans; when
	// omitted, for all there are of four pods.
	anonymous bool
	orders    int
	// terminating is how many pods are terminating at most; when omitted, any number.
	terminating int
	// scaleMax is how many unavailable pods stop the creation of more; 0: any number. asUpdated counts pods at their inPlaceUpdate hook as updated
	// when pods are created or removed.
	scaleMax  int
	asUpdated bool
	// claims gives every pod one; with reuse they are kept for the next pod.
	claims, reuse, rollback bool
	// dropsClaims: only pods of the first template have the claim.
	dropsClaims bool
	// spread divides the pods over subsets.
	spread *spread.Spread
	// least is how many states there are at least: fewer mean that the case does not explore what it says.
	least int
	// large explorations take minutes and are for make test-all alone.
	large bool

	revisions map[string]revision.Revision
	facts     podsettest.Facts[setFields]
	mu        sync.Mutex
	sets      map[setFields]*appsv1beta1.CloneSet
}

func (l *layout) revisionName(i int8) string { return "web-r" + strconv.Itoa(int(i)) }

func (l *layout) template(i int8) *corev1.PodTemplateSpec {
	image := l.images[i]
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: strings.TrimSuffix(image, "+"), ImagePullPolicy: corev1.PullIfNotPresent}}},
	}
	if l.gate {
		t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}}
	}
	if strings.HasSuffix(image, "+") {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MORE", Value: "1"}}
	}
	if l.hooks != nil {
		for _, hook := range []*shared.LifecycleHook{l.hooks.PreDelete, l.hooks.InPlaceUpdate} {
			if hook != nil {
				for key, value := range hook.LabelsHandler {
					t.Labels[key] = value
				}
			}
		}
	}
	return t
}

// set is the CloneSet with these fields, the same object for the same ones.
func (l *layout) set(f setFields) *appsv1beta1.CloneSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.sets[f]; known != nil {
		return known
	}
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set-uid", Generation: 1},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas:  ptr.To(int32(f.replicas)),
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:  *l.template(f.template),
			Lifecycle: l.hooks, MinReadySeconds: l.minReady,
			ScaleStrategy: appsv1beta1.CloneSetScaleStrategy{ExcludePreparingDelete: l.exclude},
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: l.policy, Paused: f.paused,
				InPlaceUpdateStrategy: &shared.InPlaceUpdateStrategy{GracePeriodSeconds: l.grace},
				Partition:             ptr.To(intstr.FromInt32(int32(f.partition))),
				MaxUnavailable:        ptr.To(intstr.FromInt(l.maxUnavailable)),
				MaxSurge:              ptr.To(intstr.FromInt(l.maxSurge)),
			}},
		},
	}
	if l.claims {
		set.Spec.VolumeClaimTemplates = l.claimsAt(f.template)
		set.Spec.ScaleStrategy.EnablePVCReuse = l.reuse
	}
	if l.scaleMax > 0 {
		set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt(l.scaleMax))
	}
	if l.first != "" {
		set.Spec.UpdateStrategy.RollingUpdate.PriorityStrategy = &shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{{
			Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{shared.LabelInstanceID: l.first}},
		}}}
	}
	if l.onDelete {
		set.Spec.UpdateStrategy = appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.OnDeleteCloneSetUpdateStrategyType}
	}
	if f.leaves != "" {
		set.Spec.ScaleStrategy.PodsToDelete = []string{f.leaves}
	}
	set.Status.CurrentRevision = l.revisionName(f.current)
	l.sets[f] = set
	return set
}

// claimsAt are the claim templates beside a template.
func (l *layout) claimsAt(template int8) []corev1.PersistentVolumeClaim {
	if !l.claims || l.dropsClaims && template > 0 {
		return nil
	}
	return []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
}

// hasClaim says that a pod has a claim by its revision.
func (l *layout) hasClaim(pod *corev1.Pod) bool {
	return l.claims && (!l.dropsClaims || pod.Labels[shared.LabelControllerRevisionHash] == l.revisionName(0))
}

func (l *layout) options() Options {
	return Options{PartitionRollback: l.rollback, PreparingUpdateAsUpdate: l.asUpdated}
}

// letters are the instance IDs; those in use are skipped, so that there are few states, and so is the one that podsToDelete names: no
// pod ever gets the name of an earlier one.
func letters(leaves string) iter.Seq[planning.Slot] {
	return func(yield func(planning.Slot) bool) {
		for letter := 'a'; letter <= 'z'; letter++ {
			if "web-"+string(letter) != leaves && !yield(planning.Slot(letter)) {
				return
			}
		}
	}
}

// step is one pass of the controller.
func (l *layout) step(w *podsettest.State[setFields]) (planning.Plan, setFields) {
	set := l.set(w.Set)
	spec := Parse(set, l.options())
	pods := l.facts.Of(w, func(pods []*corev1.Pod) []podset.Pod { return Pods(spec, pods, nil, podsettest.Now()) })
	s := podset.Snapshot{
		Now: podsettest.Now(), Pods: pods, Claims: w.ClaimsByName(),
		Update: l.revisions[l.revisionName(w.Set.template)], Revisions: l.revisions, FreshSlots: letters(w.Set.leaves), Retries: w.Set.refused.Retries(),
	}
	s.Current = revision.Current(set.Status.CurrentRevision, s.Update, l.revisions)
	if l.spread != nil {
		s.Spread = &spread.Placing{Spread: l.spread, Replicas: int(w.Set.replicas)}
	}
	plan := Plan(spec, s)
	after := w.Set
	status, _ := Status(spec, s, plan, planning.Outcome{})
	for i := range l.images {
		if l.revisionName(int8(i)) == status.CurrentRevision {
			after.current = int8(i)
		}
	}
	if _, gone := RemainingPodsToDelete(spec, s.Pods); gone {
		after.leaves = ""
	}
	return w.Set.refused.Tried(plan), after
}

func stays(_ setFields, pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed
}

func (l *layout) outdated(f setFields, pod *corev1.Pod) bool {
	return pod.Labels[shared.LabelControllerRevisionHash] != l.revisionName(f.template)
}

func (l *layout) replicasOf(w *podsettest.State[setFields]) (staying, outdated int) {
	for _, pod := range w.Pods {
		if stays(w.Set, pod) {
			staying++
			if l.outdated(w.Set, pod) {
				outdated++
			}
		}
	}
	return staying, outdated
}

func asked(f setFields, pod *corev1.Pod) bool {
	return pod.Labels[shared.LabelSpecifiedDelete] != "" || f.leaves == pod.Name
}

func (l *layout) limit() int {
	if l.onDelete {
		return 1
	}
	if l.scaleMax > 0 && l.policy == shared.RecreatePods {
		return min(l.maxUnavailable, l.scaleMax) // no more are taken than may come back
	}
	return l.maxUnavailable
}

func (l *layout) surge(f setFields) int {
	if l.onDelete || f.paused {
		return 0
	}
	return l.maxSurge
}

// counted says that a pod is one of the replicas and of the surge.
func (l *layout) counted(f setFields, pod *corev1.Pod) bool {
	preparingDelete := pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete)
	return stays(f, pod) && (!l.exclude || !preparingDelete)
}

// stopped says that no pod is to be updated now.
func (l *layout) stopped(f setFields) bool { return l.onDelete || f.paused }

// enough says that no pod has to go because there are too many.
func (l *layout) enough(w *podsettest.State[setFields]) bool {
	staying, _ := l.replicasOf(w)
	return staying <= int(w.Set.replicas)
}

func (l *layout) needs(w *podsettest.State[setFields], pod *corev1.Pod) bool {
	// A pod that a hook has taken out of service on its way out goes on leaving, even if nobody wants that any more.
	gone := l.hooks != nil && l.hooks.PreDelete != nil && l.hooks.PreDelete.MarkPodNotReady && preparingDelete(&podset.Pod{State: lifecycle.StateOf(pod)})
	if pod.Status.Phase == corev1.PodFailed {
		return asked(w.Set, pod) // nobody replaces it
	}
	return asked(w.Set, pod) || l.outdated(w.Set, pod) || !l.enough(w) || l.rollback || gone
}

// partitionHolds: no step that has nobody asking for a deletion and no pod too many leaves fewer outdated pods than the partition keeps.
func (l *layout) partitionHolds() podsettest.Invariant[setFields] {
	return podsettest.Invariant[setFields]{Name: "the partition holds", Check: func(e podsettest.Event[setFields]) error {
		staying, before := l.replicasOf(e.Before)
		_, after := l.replicasOf(e.After)
		if staying <= int(e.Before.Set.replicas) && !slices.ContainsFunc(e.Before.Pods, func(p *corev1.Pod) bool { return asked(e.Before.Set, p) }) && after < before && after < int(e.Before.Set.partition) {
			return fmt.Errorf("of %d outdated pods %d are left; the partition keeps %d", before, after, e.Before.Set.partition)
		}
		return nil
	}}
}

// currentHolds: the current revision becomes the update revision only when all replicas exist, all at that revision, and no partition. Until then new pods
// of the partition's share are made from it.
func (l *layout) currentHolds() podsettest.Invariant[setFields] {
	return podsettest.Invariant[setFields]{Name: "the current revision stays as long as the rollout", Check: func(e podsettest.Event[setFields]) error {
		before, after := e.Before.Set, e.After.Set
		if staying, outdated := l.replicasOf(e.Before); after.current != before.current && (after.current != before.template || outdated > 0 || staying != int(before.replicas) || before.partition > 0) {
			return fmt.Errorf("it becomes %s with %d pods, %d of them outdated; there should be %d", l.revisionName(after.current), staying, outdated, before.replicas)
		}
		return nil
	}}
}

// complete: no replica is missing. Only where creation never waits: for claims it may.
func (l *layout) complete(w *podsettest.State[setFields]) error {
	counted := 0
	for _, pod := range w.Pods {
		if l.counted(w.Set, pod) {
			counted++
		}
	}
	if !l.claims && l.scaleMax == 0 && counted < int(w.Set.replicas) {
		return fmt.Errorf("of %d replicas there are only %d", w.Set.replicas, counted)
	}
	return nil
}

// goal: there are as many pods as there should be, all available and what they say they are, the partition's share of them
// at an earlier revision; every claim has a pod; and nothing is planned.
func (l *layout) goal(w *podsettest.State[setFields], plan planning.Plan) bool {
	broken := func(pod *corev1.Pod) bool {
		return stays(w.Set, pod) && strings.HasPrefix(pod.Spec.Containers[0].Image, "!")
	}
	staying, outdated := l.replicasOf(w)
	for _, pod := range w.Pods {
		switch {
		case !stays(w.Set, pod) || !w.Set.refused.Waits(pod.Name):
		case !podsettest.Available(pod, l.seconds()):
			return true // others wait for it
		case l.outdated(w.Set, pod):
			// It waits for the server, and the others do not wait for it. Only the surge goes on making up for it, and leaves as many others as they are.
			outdated -= 1 + l.surge(w.Set)
			staying = max(staying-l.surge(w.Set), int(w.Set.replicas))
		}
	}
	if slices.ContainsFunc(w.Pods, broken) {
		kept := outdated
		for _, pod := range w.Pods {
			if stays(w.Set, pod) && l.outdated(w.Set, pod) && asked(w.Set, pod) {
				kept--
			}
		}
		// Only the user can help: with another template, by letting updates go on, or with a smaller partition.
		return strings.HasPrefix(l.images[w.Set.template], "!") || l.stopped(w.Set) || kept <= int(w.Set.partition)
	}
	impossible := slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return stays(w.Set, pod) && l.impossible(w.Set, pod) })
	if impossible {
		unavailable := func(pod *corev1.Pod) bool { return stays(w.Set, pod) && !podsettest.Available(pod, l.seconds()) }
		return len(plan.Actions) == 0 && staying == int(w.Set.replicas) && !slices.ContainsFunc(w.Pods, unavailable)
	}
	if len(plan.Actions) > 0 || staying != int(w.Set.replicas) || outdated > int(w.Set.partition) && !l.stopped(w.Set) {
		return false
	}
	if w.Set.leaves != "" || !l.isSplit(w) {
		return false
	}
	claims := 0
	for _, pod := range w.Pods {
		name := pod.Labels[shared.LabelControllerRevisionHash]
		if pod.DeletionTimestamp != nil || asked(w.Set, pod) || stays(w.Set, pod) && (!podsettest.Available(pod, l.seconds()) || !podsettest.Runs(pod, name, l.revisions[name].Template)) {
			return false
		}
		if l.hasClaim(pod) || !stays(w.Set, pod) && w.Claim("data-"+pod.Name) != nil { // of a failed pod the revision is not known
			claims++
		}
		if stays(w.Set, pod) && l.hasClaim(pod) != (w.Claim("data-"+pod.Name) != nil && len(pod.Spec.Volumes) > 0) {
			return false
		}
	}
	if !l.reuse && len(w.Claims) != claims {
		return false
	}
	return w.Set.partition > 0 || l.stopped(w.Set) || l.refuses || w.Set.current == w.Set.template
}

// impossible says that a pod may only be edited, and that no edit makes it what the template says.
func (l *layout) impossible(f setFields, pod *corev1.Pod) bool {
	return l.policy == shared.InPlaceOnly && len(pod.Spec.Containers[0].Env) != len(l.template(f.template).Spec.Containers[0].Env)
}

func (l *layout) seconds() time.Duration { return time.Duration(l.minReady) * time.Second }

// changes are what the user may do: another template, or one of the userChanges.
func (l *layout) changes(w *podsettest.State[setFields]) []podsettest.Change[setFields] {
	var all []podsettest.Change[setFields]
	for i := range l.images {
		if to := w.Set; int8(i) != w.Set.template {
			to.template = int8(i)
			all = append(all, podsettest.Change[setFields]{Name: "template " + l.images[i], To: to, Edit: true})
		}
	}
	userChanges := l.userChanges
	if userChanges == nil && !l.specify && !l.refuses {
		userChanges = scaling()
	}
	for _, change := range userChanges {
		to := w.Set
		if change.how(&to); to != w.Set {
			all = append(all, podsettest.Change[setFields]{Name: change.name, To: to})
		}
	}
	if l.refuses {
		var names []string
		for _, pod := range w.Pods {
			names = append(names, pod.Name)
		}
		next := w.Set.refused.Next(names)
		for _, name := range slices.Sorted(maps.Keys(next)) {
			to := w.Set
			to.refused = next[name]
			all = append(all, podsettest.Change[setFields]{Name: name, To: to})
		}
	}
	for _, pod := range w.Pods {
		if to := w.Set; l.specify && to.leaves == "" {
			to.leaves = pod.Name
			all = append(all, podsettest.Change[setFields]{Name: "podsToDelete " + pod.Name, To: to})
		}
	}
	return all
}

func (l *layout) size() podsettest.Size { return podsettest.Size{Least: l.least, Large: l.large} }

func (l *layout) exploration(t *testing.T) podsettest.Exploration[setFields] {
	t.Helper()
	l.revisions = map[string]revision.Revision{}
	l.sets = map[setFields]*appsv1beta1.CloneSet{}
	cluster := podsettest.Cluster{Hooks: l.hooks, Clock: l.minReady > 0 || l.grace > 0, LeavesFailed: true}
	for i, image := range l.images {
		name := l.revisionName(int8(i))
		l.revisions[name] = revision.Revision{Name: name, Number: int64(i + 1), Template: l.template(int8(i))}
		if l.dropsClaims {
			recorded := revision.RecordClaims(nil, l.claimsAt(int8(i)))
			l.revisions[name] = revision.Revision{
				Name: name, Number: int64(i + 1), Template: l.template(int8(i)), Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: recorded}},
			}
		}
		if strings.HasPrefix(image, "!") {
			cluster.NeverReady = append(cluster.NeverReady, image)
		}
	}
	start := &podsettest.State[setFields]{Set: setFields{replicas: l.replicas, partition: l.partition}}
	if err := podsettest.BringUp(start, cluster, l.step, 100); err != nil {
		t.Fatal(err)
	}
	var rename func(*corev1.Pod, int)
	if l.anonymous {
		rename = func(pod *corev1.Pod, i int) {
			id := string(rune('a' + i))
			pod.Name = "web-" + id
			pod.UID = podsettest.UIDOf(pod.Name)
			pod.Labels[shared.LabelInstanceID] = id
		}
	}
	e := podsettest.Exploration[setFields]{
		Rename: rename, MaxOrders: l.orders, MaxTerminating: l.terminating,
		Marked: func(f setFields) string { return f.leaves },
		Mark:   func(f setFields, name string) setFields { f.leaves = name; return f },
		Start:  []*podsettest.State[setFields]{start}, Step: l.step, Cluster: cluster, Faults: l.faults,
		Budget:  podsettest.Budget{Faults: max(l.maxFaults, 1), Edits: l.edits, Scalings: l.scalings},
		Changes: l.changes, Goal: l.goal, Resting: l.complete,
		Always: []podsettest.Invariant[setFields]{
			podsettest.AtLeastAvailable(func(f setFields) int { return int(f.replicas) - l.limit() }, l.seconds()),
			podsettest.AtMostPods(func(f setFields) int { return int(f.replicas) + l.surge(f) }, l.counted),
			podsettest.OnlyNeededChanges(l.needs),
			podsettest.OneActionEach[setFields](),
			podsettest.HooksHold[setFields](l.hooks),
			l.partitionHolds(),
			l.currentHolds(),
			podsettest.NothingMoves(func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
				return l.stopped(w.Set) && l.enough(w) && !asked(w.Set, pod)
			}),
			podsettest.ClaimsStay(func(claim *corev1.PersistentVolumeClaim) string { return strings.TrimPrefix(claim.Name, "data-") },
				func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
					return stays(w.Set, pod) && !l.needs(w, pod)
				}),
		},
	}
	if l.grace > 0 {
		e.Always = append(e.Always, podsettest.GraceHolds[setFields]())
	}
	e.Always = append(e.Always, podsettest.CreatesWithin(l.scaleMax, func(w *podsettest.State[setFields], pod *corev1.Pod, _ string) bool {
		return stays(w.Set, pod) && (!asked(w.Set, pod) || preparingDelete(&podset.Pod{State: lifecycle.StateOf(pod)}))
	}, l.seconds()))
	if l.policy == shared.InPlaceOnly {
		e.Always = append(e.Always, podsettest.NothingReplaced(func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
			return asked(w.Set, pod) || !l.enough(w)
		}))
	}
	return e
}

// TestExplore visits every state that small sets can get into, with everything that kubelets, users and bad luck can do in any
// order, and shows that the invariants hold in each step and that the set finds its way out of each state.
func TestExplore(t *testing.T) {
	const inPlace, recreate = shared.InPlaceIfPossible, shared.RecreatePods
	both := &shared.Lifecycle{InPlaceUpdate: hook("hold-update"), PreDelete: hook("hold-delete")}
	good := []string{"web:1", "web:2"}
	broken := []string{"web:1", "!web:2", "web:3"}
	faults := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.Evict, podsettest.RequestDeletion}
	cases := map[string]*layout{
		"in place, three pods, a broken image between":           {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, edits: 2},
		"in place, two pods and a surge":                         {policy: inPlace, images: good, replicas: 2, maxUnavailable: 0, maxSurge: 1, edits: 2},
		"in place, two pods, with faults":                        {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 2, faults: faults},
		"in place, two pods, a surge and faults":                 {policy: inPlace, images: good, replicas: 2, maxUnavailable: 0, maxSurge: 1, edits: 1, faults: faults},
		"in place, the partition keeps one of three":             {policy: inPlace, images: good, replicas: 3, partition: 1, maxUnavailable: 1, edits: 1, scalings: 1, userChanges: append(scaling(), keep(0)), least: 200},
		"in place, the partition is raised, and pods go back":    {policy: inPlace, images: good, replicas: 2, partition: 1, maxUnavailable: 1, edits: 1, scalings: 1, userChanges: append(scaling(), keep(0), userChange{"a larger partition", func(f *setFields) { f.partition = f.replicas }}), rollback: true, least: 120},
		"in place, two pods with both hooks are scaled":          {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, hooks: both},
		"recreate, two pods, a broken image between":             {policy: recreate, images: broken, replicas: 2, maxUnavailable: 1, edits: 2, least: 2500},
		"recreate, three pods and a surge":                       {policy: recreate, images: good, replicas: 3, maxUnavailable: 0, maxSurge: 1, edits: 1, least: 100},
		"recreate, two pods wait before they are deleted":        {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, hooks: &shared.Lifecycle{PreDelete: hook("hold")}},
		"recreate, the partition keeps one of two, with faults":  {policy: recreate, images: good, replicas: 2, partition: 1, maxUnavailable: 1, edits: 1, faults: faults, least: 960},
		"recreate, claims go with their pods, with faults":       {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, claims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, least: 14000},
		"recreate, claims are kept for the next pod, and faults": {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, claims: true, reuse: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, least: 10000},
	}
	mixed := []string{"web:1", "web:2", "web:3+"} // the last one cannot be reached in place
	everything := append(faults, podsettest.LoseContact)
	all := &shared.Lifecycle{PreNormal: hook("warm"), InPlaceUpdate: hook("hold-update"), PreDelete: hook("hold-delete")}
	marking := &shared.Lifecycle{
		InPlaceUpdate: &shared.LifecycleHook{LabelsHandler: map[string]string{"hold-update": "yes"}, MarkPodNotReady: true},
		PreDelete:     &shared.LifecycleHook{LabelsHandler: map[string]string{"hold-delete": "yes"}, MarkPodNotReady: true},
	}
	hold := &shared.Lifecycle{PreDelete: hook("hold")}
	for name, l := range map[string]*layout{
		"in place, four pods and a surge of two, a broken image, with faults":                {policy: inPlace, images: broken[:2], replicas: 4, maxUnavailable: 1, maxSurge: 2, edits: 1, faults: everything, anonymous: true, orders: 6, least: 1500},
		"in place, four pods and a surge of two, a broken image between":                     {policy: inPlace, images: broken, replicas: 4, maxUnavailable: 1, maxSurge: 2, edits: 2, anonymous: true, orders: 6, large: true},
		"recreate, four pods and a surge of two, a broken image, with faults":                {policy: recreate, images: broken[:2], replicas: 4, maxUnavailable: 1, maxSurge: 2, edits: 1, faults: everything, anonymous: true, orders: 6, least: 820},
		"recreate, four pods and a surge of two, a broken image between, with faults":        {policy: recreate, images: broken, replicas: 4, maxUnavailable: 1, maxSurge: 2, edits: 2, faults: everything, anonymous: true, orders: 6, terminating: 3, large: true},
		"in place, four pods, two at a time, a broken image, with faults":                    {policy: inPlace, images: broken[:2], replicas: 4, maxUnavailable: 2, edits: 1, faults: everything, anonymous: true, orders: 6, least: 650},
		"in place, four pods, two at a time, a broken image between, with faults":            {policy: inPlace, images: broken, replicas: 4, maxUnavailable: 2, edits: 2, faults: everything, anonymous: true, orders: 6, large: true},
		"in place where possible, three pods with gates and a surge, with faults":            {policy: inPlace, images: mixed, replicas: 3, maxUnavailable: 1, maxSurge: 1, edits: 2, gate: true, faults: everything, anonymous: true, orders: 6, large: true},
		"in place, three pods, all hooks, with faults":                                       {policy: inPlace, images: good, replicas: 3, maxUnavailable: 1, edits: 2, hooks: all, faults: everything, anonymous: true, least: 11000},
		"in place where possible, three pods, hooks out of service, with faults":             {policy: inPlace, images: mixed, replicas: 3, maxUnavailable: 1, edits: 2, hooks: marking, gate: true, faults: everything, anonymous: true, large: true},
		"recreate, three pods wait before they are deleted, scaled, with faults":             {policy: recreate, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 1, hooks: hold, faults: everything, anonymous: true, least: 10000},
		"recreate, three pods wait and are not counted, with faults":                         {policy: recreate, images: good, replicas: 3, maxUnavailable: 1, edits: 1, hooks: hold, exclude: true, faults: everything, anonymous: true, orders: 6, least: 8100},
		"recreate, two pods wait and are not counted, scaled, with faults":                   {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, hooks: hold, exclude: true, faults: everything, anonymous: true, orders: 6, large: true},
		"recreate, three pods, podsToDelete names some of them, with faults":                 {policy: recreate, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 2, specify: true, anonymous: true, userChanges: scaling(), faults: everything, large: true},
		"in place, two pods with hooks, podsToDelete names some of them, with faults":        {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 2, specify: true, anonymous: true, userChanges: scaling(), hooks: both, faults: everything, large: true},
		"OnDelete, four pods, a broken image between, with faults":                           {onDelete: true, images: broken, replicas: 4, edits: 2, faults: everything, maxFaults: 2, anonymous: true},
		"in place, three pods, paused on the way, with faults":                               {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, edits: 2, scalings: 2, userChanges: pausing(), faults: everything, anonymous: true, least: 9000},
		"in place, two pods and a surge, paused on the way over a broken image, with faults": {policy: inPlace, images: broken, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 2, scalings: 2, userChanges: pausing(), faults: everything, anonymous: true, large: true},
		"in place, four pods by priority, the partition changes on the way":                  {policy: inPlace, images: good, replicas: 4, maxUnavailable: 2, edits: 2, scalings: 2, userChanges: []userChange{keep(0), keep(1), keep(3)}, first: "c", least: 12000},
		"in place, four pods are scaled, the partition goes back, with faults":               {policy: inPlace, images: good, replicas: 4, maxUnavailable: 1, edits: 1, scalings: 1, userChanges: append(scaling(), keep(0), keep(3)), rollback: true, faults: everything, anonymous: true, orders: 6, least: 6900},
		"in place, two pods are scaled twice, the partition goes back, with faults":          {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 2, userChanges: append(scaling(), keep(0), keep(2)), rollback: true, faults: everything, anonymous: true, orders: 6, large: true},
		"in place, three pods, grace period and minimum time, with faults":                   {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, edits: 2, gate: true, minReady: 10, grace: 5, faults: everything, anonymous: true, large: true},
		"in place, two pods and a surge, grace period and minimum time, with faults":         {policy: inPlace, images: broken, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, gate: true, minReady: 10, grace: 5, faults: everything, anonymous: true, least: 9900},
		"recreate, four pods are scaled, minimum time, with faults":                          {policy: recreate, images: good, replicas: 4, maxUnavailable: 1, edits: 1, scalings: 1, minReady: 10, faults: everything, anonymous: true, orders: 6, least: 20000},
		"recreate, four pods are scaled twice, minimum time, with faults":                    {policy: recreate, images: good, replicas: 4, maxUnavailable: 1, edits: 1, scalings: 2, minReady: 10, faults: everything, anonymous: true, orders: 6, terminating: 3, large: true},
		"recreate, two pods are scaled, claims go with their pods, with faults":              {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, claims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.RequestDeletion}, large: true},
		// The same as the large ones, smaller.
		"in place, two pods and a surge, a broken image and back, with faults":                               {policy: inPlace, images: broken[:2], replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 2, faults: everything, anonymous: true, least: 6800},
		"recreate, two pods and a surge, a broken image between, with faults":                                {policy: recreate, images: broken, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 2, faults: everything, anonymous: true, least: 13000},
		"in place, three pods and a surge, a broken image between":                                           {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, maxSurge: 1, edits: 2, anonymous: true, least: 2400},
		"recreate, three pods and a surge, a broken image between":                                           {policy: recreate, images: broken, replicas: 3, maxUnavailable: 1, maxSurge: 1, edits: 2, anonymous: true, least: 2000},
		"in place, four pods, two at a time, a broken image between":                                         {policy: inPlace, images: broken, replicas: 4, maxUnavailable: 2, edits: 2, anonymous: true, least: 1000},
		"in place, three pods, two at a time, a broken image and back, with faults":                          {policy: inPlace, images: broken[:2], replicas: 3, maxUnavailable: 2, edits: 2, faults: everything, anonymous: true, least: 5700},
		"in place where possible, two pods with gates and a surge, one change, with faults":                  {policy: inPlace, images: mixed, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, gate: true, faults: everything, anonymous: true, least: 1800},
		"in place where possible, two pods, hooks out of service, one change, one is deleted":                {policy: inPlace, images: mixed, replicas: 2, maxUnavailable: 1, edits: 1, hooks: marking, gate: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.RequestDeletion}, anonymous: true, least: 760},
		"recreate, two pods wait and are not counted, a surge, with faults":                                  {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, scalings: 0, hooks: hold, exclude: true, faults: everything, anonymous: true, least: 5200},
		"recreate, two pods wait and are not counted, scaled, one is deleted":                                {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, scalings: 1, hooks: hold, exclude: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.RequestDeletion}, anonymous: true},
		"recreate, three pods, podsToDelete names one of them":                                               {policy: recreate, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 1, specify: true, anonymous: true, least: 340},
		"recreate, two pods, podsToDelete names one of them, with faults":                                    {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, specify: true, anonymous: true, userChanges: scaling(), faults: everything, least: 4300},
		"in place, two pods with hooks, podsToDelete names one of them, with faults":                         {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, specify: true, anonymous: true, hooks: both, faults: everything, least: 7300},
		"in place, two pods and a surge, paused on the way to a broken image, with faults":                   {policy: inPlace, images: broken[:2], replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, scalings: 2, userChanges: pausing(), faults: everything, anonymous: true, least: 1300},
		"in place, three pods by priority, the partition keeps one, a broken image between, with two faults": {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, partition: 1, edits: 2, first: "c", faults: everything, maxFaults: 2, large: true},
		"in place, three pods by priority, the partition keeps one, a broken image between, with faults":     {policy: inPlace, images: broken, replicas: 3, maxUnavailable: 1, partition: 1, edits: 2, first: "c", faults: everything, least: 8100},
		"in place, three pods are scaled, the partition goes back, with faults":                              {policy: inPlace, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 1, userChanges: append(scaling(), keep(0), keep(2)), rollback: true, faults: everything, anonymous: true, least: 5100},
		"recreate, two pods are scaled, claims go with their pods":                                           {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, claims: true, faults: nil, least: 3500},
		// The server refuses some pods, for a while.
		"in place, three pods, some are refused":                      {policy: inPlace, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 3, refuses: true},
		"in place, three pods with gates, some are refused":           {policy: inPlace, images: good, replicas: 3, maxUnavailable: 1, edits: 1, scalings: 3, gate: true, refuses: true},
		"in place, two pods with gates, a broken image, some refused": {policy: inPlace, images: broken, replicas: 2, maxUnavailable: 1, edits: 2, scalings: 3, gate: true, refuses: true},
		"in place, two pods with hooks, some are refused":             {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 3, gate: true, hooks: marking, refuses: true},
		"recreate, three pods, the partition keeps one, some refused": {policy: recreate, images: good, replicas: 3, maxUnavailable: 1, partition: 1, edits: 1, scalings: 3, refuses: true},
		"recreate, three pods and a surge, some are refused":          {policy: recreate, images: good, replicas: 3, maxSurge: 1, edits: 1, scalings: 3, refuses: true},
		// Fields that few sets have.
		"in place only, two pods, a template that cannot be reached, with faults":                 {policy: shared.InPlaceOnly, images: mixed, replicas: 2, maxUnavailable: 1, edits: 2, faults: everything, anonymous: true, least: 1800},
		"recreate, three pods, two at a time, one unavailable stops the creation of more":         {policy: recreate, images: broken, replicas: 3, maxUnavailable: 2, edits: 2, scaleMax: 1, faults: everything[1:3], anonymous: true},
		"recreate, the new template has no claim, and the partition keeps all pods":               {policy: recreate, images: good, replicas: 2, partition: 2, maxUnavailable: 1, edits: 1, claims: true, dropsClaims: true, faults: []podsettest.Move{podsettest.DeletePod}, userChanges: []userChange{keep(0)}, scalings: 1},
		"recreate, the new template has no claim, and claims are kept, the partition keeps a pod": {policy: recreate, images: good, replicas: 2, partition: 1, maxUnavailable: 1, edits: 1, claims: true, dropsClaims: true, reuse: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, userChanges: []userChange{keep(0)}, scalings: 1},
		"recreate, a canary is scaled to 0 and back": {policy: recreate, images: good, replicas: 2, partition: 1, maxUnavailable: 1, edits: 1, scalings: 2, anonymous: true, userChanges: []userChange{
			{"no replicas", func(f *setFields) { f.replicas = 0 }}, {"all replicas", func(f *setFields) { f.replicas = 2 }},
		}},
		"in place, two pods are scaled, one unavailable stops the creation of more":           {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, scaleMax: 1, faults: everything, anonymous: true, least: 1250},
		"in place, two pods and a surge that one unavailable stops, a broken image and back":  {policy: inPlace, images: broken[:2], replicas: 2, maxSurge: 1, edits: 2, scaleMax: 1, faults: everything, anonymous: true, least: 100},
		"recreate, two pods and a surge, one unavailable stops the creation of more":          {policy: recreate, images: good, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, scaleMax: 1, anonymous: true, least: 50},
		"in place, two pods at their hook count as updated, a surge, scaled":                  {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, maxSurge: 1, edits: 1, scalings: 1, hooks: &shared.Lifecycle{InPlaceUpdate: hook("hold-update")}, asUpdated: true, anonymous: true, least: 1300},
		"in place, two pods at their hook count as updated, the partition keeps one of three": {policy: inPlace, images: good, replicas: 3, partition: 1, maxUnavailable: 1, edits: 1, scalings: 1, userChanges: append(scaling(), keep(0)), hooks: &shared.Lifecycle{InPlaceUpdate: hook("hold-update")}, asUpdated: true, anonymous: true, least: 280},
	} {
		cases[name] = l
	}
	podsettest.ExploreEach(t, cases, (*layout).size, (*layout).exploration)
}

// TestExploreWithoutReduction takes a quarter of its cases a day. It shows that reducing states loses none: those of pods that differ in what does not matter, and those of pods that differ
// in their names.
func TestExploreWithoutReduction(t *testing.T) {
	good, broken, mixed := []string{"web:1", "web:2"}, []string{"web:1", "!web:2", "web:3"}, []string{"web:1", "web:2", "web:3+"}
	faults := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.Evict, podsettest.LoseContact, podsettest.RequestDeletion}
	hooks := &shared.Lifecycle{InPlaceUpdate: hook("hold-update"), PreDelete: hook("hold-delete")}
	const inPlace, recreate = shared.InPlaceIfPossible, shared.RecreatePods
	cases := map[string]*layout{
		"in place":       {policy: inPlace, images: broken, replicas: 2, maxUnavailable: 1, edits: 1, faults: faults},
		"with gates":     {policy: inPlace, images: mixed, replicas: 2, maxUnavailable: 1, edits: 1, gate: true, faults: faults},
		"with a surge":   {policy: recreate, images: broken, replicas: 2, maxUnavailable: 0, maxSurge: 1, edits: 1, faults: faults[:2]},
		"with all hooks": {policy: inPlace, images: broken[:2], replicas: 2, maxUnavailable: 1, edits: 1, hooks: &shared.Lifecycle{PreNormal: hook("warm"), InPlaceUpdate: hook("hold-update"), PreDelete: hook("hold-delete")}, faults: faults[2:]},
		"with hooks":     {policy: inPlace, images: mixed, replicas: 2, maxUnavailable: 1, edits: 1, hooks: hooks, faults: faults[1:2]},
		"with a clock":   {policy: inPlace, images: broken[:2], replicas: 2, maxUnavailable: 1, edits: 1, gate: true, minReady: 10, grace: 5, faults: faults},
		"named to go":    {policy: inPlace, images: good, replicas: 2, maxUnavailable: 1, edits: 1, scalings: 1, specify: true, faults: faults[2:4]},
		"with partition": {policy: recreate, images: broken, replicas: 2, partition: 1, maxUnavailable: 1, edits: 1, faults: faults},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if !sample.Has(i, 4) {
			continue
		}
		l := cases[name]
		t.Run(name, func(t *testing.T) {
			podsettest.CompareWithPlain(t, l.exploration(t))
			l.anonymous = true
			podsettest.CompareWithNames(t, l.exploration(t))
		})
	}
}
