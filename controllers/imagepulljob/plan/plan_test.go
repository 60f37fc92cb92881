// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Whole jobs, from the first asked node to the last answer.

func TestParallelism(t *testing.T) {
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
	w.golden()
}

// Two jobs ask the same node for the first time at once: one makes the NodeImage, and its events do not reach
// the other. It must look again by itself; it used to pull nothing for ever.
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

func TestPartialFailure(t *testing.T) {
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
	w.golden()
}

func TestDeadline(t *testing.T) {
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
	w.golden()
}

func TestSharingATag(t *testing.T) {
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
	w.golden()
}

// The pull of a second job went on with timeoutSeconds of the first one, which had been too short.
func TestASecondJobForAnImagePullsWithItsOwnTimeout(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(15)), BackoffLimit: ptr.To(int32(1))}
		s.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(9000))
	})
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseFailed, "n1")
	w.pass("a")
	before := *w.images["n1"].Spec.Images["nginx"].Tags[0].PullPolicy.TTLSecondsAfterFinished
	w.job("b", func(s *appsv1beta1.ImagePullJobSpec) {
		s.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(1200)), BackoffLimit: ptr.To(int32(4))}
	})
	w.pass("b")
	tag := w.images["n1"].Spec.Images["nginx"].Tags[0]
	if *tag.PullPolicy.TimeoutSeconds != 1200 || *tag.PullPolicy.BackoffLimit != 4 || tag.Version != 1 {
		t.Errorf("the second round is %+v", tag.PullPolicy)
	}
	if got := *tag.PullPolicy.TTLSecondsAfterFinished; got != before {
		t.Errorf("the tag lives for %d s, the first job wants %d", got, before)
	}
}

// A running pull is shared: a second job must not begin it again.
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
	w.golden()
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

// While the image cannot be pulled, the job says so, and does not claim to go on by itself.
func TestWhatNodesThatFailSayIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		parallelism   int32
		failed, tried []string
		succeeded     []string
		stalled       bool
		message       string
	}{
		"none has failed":                   {parallelism: 3, message: "Nodes pull, or wait for their turn."},
		"one tries again, others pull":      {parallelism: 3, tried: []string{"n2"}, message: "Nodes pull, or wait for their turn. 1 node tries again (n2). Node n2: denied"},
		"all try again":                     {parallelism: 3, tried: []string{"n1", "n2", "n3"}, stalled: true, message: "3 nodes try again (n1, n2, n3). Node n1: denied"},
		"the first tries again":             {parallelism: 1, tried: []string{"n1"}, stalled: true, message: "1 node tries again (n1). Node n1: denied"},
		"the first has failed":              {parallelism: 1, failed: []string{"n1"}, stalled: true, message: "1 node has failed (n1). Node n1: said by n1"},
		"one has it, one has failed":        {parallelism: 2, succeeded: []string{"n1"}, failed: []string{"n2"}, message: "Nodes pull, or wait for their turn. 1 node has failed (n2). Node n2: said by n2"},
		"one has it, the rest cannot":       {parallelism: 3, succeeded: []string{"n1"}, tried: []string{"n2", "n3"}, stalled: true, message: "2 nodes try again (n2, n3). Node n2: denied"},
		"one has it, and one of the others": {parallelism: 2, succeeded: []string{"n1"}, tried: []string{"n2"}, message: "Nodes pull, or wait for their turn. 1 node tries again (n2). Node n2: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3)
			w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(tc.parallelism)) })
			w.pass("a")
			w.answer(appsv1beta1.ImagePhaseFailed, tc.failed...)
			w.answer(appsv1beta1.ImagePhaseSucceeded, tc.succeeded...)
			for _, node := range tc.tried {
				w.images[node].Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{
					{Tag: "1.25", Phase: appsv1beta1.ImagePhasePulling, Message: "denied"},
				}}}
			}
			status := w.pass("a")
			kind, reason := "Reconciling", appsv1beta1.ReasonPulling
			if tc.stalled {
				kind, reason = "Stalled", appsv1beta1.ReasonPullFailed
			}
			expectCondition(t, status, kind, metav1.ConditionTrue, reason)
			if got := meta.FindStatusCondition(status.Conditions, kind).Message; got != tc.message {
				t.Errorf("%q, want %q", got, tc.message)
			}
		})
	}
}

