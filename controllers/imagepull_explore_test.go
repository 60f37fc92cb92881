// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	imagepulljob "github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// An exploration visits every reachable state of a small cluster with an ImagePullJob. Its moves are passes of
// the job and the NodeImages, passes dying after one action, daemons' answers, time, and a few faults: nodes
// join, leave or are made again, another job wants the image, image or parallelism change, a job is deleted, the
// operator is away. In each step:
//
//   - no node is asked while parallelism nodes are at work, and none waits while fewer are;
//   - no node is asked twice for an image within a day, and never by a completing job;
//   - a second pass does nothing, and the clock alone changes nothing before the requested recheck;
//   - counters add up to the nodes and their answers; an ended job's status stays;
//   - every state leads to the job's end, to rest if it never ends or waits for its user, or to no trace in NodeImages.
type pullExploration struct {
	t     *testing.T
	start *pulls
	// ends are the daemons' final answers; silent nodes give none.
	ends   []v1beta1.ImagePullPhase
	silent []string
	// begins: daemons also report beginning. slow: time passes although they could answer.
	begins, slow bool
	faults       int
	// waits limits the passing of time for a never completing job.
	waits int
	walk  podsettest.Walk[pullState]
}

// pullState is a cluster, how many faults may still happen, and how often time may still pass.
type pullState struct {
	w             *pulls
	faults, waits int
}

func (s pullState) key() string { return fmt.Sprint(s.w.key(), ";", s.faults, s.waits) }

type visitedPull = podsettest.Visited[pullState]

func (e *pullExploration) run() {
	e.t.Helper()
	e.walk = podsettest.Walk[pullState]{T: e.t, Key: pullState.key, Expand: e.expand}
	e.walk.Run(pullState{w: e.start, faults: e.faults, waits: e.waits})
}

// move changes a copy of a state, at a cost in faults.
func (e *pullExploration) move(v *visitedPull, how string, cost int, change func(*pulls)) {
	next := v.State.w.clone()
	change(next)
	e.walk.Visit(v, how, pullState{w: next, faults: v.State.faults - cost, waits: v.State.waits}, cost > 0)
}

func (e *pullExploration) expand(v *visitedPull) {
	calm, wait := e.job(v)
	for _, name := range slices.Sorted(maps.Keys(v.State.w.images)) {
		is, then := e.image(v, name)
		calm = calm && is
		if then > 0 && (wait == 0 || then < wait) {
			wait = then
		}
	}
	if e.daemons(v) && !e.slow {
		wait = 0
	}
	for name, image := range v.State.w.images {
		if v.State.w.nodes[name] != "" && v.State.w.own(name) == nil && image != nil {
			calm = false
			e.move(v, "the list of the former "+name+" is collected", 0, func(w *pulls) { delete(w.images, name) })
		}
	}
	left := v.State.waits
	if e.waits > 0 {
		left--
	}
	if calm && wait > 0 && left >= 0 {
		next := v.State.w.clone()
		next.now = next.now.Add(wait)
		e.walk.Visit(v, fmt.Sprintf("%s pass", wait), pullState{w: next, faults: v.State.faults, waits: left}, false)
	}
	v.Rests = calm && (e.over(v) || left < 0)
	if v.State.faults > 0 {
		e.disturb(v)
	}
}

func (e *pullExploration) over(v *visitedPull) bool {
	w := v.State.w
	if w.job == nil {
		for name, image := range w.images {
			for _, tag := range image.Spec.Images[repository].Tags {
				if ownedByJob(tag) {
					e.walk.Fail(v, fmt.Sprintf("the job is gone, and in the list of %s there is %+v", name, tag))
				}
			}
		}
		return true
	}
	if w.job.DeletionTimestamp != nil {
		return false
	}
	if w.job.Status.CompletionTime != nil {
		return w.job.Spec.CompletionPolicy.TTLSecondsAfterFinished == nil
	}
	if ptr.Deref(w.job.Spec.Parallelism, intstr.FromInt32(1)).IntVal == 0 {
		return true
	}
	said := w.outcomes()
	return !w.completes() && len(said[v1beta1.ImagePhaseSucceeded])+len(said[v1beta1.ImagePhaseFailed]) == len(w.nodes)
}

