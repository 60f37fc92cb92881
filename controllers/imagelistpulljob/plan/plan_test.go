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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// simulation is a namespace with one list and its jobs, on a fake clock.
type simulation struct {
	t    *testing.T
	now  time.Time
	list *appsv1beta1.ImageListPullJob
	jobs map[string]*appsv1beta1.ImagePullJob
	// created and deleted are images, by their jobs.
	created, deleted []string
	gone             bool
	last             Decision
}

func newSimulation(t *testing.T, images ...string) *simulation {
	t.Helper()
	list := &appsv1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "warm", UID: "list-uid", Generation: 1}}
	list.Spec.Images = images
	return &simulation{t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), list: list, jobs: map[string]*appsv1beta1.ImagePullJob{}}
}

func (w *simulation) snapshot() Snapshot {
	s := Snapshot{Now: w.now}
	var names []string
	for name := range w.jobs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.jobs[name])
		if err != nil {
			w.t.Fatal(err)
		}
		s.Children = append(s.Children, Observe(&unstructured.Unstructured{Object: content}))
	}
	return s
}

// pass plans once, carries everything out, and writes the status.
func (w *simulation) pass() *appsv1beta1.ImageListPullJobStatus {
	w.t.Helper()
	spec, s := Parse(w.list, true), w.snapshot()
	w.last = Plan(spec, s)
	w.created, w.deleted = nil, nil
	for i := range w.last.Actions {
		a := &w.last.Actions[i]
		switch a.Step {
		case StepCreateJob:
			job, ok := a.Object.(*appsv1beta1.ImagePullJob)
			if !ok || w.jobs[job.Name] != nil {
				w.t.Fatalf("%s is created and exists", a.Object.GetName())
			}
			w.jobs[job.Name] = job.DeepCopy()
			w.jobs[job.Name].UID = types.UID(job.Name)
			w.created = append(w.created, job.Spec.Image)
		case StepDeletePullJob:
			w.deleted = append(w.deleted, w.jobs[a.Object.GetName()].Spec.Image)
			delete(w.jobs, a.Object.GetName())
		case planning.StepDeleteJob:
			w.gone = true
		}
	}
	status := Status(spec, s, w.last, planning.Outcome{Done: len(w.last.Actions)})
	w.list.Status = status
	return &status
}

// answer makes the job of an image say how many of two nodes have succeeded and failed.
func (w *simulation) answer(image string, succeeded, failed int32) {
	w.t.Helper()
	for _, job := range w.jobs {
		if job.Spec.Image != image {
			continue
		}
		now := metav1.NewTime(w.now)
		job.Status = appsv1beta1.ImagePullJobStatus{StartTime: &now, Desired: 2, Succeeded: succeeded, Failed: failed, Active: 2 - succeeded - failed}
		if job.Status.Active == 0 && job.Spec.CompletionPolicy.Type != appsv1beta1.CompleteNever {
			job.Status.CompletionTime = &now
		}
		return
	}
	w.t.Fatalf("no job pulls %s", image)
}

func (w *simulation) names() map[string]string {
	names := map[string]string{}
	for name, job := range w.jobs {
		names[job.Spec.Image] = name
	}
	return names
}

func counters(s *appsv1beta1.ImageListPullJobStatus) string {
	return fmt.Sprintf("desired %d active %d completed %d succeeded %d", s.Desired, s.Active, s.Completed, s.Succeeded)
}