// The former job's settings for the runtime do not affect the second one's pods.
func TestTheLastJobSaysWithWhatAnImageIsPulled(t *testing.T) {
	w := newSimulation(t, 1)
	for name, config := range map[string]*appsv1beta1.SandboxConfig{
		"a": {Labels: map[string]string{"tenant": "a", "a": "1"}, Annotations: map[string]string{"a": "1"}}, "b": {Labels: map[string]string{"tenant": "b"}},
	} {
		w.job(name, func(s *appsv1beta1.ImagePullJobSpec) { s.SandboxConfig = config })
	}
	w.pass("a")
	w.pass("b")
	got := w.images["n1"].Spec.Images["nginx"].SandboxConfig
	if len(got.Labels) != 1 || got.Labels["tenant"] != "b" || len(got.Annotations) != 0 {
		t.Errorf("%+v", got)
	}
}

// Two namespaces want one image. They shared the credentials, the sandbox and the answer of whoever had asked first.
func TestNamespacesDoNotShareAPull(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.SandboxConfig = &appsv1beta1.SandboxConfig{Labels: map[string]string{"of": "a"}}
	})
	w.job("b", func(*appsv1beta1.ImagePullJobSpec) {})
	w.jobs["b"].Namespace = "other"
	w.secrets = []appsv1beta1.ImagePullSecret{{Name: "of-a"}}
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	before := w.images["n1"].Spec.Images["nginx"]
	w.secrets = []appsv1beta1.ImagePullSecret{{Name: "of-b"}}
	status := w.pass("b")
	spec := w.images["n1"].Spec
	if diff := cmp.Diff(before, spec.Images["nginx"]); diff != "" {
		t.Errorf("what the first one has asked for changes:\n%s", diff)
	}
	own := spec.NamespacedImages["other/nginx"]
	if len(own.Tags) != 1 || own.SandboxConfig != nil || len(own.PullSecrets) != 1 || own.PullSecrets[0].Name != "of-b" {
		t.Errorf("the second one asks for %+v", own)
	}
	if status.Succeeded != 0 || status.Active != 1 {
		t.Errorf("the answer for one counts for the other: %+v", status)
	}
	image.Place{Namespace: "other", Repository: "nginx"}.SetAnswers(&w.images["n1"].Status, []appsv1beta1.ImageTagStatus{
		{Tag: "1.25", Phase: appsv1beta1.ImagePhaseFailed, CompletionTime: ptr.To(metav1.NewTime(w.now))},
	})
	if a, b := w.pass("a"), w.pass("b"); a.Succeeded != 1 || b.Failed != 1 || w.writes != 2 {
		t.Errorf("%+v and %+v, after %d writes", a, b, w.writes)
	}
}

// v0.4.0 let jobs of several namespaces share a tag. A job already using one goes on there.
func TestWhatTheFormerVersionAskedForGoesOn(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
	w.pass("a")
	tag := &w.images["n1"].Spec.Images["nginx"].Tags[0]
	tag.OwnerReferences = append(tag.OwnerReferences, corev1.ObjectReference{Kind: "ImagePullJob", Namespace: "other", UID: "uid-b"})
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	if status := w.pass("a"); status.Succeeded != 1 || w.writes != 1 {
		t.Errorf("%+v", status)
	}
}

