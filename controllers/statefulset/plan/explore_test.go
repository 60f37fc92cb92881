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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// setFields are what of a set changes while it is explored.
type setFields struct {
	// template is the present one, current the one that status.currentRevision names.
	template, current int8
	replicas          int8
	// reserved is an ordinal that is reserved; none if negative.
	reserved int8
	// partition is how many pods stay at the old revision.
	partition int8
	// paused stops updates.
	paused bool
	// size is that of the claims that the set asks for, in GiB.
	size int8
}

// layout is what of an explored set stays the same.
type layout struct {
	ordered        bool
	policy         shared.PodUpdatePolicy
	maxUnavailable int
	// partition is there from the beginning.
	partition int8
	// onDelete leaves updates to the user. unordered updates pod 1 before all others.
	onDelete, unordered bool
	minReady            int32
	grace               int32
	hooks               *shared.Lifecycle
	// images are the templates; one that begins with "!" never becomes ready. A template that ends with "+" has one variable more.
	images   []string
	replicas int8
	edits    int8
	// scalings is how many of the userChanges the user makes; nil: they are one replica more or less and a reserved ordinal.
	scalings    int8
	userChanges []userChange
	faults      []podsettest.Move
	maxFaults   int8
	// aliases are second names of images.
	aliases map[string]string
	// claims gives every pod one that is deleted when its ordinal is no longer wanted; with resize it grows with its template.
	claims, resize bool
	// dropsClaims: only pods of the first template have the claim.
	dropsClaims bool
	// start is the first ordinal.
	start int8
	// scaleMax is how many unavailable pods at lower ordinals stop the creation of a pod; 0: any number.
	scaleMax int
	// empty begins without pods; otherwise all are up at the first template.
	empty bool
	// least is how many states there are at least: fewer mean that the case does not explore what it says.
	least int
	// large explorations take minutes and are for make test-all alone.
	large bool

	revisions map[string]revision.Revision
	facts     podsettest.Facts[setFields]
	mu        sync.Mutex
	sets      map[setFields]*appsv1beta1.StatefulSet
	// names are the wanted pods for each value of the fields.
	names sync.Map
}

const (
	setName = "web"
	// first is the pod that an unordered update begins with.
	first = "web-1"
)

// userChange is something that a user may change beside the template.
type userChange struct {
	name string
	how  func(*setFields)
}

// scaling are the changes of a user who scales.
func scaling() []userChange {
	return []userChange{
		{"one replica more", func(f *setFields) { f.replicas++ }},
		{"one replica less", func(f *setFields) { f.replicas = max(f.replicas-1, 0) }},
		{"ordinal 1 reserved", func(f *setFields) { f.reserved = 1 }},
	}
}

// toNothing are the changes of a user who scales to 0 and back.
func toNothing(replicas int8) []userChange {
	return []userChange{
		{"no replicas", func(f *setFields) { f.replicas = 0 }},
		{"all replicas", func(f *setFields) { f.replicas = replicas }},
	}
}

func keep(partition int8) userChange {
	return userChange{fmt.Sprintf("partition %d", partition), func(f *setFields) { f.partition = partition }}
}

// pausing are the changes of a user who stops updates and lets them go on.
func pausing() []userChange {
	return []userChange{{"pause", func(f *setFields) { f.paused = true }}, {"resume", func(f *setFields) { f.paused = false }}}
}

// growing are the changes of a user who asks for larger claims.
func growing() []userChange {
	return []userChange{{"larger claims", func(f *setFields) { f.size = 2 }}}
}

func (l *layout) revisionName(i int8) string { return setName + "-r" + strconv.Itoa(int(i)) }

func (l *layout) template(i int8) *corev1.PodTemplateSpec {
	image := l.images[i]
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": setName}},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Image: strings.TrimSuffix(image, "+"), ImagePullPolicy: corev1.PullIfNotPresent}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}},
		},
	}
	if strings.HasSuffix(image, "+") {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MORE", Value: "1"}}
	}
	if l.hooks != nil {
		for _, hook := range []*shared.LifecycleHook{l.hooks.PreDelete, l.hooks.InPlaceUpdate} {
			if hook == nil {
				continue
			}
			for key, value := range hook.LabelsHandler {
				t.Labels[key] = value
			}
			t.Finalizers = append(t.Finalizers, hook.FinalizersHandler...)
		}
	}
	return t
}