func reasonOf(s *appsv1beta1.ImageListPullJobStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestAListFromBeginningToEnd(t *testing.T) {
	w := newSimulation(t, "a:1", "b:1")
	w.list.Spec.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(60))
	expect(t, "at first", counters(w.pass()), "desired 2 active 0 completed 0 succeeded 0")
	for _, job := range w.jobs {
		if job.Spec.CompletionPolicy.TTLSecondsAfterFinished != nil || !metav1.IsControlledBy(job, w.list) || job.Namespace != "shop" {
			t.Errorf("job %+v", job)
		}
	}
	if status := w.pass(); len(w.last.Actions) > 0 || status.Completed != 0 {
		t.Errorf("a second pass does %+v", w.last.Actions)
	}
	w.answer("a:1", 1, 0)
	w.answer("b:1", 1, 1)
	status := w.pass()
	expect(t, "one has ended", counters(status), "desired 2 active 1 completed 1 succeeded 0")
	expect(t, "one has ended", reasonOf(status, "Reconciling"), "True Pulling")
	want := []appsv1beta1.FailedImageStatus{{
		ImagePullJob: w.names()["b:1"], Name: "b:1",
		Message: "1 of 2 nodes do not have the image; status.failedNodes of ImagePullJob " + w.names()["b:1"] + " names them",
	}}
	if diff := cmp.Diff(want, status.FailedImageStatuses); diff != "" {
		t.Errorf("failed images (-want +got):\n%s", diff)
	}
	w.answer("a:1", 2, 0)
	status = w.pass()
	expect(t, "both have ended", counters(status), "desired 2 active 0 completed 2 succeeded 1")
	expect(t, "both have ended", reasonOf(status, "Stalled"), "True PullFailed")
	if status.CompletionTime == nil {
		t.Error("it has not ended")
	}
	// Later events change nothing.
	w.list.Spec.Images = []string{"c:1"}
	w.jobs = map[string]*appsv1beta1.ImagePullJob{}
	w.now = w.now.Add(59 * time.Second)
	expect(t, "later", counters(w.pass()), "desired 2 active 0 completed 2 succeeded 1")
	if len(w.last.Actions) > 0 || w.last.RecheckAfter != time.Second {
		t.Errorf("after its end: %+v, looked at again after %s", w.last.Actions, w.last.RecheckAfter)
	}
	w.now = w.now.Add(time.Second)
	if w.pass(); !w.gone {
		t.Error("it is not deleted after its time to live")
	}
}

// An edit of the images deletes the former image's job and creates the new one's. Another parallelism replaces all jobs.
func TestAnEditReplacesWhatItConcerns(t *testing.T) {
	w := newSimulation(t, "a", "b")
	w.pass()
	w.answer("a", 2, 0)
	w.pass()
	before := w.names()
	w.list.Spec.Images = []string{"b", "c"}
	status := w.pass()
	expect(t, "created and deleted", fmt.Sprint(w.created, w.deleted), "[c] [a]")
	if w.names()["b"] != before["b"] || status.Desired != 2 {
		t.Errorf("jobs %v, before %v", w.names(), before)
	}
	w.list.Spec.Parallelism = ptr.To(intstr.FromInt32(3))
	w.pass()
	slices.Sort(w.deleted)
	expect(t, "created and deleted", fmt.Sprint(w.created, w.deleted), "[b c] [b c]")
	for _, job := range w.jobs {
		if job.Spec.Parallelism.IntValue() != 3 {
			t.Errorf("job %+v", job.Spec)
		}
	}
}

func TestWhatOpenKruiseMadeIsKept(t *testing.T) {
	for what, change := range map[string]func(*appsv1beta1.ImagePullJob){
		"with defaults": func(j *appsv1beta1.ImagePullJob) {
			j.Spec.CompletionPolicy.Type, j.Spec.ImagePullPolicy = appsv1beta1.CompleteAlways, appsv1beta1.PullIfNotPresent
			j.Spec.Parallelism = ptr.To(intstr.FromString("1"))
			j.Spec.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(600)), BackoffLimit: ptr.To(int32(3))}
		},
		"with the time to live of the list": func(j *appsv1beta1.ImagePullJob) {
			j.Spec.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(30))
		},
		"owned as v1alpha1": func(j *appsv1beta1.ImagePullJob) { j.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" },
	} {
		t.Run(what, func(t *testing.T) {
			w := newSimulation(t, "a")
			job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
				Name: "warm-x7k2p", UID: "old", Labels: map[string]string{"controller-revision-hash": "5d9c"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.list, Kind())},
			}}
			job.Spec.Image = "a"
			change(job)
			w.jobs[job.Name] = job
			if w.pass(); len(w.last.Actions) > 0 {
				t.Errorf("actions %+v", w.last.Actions)
			}
		})
	}
}

func TestOneJobForAnImage(t *testing.T) {
	w := newSimulation(t, "a", "a")
	w.pass()
	expect(t, "an image twice", fmt.Sprint(w.created), "[a]")
	for name, job := range w.jobs {
		second := job.DeepCopy()
		second.Name, second.UID = "a-second", "second"
		second.Status.CompletionTime = ptr.To(metav1.NewTime(w.now))
		w.jobs["a-second"] = second
		w.pass()
		if w.jobs[name] != nil || w.jobs["a-second"] == nil {
			t.Errorf("of two jobs the one that has ended is not kept: %v", w.names())
		}
		break
	}
}