// TestNodesThatCannotBeAsked: no waiting node can be asked. Full NodeImages have their own reason.
func TestNodesThatCannotBeAsked(t *testing.T) {
	full, room := NodeImage{Meta: &metav1.ObjectMeta{}, Full: true}, NodeImage{Meta: &metav1.ObjectMeta{}}
	tags, owners := NodeImage{Meta: &metav1.ObjectMeta{}}, NodeImage{Meta: &metav1.ObjectMeta{}}
	owners.Entry.Tags = []appsv1beta1.ImageTagSpec{{Tag: "1.25"}}
	for i := range 256 {
		tags.Entry.Tags = append(tags.Entry.Tags, appsv1beta1.ImageTagSpec{Tag: fmt.Sprintf("v%d", i)})
		owners.Entry.Tags[0].OwnerReferences = append(owners.Entry.Tags[0].OwnerReferences, corev1.ObjectReference{UID: types.UID(fmt.Sprint(i))})
	}
	leaving := NodeImage{Meta: &metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: began()}}}
	for name, tc := range map[string]struct {
		images                []NodeImage
		kind, reason, message string
	}{
		"one is full":             {[]NodeImage{full}, "Stalled", appsv1beta1.ReasonNodeImagesFull, "1 node cannot be asked (n1): "},
		"two are full":            {[]NodeImage{full, full}, "Stalled", appsv1beta1.ReasonNodeImagesFull, "2 nodes cannot be asked (n1, n2): "},
		"too many tags":           {[]NodeImage{tags}, "Stalled", appsv1beta1.ReasonNodeImagesFull, "1 node cannot be asked (n1): "},
		"too many jobs":           {[]NodeImage{owners}, "Stalled", appsv1beta1.ReasonNodeImagesFull, "256 jobs share this image"},
		"the other has room":      {[]NodeImage{full, room}, "Reconciling", appsv1beta1.ReasonPulling, "Nodes pull, or wait for their turn."},
		"one is being deleted":    {[]NodeImage{leaving}, "Reconciling", appsv1beta1.ReasonPulling, "1 node cannot be asked yet: "},
		"one is full, one leaves": {[]NodeImage{leaving, full}, "Stalled", appsv1beta1.ReasonNodeImagesFull, "1 node cannot be asked (n2): "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 0)
			w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
			spec, s := Parse(w.jobs["a"]), Snapshot{Now: w.now, Released: true}
			for i := range tc.images {
				s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("n%d", i+1), Ready: true, Image: &tc.images[i]})
			}
			d := Plan(spec, s)
			status := Status(spec, s, d, planning.Outcome{Done: len(d.Actions)})
			expectCondition(t, &status, tc.kind, metav1.ConditionTrue, tc.reason)
			if c := meta.FindStatusCondition(status.Conditions, tc.kind); c == nil || !strings.Contains(c.Message, tc.message) {
				t.Errorf("%+v, want ...%s", c, tc.message)
			}
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
	job.Spec.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(1200)), BackoffLimit: ptr.To(int32(2))}
	if got := *Parse(job).pullPolicy(&Node{}).ActiveDeadlineSeconds; got != 3600 {
		t.Errorf("deadline of a round whose three tries may take 20 minutes each: %d", got)
	}
}

// Pull secrets need the node daemon's namespace. No node is asked without them, and the job explains its wait.
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

// The server refuses a pull secret's copy. No further node is asked, but answers and the deadline count. The job
// used to stand still.
func TestWhileAPullSecretCannotBeCopied(t *testing.T) {
	w := newSimulation(t, 3)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.PullSecrets, s.CompletionPolicy.ActiveDeadlineSeconds = []string{"registry"}, ptr.To(int64(700))
	})
	w.pass("a")
	w.uncopied = "copying the Secret registry: a policy denies it"
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	status := w.pass("a")
	expect(t, status, 3, 0, 1, 0, "job is running, progress 33.3%")
	expectCondition(t, status, appsv1beta1.ImagePullJobFailedCreate, metav1.ConditionTrue, appsv1beta1.ReasonRequestFailed)
	expectCondition(t, status, "Reconciling", metav1.ConditionTrue, appsv1beta1.ReasonRequestFailed)
	if w.writes != 1 {
		t.Errorf("%d writes, want that to the node which was asked before", w.writes)
	}
	w.at(30)
	status = w.pass("a")
	expectCondition(t, status, "Stalled", metav1.ConditionTrue, appsv1beta1.ReasonRequestFailed)
	if c := meta.FindStatusCondition(status.Conditions, "Stalled"); c == nil || !strings.Contains(c.Message, "a policy denies it; No further node is asked") {
		t.Errorf("it says %+v", c)
	}
	w.at(700)
	status = w.pass("a")
	expect(t, status, 3, 0, 1, 2, "job exceeds activeDeadlineSeconds")
	if status.CompletionTime == nil {
		t.Error("the deadline does not end it")
	}
}