// set is the StatefulSet with these fields, the same object for the same ones.
func (l *layout) set(f setFields) *appsv1beta1.StatefulSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.sets[f]; known != nil {
		return known
	}
	set := &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: setName, UID: "set-uid", Generation: 1},
		Spec: appsv1beta1.StatefulSetSpec{
			Replicas:            ptr.To(int32(f.replicas)),
			Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": setName}},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:            *l.template(f.template),
			Lifecycle:           l.hooks,
			UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1beta1.RollingUpdateStatefulSetStrategy{
					PodUpdatePolicy: l.policy,
					MaxUnavailable:  ptr.To(intstr.FromInt(l.maxUnavailable)),
					Partition:       ptr.To(int32(f.partition)),
					Paused:          f.paused,
					MinReadySeconds: &l.minReady,
					InPlaceUpdateStrategy: &shared.InPlaceUpdateStrategy{
						GracePeriodSeconds: l.grace,
					},
				},
			},
		},
	}
	if l.claims {
		set.Spec.VolumeClaimTemplates = l.claimsAt(f.template)
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
	}
	if l.resize {
		claim := &set.Spec.VolumeClaimTemplates[0]
		claim.Spec.StorageClassName = ptr.To("fast")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: sizeOf(f)}
		set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	}
	if l.start > 0 {
		set.Spec.Ordinals = &appsv1beta1.StatefulSetOrdinals{Start: int32(l.start)}
	}
	if l.scaleMax > 0 {
		set.Spec.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt(l.scaleMax))}
	}
	if l.unordered {
		set.Spec.UpdateStrategy.RollingUpdate.UnorderedUpdate = &appsv1beta1.UnorderedUpdateStrategy{PriorityStrategy: &shared.UpdatePriorityStrategy{
			WeightPriority: []shared.UpdatePriorityWeightTerm{{
				Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{shared.LabelPodName: first}},
			}},
		}}
	}
	if l.onDelete {
		set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	if l.ordered {
		set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if f.reserved >= 0 {
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(int32(f.reserved))}
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

// lacksClaim says that a wanted pod has no claim, although its revision says so.
func (l *layout) lacksClaim(w *podsettest.State[setFields], name string) bool {
	pod := w.Pod(name)
	if l.dropsClaims && pod != nil && pod.Labels[shared.LabelControllerRevisionHash] != l.revisionName(0) {
		return len(pod.Spec.Volumes) > 0
	}
	claim := claims.Name("data", name)
	return w.Claim(claim) == nil || pod != nil && !claims.Mounts(&pod.Spec, claim)
}

func (l *layout) options() Options {
	return Options{PodIndexLabel: true, AutoDeletePVC: true, AutoResizePVC: l.resize, StartOrdinal: l.start > 0}
}

// sizeOf is what the claims request.
func sizeOf(f setFields) resource.Quantity {
	return *resource.NewQuantity(int64(f.size)<<30, resource.BinarySI)
}

// step is one pass of the controller.
func (l *layout) step(w *podsettest.State[setFields]) (planning.Plan, setFields) {
	set := l.set(w.Set)
	spec := Parse(set, l.options())
	pods := l.facts.Of(w, func(pods []*corev1.Pod) []podset.Pod { return Pods(spec, pods, nil, podsettest.Now()) })
	s := podset.Snapshot{
		Now: podsettest.Now(), Pods: pods, Claims: w.ClaimsByName(),
		Update: l.revisions[l.revisionName(w.Set.template)], Revisions: l.revisions, Expandable: map[string]bool{"fast": true},
	}
	s.Current = revision.Current(set.Status.CurrentRevision, s.Update, l.revisions)
	plan := Plan(spec, s)
	after := w.Set
	status := Status(spec, s, plan, planning.Outcome{})
	for i := range l.images {
		if l.revisionName(int8(i)) == status.CurrentRevision {
			after.current = int8(i)
		}
	}
	return plan, after
}

func (l *layout) ordinals(f setFields) ordinal.Set {
	set := l.set(f)
	o, err := ordinal.New(int32(l.start), *set.Spec.Replicas, set.Spec.ReserveOrdinals)
	if err != nil {
		panic(err)
	}
	return o
}

func (l *layout) wanted(f setFields) []string {
	if known, found := l.names.Load(f); found {
		return known.([]string)
	}
	names := []string{} // not nil: that would be taken for no limit at all
	for o := range l.ordinals(f).Iterate() {
		names = append(names, ordinal.PodName(setName, o))
	}
	l.names.Store(f, names)
	return names
}

// protected are the pods below the partition, at the revision that they stay at.
func (l *layout) protected(w *podsettest.State[setFields]) map[string]string {
	keeps := map[string]string{}
	if l.unordered {
		return keeps // any pod can be one of those that stay
	}
	for i, name := range l.wanted(w.Set) {
		if i >= int(w.Set.partition) {
			break
		}
		keeps[name] = l.revisionName(w.Set.current)
	}
	return keeps
}

// partitionCounts holds when an unordered update leaves as many pods at earlier revisions as the partition says, or does not make them fewer.
func (l *layout) partitionCounts() podsettest.Invariant[setFields] {
	return podsettest.Invariant[setFields]{Name: "the partition keeps its number", Check: func(e podsettest.Event[setFields]) error {
		if !l.unordered {
			return nil
		}
		old := func(w *podsettest.State[setFields]) int {
			n := 0
			for _, name := range l.wanted(e.Before.Set) {
				if pod := w.Pod(name); pod != nil && pod.DeletionTimestamp == nil && pod.Labels[shared.LabelControllerRevisionHash] != l.revisionName(e.Before.Set.template) {
					n++
				}
			}
			return n
		}
		asked := slices.ContainsFunc(e.Before.Pods, func(p *corev1.Pod) bool { return p.Labels[shared.LabelSpecifiedDelete] != "" || podstate.Finished(p) })
		before, after := old(e.Before), old(e.After)
		if !asked && after < before && after < int(e.Before.Set.partition) {
			return fmt.Errorf("of %d pods at earlier revisions %d are left; the partition keeps %d", before, after, e.Before.Set.partition)
		}
		return nil
	}}
}

// currentHolds holds when the current revision stays while a partition keeps it.
func (l *layout) currentHolds() podsettest.Invariant[setFields] {
	return podsettest.Invariant[setFields]{Name: "the current revision stays while the partition keeps it", Check: func(e podsettest.Event[setFields]) error {
		if before, after := e.Before.Set, e.After.Set; after.current != before.current && before.partition > 0 {
			return fmt.Errorf("it becomes %s, and the partition is %d", l.revisionName(after.current), before.partition)
		}
		return nil
	}}
}

func (l *layout) needs(w *podsettest.State[setFields], pod *corev1.Pod) bool {
	_, asked := pod.Labels[shared.LabelSpecifiedDelete]
	return asked || podstate.Finished(pod) || !slices.Contains(l.wanted(w.Set), pod.Name) ||
		pod.Labels[shared.LabelControllerRevisionHash] != l.revisionName(w.Set.template)
}

func (l *layout) broken(template int8) bool { return strings.HasPrefix(l.images[template], "!") }

// complete: every ordinal has a pod, if none waits for another one; no pod that is not available waits for the deletion that its user asked for; and no claim
// goes with a terminating pod that is wanted again.
func (l *layout) complete(w *podsettest.State[setFields]) error {
	going := slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	for _, pod := range w.Pods {
		if going || l.stopped(w.Set) || l.hooks != nil || len(w.Pods) < len(l.wanted(w.Set)) {
			break
		}
		if pod.Labels[shared.LabelSpecifiedDelete] != "" && !podsettest.Available(pod, l.seconds()) {
			return fmt.Errorf("pod %s is not available and not deleted, which its user asked for", pod.Name)
		}
	}
	for _, name := range l.wanted(w.Set) {
		claim := w.Claim(claims.Name("data", name))
		going := claim != nil && claims.Stale(claim, name, "")
		pod := w.Pod(name)
		if !l.ordered && l.scaleMax == 0 && pod == nil && !going {
			return fmt.Errorf("pod %s is missing", name)
		}
		if pod != nil && claim != nil && claims.OwnedBy(claim, pod.UID) {
			return fmt.Errorf("pod %s is wanted again, and its claim goes with it", name)
		}
	}
	return nil
}

// goal: every ordinal has a pod that is available and runs what it should, and nothing is planned.
func (l *layout) goal(w *podsettest.State[setFields], plan planning.Plan) bool {
	if l.broken(w.Set.template) {
		return true // only the user can help
	}
	names := l.wanted(w.Set)
	if len(plan.Actions) == 0 && l.ordered && slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return l.hopeless(w.Set, pod) }) {
		return true // all others wait for it, and only the user can help
	}
	if len(plan.Actions) > 0 || len(names) != len(w.Pods) {
		return false
	}
	// A claim whose pod was gone already when its ordinal was given up has nobody to go with, and stays.
	if l.claims && slices.ContainsFunc(names, func(name string) bool { return l.lacksClaim(w, name) }) {
		return false
	}
	if l.resize && slices.ContainsFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return !l.asLarge(w.Set, c) }) {
		return false
	}
	old := 0
	for i, name := range names {
		pod := w.Pod(name)
		if pod == nil || !podsettest.Available(pod, l.seconds()) && !l.hopeless(w.Set, pod) {
			return false
		}
		if l.refused(w.Set, pod) {
			old++
			continue
		}
		if at := w.Set.template; podsettest.Runs(pod, l.revisionName(at), l.template(at)) {
			continue
		}
		stays := i < int(w.Set.partition) || l.unordered || l.stopped(w.Set)
		if at := pod.Labels[shared.LabelControllerRevisionHash]; !stays || !l.hopeless(w.Set, pod) && !l.runsWhatItSays(pod, at) {
			return false
		}
		old++
	}
	if l.stopped(w.Set) || slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return l.refused(w.Set, pod) }) {
		return true
	}
	return old <= int(w.Set.partition) && (w.Set.partition > 0 || w.Set.current == w.Set.template)
}