// A job deleted by hand is made again, under its name, once it is gone.
func TestAJobThatIsGoingIsWaitedFor(t *testing.T) {
	w := newSimulation(t, "a")
	w.pass()
	name := w.names()["a"]
	w.jobs[name].DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	status := w.pass()
	if len(w.last.Actions) > 0 || reasonOf(status, "Reconciling") != "True Pulling" || status.CompletionTime != nil {
		t.Errorf("actions %+v, status %+v", w.last.Actions, status)
	}
	delete(w.jobs, name)
	if w.pass(); w.names()["a"] != name {
		t.Errorf("jobs %v", w.names())
	}
}

func TestAListThatNeverEnds(t *testing.T) {
	w := newSimulation(t, "a", "b")
	w.list.Spec.CompletionPolicy.Type = appsv1beta1.CompleteNever
	w.pass()
	status := w.pass()
	expect(t, "before any answer", counters(status), "desired 2 active 0 completed 0 succeeded 0")
	w.answer("a", 2, 0)
	w.answer("b", 2, 0)
	status = w.pass()
	expect(t, "all nodes have answered", counters(status), "desired 2 active 0 completed 2 succeeded 2")
	expect(t, "all nodes have answered", reasonOf(status, "Reconciling"), "False Pulled")
	if status.CompletionTime != nil {
		t.Error("it has ended")
	}
}

func TestWhyAListDoesNotMove(t *testing.T) {
	stalled := func(w *simulation) {
		w.pass()
		for _, job := range w.jobs {
			job.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "NodeDaemonSilent", Message: "2 nodes have not answered."}}
		}
	}
	cases := map[string]struct {
		prepare func(*simulation)
		managed bool
		outcome planning.Outcome
		want    string
		message string
	}{
		"the kind of its jobs is off": {want: "True KindOff", message: "ImagePullJob is not managed"},
		"a job is stalled":            {prepare: stalled, managed: true, want: "True NodeDaemonSilent", message: "of image a: 2 nodes have not answered."},
		"no image":                    {prepare: func(w *simulation) { w.list.Spec.Images = nil }, managed: true, want: "True InvalidSpec", message: "spec.images"},
		"a creation is refused": {
			managed: true, outcome: planning.Outcome{Failures: []planning.Failure{{Step: StepCreateJob, Slot: "a", Message: "over quota"}}}, want: "False NotStalled",
			message: "image a: over quota; Nodes pull",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, "a")
			if tc.prepare != nil {
				tc.prepare(w)
			}
			spec, s := Parse(w.list, tc.managed), w.snapshot()
			status := Status(spec, s, Plan(spec, s), tc.outcome)
			expect(t, "stalled", reasonOf(&status, "Stalled"), tc.want)
			if !strings.Contains(fmt.Sprint(status.Conditions), tc.message) {
				t.Errorf("conditions %+v do not say %q", status.Conditions, tc.message)
			}
		})
	}
}

func TestNoNode(t *testing.T) {
	w := newSimulation(t, "a")
	w.pass()
	for _, job := range w.jobs {
		job.Status.StartTime, job.Status.CompletionTime = ptr.To(metav1.NewTime(w.now)), ptr.To(metav1.NewTime(w.now))
	}
	status := w.pass()
	expect(t, "no node", reasonOf(status, "Reconciling"), "False NoMatchingNode")
	if events := Events(&appsv1beta1.ImageListPullJobStatus{}, status); len(events) != 1 || events[0].Warning || events[0].Reason != "NoMatchingNode" {
		t.Errorf("events %+v", events)
	}
}

func TestLongNames(t *testing.T) {
	w := newSimulation(t, "a")
	w.list.Name = strings.Repeat("n", 253)
	w.pass()
	if name := w.names()["a"]; len(name) != 253 {
		t.Errorf("name %q has %d characters", name, len(name))
	}
}

