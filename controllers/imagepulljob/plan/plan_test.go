// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// simulation is a cluster of nodes with daemons that answer when the test says so. Every write counts.
type simulation struct {
	t      *testing.T
	now    time.Time
	jobs   map[string]*appsv1beta1.ImagePullJob
	nodes  []string
	images map[string]*appsv1beta1.NodeImage
	writes int
	last   Decision
	// most is how many nodes were asked and had not answered, at most.
	most int
}

func newSimulation(t *testing.T, nodes int) *simulation {
	t.Helper()
	w := &simulation{t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), jobs: map[string]*appsv1beta1.ImagePullJob{}, images: map[string]*appsv1beta1.NodeImage{}}
	for i := range nodes {
		w.nodes = append(w.nodes, fmt.Sprintf("n%d", i+1))
	}
	return w
}

func (w *simulation) job(name string, change func(*appsv1beta1.ImagePullJobSpec)) {
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
	job.Spec.Image = "nginx:1.25"
	change(&job.Spec)
	w.jobs[name] = job
}

// pass plans a job once, carries everything out and writes its status.
func (w *simulation) pass(name string) *appsv1beta1.ImagePullJobStatus {
	w.t.Helper()
	job := w.jobs[name]
	spec := Parse(job)
	s := Snapshot{Now: w.now, Released: true}
	for _, node := range w.nodes {
		n := Node{Name: node, UID: types.UID(node), Ready: true, Labels: map[string]string{"of": node}}
		if image := w.images[node]; image != nil {
			n.Image = &NodeImage{Meta: &image.ObjectMeta, Entry: image.Spec.Images["nginx"], Status: image.Status.ImageStatuses["nginx"]}
		}
		s.Nodes = append(s.Nodes, n)
	}
	w.last = Plan(spec, s)
	for i := range w.last.Actions {
		w.carryOut(name, &w.last.Actions[i])
	}
	status := Status(spec, s, w.last, planning.Outcome{Done: len(w.last.Actions)})
	if w.jobs[name] != nil {
		job.Status = status
	}
	w.most = max(w.most, int(status.Active))
	return &status
}

func (w *simulation) carryOut(name string, a *planning.Action) {
	w.t.Helper()
	switch a.Step {
	case planning.StepDeleteJob:
		delete(w.jobs, name)
		return
	case StepAsk:
	default:
		w.t.Fatalf("step %s", a.Step)
	}
	w.writes++
	node := a.Object.GetName()
	if a.Verb == planning.VerbCreate {
		image, ok := a.Object.(*appsv1beta1.NodeImage)
		if !ok || w.images[node] != nil {
			w.t.Fatalf("%s is made twice", node)
		}
		if image.Labels["of"] != node || len(image.OwnerReferences) != 1 || image.OwnerReferences[0].UID != types.UID(node) {
			w.t.Errorf("%s does not have the labels of its node, or does not go with it: %+v", node, image.ObjectMeta)
		}
		w.images[node] = image.DeepCopy()
		return
	}
	body, err := a.Change.Requests(a.Object)[0].Body(planning.Version{})
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := json.Marshal(w.images[node])
	if err != nil {
		w.t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		w.t.Fatal(err)
	}
	image := &appsv1beta1.NodeImage{}
	if err := json.Unmarshal(after, image); err != nil {
		w.t.Fatal(err)
	}
	w.images[node] = image
}

// answer has nodes end their present round.
func (w *simulation) answer(phase appsv1beta1.ImagePullPhase, nodes ...string) {
	w.t.Helper()
	for _, node := range nodes {
		image := w.images[node]
		if image == nil {
			w.t.Fatalf("%s was not asked", node)
		}
		tag := image.Spec.Images["nginx"].Tags[0]
		image.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{{
			Tag: tag.Tag, Version: tag.Version, Phase: phase, CompletionTime: ptr.To(metav1.NewTime(w.now)), Message: "said by " + node,
		}}}}
	}
}