// asLarge says that a claim has the size that the set asks for.
func (l *layout) asLarge(f setFields, claim *corev1.PersistentVolumeClaim) bool {
	want, requests, has := sizeOf(f), claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return requests.Cmp(want) == 0 && has.Cmp(want) == 0
}

// refused says that a pod may only be edited, and that no edit makes it what the template says.
func (l *layout) refused(f setFields, pod *corev1.Pod) bool {
	return l.policy == shared.InPlaceOnly && len(pod.Spec.Containers[0].Env) != len(l.template(f.template).Spec.Containers[0].Env)
}

// stopped says that no pod is to be updated now.
func (l *layout) stopped(f setFields) bool { return l.onDelete || f.paused }

// hopeless says that a pod is at a revision that never becomes ready, and only an update could take it from there: there is none now, or
// the partition of an unordered update, which keeps any pods, keeps this one.
func (l *layout) hopeless(f setFields, pod *corev1.Pod) bool {
	kept := l.unordered && f.partition > 0 && pod.Labels[shared.LabelControllerRevisionHash] != l.revisionName(f.template)
	return pod.DeletionTimestamp == nil && (l.stopped(f) || kept) && strings.HasPrefix(pod.Spec.Containers[0].Image, "!")
}

func (l *layout) runsWhatItSays(pod *corev1.Pod, name string) bool {
	return podsettest.Runs(pod, name, l.revisions[name].Template)
}