// OpenKruise's jobs are continued: nothing is created, and nothing deleted.
func TestTakenOver(t *testing.T) {
	stored := fixtures.Objects(t, "imagepulljob/state.yaml")
	list := fixtures.As[appsv1beta1.ImageListPullJob](t, fixtures.Find(t, stored, "ImageListPullJob", "bundle"))
	s := Snapshot{Now: time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)}
	for _, object := range stored {
		if metav1.IsControlledBy(object, list) {
			s.Children = append(s.Children, Observe(object))
		}
	}
	spec := Parse(list, true)
	d := Plan(spec, s)
	if len(s.Children) != 2 || len(d.Actions) > 0 {
		t.Fatalf("%d jobs, actions %+v", len(s.Children), d.Actions)
	}
	status := Status(spec, s, d, planning.Outcome{})
	expect(t, "taken over", counters(&status), "desired 2 active 2 completed 0 succeeded 0")
	if !status.StartTime.Equal(list.Status.StartTime) {
		t.Errorf("it began at %s, and at %s under OpenKruise", status.StartTime, list.Status.StartTime)
	}
}

// Writing down a default is no change.
func TestWritingDownADefaultChangesNothing(t *testing.T) {
	for what, change := range map[string]func(*appsv1beta1.ImageListPullJobSpec){
		"parallelism": func(s *appsv1beta1.ImageListPullJobSpec) { s.Parallelism = ptr.To(intstr.FromString("1")) },
		"pullPolicy": func(s *appsv1beta1.ImageListPullJobSpec) {
			s.PullPolicy = &appsv1beta1.PullPolicy{BackoffLimit: ptr.To(int32(3))}
		},
		"completionPolicy": func(s *appsv1beta1.ImageListPullJobSpec) { s.CompletionPolicy.Type = appsv1beta1.CompleteAlways },
		"a time to live": func(s *appsv1beta1.ImageListPullJobSpec) {
			s.CompletionPolicy.TTLSecondsAfterFinished = ptr.To(int32(9))
		},
		"imagePullPolicy": func(s *appsv1beta1.ImageListPullJobSpec) { s.ImagePullPolicy = appsv1beta1.PullIfNotPresent },
		"selector":        func(s *appsv1beta1.ImageListPullJobSpec) { s.Selector = &appsv1beta1.ImagePullJobNodeSelector{} },
		"sandboxConfig":   func(s *appsv1beta1.ImageListPullJobSpec) { s.SandboxConfig = &appsv1beta1.SandboxConfig{} },
		"pullSecrets":     func(s *appsv1beta1.ImageListPullJobSpec) { s.PullSecrets = []string{} },
	} {
		t.Run(what, func(t *testing.T) {
			w := newSimulation(t, "a")
			w.pass()
			change(&w.list.Spec)
			if w.pass(); len(w.last.Actions) > 0 {
				t.Errorf("actions %+v", w.last.Actions)
			}
		})
	}
}

type state struct {
	w      *simulation
	faults int
	how    []string
}

func (w *simulation) clone() *simulation {
	c := *w
	c.list = w.list.DeepCopy()
	c.jobs = map[string]*appsv1beta1.ImagePullJob{}
	for name, job := range w.jobs {
		c.jobs[name] = job.DeepCopy()
	}
	return &c
}

func (w *simulation) key(faults int) string {
	var b strings.Builder
	fmt.Fprint(&b, faults, w.list.Spec.Images, w.list.Spec.Parallelism, counters(&w.list.Status), w.list.Status.CompletionTime != nil, reasonOf(&w.list.Status, "Reconciling"), ";")
	var names []string
	for name := range w.jobs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		j := w.jobs[name]
		fmt.Fprint(&b, name, j.Status.Active, j.Status.Succeeded, j.Status.Failed, j.DeletionTimestamp != nil, ";")
	}
	return b.String()
}

