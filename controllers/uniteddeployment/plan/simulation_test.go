// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// simulation is a UnitedDeployment, its workloads and pods, and whoever works on these: a controller of the workloads that does everything in a
// step, and zones that have room or not.
type simulation struct {
	t         testing.TB
	now       time.Time
	set       *appsv1beta1.UnitedDeployment
	children  []*unstructured.Unstructured
	pods      []*corev1.Pod
	revisions []united.Revision
	// full are subsets without room for pods.
	full map[string]bool
	// refused are subsets whose workloads the server refuses to create or change.
	refused map[string]string
	// slice is how many actions there is time for in a pass; 0 is all. stubborn are subsets whose workloads others change back as soon as they are written.
	slice    int
	stubborn map[string]bool
	made     int
	log      []string
	last     Decision
	memory   *Memory
}

const shop = `
replicas: 6
selector: {matchLabels: {app: shop}}
template:
  cloneSetTemplate:
    metadata: {labels: {app: shop}}
    spec:
      template:
        metadata: {labels: {app: shop}}
        spec: {containers: [{name: main, image: "shop:1"}]}
topology:
  subsets: [{name: a}, {name: b}, {name: c}]
`

func newSimulation(t testing.TB, changes ...string) *simulation {
	t.Helper()
	w := &simulation{
		t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), full: map[string]bool{}, refused: map[string]string{}, memory: NewMemory(),
		set: &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "set", Generation: 1}},
	}
	if err := yaml.UnmarshalStrict([]byte(shop), &w.set.Spec); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		w.change(change)
	}
	return w
}

// change merges YAML into the spec, as a user does; a leading "topology:" replaces subsets.
func (w *simulation) change(text string) {
	w.t.Helper()
	patch := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &patch); err != nil {
		w.t.Fatal(err)
	}
	body, err := json.Marshal(w.set.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	spec := map[string]any{}
	if err := json.Unmarshal(body, &spec); err != nil {
		w.t.Fatal(err)
	}
	merge(spec, patch)
	if body, err = json.Marshal(spec); err != nil {
		w.t.Fatal(err)
	}
	w.set.Spec = appsv1beta1.UnitedDeploymentSpec{}
	if err := json.Unmarshal(body, &w.set.Spec); err != nil {
		w.t.Fatal(err)
	}
	w.set.Generation++
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		known, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(known, inner)
		default:
			into[key] = value
		}
	}
}

