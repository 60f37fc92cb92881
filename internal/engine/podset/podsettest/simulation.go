// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Simulation is a cluster with one workload, for tests that go step by step: a pass of the controller, one step of the kubelets, a change by the
// user, and so on. Unlike in a Scenario its clock can run, and the test looks at what each pass plans. What happens is logged, and the log can be
// compared with a golden file.
//
// Pods may be changed by the test where they are: nobody else has the same objects.
type Simulation struct {
	State[struct{}]
	T testing.TB
	// Snapshot is what the planner sees, Step the plan for it. Report is called with both when the plan is carried out, and writes the status.
	Snapshot func() podset.Snapshot
	Step     func(podset.Snapshot) planning.Plan
	Report   func(podset.Snapshot, planning.Plan)
	// Always are checked after every pass, with what the planner saw and what became of it.
	Always []func(before, after podset.Snapshot) error
	// Cluster is what happens around the workload: hooks, images that never become ready, nodes.
	Cluster Cluster
	// Time is what the clock shows. Every step of the kubelets takes a second, and Rest waits as long as plans ask for; but not if Time is Now:
	// then the clock stands still, and no wait ever ends.
	Time time.Time
	// AtOnce lets every pod come as far as it can in one step of the kubelets, instead of making one move.
	AtOnce bool
	// Held are the pods and claims that the cluster leaves as they are, by name; pods only until they are deleted.
	Held map[string]bool
	// Users release hooks, and put them back.
	Users bool
	// Plan is the latest one.
	Plan planning.Plan

	began time.Time
	log   strings.Builder
	uids  int
}

// NewSimulation is an empty cluster whose clock shows a time. The caller sets what the workload does.
func NewSimulation(t testing.TB, now time.Time) *Simulation {
	t.Helper()
	return &Simulation{T: t, Time: now, began: now, Held: map[string]bool{}}
}

// stands says that the clock stands still.
func (s *Simulation) stands() bool { return s.Time.Equal(Now()) }

// StartClock lets the clock run from a time on, which is where the scenario begins.
func (s *Simulation) StartClock(from time.Time) { s.Time, s.began = from, from }

// Wait lets time pass.
func (s *Simulation) Wait(d time.Duration) { s.Time = s.Time.Add(d) }

// Pass is one pass of the controller: the whole plan is carried out. It reports whether anything was done.
func (s *Simulation) Pass() bool {
	s.T.Helper()
	before := s.Snapshot()
	s.Plan = s.Step(before)
	fmt.Fprintf(&s.log, "%v\n", s.Time.Sub(s.began))
	acted := map[string]bool{}
	for _, action := range s.Plan.Actions {
		line := ActionLine(action)
		fmt.Fprintf(&s.log, "  %s\n", line)
		if pod := podset.PodOf(action); pod != nil {
			if acted[pod.Name] {
				s.T.Errorf("pod %s has two actions: %s", pod.Name, line)
			}
			acted[pod.Name] = true
		}
		s.carryOut(action)
	}
	for _, note := range s.Plan.Held {
		fmt.Fprintf(&s.log, "  (%s) %s\n", note.Reason, note.Message)
	}
	if len(s.Always) > 0 {
		after := s.Snapshot()
		for _, check := range s.Always {
			if err := check(before, after); err != nil {
				s.T.Errorf("%v: %v\n%s", s.Time, err, s.log.String())
			}
		}
	}
	s.Report(before, s.Plan)
	return len(s.Plan.Actions) > 0
}

func (s *Simulation) carryOut(action planning.Action) {
	s.T.Helper()
	if err := Apply(&s.State, action); err != nil {
		s.T.Fatalf("%v\n%s", err, s.log.String())
	}
	switch action.Step {
	case podset.StepCreate:
		pod := s.Pod(action.Object.GetName())
		s.uids++
		pod.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
		s.stamp(pod)
	case podset.StepDelete:
		s.stamp(s.Pod(action.Object.GetName()))
	}
}

// stamp gives what has just happened to a pod the time of the clock.
func (s *Simulation) stamp(pod *corev1.Pod) {
	if s.stands() {
		return
	}
	eachTime(pod, func(t *metav1.Time) {
		if t.Time.Equal(Now()) {
			*t = metav1.NewTime(s.Time)
		}
	})
}

// ActionLine is an action in one short line: verb, object, reason, and the revision or the lifecycle state that it gets.
func ActionLine(action planning.Action) string {
	line := fmt.Sprintf("%s %s %s", action.Step, action.Object.GetName(), action.Reason)
	switch action.Step {
	case podset.StepCreate:
		line += " " + action.Object.GetLabels()[shared.LabelControllerRevisionHash]
	case podset.StepEdit:
		if state := EditOf(action).Labels[shared.LabelLifecycleState]; state != nil {
			line += " " + *state
		}
	}
	return line
}

// ActionLines are what the latest pass planned.
func (s *Simulation) ActionLines() []string {
	lines := make([]string, 0, len(s.Plan.Actions))
	for _, action := range s.Plan.Actions {
		lines = append(lines, ActionLine(action))
	}
	return lines
}

// HeldReasons are the reasons of the notes of the latest pass.
func (s *Simulation) HeldReasons() []string {
	reasons := make([]string, 0, len(s.Plan.Held))
	for _, note := range s.Plan.Held {
		reasons = append(reasons, note.Reason)
	}
	return reasons
}