// TestExploreList visits every reachable state of a list of two images: by passes, passes dying after one
// action, nodes' answers, and one fault (an edit of images or settings, or a deleted job). No image ever has two
// matching jobs, and an ended list stays as it is; every state leads to the list's end.
func TestExploreList(t *testing.T) {
	start := newSimulation(t, "a", "b")
	queue, seen := []state{{w: start, faults: 1}}, map[string]bool{}
	visit := func(from state, how string, w *simulation, faults int) {
		if key := w.key(faults); !seen[key] {
			seen[key] = true
			queue = append(queue, state{w, faults, append(slices.Clip(slices.Clone(from.how)), how)})
		}
	}
	for len(queue) > 0 && !t.Failed() {
		at := queue[0]
		queue = queue[1:]
		checkList(t, at)
		comesToItsEnd(t, at)
		w := at.w.clone()
		w.pass()
		visit(at, "pass", w, at.faults)
		for i := range w.last.Actions {
			w := at.w.clone()
			w.only(i)
			visit(at, fmt.Sprintf("pass that dies after action %d", i), w, at.faults)
		}
		for name, job := range at.w.jobs {
			next := func(how string, faults int, change func(*simulation)) {
				w := at.w.clone()
				change(w)
				visit(at, how+" "+job.Spec.Image, w, faults)
			}
			if job.DeletionTimestamp != nil {
				next("gone is the job of", at.faults, func(w *simulation) { delete(w.jobs, name) })
				continue
			}
			if job.Status.CompletionTime == nil {
				next("pulled is", at.faults, func(w *simulation) { w.finish(name, 2, 0) })
				next("not pulled is", at.faults, func(w *simulation) { w.finish(name, 1, 1) })
			}
			if at.faults > 0 {
				next("deleted is the job of", at.faults-1, func(w *simulation) { w.jobs[name].DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) })
			}
		}
		if at.faults > 0 {
			w := at.w.clone()
			w.list.Spec.Images = []string{"b", "c"}
			visit(at, "other images", w, at.faults-1)
			w = at.w.clone()
			w.list.Spec.Parallelism = ptr.To(intstr.FromInt32(3))
			visit(at, "another parallelism", w, at.faults-1)
		}
	}
	t.Logf("explored %d states", len(seen))
}

// only carries one action of a plan out, and writes no status.
func (w *simulation) only(i int) {
	spec := Parse(w.list, true)
	switch a := Plan(spec, w.snapshot()).Actions[i]; a.Step {
	case StepCreateJob:
		job, _ := a.Object.(*appsv1beta1.ImagePullJob)
		w.jobs[job.Name] = job.DeepCopy()
	case StepDeletePullJob:
		w.jobs[a.Object.GetName()].DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	case planning.StepDeleteJob:
		w.gone = true
	}
}

func (w *simulation) finish(name string, succeeded, failed int32) {
	now := metav1.NewTime(w.now)
	w.jobs[name].Status = appsv1beta1.ImagePullJobStatus{StartTime: &now, CompletionTime: &now, Desired: 2, Succeeded: succeeded, Failed: failed}
}

func checkList(t *testing.T, at state) {
	t.Helper()
	spec := Parse(at.w.list, true)
	pulls := map[string]int{}
	for _, c := range at.w.snapshot().Children {
		if !c.Terminating && c.as(spec) {
			pulls[c.Image]++
		}
	}
	for image, jobs := range pulls {
		if jobs > 1 {
			t.Fatalf("%d jobs pull %s, after %s", jobs, image, strings.Join(at.how, ", "))
		}
	}
	if ended(spec) {
		w := at.w.clone()
		before := w.list.Status.DeepCopy()
		w.pass()
		if len(w.last.Actions) > 0 || !cmp.Equal(*before, w.list.Status) {
			t.Fatalf("a list that has ended changes: %+v, %s, after %s", w.last.Actions, cmp.Diff(*before, w.list.Status), strings.Join(at.how, ", "))
		}
	}
}

// comesToItsEnd lets everything answer from now on.
func comesToItsEnd(t *testing.T, at state) {
	t.Helper()
	w := at.w.clone()
	for range 6 {
		w.pass()
		for name, job := range w.jobs {
			if job.DeletionTimestamp != nil {
				delete(w.jobs, name)
			} else if job.Status.CompletionTime == nil {
				w.finish(name, 2, 0)
			}
		}
	}
	if w.list.Status.CompletionTime == nil {
		t.Fatalf("the list does not end after %s", strings.Join(at.how, ", "))
	}
}

func TestEventsOfItsJobs(t *testing.T) {
	w := newSimulation(t, "a")
	w.pass()
	w.list.Spec.Images = []string{"b"}
	w.pass()
	told := map[planning.Step]string{}
	for _, a := range w.last.Actions {
		told[a.Step] = a.Success.Reason + "/" + a.Failure.Reason
		if a.Success.Warning || !a.Failure.Warning {
			t.Errorf("%s: %+v, or %+v", a.Step, a.Success, a.Failure)
		}
	}
	want := map[planning.Step]string{StepCreateJob: "SuccessfulCreate/FailedCreate", StepDeletePullJob: "SuccessfulDelete/FailedDelete"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