func (w *simulation) at(seconds int) {
	w.now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func (w *simulation) pulling(job string) string {
	var names []string
	for _, at := range w.last.nodes {
		if at.stage == active {
			names = append(names, at.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func expect(t *testing.T, s *appsv1beta1.ImagePullJobStatus, desired, active, succeeded, failed int32, message string) {
	t.Helper()
	if s.Desired != desired || s.Active != active || s.Succeeded != succeeded || s.Failed != failed || s.Message != message {
		t.Errorf("desired %d active %d succeeded %d failed %d, %q; want %d %d %d %d, %q",
			s.Desired, s.Active, s.Succeeded, s.Failed, s.Message, desired, active, succeeded, failed, message)
	}
}

func expectCondition(t *testing.T, s *appsv1beta1.ImagePullJobStatus, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == kind {
			if c.Status != status || c.Reason != reason {
				t.Errorf("%s is %s (%s: %s), want %s (%s)", kind, c.Status, c.Reason, c.Message, status, reason)
			}
			return
		}
	}
	t.Errorf("there is no condition %s in %+v", kind, s.Conditions)
}

// The worked examples of the reference.

func TestExample1Parallelism(t *testing.T) {
	w := newSimulation(t, 5)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(2)) })
	expect(t, w.pass("a"), 5, 2, 0, 0, "job is running, progress 0.0%")
	if got := w.pulling("a"); got != "n1 n2" {
		t.Errorf("%s pull", got)
	}
	w.pass("a")
	if w.writes != 2 {
		t.Errorf("%d writes while nothing happened, want the 2 from before", w.writes)
	}
	w.at(25)
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1", "n2")
	expect(t, w.pass("a"), 5, 2, 2, 0, "job is running, progress 40.0%")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n3", "n4")
	w.pass("a")
	w.at(75)
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n5")
	status := w.pass("a")
	expect(t, status, 5, 0, 5, 0, "job has completed")
	expectCondition(t, status, "Reconciling", metav1.ConditionFalse, appsv1beta1.ReasonPulled)
	if w.most != 2 || w.writes != 5 || status.CompletionTime == nil {
		t.Errorf("at most %d nodes pulled, %d writes over 5 nodes, ended %v", w.most, w.writes, status.CompletionTime)
	}
}

// Two jobs ask the same node for the first time at once: the NodeImage is that of one of them, and no event of it is about the other. That one looks again
// by itself. It used to pull nothing for ever.
func TestTheNodeImageIsThatOfAnotherJob(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
	w.pass("a")
	if w.last.RecheckAfter <= 0 || w.last.RecheckAfter > time.Second {
		t.Errorf("looked at again after %s, want at most 1s", w.last.RecheckAfter)
	}
	w.images["n1"].Spec.Images = map[string]appsv1beta1.ImageSpec{"redis": {Tags: []appsv1beta1.ImageTagSpec{{Tag: "7", Version: 1}}}}
	w.at(1)
	w.pass("a")
	if images := w.images["n1"].Spec.Images; len(images["nginx"].Tags) != 1 || len(images["redis"].Tags) != 1 {
		t.Errorf("the node is asked for %+v", images)
	}
	w.pass("a")
	if w.last.RecheckAfter == time.Second {
		t.Error("it is looked at every second although nothing is missing")
	}
}

func TestExample2PartialFailure(t *testing.T) {
	w := newSimulation(t, 3)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromString("3")) })
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1", "n3")
	w.answer(appsv1beta1.ImagePhaseFailed, "n2")
	status := w.pass("a")
	expect(t, status, 3, 0, 2, 1, "job has completed")
	if !slices.Equal(status.FailedNodes, []string{"n2"}) {
		t.Errorf("failed nodes %v", status.FailedNodes)
	}
	expectCondition(t, status, "Stalled", metav1.ConditionTrue, appsv1beta1.ReasonPullFailed)
	delete(w.images, "n2") // its tag expires
	if after := w.pass("a"); after.Failed != 1 || after.Conditions[0].Message != status.Conditions[0].Message {
		t.Errorf("what is known of the end is forgotten: %+v", after)
	}
}