// It ends when every node has the image, too.
func TestAJobEndsAlthoughAPullSecretCannotBeCopied(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.PullSecrets = []string{"registry"} })
	w.pass("a")
	w.uncopied = "copying the Secret registry: a policy denies it"
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	expect(t, w.pass("a"), 1, 0, 1, 0, "job has completed")
}

// The refusal of a copy is one event, until the server has another answer.
func TestARefusedCopyIsAnEvent(t *testing.T) {
	w := newSimulation(t, 1)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.PullSecrets = []string{"registry"} })
	w.uncopied = "a policy denies it"
	before := w.jobs["a"].Status.DeepCopy()
	after := w.pass("a")
	s := Snapshot{Uncopied: w.uncopied}
	if told := Events(before, after, s); len(told) != 1 || !told[0].Warning || told[0].Reason != "FailedCreate" || told[0].Message != w.uncopied {
		t.Errorf("told %+v", told)
	}
	if told := Events(after, w.pass("a"), s); len(told) > 0 {
		t.Errorf("told once more %+v", told)
	}
}

func TestARefusedRequestToANodeIsAnEvent(t *testing.T) {
	w := newSimulation(t, 0)
	w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
	asked := 0
	s := Snapshot{Now: w.now, Released: true, Nodes: []Node{{Name: "n1", Ready: true, Image: &NodeImage{Meta: &metav1.ObjectMeta{}}}}}
	for _, a := range Plan(Parse(w.jobs["a"]), s).Actions {
		if a.Step != StepAsk {
			continue
		}
		asked++
		if a.Failure.Reason != "FailedCreate" || !a.Failure.Warning || a.Success.Reason != "" {
			t.Errorf("told %+v, or %+v", a.Success, a.Failure)
		}
	}
	if asked != 1 {
		t.Errorf("%d nodes are asked", asked)
	}
}

// A node the server always refused used up parallelism, and the others waited for ever.
func TestANodeThatIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	w := newSimulation(t, 0)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(1)) })
	s := Snapshot{Now: w.now, Released: true}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Nodes = append(s.Nodes, Node{Name: name, Ready: true})
	}
	refused := []string{"n1"}
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, slices.Contains(refused, key.Name)
	}
	asked := func() (string, int) {
		d := Plan(Parse(w.jobs["a"]), s)
		var nodes []string
		for i := range d.Actions {
			nodes = append(nodes, string(d.Actions[i].Slot))
			if key := d.Actions[i].RetryKey(); key != (planning.RetryKey{Step: StepAsk, Name: string(d.Actions[i].Slot)}) {
				t.Errorf("the key of %s is %+v", d.Actions[i].Slot, key)
			}
		}
		return strings.Join(nodes, " "), d.count[active]
	}
	if nodes, pulling := asked(); nodes != "n2 n1" || pulling != 1 {
		t.Errorf("asked are %s, and %d pull; want n2 and, when it is due, n1", nodes, pulling)
	}
	refused = []string{"n1", "n2", "n3"}
	if nodes, pulling := asked(); nodes != "n1 n2 n3" || pulling != 1 {
		t.Errorf("asked are %s, and %d pull; want all when they are due", nodes, pulling)
	}
}
