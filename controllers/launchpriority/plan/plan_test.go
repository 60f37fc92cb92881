// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// pod has containers with priorities and states: "5 ready", "0 running", "0 ended", "0 stuck", or "0" without a report.
func pod(words ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "this"}}
	for i, word := range words {
		text, state, _ := strings.Cut(word, " ")
		priority := 0
		if _, err := fmt.Sscan(text, &priority); err != nil {
			panic(err)
		}
		name := fmt.Sprint("c", i)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Env: []corev1.EnvVar{launch.Variable(p.Name, priority, "")}})
		status := corev1.ContainerStatus{Name: name}
		switch state {
		case "ready", "running":
			status.ContainerID, status.Ready = "containerd://"+name, state == "ready"
			status.State.Running = &corev1.ContainerStateRunning{}
		case "ended":
			status.ContainerID, status.State.Terminated = "containerd://"+name, &corev1.ContainerStateTerminated{}
		case "stuck":
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}
		default:
			continue
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	}
	return p
}

func marked(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{shared.AnnotationLaunchPriorityCompleted: "true"}
	return p
}

func deleted(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = ptr.To(metav1.Now())
	return p
}

// barrier is one of the pod with a UID; of "" nobody owns it.
func barrier(uid string, open ...int) *corev1.ConfigMap {
	var levels []Level
	for _, priority := range open {
		levels = append(levels, Level{priority, launch.Key(priority, "")})
	}
	b := Barrier(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "this"}}, levels)
	if uid == "" {
		b.OwnerReferences = nil
		return b
	}
	if uid != "this" {
		b.OwnerReferences[0].UID = "earlier"
	}
	return b
}

func priorities(levels []Level) []int {
	var all []int
	for _, level := range levels {
		all = append(all, level.Priority)
	}
	return all
}

func (d Decision) String() string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	add(d.Delete, "delete")
	add(d.Create, fmt.Sprint("create ", priorities(d.Open)))
	add(!d.Create && len(d.Release) > 0, fmt.Sprint("release ", priorities(d.Release)))
	add(d.Complete, "complete")
	add(d.Blocked != "", "blocked")
	return strings.Join(words, ", ")
}