// Move makes one move happen to a pod or a node.
func (s *Simulation) Move(name string, move Move) {
	s.T.Helper()
	if move.isNodeFault() || move == RecoverNode {
		if err := doNode(&s.State, s.Cluster, nodeMove{name, move}); err != nil {
			s.T.Fatal(err)
		}
		for _, pod := range s.Pods {
			s.stamp(pod)
		}
		return
	}
	pod := s.Pod(name)
	if pod == nil || !s.makeMove(pod, move) {
		s.T.Fatalf("pod %s %s: that cannot happen in\n%s", name, move, s)
	}
}

// makeMove makes the first of the moves happen that can, and reports whether there is one.
func (s *Simulation) makeMove(pod *corev1.Pod, moves ...Move) bool {
	possible := podMoves(s.Cluster, &s.State, pod)
	for _, move := range moves {
		changed, can := possible[move]
		if !can {
			continue
		}
		if changed == nil {
			s.remove(pod.Name)
			delete(s.Held, pod.Name)
		} else {
			if s.stands() {
				changed = s.Cluster.normalize(changed)
			}
			s.stamp(changed)
			s.put(changed)
		}
		return true
	}
	return false
}

// Kubelets lets every pod get one step further, claims grow, and the garbage collector remove claims whose pod is gone. It reports whether
// anything happened.
func (s *Simulation) Kubelets() bool {
	if !s.stands() {
		s.Wait(time.Second)
	}
	moves := []Move{FinishDeletion, CollectOrphan, Start, ObserveSpec, Restart, BecomeReady, SyncReady}
	if s.Users {
		moves = append(moves, ReleaseHook, RestoreHook)
	}
	happened := false
	for _, pod := range slices.Clone(s.Pods) {
		if s.Held[pod.Name] && pod.DeletionTimestamp == nil {
			continue
		}
		name := pod.Name
		for s.makeMove(pod, moves...) {
			happened = true
			if pod = s.Pod(name); pod == nil || !s.AtOnce {
				break
			}
		}
	}
	return s.storage() || happened
}

// storage lets claims grow and collects those whose pod is gone; a held one goes on terminating.
func (s *Simulation) storage() bool {
	happened := false
	for _, claim := range slices.Clone(s.Claims) {
		gone := orphaned(&s.State, claim)
		switch {
		case gone && !s.Held[claim.Name]:
			s.RemoveClaim(claim.Name)
			happened = true
		case gone && claim.DeletionTimestamp == nil:
			claim = claim.DeepCopy()
			claim.DeletionTimestamp = &metav1.Time{Time: s.Time}
			s.putClaim(claim)
			happened = true
		case !s.Held[claim.Name] && !grown(claim):
			claim = claim.DeepCopy()
			claim.Status.Capacity = claim.Spec.Resources.Requests
			s.putClaim(claim)
			happened = true
		}
	}
	return happened
}

func grown(claim *corev1.PersistentVolumeClaim) bool {
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	is := claim.Status.Capacity[corev1.ResourceStorage]
	return want.Cmp(is) == 0
}

// RemoveClaim takes a claim away.
func (s *Simulation) RemoveClaim(name string) {
	s.Claims = slices.DeleteFunc(s.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
}

// PutClaim puts a claim there, in the place of one with its name.
func (s *Simulation) PutClaim(claim *corev1.PersistentVolumeClaim) { s.putClaim(claim) }

// RemovePod takes a pod away at once.
func (s *Simulation) RemovePod(name string) { s.remove(name) }

// Rest lets passes and kubelets take turns until nothing changes any more.
func (s *Simulation) Rest() {
	s.T.Helper()
	const most = 400
	for range most {
		acted := s.Pass()
		happened := s.Kubelets()
		wait := s.Plan.RecheckAfter
		if s.stands() {
			wait = 0
		}
		if wait > time.Second && !happened {
			s.Wait(wait - time.Second)
		}
		if !acted && !happened && wait == 0 {
			transcript := s.Transcript()
			s.log.Reset()
			s.log.WriteString(transcript)
			return
		}
	}
	s.T.Fatalf("no rest after %d passes:\n%s\n%s", most, s.log.String(), s)
}

// Begin empties the log: what happened before is no part of the scenario.
func (s *Simulation) Begin() { s.log.Reset() }

// Note puts a line of the test into the log, such as a change by the user.
func (s *Simulation) Note(line string) { fmt.Fprintf(&s.log, "  # %s\n", line) }

// Log is everything since Begin.
func (s *Simulation) Log() string { return s.log.String() }

// Transcript is the log without passes in which nothing was said.
func (s *Simulation) Transcript() string {
	var out strings.Builder
	last := ""
	for _, part := range strings.Split(strings.Trim(s.log.String(), "\n"), "\n") {
		switch {
		case part == "":
			continue
		case !strings.HasPrefix(part, "  "):
			last = part
			continue
		case last != "" && !strings.HasPrefix(part, "  # "):
			fmt.Fprintln(&out, last)
			last = ""
		}
		fmt.Fprintln(&out, part)
	}
	return out.String()
}

// Golden compares the transcript with testdata/<test>.golden, or writes that file when the test runs with -update.
func (s *Simulation) Golden() {
	s.T.Helper()
	CompareGolden(s.T, strings.ReplaceAll(strings.TrimPrefix(s.T.Name(), "Test"), "/", "_"), s.Transcript())
}