func (w *simulation) snapshot(spec *united.Spec) Snapshot {
	w.t.Helper()
	s := Snapshot{Now: w.now, Taken: map[string]bool{}, Unserved: map[schema.GroupKind]bool{}, Disabled: map[schema.GroupKind]bool{}}
	for _, child := range w.children {
		for _, adapter := range united.Adapters() {
			if adapter.Kind == child.GroupVersionKind() {
				s.Children = append(s.Children, NewChild(child.DeepCopy(), adapter))
			}
		}
	}
	if spec.Invalid == nil {
		decision, err := revision.DecideOf(united.Templates(), revision.Owner{Namespace: "default", Name: "shop"}, w.set.Spec.Template.DeepCopy(), w.revisions, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if decision.Create != nil {
			decision.Update.Object = decision.Create
			w.revisions = append(w.revisions, decision.Update)
		}
		s.Update = decision.Update
		byName := map[string]united.Revision{}
		for _, known := range w.revisions {
			byName[known.Name] = known
		}
		s.Current = revision.Current(w.set.Status.CurrentRevision, decision.Update, byName)
	}
	if needed := PodsNeeded(spec, s.Children); needed != NoPods {
		var pods []corev1.Pod
		for _, pod := range w.pods {
			if needed == AllPods || pod.Status.Phase == corev1.PodPending {
				pods = append(pods, *pod.DeepCopy())
			}
		}
		s.Pods = Pods(pods)
	}
	return s
}

// pass is one pass of the reconciler. It says whether anything was done.
func (w *simulation) pass() bool {
	w.t.Helper()
	spec := united.Parse(w.set)
	s := w.snapshot(spec)
	forgetful := Plan(spec, s)
	for i := range s.Children {
		w.memory.Recall(w.set.Generation, &s.Children[i])
	}
	w.last = Plan(spec, s)
	if diff := cmp.Diff(forgetful.Plan, w.last.Plan, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		w.t.Fatalf("what is remembered changes the plan (-without +with):\n%s", diff)
	}
	if s.First = w.memory.First(); s.First > 0 {
		w.last = Plan(spec, s) // It has the same actions in another order.
	}
	outcome := planning.Outcome{}
	done := false
	for i, action := range w.last.Actions {
		if w.slice > 0 && i >= w.slice {
			outcome.Left = append(outcome.Left, i)
			continue
		}
		if fault := w.refused[string(action.Slot)]; fault != "" && action.Verb != planning.VerbPatch {
			outcome.Failures = append(outcome.Failures, planning.Failure{Step: action.Step, Slot: action.Slot, Message: fault})
			continue
		}
		done = true
		w.carryOut(action)
	}
	w.memory.Note(w.set.Generation, s.Children, w.last, outcome)
	before := w.set.Status
	w.set.Status = Status(spec, s, w.last, outcome)
	return done || Urgent(&before, &w.set.Status) || before.ObservedGeneration != w.set.Status.ObservedGeneration ||
		before.UpdatedRevision != w.set.Status.UpdatedRevision || !conditions.EqualIgnoringMessages(before.Conditions, w.set.Status.Conditions)
}

// passWithoutStatus is a pass after which the operator is stopped, or loses against another write: the status stays as it was.
func (w *simulation) passWithoutStatus() {
	w.t.Helper()
	before := w.set.Status
	w.pass()
	w.set.Status = before
	w.memory = NewMemory()
}

func (w *simulation) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *simulation) carryOut(a planning.Action) {
	w.t.Helper()
	is := func(o *unstructured.Unstructured) bool {
		return o.GetName() == a.Object.GetName() && o.GroupVersionKind() == a.Kind
	}
	at := slices.IndexFunc(w.children, is)
	switch a.Verb {
	case planning.VerbApply:
		object := a.Object.(*unstructured.Unstructured).DeepCopy()
		size, partition := united.Number(object.Object, "spec", "replicas"), united.Number(object.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
		w.note("%s %s %s: %d pods, partition %d, %s", a.Step, a.Kind.Kind, a.Object.GetName(), size, partition, image(object))
		object.SetGeneration(1)
		if at >= 0 && w.stubborn[string(a.Slot)] {
			w.children[at].SetGeneration(w.children[at].GetGeneration() + 1)
			return
		}
		if at >= 0 {
			object.SetGeneration(w.children[at].GetGeneration() + 1)
			object.Object["status"] = w.children[at].Object["status"]
			w.children[at] = object
			return
		}
		object.SetUID(types.UID("uid-" + a.Kind.Kind + "-" + object.GetName()))
		w.children = append(w.children, object)
	case planning.VerbDelete:
		w.note("%s %s %s", a.Step, a.Kind.Kind, a.Object.GetName())
		if a.Kind.Kind == "Pod" {
			w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return p.Name == a.Object.GetName() })
			return
		}
		name := w.children[at].GetLabels()[shared.LabelSubsetName]
		w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool {
			return p.Labels[shared.LabelSubsetName] == name && p.OwnerReferences[0].UID == w.children[at].GetUID()
		})
		w.children = slices.Delete(w.children, at, at+1)
	case planning.VerbPatch:
		var patch struct {
			Metadata struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(a.Change.(planning.RawPatch).Body, &patch); err != nil {
			w.t.Fatal(err)
		}
		for _, pod := range w.pods {
			if pod.Name == a.Object.GetName() {
				maps.Copy(pod.Labels, patch.Metadata.Labels)
				w.note("%s %s: reserved %s", a.Step, pod.Name, pod.Labels[shared.LabelReservedPod])
			}
		}
	}
}

func image(child *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(child.Object, "spec", "template", "spec", "containers")
	return containers[0].(map[string]any)["image"].(string)
}

// work lets the controllers of the workloads, the scheduler and the nodes do what they have to.
func (w *simulation) work() {
	for _, child := range w.children {
		w.workOn(child)
	}
}