// job runs a whole pass of the job, and passes dying after one action. It returns calm when nothing is to be
// done, and when to look again.
func (e *pullExploration) job(v *visitedPull) (calm bool, wait time.Duration) {
	before := v.State.w
	if before.job == nil {
		return true, 0
	}
	next := before.clone()
	d, err := next.pass()
	if err != nil {
		e.walk.Fail(v, err.Error())
	}
	e.checkAsked(v, d)
	if next.job != nil {
		e.checkStatus(v, next)
	}
	e.walk.Visit(v, "pass: "+told(d.Actions), pullState{w: next, faults: v.State.faults, waits: v.State.waits}, false)
	for i := range d.Actions {
		e.move(v, "pass that dies after: "+told(d.Actions[i:i+1]), 0, func(w *pulls) {
			if err := w.carryOut(&d.Actions[i]); err != nil {
				e.walk.Fail(v, err.Error())
			}
		})
	}
	if len(d.Actions) > 0 || next.job == nil || next.key() != before.key() {
		return false, 0
	}
	e.checkCalm(v, next, d.RecheckAfter)
	return true, d.RecheckAfter
}

func told(actions []planning.Action) string {
	var all []string
	for i := range actions {
		all = append(all, string(actions[i].Step)+" "+actions[i].Object.GetName())
	}
	return strings.Join(all, ", ")
}

// checkAsked holds whom a pass asks against the rules.
func (e *pullExploration) checkAsked(v *visitedPull, d imagepulljob.Decision) {
	w := v.State.w
	asks := 0
	for i := range d.Actions {
		a := &d.Actions[i]
		if a.Step != imagepulljob.StepAsk {
			continue
		}
		asks++
		before, again := w.asked[w.asking(a.Object.GetName())]
		if again && (w.completes() || w.now.Sub(before) < almostADay) {
			e.walk.Fail(v, fmt.Sprintf("%s is asked again after %s", a.Object.GetName(), w.now.Sub(before)))
		}
		if w.job.Status.CompletionTime != nil && w.completes() {
			e.walk.Fail(v, a.Object.GetName()+" is asked by a job that has ended")
		}
	}
	if w.job.DeletionTimestamp != nil || w.job.Status.CompletionTime != nil || d.Ended {
		return
	}
	said := w.outcomes()
	limit, atWork, idle := int(ptr.Deref(w.job.Spec.Parallelism, intstr.FromInt32(1)).IntVal), len(said[""]), 0
	for name := range w.nodes {
		if w.images[name] == nil || w.own(name) != nil {
			idle++
		}
	}
	idle -= atWork + len(said[v1beta1.ImagePhaseSucceeded]) + len(said[v1beta1.ImagePhaseFailed])
	if want := max(min(limit-atWork, idle), 0); asks != want {
		e.walk.Fail(v, fmt.Sprintf("%d nodes are asked and %d at work, of %d that may be; %d were not asked yet", asks, atWork, limit, idle))
	}
}

// checkStatus compares the status after a pass with the nodes' answers.
func (e *pullExploration) checkStatus(v *visitedPull, after *pulls) {
	was, is := &v.State.w.job.Status, &after.job.Status
	if was.CompletionTime != nil && after.completes() {
		if diff := cmp.Diff(was, is); diff != "" {
			e.walk.Fail(v, "the status of a job that has ended changes:\n"+diff)
		}
		return
	}
	if after.job.DeletionTimestamp != nil {
		return
	}
	said := after.outcomes()
	failed, active := said[v1beta1.ImagePhaseFailed], said[""]
	if is.Message == "job exceeds activeDeadlineSeconds" {
		active, failed = nil, nil
		for _, name := range slices.Sorted(maps.Keys(after.nodes)) {
			if !slices.Contains(said[v1beta1.ImagePhaseSucceeded], name) {
				failed = append(failed, name)
			}
		}
	}
	want := []int{len(after.nodes), len(active), len(said[v1beta1.ImagePhaseSucceeded]), len(failed)}
	got := []int{int(is.Desired), int(is.Active), int(is.Succeeded), int(is.Failed)}
	if !slices.Equal(want, got) || !slices.Equal(is.FailedNodes, failed) {
		e.walk.Fail(v, fmt.Sprintf("desired, active, succeeded, failed are %v %v, and the nodes have said %v %v", got, is.FailedNodes, want, failed))
	}
	if all := is.Succeeded + is.Failed; after.completes() && (is.CompletionTime != nil) != (all == is.Desired) {
		e.walk.Fail(v, fmt.Sprintf("%d of %d nodes have answered, and the end is %v", all, is.Desired, is.CompletionTime))
	}
}