func (l *layout) seconds() time.Duration { return time.Duration(l.minReady) * time.Second }

// comesBefore says that a pod has a lower ordinal than the one of that name, and is wanted.
func (l *layout) comesBefore(w *podsettest.State[setFields], pod *corev1.Pod, name string) bool {
	names := l.wanted(w.Set)
	at := slices.Index(names, pod.Name)
	return at >= 0 && at < slices.Index(names, name)
}

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
	if userChanges == nil {
		userChanges = scaling()
	}
	for _, change := range userChanges {
		to := w.Set
		if change.how(&to); to != w.Set {
			all = append(all, podsettest.Change[setFields]{Name: change.name, To: to})
		}
	}
	return all
}

func (l *layout) size() podsettest.Size { return podsettest.Size{Least: l.least, Large: l.large} }

func (l *layout) exploration(t *testing.T) podsettest.Exploration[setFields] {
	t.Helper()
	l.revisions = map[string]revision.Revision{}
	l.sets = map[setFields]*appsv1beta1.StatefulSet{}
	cluster := podsettest.Cluster{Hooks: l.hooks, Aliases: l.aliases, Clock: l.minReady > 0 || l.grace > 0}
	for i, image := range l.images {
		name := l.revisionName(int8(i))
		l.revisions[name] = revision.Revision{Name: name, Number: int64(i + 1), Template: l.template(int8(i))}
		if l.dropsClaims {
			recorded := revision.RecordClaims(nil, l.claimsAt(int8(i)))
			l.revisions[name] = revision.Revision{
				Name: name, Number: int64(i + 1), Template: l.template(int8(i)), Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: recorded}},
			}
		}
		if l.broken(int8(i)) {
			cluster.NeverReady = append(cluster.NeverReady, strings.TrimSuffix(image, "+"))
		}
	}
	start := &podsettest.State[setFields]{Set: setFields{replicas: l.replicas, reserved: -1, partition: l.partition, size: 1}}
	if !l.empty {
		if err := podsettest.BringUp(start, cluster, l.step, 200); err != nil {
			t.Fatal(err)
		}
	}
	e := podsettest.Exploration[setFields]{
		Start: []*podsettest.State[setFields]{start}, Step: l.step, Cluster: cluster, Faults: l.faults,
		Budget:  podsettest.Budget{Faults: l.maxFaults, Edits: l.edits, Scalings: l.scalings},
		Changes: l.changes, Goal: l.goal, Resting: l.complete,
		Always: []podsettest.Invariant[setFields]{
			podsettest.AtMostUnavailable(func(f setFields) podsettest.Bounds {
				most := l.maxUnavailable
				if l.scaleMax > 0 && l.policy == shared.RecreatePods {
					most = min(most, l.scaleMax) // no more are taken than may come back
				}
				return podsettest.Bounds{Wanted: l.wanted(f), Max: most, MinReady: l.seconds()}
			}),
			podsettest.OnlyWanted(l.wanted),
			podsettest.AtMostPods(func(f setFields) int { return int(f.replicas) }, func(f setFields, pod *corev1.Pod) bool { return slices.Contains(l.wanted(f), pod.Name) }),
			podsettest.PartitionHolds(l.protected),
			podsettest.OnlyNeededChanges(l.needs),
			podsettest.OneActionEach[setFields](),
			podsettest.HooksHold[setFields](l.hooks),
			podsettest.NothingMoves(func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
				return l.stopped(w.Set) && slices.Contains(l.wanted(w.Set), pod.Name) && !podstate.Finished(pod)
			}),
			podsettest.ClaimsStay(func(claim *corev1.PersistentVolumeClaim) string { return strings.TrimPrefix(claim.Name, "data-") },
				func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
					return slices.Contains(l.wanted(w.Set), pod.Name)
				}),
			l.partitionCounts(),
			l.currentHolds(),
			podsettest.CreatesWithin(l.scaleMax, l.comesBefore, l.seconds()),
		},
	}
	if l.policy == shared.InPlaceOnly {
		e.Always = append(e.Always, podsettest.NothingReplaced(func(w *podsettest.State[setFields], pod *corev1.Pod) bool {
			return pod.Labels[shared.LabelSpecifiedDelete] != "" || podstate.Finished(pod) || !slices.Contains(l.wanted(w.Set), pod.Name)
		}))
	}
	if l.grace > 0 {
		e.Always = append(e.Always, podsettest.GraceHolds[setFields]())
	}
	return e
}