func (w *simulation) workOn(child *unstructured.Unstructured) {
	name, uid := child.GetLabels()[shared.LabelSubsetName], child.GetUID()
	size := united.Number(child.Object, "spec", "replicas")
	keep := united.Number(child.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	var own []*corev1.Pod
	for _, pod := range w.pods {
		if pod.OwnerReferences[0].UID == uid {
			own = append(own, pod)
		}
	}
	// Pods that wait go first.
	slices.SortStableFunc(own, func(a, b *corev1.Pod) int {
		rank := func(p *corev1.Pod) int {
			if p.Spec.NodeName == "" {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	for len(own) > size {
		gone := own[len(own)-1]
		own = own[:len(own)-1]
		w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return p == gone })
	}
	for len(own) < size {
		w.made++
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("%s-%02d", name, w.made), UID: types.UID(fmt.Sprint(w.made)), CreationTimestamp: metav1.NewTime(w.now),
				Labels: map[string]string{
					shared.LabelSubsetName: name, shared.LabelUnitedDeploymentRevision: child.GetLabels()[shared.LabelUnitedDeploymentRevision],
				},
				OwnerReferences: []metav1.OwnerReference{{UID: uid, Controller: ptr.To(true)}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image(child)}}},
		}
		w.pods, own = append(w.pods, pod), append(own, pod)
	}
	strategy, _, _ := unstructured.NestedMap(child.Object, "spec", "updateStrategy")
	paused, _, _ := unstructured.NestedBool(strategy, "rollingUpdate", "paused")
	moves := !paused && strategy["type"] != "OnDelete"
	ready, updated := 0, 0
	for i, pod := range own {
		if moves && i >= keep && i < size && pod.Spec.Containers[0].Image != image(child) {
			pod.Spec.Containers[0].Image = image(child)
			pod.Labels[shared.LabelUnitedDeploymentRevision] = child.GetLabels()[shared.LabelUnitedDeploymentRevision]
		}
		w.schedule(pod, name)
		if pod.Spec.NodeName != "" {
			ready++
		}
		if pod.Spec.Containers[0].Image == image(child) {
			updated++
		}
	}
	child.Object["status"] = map[string]any{
		"observedGeneration": child.GetGeneration(), "replicas": int64(len(own)), "readyReplicas": int64(ready), "availableReplicas": int64(ready),
		"updatedReplicas": int64(updated),
	}
}

// schedule gives a pod a node when its zone has room, and takes it away when the zone has gone down.
func (w *simulation) schedule(pod *corev1.Pod, zone string) {
	now := metav1.NewTime(w.now)
	if w.full[zone] {
		if pod.Spec.NodeName == "" {
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
			}}
		}
		return
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = "node-" + zone
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		}}
	}
}

// down takes a zone down: its pods lose their nodes.
func (w *simulation) down(zone string) {
	w.full[zone] = true
	for _, pod := range w.pods {
		if pod.Labels[shared.LabelSubsetName] == zone {
			pod.Spec.NodeName, pod.CreationTimestamp = "", metav1.NewTime(w.now)
			delete(pod.Labels, shared.LabelReservedPod)
		}
	}
}

// rest lets everybody work until nothing changes, at one moment.
func (w *simulation) rest() {
	w.t.Helper()
	for range 30 {
		done := w.pass()
		w.work()
		if !done && !w.pass() {
			return
		}
	}
	w.t.Fatalf("it does not come to rest:\n%s", strings.Join(w.log, "\n"))
}

// when says what happens, lets it happen and then everybody work.
func (w *simulation) when(what string, change func()) {
	w.t.Helper()
	w.note("WHEN %s", what)
	change()
	w.rest()
	w.note("THEN %s", w.state())
}

// after lets time pass.
func (w *simulation) after(d time.Duration) {
	w.t.Helper()
	w.when(fmt.Sprintf("%s later", d), func() { w.now = w.now.Add(d) })
}

func (w *simulation) state() string {
	var all []string
	for _, s := range w.set.Status.SubsetStatuses {
		text := fmt.Sprintf("%s %d/%d updated %d", s.Name, s.ReadyReplicas, s.Replicas, s.UpdatedReplicas)
		if s.ReservedPods > 0 {
			text += fmt.Sprintf(" reserved %d", s.ReservedPods)
		}
		for _, c := range s.Conditions {
			text += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
		}
		all = append(all, text)
	}
	status := &w.set.Status
	text := fmt.Sprintf("replicas %d, ready %d, updated %d: %s", status.Replicas, status.ReadyReplicas, status.UpdatedReplicas, strings.Join(all, ", "))
	for _, c := range status.Conditions {
		if c.Type == appsv1beta1.UnitedDeploymentReconciling || c.Status == corev1.ConditionTrue && c.Type == appsv1beta1.UnitedDeploymentStalled {
			text += fmt.Sprintf("\n     %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text
}

// ends compares the log with its golden file.
func (w *simulation) ends() {
	w.t.Helper()
	got := strings.Join(w.log, "\n") + "\n"
	for i, r := range w.revisions {
		got = strings.ReplaceAll(got, r.Name, fmt.Sprintf("revision-%d", i+1))
	}
	podsettest.CompareGolden(w.t, w.t.Name(), got)
}