// Each case is a pod and its found barrier. The first six follow one pod from creation to completion. Package
// launch decides, and tests, containers' priorities.
func TestPlan(t *testing.T) {
	finished := pod("0 ended", "-1")
	finished.Status.Phase = corev1.PodSucceeded
	stuckForever := barrier("this", 0)
	stuckForever.DeletionTimestamp, stuckForever.Finalizers = ptr.To(metav1.Now()), []string{"example.com/keep"}
	earlierForever := barrier("earlier", 0)
	earlierForever.DeletionTimestamp, earlierForever.Finalizers = stuckForever.DeletionTimestamp, stuckForever.Finalizers
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		found *corev1.ConfigMap
		want  string
	}{
		"a new pod gets its barrier with the highest priority":           {pod: pod("0", "-1", "-2"), want: "create [0]"},
		"with the rest while that is not ready nothing happens":          {pod: pod("0 running", "-1 stuck", "-2 stuck"), found: barrier("this", 0)},
		"when it is ready the next may start":                            {pod: pod("0 ready", "-1 stuck", "-2 stuck"), found: barrier("this", 0), want: "release [-1]"},
		"which is not said twice":                                        {pod: pod("0 ready", "-1 stuck", "-2 stuck"), found: barrier("this", 0, -1)},
		"with the last one the pod is marked":                            {pod: pod("0 ready", "-1 ready", "-2 stuck"), found: barrier("this", 0, -1), want: "release [-2], complete"},
		"a mark that was not written is written":                         {pod: pod("0 ready", "-1 ready", "-2 running"), found: barrier("this", 0, -1, -2), want: "complete"},
		"the highest never ready: the others never start":                {pod: pod("0 ended", "-1 stuck"), found: barrier("this", 0)},
		"one that gets unready again holds the next":                     {pod: pod("0 running", "-1 ready", "-2 stuck"), found: barrier("this", 0, -1)},
		"but takes nothing back":                                         {pod: pod("0 running", "-1 ended", "-2 ready"), found: barrier("this", 0, -1, -2), want: "complete"},
		"equal priorities go together":                                   {pod: pod("5", "5", "0"), want: "create [5]"},
		"and both have to be ready":                                      {pod: pod("5 ready", "5 running", "0 stuck"), found: barrier("this", 5)},
		"then the third":                                                 {pod: pod("5 ready", "5 ready", "0 stuck"), found: barrier("this", 5), want: "release [0], complete"},
		"a barrier of an earlier pod is not believed":                    {pod: pod("0 stuck", "-1 stuck"), found: barrier("earlier", 0, -1), want: "delete, create [0]"},
		"a ConfigMap of nobody is left alone":                            {pod: pod("0 stuck", "-1 stuck"), found: barrier("", 0, -1), want: "blocked"},
		"a barrier that was lost comes back with what was released":      {pod: pod("0 ready", "-1 running", "-2"), want: "create [0 -1]"},
		"of a marked pod with all":                                       {pod: marked(pod("0 ready", "-1 stuck", "-2 ready")), want: "create [0 -1 -2]"},
		"a key that was lost comes back":                                 {pod: marked(pod("0 ready", "-1 stuck")), found: barrier("this", 0), want: "release [-1]"},
		"a marked pod that misses something else is left alone":          {pod: marked(pod("0 ready", "-1 stuck")), found: barrier("this", 0, -1)},
		"of a pod that goes the barrier goes":                            {pod: deleted(pod("0 ready", "-1 stuck")), found: barrier("this", 0), want: "delete"},
		"a barrier of another pod does not go with it":                   {pod: deleted(pod("0 ready", "-1 stuck")), found: barrier("earlier", 0)},
		"nor is there one made for it":                                   {pod: deleted(pod("0", "-1"))},
		"one that has ended needs none":                                  {pod: finished},
		"nor one without order":                                          {pod: &corev1.Pod{}},
		"a barrier that is being deleted and does not go is in the way":  {pod: pod("0 stuck", "-1 stuck"), found: stuckForever, want: "blocked"},
		"so is one of an earlier pod":                                    {pod: pod("0 stuck", "-1 stuck"), found: earlierForever, want: "blocked"},
		"a barrier with a key of somebody else has only the others read": {pod: pod("0 ready", "-1 stuck"), found: barrier("this", 7), want: "release [0 -1], complete"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Plan(tc.pod, tc.found).String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// From every state of three priorities, with containers getting ready, failing and restarting in any order, and
// the barrier lost or foreign at any time: none starts before all above it were ready at one moment, and in the
// end the pod is marked.
func TestEveryWorldOfThreeContainers(t *testing.T) {
	type simulation struct {
		states string // of each container: one of "n" not made, "r" running, "R" ready
		keys   string // released keys, "-" without a barrier, "e" with one of an earlier pod that has all keys
		marked bool
	}
	levels := []int{2, 1, 0}
	build := func(w simulation) (*corev1.Pod, *corev1.ConfigMap) {
		var words []string
		for i := range levels {
			words = append(words, fmt.Sprint(levels[i], " ", map[byte]string{'n': "stuck", 'r': "running", 'R': "ready"}[w.states[i]]))
		}
		p := pod(words...)
		if w.marked {
			marked(p)
		}
		switch w.keys {
		case "-":
			return p, nil
		case "e":
			return p, barrier("earlier", levels...)
		}
		var open []int
		for i := range levels {
			if w.keys[i] == '1' {
				open = append(open, levels[i])
			}
		}
		return p, barrier("this", open...)
	}
	first := simulation{states: "nnn", keys: "-"}
	seen := map[simulation]bool{first: true}
	queue := []simulation{first, {states: "nnn", keys: "e"}}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		visit := func(next simulation) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
		p, found := build(w)
		d := Plan(p, found)
		after := w
		if d.Create {
			after.keys = "000"
		}
		if d.Create || len(d.Release) > 0 {
			keys := []byte(after.keys)
			for i, priority := range levels {
				if !slices.Contains(priorities(d.Open), priority) {
					continue
				}
				if keys[i] != '1' && w.states[i] == 'n' && !w.marked && strings.ContainsAny(w.states[:i], "nr") {
					t.Fatalf("in %+v priority %d is released: %s", w, priority, d)
				}
				keys[i] = '1'
			}
			after.keys = string(keys)
		}
		after.marked = w.marked || d.Complete
		if w.keys == "e" && after.keys == "111" {
			t.Fatalf("in %+v the barrier of an earlier pod is believed", w)
		}
		if w.states == "RRR" && !after.marked {
			t.Fatalf("in %+v all are ready and the pod is not marked: %s", w, d)
		}
		if d.Create != (w.keys == "-" || w.keys == "e") {
			t.Fatalf("in %+v: %s", w, d)
		}
		visit(after)
		for i := range levels {
			move := func(to byte) {
				states := []byte(after.states)
				states[i] = to
				next := after
				next.states = string(states)
				visit(next)
			}
			switch {
			case after.states[i] == 'n' && after.keys[i] == '1':
				move('r')
			case after.states[i] == 'r':
				move('R')
			case after.states[i] == 'R':
				move('r') // it fails, or is restarted
			}
		}
		lost := after
		lost.keys = "-"
		visit(lost)
	}
	if len(seen) < 30 {
		t.Errorf("only %d worlds", len(seen))
	}
	t.Logf("%d worlds", len(seen))
}

// A foreign pod deleted without a grace period leaves its barrier. The kubelet believes its keys: so the next
// pod of the name reads other keys.
func TestTheKeysOfAnEarlierPodOfThatNameReleaseNothing(t *testing.T) {
	ordered := func(mark string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "this"}}
		p.Annotations = map[string]string{shared.AnnotationLaunchPriority: shared.LaunchInOrder}
		p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-" + mark}}
		p.Spec.Containers = []corev1.Container{{Name: "db"}, {Name: "app"}}
		if is, fault := launch.Order(p, ""); !is || fault != nil {
			t.Fatalf("not ordered: %v", fault)
		}
		return p
	}
	earlier := ordered("x7k2p")
	left := Plan(marked(earlier.DeepCopy()), nil)
	found := Barrier(earlier, left.Open)
	if len(found.Data) != 2 {
		t.Fatalf("the barrier is %v", found.Data)
	}
	next := ordered("mq4zt")
	for i := range next.Spec.Containers {
		if key := next.Spec.Containers[i].Env[0].ValueFrom.ConfigMapKeyRef.Key; found.Data[key] != "" {
			t.Errorf("container %d starts by key %s, which the earlier pod has left", i, key)
		}
	}
	next.UID = "next"
	d := Plan(next, found)
	if got := d.String(); got != "delete, create [0]" {
		t.Errorf("%q", got)
	}
	if data := Barrier(next, d.Open).Data; len(data) != 1 || data[next.Spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Key] != "true" {
		t.Errorf("the new barrier has %v", data)
	}
}

