// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	cloneset "github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	sidecarset "github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// wanted are the images that a CloneSet and two SidecarSets want for the same pods, and the template that status.currentRevision names.
type wanted struct{ main, logs, mesh, current int8 }

// together is a CloneSet with two SidecarSets on its pods. Each of the three lets one pod be unavailable.
type together struct {
	sidecars  [2]map[int8]*sidecarset.Spec // by image
	clones    map[wanted]*cloneset.Spec
	revisions map[string]revision.Revision
	facts     podsettest.Facts[wanted]
	// seen are the facts about a pod for a spec of a SidecarSet: an exploration meets the same few pods in all its states.
	seen     sync.Map
	replicas int
	// workloadFirst: the CloneSet's write to a pod wins a pass, else a SidecarSet's.
	workloadFirst bool
}

// fact is a pod's state for a spec.
type fact struct {
	spec *sidecarset.Spec
	pod  *corev1.Pod
}

// containers are the CloneSet's and the SidecarSets'.
var containers = [3]string{"main", "agent", "proxy"}

func sidecarSetOf(i int, image int8) *v1beta1.SidecarSet {
	name := []string{"logs", "mesh"}[i]
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: podsettest.UIDOf(name), ResourceVersion: "5310", Generation: 3},
		Spec: v1beta1.SidecarSetSpec{
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Containers: []v1beta1.SidecarContainer{{Container: corev1.Container{Name: containers[1+i], Image: fmt.Sprintf("%s:%d", containers[1+i], image)}}},
		},
	}
	sidecarspec.Default(&set.Spec)
	return set
}

func newTogether(t testing.TB, replicas int, workloadFirst bool) *together {
	t.Helper()
	w := &together{replicas: replicas, workloadFirst: workloadFirst, revisions: map[string]revision.Revision{}, clones: map[wanted]*cloneset.Spec{}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{
		shared.AnnotationSidecarSetInjectedList: "logs,mesh",
	}}, Spec: corev1.PodSpec{
		ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	hash, withoutImage := map[string]shared.SidecarSetUpgrade{}, map[string]shared.SidecarSetUpgrade{}
	for i := range w.sidecars {
		w.sidecars[i] = map[int8]*sidecarset.Spec{}
		for image := int8(2); image >= 1; image-- {
			set := sidecarSetOf(i, image)
			hashes, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(&set.Spec, nil))
			if err != nil {
				t.Fatal(err)
			}
			w.sidecars[i][image] = sidecarset.Parse(set, hashes)
			hash[set.Name] = shared.SidecarSetUpgrade{SidecarSetHash: hashes.Hash, SidecarSetName: set.Name, SidecarList: []string{containers[1+i]}}
			withoutImage[set.Name] = shared.SidecarSetUpgrade{SidecarSetHash: hashes.WithoutImage, SidecarSetName: set.Name, SidecarList: []string{containers[1+i]}}
		}
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: containers[1+i], Image: containers[1+i] + ":1"})
	}
	for key, entries := range map[string]any{shared.AnnotationSidecarSetHash: hash, shared.AnnotationSidecarSetHashWithoutImage: withoutImage} {
		text, err := json.Marshal(entries)
		if err != nil {
			t.Fatal(err)
		}
		template.Annotations[key] = string(text)
	}
	for main := range int8(2) {
		at := template.DeepCopy()
		at.Spec.Containers[0].Image = fmt.Sprintf("main:%d", main+1)
		w.revisions[revisionName(main+1)] = revision.Revision{Name: revisionName(main + 1), Number: int64(main + 1), Template: at}
		for current := range int8(2) {
			w.clones[wanted{main: main + 1, current: current + 1}] = cloneset.Parse(&v1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set-uid", Generation: 1},
				Spec: v1beta1.CloneSetSpec{
					Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: *at,
					UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
						PodUpdatePolicy: shared.InPlaceOnly, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
					}},
				},
				Status: v1beta1.CloneSetStatus{CurrentRevision: revisionName(current + 1)},
			}, cloneset.Options{})
		}
	}
	return w
}