// TestExplore visits every state that small sets can get into, with everything that kubelets, users and bad luck can do in any
// order, and shows that the invariants hold in each step and that the set finds its way out of each state.
func TestExplore(t *testing.T) {
	byLabel := func(key string) *shared.LifecycleHook {
		return &shared.LifecycleHook{LabelsHandler: map[string]string{key: "yes"}}
	}
	byFinalizer := func(name string) *shared.LifecycleHook {
		return &shared.LifecycleHook{FinalizersHandler: []string{name}, MarkPodNotReady: true}
	}
	const inPlace, recreate = shared.InPlaceIfPossible, shared.RecreatePods
	good := []string{"web:1", "web:2", "web:3"}
	broken := []string{"web:1", "!web:2", "web:3"}
	mixed := []string{"web:1", "web:2", "web:3+"} // the last one cannot be reached in place
	everything := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.Evict, podsettest.LoseContact, podsettest.RequestDeletion}

	cases := map[string]*layout{
		"Parallel, in place, four pods one at a time, a broken image between":              {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 4, edits: 2, least: 210},
		"Parallel, in place, four pods two at a time, a broken image between":              {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 4, edits: 2, least: 4300},
		"Parallel, in place, four pods one at a time, a broken image between, with faults": {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 4, edits: 2, faults: everything, maxFaults: 1, least: 11000},
		"Parallel, in place, four pods two at a time, a broken image between, with faults": {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 4, edits: 2, faults: everything, maxFaults: 1, large: true},
		"Parallel, in place, four pods two at a time, another image, with faults":          {policy: inPlace, images: good[:2], maxUnavailable: 2, replicas: 4, edits: 1, faults: everything, maxFaults: 1, least: 5900},
		"Parallel, recreate, four pods one at a time, a broken image between, with faults": {policy: recreate, images: broken, maxUnavailable: 1, replicas: 4, edits: 2, faults: everything, maxFaults: 1, least: 5700},
		"Parallel, in place, the partition keeps two of four pods":                         {policy: inPlace, images: good, maxUnavailable: 2, replicas: 4, edits: 2, partition: 2, least: 720},
		"Parallel, in place, a canary is followed by the rest":                             {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 3, edits: 2, partition: 2, userChanges: append(scaling(), keep(0)), scalings: 1, least: 1000},
		"Parallel, in place, pods crash, are evicted and are deleted by others":            {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 2, faults: everything, maxFaults: 1, least: 1000},
		"Parallel, in place, two crashes":                                                  {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 2, faults: []podsettest.Move{podsettest.Crash}, maxFaults: 2, least: 870},
		"Parallel, in place where possible":                                                {policy: inPlace, images: mixed, maxUnavailable: 1, replicas: 3, edits: 2, least: 370},
		"Parallel, in place, replicas and reserved ordinals change":                        {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 2},
		"Parallel, in place, from nothing":                                                 {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 3, edits: 1, empty: true, least: 5100},
		"Parallel, in place, both hooks by label":                                          {policy: inPlace, images: mixed, maxUnavailable: 1, replicas: 3, edits: 2, hooks: &shared.Lifecycle{InPlaceUpdate: byLabel("hold-update"), PreDelete: byLabel("hold-delete")}, least: 850},
		"Parallel, in place, both hooks by finalizer, out of service":                      {policy: inPlace, images: mixed[1:], maxUnavailable: 2, replicas: 2, edits: 2, hooks: &shared.Lifecycle{InPlaceUpdate: byFinalizer("example.com/update"), PreDelete: byFinalizer("example.com/delete")}, least: 970},
		"Parallel, in place, new pods wait for their user":                                 {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, hooks: &shared.Lifecycle{PreNormal: byLabel("warm")}, least: 850},
		"Parallel, in place, grace period and minimum time":                                {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 2, edits: 2, minReady: 10, grace: 5, least: 14000},
		"Parallel, recreate, four pods two at a time, a broken image between":              {policy: recreate, images: broken, maxUnavailable: 2, replicas: 4, edits: 2, least: 3700},
		"Parallel, recreate, the partition keeps one of two pods, with faults":             {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, partition: 1, userChanges: append(scaling(), keep(0)), scalings: 1, faults: everything, maxFaults: 2, least: 8100},
		"Parallel, recreate, pods wait before they are deleted":                            {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 2, scalings: 1, hooks: &shared.Lifecycle{PreDelete: byLabel("hold-delete")}, least: 7500},
		"OrderedReady, in place, three pods, a broken image between, with faults":          {ordered: true, policy: inPlace, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, faults: everything, maxFaults: 1, least: 4600},
		"Parallel, in place, three pods two at a time, both hooks":                         {policy: inPlace, images: mixed, maxUnavailable: 2, replicas: 3, edits: 2, hooks: &shared.Lifecycle{InPlaceUpdate: byLabel("hold-update"), PreDelete: byLabel("hold-delete")}, least: 26000},
		"Parallel, in place, three pods two at a time, one of them fails":                  {policy: inPlace, images: good[:2], maxUnavailable: 2, replicas: 3, edits: 1, faults: everything, maxFaults: 1, least: 2000},
		"Parallel, claims go with ordinals that are not wanted, with faults":               {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, scalings: 1, edits: 1, claims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, maxFaults: 1, least: 4200},
		"OrderedReady, claims go with ordinals that are not wanted, with faults":           {ordered: true, policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, scalings: 2, edits: 1, claims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, maxFaults: 1},
		"OrderedReady, recreate, four pods, a broken image between":                        {ordered: true, policy: recreate, images: broken, maxUnavailable: 1, replicas: 4, edits: 2, least: 210},
		"OrderedReady, both hooks, replicas and reserved ordinals change":                  {ordered: true, policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 2, scalings: 2, hooks: &shared.Lifecycle{InPlaceUpdate: byLabel("hold-update"), PreDelete: byLabel("hold-delete")}},
	}
	// The runtime reports both tags as the first one.
	cases["Parallel, in place, to a second tag of the image and back, with a crash"] = &layout{policy: inPlace, images: []string{"web:1", "web:same"}, aliases: map[string]string{"web:same": "web:1"}, maxUnavailable: 1, replicas: 2, edits: 2, grace: 5, faults: []podsettest.Move{podsettest.Crash}, maxFaults: 1}
	labels := &shared.Lifecycle{InPlaceUpdate: byLabel("hold-update"), PreDelete: byLabel("hold-delete")}
	finalizers := &shared.Lifecycle{InPlaceUpdate: byFinalizer("example.com/update"), PreDelete: byFinalizer("example.com/delete")}
	allHooks := &shared.Lifecycle{PreNormal: byLabel("warm"), InPlaceUpdate: byLabel("hold-update"), PreDelete: byLabel("hold-delete")}
	for name, l := range map[string]*layout{
		"Parallel, in place, three pods, both hooks, with faults":                         {policy: inPlace, images: mixed, maxUnavailable: 1, replicas: 3, edits: 2, hooks: labels, faults: everything, maxFaults: 1, least: 37000},
		"Parallel, in place, three pods two at a time, both hooks, with faults":           {policy: inPlace, images: good[:2], maxUnavailable: 2, replicas: 3, edits: 2, hooks: labels, faults: everything, maxFaults: 1, large: true},
		"Parallel, in place, three pods, both hooks by finalizer, with faults":            {policy: inPlace, images: mixed, maxUnavailable: 1, replicas: 3, edits: 2, hooks: finalizers, faults: everything, maxFaults: 1, least: 51000},
		"Parallel, in place, three pods, all hooks, with faults":                          {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 3, edits: 1, hooks: allHooks, faults: everything, maxFaults: 1, least: 2200},
		"Parallel, recreate, three pods, all hooks, with faults":                          {policy: recreate, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, hooks: allHooks, faults: everything, maxFaults: 1, least: 37000},
		"OrderedReady, in place, three pods, all hooks, with faults":                      {ordered: true, policy: inPlace, images: mixed, maxUnavailable: 1, replicas: 3, edits: 2, hooks: allHooks, faults: everything, maxFaults: 1, least: 50000},
		"OnDelete, three pods, a broken image between, with faults":                       {onDelete: true, images: broken, replicas: 3, edits: 2, faults: everything, maxFaults: 2, least: 2500},
		"OrderedReady, OnDelete, three pods, with faults":                                 {ordered: true, onDelete: true, images: good[:2], replicas: 3, edits: 1, faults: everything, maxFaults: 2},
		"Parallel, in place, three pods, paused on the way, with faults":                  {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 3, edits: 2, scalings: 2, userChanges: pausing(), faults: everything, maxFaults: 1, large: true},
		"OrderedReady, recreate, three pods, paused on the way, with faults":              {ordered: true, policy: recreate, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, scalings: 2, userChanges: pausing(), faults: everything, maxFaults: 1, least: 4900},
		"Parallel, in place, four pods by priority, the partition keeps one, with faults": {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 4, edits: 2, partition: 1, unordered: true, faults: everything, maxFaults: 1, least: 7100},
		"Parallel, recreate, four pods by priority, the partition changes on the way":     {policy: recreate, images: good, maxUnavailable: 2, replicas: 4, edits: 2, partition: 1, scalings: 2, userChanges: []userChange{keep(0), keep(2)}, unordered: true, least: 28000},
		"Parallel, in place, four pods two at a time, the partition changes on the way":   {policy: inPlace, images: good, maxUnavailable: 2, replicas: 4, edits: 2, scalings: 2, userChanges: []userChange{keep(0), keep(1), keep(3)}, least: 38000},
		"Parallel, in place, three pods, grace period and minimum time, with faults":      {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, minReady: 10, grace: 5, faults: everything, maxFaults: 1, large: true},
		"Parallel, in place, three pods two at a time, grace period and minimum time":     {policy: inPlace, images: good[:2], maxUnavailable: 2, replicas: 3, edits: 2, minReady: 10, grace: 5, least: 24000},
		"OrderedReady, recreate, three pods, minimum time, with faults":                   {ordered: true, policy: recreate, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, minReady: 10, faults: everything, maxFaults: 1},
		"Parallel, three pods, claims go with ordinals that are not wanted, with faults":  {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 3, scalings: 1, edits: 1, claims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict, podsettest.RequestDeletion}, maxFaults: 1, least: 15000},
		// The same as the large ones, smaller.
		"Parallel, in place, three pods two at a time, both hooks, one is deleted":             {policy: inPlace, images: good[:2], maxUnavailable: 2, replicas: 3, edits: 1, hooks: labels, faults: []podsettest.Move{podsettest.DeletePod, podsettest.RequestDeletion}, maxFaults: 1, least: 7400},
		"Parallel, in place, three pods, paused on the way":                                    {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 3, edits: 2, scalings: 2, userChanges: pausing(), least: 4500},
		"Parallel, in place, two pods, paused on the way, with faults":                         {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 2, edits: 2, scalings: 2, userChanges: pausing(), faults: everything, maxFaults: 1, least: 4900},
		"Parallel, in place, three pods by priority, the partition keeps one, with two faults": {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, partition: 1, unordered: true, faults: everything, maxFaults: 2, large: true},
		"Parallel, recreate, three pods by priority, the partition keeps one, with two faults": {policy: recreate, images: broken, maxUnavailable: 1, replicas: 3, edits: 2, partition: 1, unordered: true, faults: everything, maxFaults: 2, least: 14000},
		"Parallel, in place, three pods by priority, two at a time, with two faults":           {policy: inPlace, images: broken, maxUnavailable: 2, replicas: 3, edits: 2, partition: 1, unordered: true, faults: everything, maxFaults: 2, large: true},
		"Parallel, in place, two pods, grace period and minimum time, with faults":             {policy: inPlace, images: broken, maxUnavailable: 1, replicas: 2, edits: 2, minReady: 10, grace: 5, faults: everything, maxFaults: 1, least: 29000},
		// Fields that few sets have.
		"Parallel, in place only, a template that cannot be reached, with faults":               {policy: shared.InPlaceOnly, images: mixed, maxUnavailable: 1, replicas: 2, edits: 2, faults: everything, maxFaults: 1, least: 1300},
		"OrderedReady, in place only, a template that cannot be reached, with faults":           {ordered: true, policy: shared.InPlaceOnly, images: mixed, maxUnavailable: 1, replicas: 2, edits: 2, faults: everything, maxFaults: 1, least: 1000},
		"Parallel, the first ordinal is 3, scaled, one reserved, with faults":                   {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, start: 3, userChanges: append(scaling(), userChange{"ordinal 3 reserved", func(f *setFields) { f.reserved = 3 }}), faults: everything[1:3], maxFaults: 1, least: 3900},
		"Parallel, one unavailable pod stops the creation of more, with faults":                 {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, scaleMax: 1, faults: everything, maxFaults: 1, least: 4500},
		"Parallel, three pods from nothing, two unavailable stop the creation of more":          {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 3, edits: 1, scaleMax: 2, empty: true, least: 500},
		"Parallel, recreate, two at a time, one unavailable pod stops the creation of more":     {policy: recreate, images: broken, maxUnavailable: 2, replicas: 3, edits: 2, scaleMax: 1, faults: everything[1:3], maxFaults: 1},
		"Parallel, recreate, a canary is scaled to 0 and back":                                  {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, partition: 1, scalings: 2, userChanges: toNothing(2)},
		"OrderedReady, recreate, a canary is scaled to 0 and back":                              {ordered: true, policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, partition: 1, scalings: 2, userChanges: toNothing(2)},
		"OrderedReady, recreate, four pods two at a time, a broken image between, minimum time": {ordered: true, policy: recreate, images: broken, maxUnavailable: 2, replicas: 4, edits: 2, minReady: 10},
		"OrderedReady, in place, broken pods are labeled for deletion":                          {ordered: true, policy: inPlace, images: broken, maxUnavailable: 2, replicas: 3, edits: 2, faults: []podsettest.Move{podsettest.RequestDeletion}, maxFaults: 2},
		"Parallel, claims go with ordinals that are scaled in and out again":                    {policy: recreate, images: good[:1], maxUnavailable: 1, replicas: 2, scalings: 3, claims: true},
		"Parallel, the new template has no claim, and the partition keeps one pod, with faults": {policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, partition: 1, scalings: 1, userChanges: append(scaling(), keep(0), keep(2)), claims: true, dropsClaims: true, faults: []podsettest.Move{podsettest.DeletePod, podsettest.Evict}, maxFaults: 1},
		"OrderedReady, the new template has no claim, and the partition keeps one pod":          {ordered: true, policy: recreate, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, partition: 1, scalings: 2, userChanges: toNothing(2), claims: true, dropsClaims: true},
		"Parallel, in place, claims grow with their template, with faults":                      {policy: inPlace, images: good[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, claims: true, resize: true, userChanges: growing(), faults: everything[1:3], maxFaults: 1, least: 1200},
	} {
		cases[name] = l
	}
	podsettest.ExploreEach(t, cases, (*layout).size, (*layout).exploration)
}