func TestExample3Deadline(t *testing.T) {
	w := newSimulation(t, 4)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(20))}
		s.CompletionPolicy.ActiveDeadlineSeconds = ptr.To(int64(30))
	})
	w.pass("a")
	w.at(20)
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	w.pass("a") // the next node is asked for the first time
	w.pass("a")
	if got := w.last.RecheckAfter; got != 10*time.Second {
		t.Errorf("looked at again after %s, want at the deadline", got)
	}
	w.at(30)
	status := w.pass("a")
	expect(t, status, 4, 0, 1, 3, "job exceeds activeDeadlineSeconds")
	if !slices.Equal(status.FailedNodes, []string{"n2", "n3", "n4"}) {
		t.Errorf("failed nodes %v", status.FailedNodes)
	}
	writes := w.writes
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n2")
	if expect(t, w.pass("a"), 4, 0, 1, 3, "job exceeds activeDeadlineSeconds"); w.writes != writes {
		t.Error("nodes are asked after the end")
	}
}

func TestExample4SharingATag(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = appsv1beta1.CompleteNever })
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	expect(t, w.pass("a"), 1, 0, 1, 0, "job is running, progress 100.0%")
	w.job("b", func(s *appsv1beta1.ImagePullJobSpec) { s.ImagePullPolicy = appsv1beta1.PullAlways })
	w.pass("b")
	tag := w.images["n1"].Spec.Images["nginx"].Tags[0]
	if tag.Version != 1 || len(tag.OwnerReferences) != 2 || tag.ImagePullPolicy != appsv1beta1.PullAlways {
		t.Errorf("tag %+v", tag)
	}
	expect(t, w.pass("a"), 1, 1, 0, 0, "job is running, progress 0.0%")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	expect(t, w.pass("a"), 1, 0, 1, 0, "job is running, progress 100.0%")
	expect(t, w.pass("b"), 1, 0, 1, 0, "job has completed")
}

// A pull that is under way is shared: a second job must not begin it again.
func TestAPullUnderWayIsShared(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
	w.job("b", func(*appsv1beta1.ImagePullJobSpec) {})
	w.pass("a")
	w.pass("b")
	if tag := w.images["n1"].Spec.Images["nginx"].Tags[0]; tag.Version != 0 || len(tag.OwnerReferences) != 2 {
		t.Errorf("tag %+v", tag)
	}
}

func TestTimeToLive(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(30)) })
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	w.pass("a")
	w.at(29)
	w.pass("a")
	if w.jobs["a"] == nil || w.last.RecheckAfter != time.Second {
		t.Errorf("after 29 s: job %v, looked at again after %s", w.jobs["a"] != nil, w.last.RecheckAfter)
	}
	w.at(30)
	w.pass("a")
	if w.jobs["a"] != nil {
		t.Error("the job is not deleted")
	}
}

func TestANodeThatJoinsIsServed(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = appsv1beta1.CompleteNever })
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	w.pass("a")
	w.nodes = append(w.nodes, "n2")
	expect(t, w.pass("a"), 2, 1, 1, 0, "job is running, progress 50.0%")
}

func TestWhyNothingMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes   int
		seconds int
		change  func(*appsv1beta1.ImagePullJobSpec)
		kind    string
		status  metav1.ConditionStatus
		reason  string
	}{
		"the image is no image": {
			nodes: 1, change: func(s *appsv1beta1.ImagePullJobSpec) { s.Image = "a b" }, kind: "Stalled", status: metav1.ConditionTrue, reason: appsv1beta1.ReasonInvalidSpec,
		},
		"parallelism is 0": {
			nodes: 1, change: func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(0)) },
			kind: "Stalled", status: metav1.ConditionTrue, reason: appsv1beta1.ReasonNoParallelism,
		},
		"no daemon answers": {
			nodes: 1, seconds: 61, change: func(*appsv1beta1.ImagePullJobSpec) {}, kind: "Stalled", status: metav1.ConditionTrue, reason: appsv1beta1.ReasonNodeDaemonSilent,
		},
		"there is no node": {
			change: func(*appsv1beta1.ImagePullJobSpec) {}, kind: "Reconciling", status: metav1.ConditionFalse, reason: appsv1beta1.ReasonNoMatchingNode,
		},
		"there is no node yet": {
			change: func(s *appsv1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = appsv1beta1.CompleteNever },
			kind:   "Reconciling", status: metav1.ConditionFalse, reason: appsv1beta1.ReasonNoMatchingNode,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.nodes)
			w.job("a", tc.change)
			w.pass("a")
			w.at(tc.seconds)
			expectCondition(t, w.pass("a"), tc.kind, tc.status, tc.reason)
		})
	}
}