// checkCalm demands no change by the clock alone before the requested recheck, or ever without one.
func (e *pullExploration) checkCalm(v *visitedPull, w *pulls, wait time.Duration) {
	later := w.clone()
	later.now = later.now.Add(wait - time.Second)
	if wait == 0 {
		later.now = later.now.Add(365 * 24 * time.Hour)
	}
	before := later.job.Status
	d, err := later.pass()
	if err != nil || later.job == nil {
		e.walk.Fail(v, fmt.Sprintf("the job changes before it asked to be looked at again, after %s: %v", wait, err))
	}
	if diff := cmp.Diff(before, later.job.Status); diff != "" || len(d.Actions) > 0 {
		e.walk.Fail(v, fmt.Sprintf("it was to be looked at again after %s, and something is to be done before:\n%s\n%s", wait, told(d.Actions), diff))
	}
}

// image runs a pass of the NodeImage of a name.
func (e *pullExploration) image(v *visitedPull, name string) (calm bool, wait time.Duration) {
	d := v.State.w.planImage(name)
	if len(d.Actions) == 0 {
		later := v.State.w.clone()
		later.now = later.now.Add(d.RecheckAfter - time.Second)
		if d.RecheckAfter == 0 {
			later.now = later.now.Add(365 * 24 * time.Hour)
		}
		if early := later.planImage(name); len(early.Actions) > 0 {
			e.walk.Fail(v, fmt.Sprintf("the list of %s was to be looked at again after %s, and before there is %s", name, d.RecheckAfter, told(early.Actions)))
		}
		return true, d.RecheckAfter
	}
	e.move(v, "list: "+told(d.Actions), 0, func(w *pulls) {
		for i := range d.Actions {
			if err := w.carryOut(&d.Actions[i]); err != nil {
				e.walk.Fail(v, err.Error())
			}
		}
		if w.images[name] == nil {
			return
		}
		if again := w.planImage(name); len(again.Actions) > 0 && again.Actions[0].Step == d.Actions[0].Step {
			e.walk.Fail(v, "a pass after a pass does something: "+told(again.Actions))
		}
	})
	return false, 0
}

// daemons lets each node's daemon answer, and returns true if one can.
func (e *pullExploration) daemons(v *visitedPull) (can bool) {
	for name := range v.State.w.images {
		if slices.Contains(e.silent, name) {
			continue
		}
		for _, tag := range v.State.w.open(name) {
			answers := e.ends
			if e.begins && answerTo(v.State.w.images[name], tag) == nil {
				answers = append(slices.Clone(answers), v1beta1.ImagePhasePulling)
			}
			for _, phase := range answers {
				can = true
				e.move(v, fmt.Sprintf("%s: %s %s", name, tag.Tag, phase), 0, func(w *pulls) { w.answer(name, tag, phase) })
			}
		}
	}
	return can
}

// disturb lets one fault happen.
func (e *pullExploration) disturb(v *visitedPull) {
	w := v.State.w
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		e.move(v, name+" leaves", 1, func(w *pulls) { delete(w.nodes, name) })
		e.move(v, name+" is made again", 1, func(w *pulls) { w.join(name) })
		if image := w.own(name); image != nil {
			for i := range image.Spec.Images[repository].Tags {
				e.move(v, "another job asks "+name, 1, func(w *pulls) { w.joint(name, i) })
			}
		}
	}
	if len(w.nodes) < 4 {
		e.move(v, "n4 joins", 1, func(w *pulls) { w.join("n4") })
	}
	e.move(v, "the operator is away for ten minutes", 1, func(w *pulls) { w.now = w.now.Add(10 * time.Minute) })
	if w.job == nil || w.job.DeletionTimestamp != nil {
		return
	}
	e.move(v, "the job is deleted", 1, func(w *pulls) { w.deleteJob() })
	for _, n := range []int32{0, 2} {
		e.move(v, fmt.Sprintf("parallelism %d", n), 1, func(w *pulls) {
			w.changeJob(func(job *v1beta1.ImagePullJob) { job.Spec.Parallelism = ptr.To(intstr.FromInt32(n)) })
		})
	}
	e.move(v, "another image", 1, func(w *pulls) {
		w.changeJob(func(job *v1beta1.ImagePullJob) { job.Spec.Image = repository + ":2" })
	})
}