func revisionName(main int8) string { return fmt.Sprintf("web-r%d", main) }

func freshSlots() iter.Seq[planning.Slot] {
	return func(yield func(planning.Slot) bool) {
		for letter := 'a'; letter <= 'z'; letter++ {
			if !yield(planning.Slot(letter)) {
				return
			}
		}
	}
}

// ofCloneSet is the CloneSet's plan, and its next current revision.
func (t *together) ofCloneSet(w *podsettest.State[wanted]) (planning.Plan, int8) {
	spec := t.clones[wanted{main: w.Set.main, current: w.Set.current}]
	s := podset.Snapshot{
		Now: podsettest.Now(), Claims: w.ClaimsByName(), Update: t.revisions[revisionName(w.Set.main)], Revisions: t.revisions, FreshSlots: freshSlots(),
		Pods: t.facts.Of(w, func(pods []*corev1.Pod) []podset.Pod { return cloneset.Pods(spec, pods, nil, podsettest.Now()) }),
	}
	s.Current = revision.Current(spec.Set.Status.CurrentRevision, s.Update, t.revisions)
	plan := cloneset.Plan(spec, s)
	status, _ := cloneset.Status(spec, s, plan, planning.Outcome{})
	if status.CurrentRevision == s.Update.Name {
		return plan, w.Set.main
	}
	return plan, w.Set.current
}

func (t *together) sidecarsOf(i int, w *podsettest.State[wanted]) (*sidecarset.Spec, sidecarset.Snapshot) {
	spec := t.sidecars[i][[]int8{w.Set.logs, w.Set.mesh}[i]]
	s := sidecarset.Snapshot{Now: podsettest.Now()}
	s.Update.Name = spec.Set.Name + "-2"
	for _, pod := range w.Pods { // sorted by name
		key := fact{spec, pod}
		known, found := t.seen.Load(key)
		if !found {
			known = new(sidecarset.Known).Pods(spec, []*corev1.Pod{pod}, func(string) bool { return true }, podsettest.Now())
			t.seen.Store(key, known)
		}
		facts, _ := known.([]sidecarset.Pod) // what was stored
		s.Pods = append(s.Pods, facts...)
	}
	return spec, s
}

// step is one pass of all three. The server takes one write to a version of a pod; the others come later.
func (t *together) step(w *podsettest.State[wanted]) (planning.Plan, wanted) {
	clones, current := t.ofCloneSet(w)
	logs, mesh := sidecarset.Plan(t.sidecarsOf(0, w)), sidecarset.Plan(t.sidecarsOf(1, w))
	order := []planning.Plan{logs, mesh, clones}
	if t.workloadFirst {
		order = []planning.Plan{clones, mesh, logs}
	}
	var all planning.Plan
	for _, plan := range order {
		for _, action := range plan.Actions {
			if !slices.ContainsFunc(all.Actions, func(a planning.Action) bool { return podset.PodOf(a).Name == podset.PodOf(action).Name }) {
				all.Actions = append(all.Actions, action)
			}
		}
		all.Held = append(all.Held, plan.Held...)
		all.Recheck(plan.RecheckAfter)
	}
	after := w.Set
	after.current = current
	return all, after
}

func edits(actions []planning.Action, pod, container string) bool {
	return slices.ContainsFunc(actions, func(a planning.Action) bool {
		return podset.PodOf(a).Name == pod && podsettest.EditOf(a).Images[container] != ""
	})
}

// sidecarLimits hold when no SidecarSet takes a ready pod out of service beyond its maxUnavailable of 1.
func (t *together) sidecarLimits() podsettest.Invariant[wanted] {
	return podsettest.Invariant[wanted]{Name: "each SidecarSet keeps its limit", Check: func(e podsettest.Event[wanted]) error {
		for i := range t.sidecars {
			_, seen := t.sidecarsOf(i, e.Before)
			taken, unavailable := 0, 0
			for _, pod := range seen.Pods {
				switch {
				case pod.Updated && !pod.Available:
					unavailable++
				case pod.Available && edits(e.Actions, pod.Object.Name, containers[1+i]):
					taken++
				}
			}
			if taken > 0 && taken+unavailable > 1 {
				return fmt.Errorf("the one of container %s takes %d ready pods beside %d that are not available", containers[1+i], taken, unavailable)
			}
		}
		return nil
	}}
}