func TestLooksAndChanged(t *testing.T) {
	finished := pod("0 ended", "-1 ended")
	finished.Status.Phase = corev1.PodFailed
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a new pod":                          {pod("0", "-1"), true},
		"one that goes":                      {deleted(pod("0", "-1")), true},
		"a marked one":                       {marked(pod("0 ready", "-1 ready")), false},
		"a marked one that misses something": {marked(pod("0 ready", "-1 stuck")), true},
		"one that has ended":                 {finished, false},
		"one without order":                  {&corev1.Pod{}, false},
	} {
		if got := NeedsPass(tc.pod); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	base := pod("0 running", "-1 stuck")
	other := pod("0 running", "-1 stuck")
	other.Labels, other.ResourceVersion = map[string]string{"any": "change"}, "2"
	if Changed(base, other) {
		t.Error("another label is a change")
	}
	for name, to := range map[string]*corev1.Pod{
		"a container gets ready": pod("0 ready", "-1 stuck"), "one is made": pod("0 running", "-1 running"),
		"it is marked": marked(pod("0 running", "-1 stuck")), "it goes": deleted(pod("0 running", "-1 stuck")),
	} {
		if !Changed(base, to) {
			t.Errorf("%s: no change", name)
		}
	}
	if Changed(deleted(pod("0 ready")), deleted(pod("0 running"))) {
		t.Error("what a pod does that goes is a change")
	}
}

func TestWords(t *testing.T) {
	waits := pod("0 ended", "-1 stuck", "-2 stuck")
	if text, at := Waiting(waits); at != 0 || !strings.Contains(text, "Containers c1, c2 start when these are ready") || !strings.Contains(text, "make it an init container") {
		t.Errorf("%d %q", at, text)
	}
	if text, at := Waiting(pod("0 ready", "-1 running", "-2 stuck")); at != -1 || !strings.Contains(text, "c1 (priority -1) runs and is not ready") {
		t.Errorf("%d %q", at, text)
	}
	for name, p := range map[string]*corev1.Pod{
		"the last priority": pod("0 ready", "-1 running"), "a marked pod": marked(pod("0 running", "-1 stuck")), "one that goes": deleted(pod("0", "-1")),
	} {
		if text, _ := Waiting(p); text != "" {
			t.Errorf("%s: %q", name, text)
		}
	}
	if got := Released(pod("5", "5", "0"), 0); got != "Launch priority 0 may start: c2; ready before: c0, c1" {
		t.Errorf("%q", got)
	}
}