func TestChooses(t *testing.T) {
	for name, tc := range map[string]struct {
		selector *appsv1beta1.ImagePullJobNodeSelector
		node     string
		labels   map[string]string
		want     bool
	}{
		"every node":                    {node: "n1", want: true},
		"an empty selector":             {selector: &appsv1beta1.ImagePullJobNodeSelector{}, node: "n1", want: true},
		"by name":                       {selector: &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"n2"}}, node: "n2", want: true},
		"by another name":               {selector: &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"n2"}}, node: "n1"},
		"no runtime behind it":          {node: "v1", labels: map[string]string{"type": "virtual-kubelet"}},
		"a virtual node that was named": {selector: &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"v1"}}, node: "v1", labels: map[string]string{"type": "virtual-kubelet"}},
		"by label": {
			selector: &appsv1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			node:     "n1", labels: map[string]string{"a": "b"}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := &appsv1beta1.ImagePullJob{}
			job.Spec.Image, job.Spec.Selector = "nginx", tc.selector
			if got := Parse(job).Chooses(tc.node, tc.labels); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestHowLongTagsAreKept(t *testing.T) {
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	job.Spec.Image = "nginx"
	ttl := func() int {
		return int(*Parse(job).pullPolicy(&Node{Name: "n1"}).TTLSecondsAfterFinished)
	}
	within := func(what string, got, least, most int) {
		t.Helper()
		if got < least || got >= most {
			t.Errorf("%s: %d s, want from %d to %d", what, got, least, most)
		}
	}
	within("timeout × tries", ttl(), 1800+300, 1800+600)
	job.Spec.CompletionPolicy.ActiveDeadlineSeconds = ptr.To(int64(700))
	within("deadline", ttl(), 700+300, 700+600)
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(5))
	within("time to live", ttl(), 5+300, 5+600)
	job.Spec.CompletionPolicy = appsv1beta1.CompletionPolicy{Type: appsv1beta1.CompleteNever}
	within("a day", ttl(), 24*3600-600, 24*3600+600)
	if got := *Parse(job).pullPolicy(&Node{}).ActiveDeadlineSeconds; got != 1800 {
		t.Errorf("deadline of a round: %d", got)
	}
}

// Pull secrets have no place to go before the node daemon's namespace is there. No node is asked without them, and the job says what it waits for.
func TestWithoutTheNamespaceOfTheDaemon(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.PullSecrets = []string{"registry"} })
	look := func() (Decision, appsv1beta1.ImagePullJobStatus) {
		spec := Parse(w.jobs["a"])
		s := Snapshot{Now: w.now, NoNamespace: true, Nodes: []Node{{Name: "n1", UID: "n1", Ready: true}}}
		d := Plan(spec, s)
		status := Status(spec, s, d, planning.Outcome{})
		w.jobs["a"].Status = status
		return d, status
	}
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{0, "Reconciling"}, {answering - time.Second, "Reconciling"}, {time.Second, "Stalled"}} {
		w.now = w.now.Add(tc.after)
		d, status := look()
		if len(d.Actions) > 0 || d.RecheckAfter != namespaceRecheck {
			t.Errorf("actions %+v, looked at again after %s", d.Actions, d.RecheckAfter)
		}
		if !slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type == tc.want && c.Status == metav1.ConditionTrue && c.Reason == appsv1beta1.ReasonNoDaemonNamespace && strings.Contains(c.Message, "kruise-daemon-config")
		}) {
			t.Errorf("conditions %+v, want %s", status.Conditions, tc.want)
		}
	}
}