// TestExploreWithoutReduction takes a quarter of its cases a day. It shows that reducing states loses none: the same ones are reached when nothing is left out and every state is
// visited with every budget.
func TestExploreWithoutReduction(t *testing.T) {
	broken, mixed := []string{"web:1", "!web:2", "web:3"}, []string{"web:1", "web:2", "web:3+"}
	everything := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.Evict, podsettest.LoseContact, podsettest.RequestDeletion}
	hooks := &shared.Lifecycle{
		InPlaceUpdate: &shared.LifecycleHook{LabelsHandler: map[string]string{"hold-update": "yes"}},
		PreDelete:     &shared.LifecycleHook{FinalizersHandler: []string{"example.com/delete"}},
	}
	cases := map[string]*layout{
		"in place":             {policy: shared.InPlaceIfPossible, images: broken, maxUnavailable: 1, replicas: 2, edits: 2, faults: everything, maxFaults: 1},
		"in place or replaced": {policy: shared.InPlaceIfPossible, images: mixed, maxUnavailable: 2, replicas: 2, edits: 1, scalings: 1, faults: everything, maxFaults: 1},
		"in order":             {ordered: true, policy: shared.InPlaceIfPossible, images: broken, maxUnavailable: 1, replicas: 2, edits: 2, faults: everything, maxFaults: 1},
		"replaced":             {policy: shared.RecreatePods, images: broken, maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, faults: everything, maxFaults: 1},
		"with hooks":           {policy: shared.InPlaceIfPossible, images: mixed, maxUnavailable: 1, replicas: 2, edits: 1, hooks: hooks, faults: everything, maxFaults: 1},
		"with all hooks":       {policy: shared.InPlaceIfPossible, images: broken[:2], maxUnavailable: 1, replicas: 2, edits: 1, hooks: &shared.Lifecycle{PreNormal: &shared.LifecycleHook{LabelsHandler: map[string]string{"warm": "yes"}}, InPlaceUpdate: hooks.InPlaceUpdate, PreDelete: &shared.LifecycleHook{LabelsHandler: map[string]string{"hold-delete": "yes"}}}, faults: everything[2:], maxFaults: 1},
		"with a clock":         {policy: shared.InPlaceIfPossible, images: broken[:2], maxUnavailable: 1, replicas: 2, edits: 1, minReady: 10, grace: 5, faults: everything, maxFaults: 1},
		"with claims":          {policy: shared.RecreatePods, images: mixed[:2], maxUnavailable: 1, replicas: 2, edits: 1, scalings: 1, claims: true, faults: everything, maxFaults: 1},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if !sample.Has(i, 4) {
			continue
		}
		l := cases[name]
		t.Run(name, func(t *testing.T) { podsettest.CompareWithPlain(t, l.exploration(t)) })
	}
}