// workloadLimit: the CloneSet takes no available pod out of service while another is unavailable, whoever caused it.
func (t *together) workloadLimit() podsettest.Invariant[wanted] {
	return podsettest.Invariant[wanted]{Name: "the CloneSet keeps its limit", Check: func(e podsettest.Event[wanted]) error {
		available, taken := 0, 0
		for _, pod := range e.Before.Pods {
			if !podsettest.Available(pod, 0) {
				continue
			}
			available++
			ofOthers := edits(e.Actions, pod.Name, containers[1]) || edits(e.Actions, pod.Name, containers[2])
			i := slices.IndexFunc(e.After.Pods, func(p *corev1.Pod) bool { return p.Name == pod.Name })
			if !ofOthers && (i < 0 || !podsettest.Available(e.After.Pods[i], 0)) {
				taken++
			}
		}
		if taken > 0 && available-taken < t.replicas-1 {
			return fmt.Errorf("of %d available pods it takes %d", available, taken)
		}
		return nil
	}}
}

func (t *together) done(w *podsettest.State[wanted]) bool {
	for _, pod := range w.Pods {
		for i, image := range []int8{w.Set.main, w.Set.logs, w.Set.mesh} {
			at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == containers[i] })
			if at < 0 || pod.Spec.Containers[at].Image != fmt.Sprintf("%s:%d", containers[i], image) {
				return false
			}
		}
	}
	return len(w.Pods) == t.replicas
}

// TestExploreSidecarSetsBesideACloneSet visits every state of pods getting images from a CloneSet and
// SidecarSets at once: all come to their end, and each keeps its limit.
func TestExploreSidecarSetsBesideACloneSet(t *testing.T) {
	for _, tc := range []struct {
		name          string
		pods          int
		to            wanted
		workloadFirst bool
		long          bool
	}{
		{name: "two pods and both SidecarSets, which come first", pods: 2, to: wanted{main: 2, logs: 2, mesh: 2, current: 1}},
		{name: "two pods and both SidecarSets, the CloneSet comes first", pods: 2, to: wanted{main: 2, logs: 2, mesh: 2, current: 1}, workloadFirst: true},
		{name: "three pods and one of the SidecarSets", pods: 3, to: wanted{main: 2, logs: 2, mesh: 1, current: 1}},
		{name: "three pods and both SidecarSets", pods: 3, to: wanted{main: 2, logs: 2, mesh: 2, current: 1}, long: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.long {
				sample.Long(t, "the same with two pods, and three pods with one SidecarSet")
			}
			all := newTogether(t, tc.pods, tc.workloadFirst)
			start := &podsettest.State[wanted]{Set: wanted{1, 1, 1, 1}}
			if err := podsettest.BringUp(start, podsettest.Cluster{}, all.step, 100); err != nil {
				t.Fatal(err)
			}
			start.Set = tc.to
			result := podsettest.Explore(t, podsettest.Exploration[wanted]{
				Start: []*podsettest.State[wanted]{start}, Step: all.step,
				Rename: func(pod *corev1.Pod, i int) {
					id := string(rune('a' + i))
					pod.Name, pod.UID = "web-"+id, podsettest.UIDOf("web-"+id)
					pod.Labels[shared.LabelInstanceID] = id
				},
				Always: []podsettest.Invariant[wanted]{all.sidecarLimits(), all.workloadLimit(), podsettest.OneActionEach[wanted]()},
				Goal: func(w *podsettest.State[wanted], todo planning.Plan) bool {
					return len(todo.Actions) == 0 && all.done(w)
				},
			})
			if result.States < 1000 {
				t.Errorf("only %d states: this explores less than it says", result.States)
			}
		})
	}
}