func TestExploreImagePullJob(t *testing.T) {
	succeeds, fails := v1beta1.ImagePhaseSucceeded, v1beta1.ImagePhaseFailed
	at := func(n int32) func(*v1beta1.ImagePullJob) {
		return func(job *v1beta1.ImagePullJob) { job.Spec.Parallelism = ptr.To(intstr.FromInt32(n)) }
	}
	live := func(seconds int32) func(*v1beta1.ImagePullJob) {
		return func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.TTLSecondsAfterFinished = &seconds }
	}
	deadline := func(job *v1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.ActiveDeadlineSeconds = ptr.To(int64(30))
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(20))}
	}
	never := func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.Type = v1beta1.CompleteNever }
	secret := func(job *v1beta1.ImagePullJob) {
		job.Spec.PullSecrets, job.Finalizers = []string{"registry"}, []string{imagepulljob.Finalizer}
	}
	for name, tc := range map[string]struct {
		nodes  int
		job    []func(*v1beta1.ImagePullJob)
		ends   []v1beta1.ImagePullPhase
		silent []string
		begins bool
		slow   bool
		waits  int
	}{
		"one at a time":                  {nodes: 3, job: []func(*v1beta1.ImagePullJob){at(1)}, ends: []v1beta1.ImagePullPhase{succeeds, fails}},
		"two at a time":                  {nodes: 3, job: []func(*v1beta1.ImagePullJob){at(2), live(60)}, ends: []v1beta1.ImagePullPhase{succeeds}, begins: true},
		"until a deadline":               {nodes: 3, job: []func(*v1beta1.ImagePullJob){at(1), deadline, live(0)}, ends: []v1beta1.ImagePullPhase{succeeds}, slow: true},
		"a node dies while it pulls":     {nodes: 2, slow: true, job: []func(*v1beta1.ImagePullJob){at(1)}, begins: true},
		"a node is silent":               {nodes: 2, job: []func(*v1beta1.ImagePullJob){at(1), live(60)}, ends: []v1beta1.ImagePullPhase{succeeds}, silent: []string{"n2", "n4"}},
		"every node is silent":           {nodes: 3, job: []func(*v1beta1.ImagePullJob){at(2)}, silent: []string{"n1", "n2", "n3", "n4"}},
		"every day":                      {nodes: 2, job: []func(*v1beta1.ImagePullJob){at(2), never}, ends: []v1beta1.ImagePullPhase{succeeds, fails}, waits: 3},
		"with a pull secret":             {nodes: 2, job: []func(*v1beta1.ImagePullJob){at(2), secret, live(60)}, ends: []v1beta1.ImagePullPhase{succeeds}},
		"none at first":                  {nodes: 2, job: []func(*v1beta1.ImagePullJob){at(0)}, ends: []v1beta1.ImagePullPhase{succeeds}},
		"no node at first, and it waits": {nodes: 0, job: []func(*v1beta1.ImagePullJob){at(1), never}, ends: []v1beta1.ImagePullPhase{succeeds}, waits: 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := &pullExploration{t: t, ends: tc.ends, silent: tc.silent, begins: tc.begins, slow: tc.slow, waits: tc.waits, faults: 1}
			if sample.All() {
				e.faults = 2
			}
			e.start = newPulls(tc.nodes, func(job *v1beta1.ImagePullJob) {
				for _, change := range tc.job {
					change(job)
				}
			})
			e.run()
		})
	}
}
