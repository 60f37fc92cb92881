// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// simulation is a cluster with one AdvancedCronJob and its runs, on the test's clock.
type simulation struct {
	t         *testing.T
	cron      *appsv1beta1.AdvancedCronJob
	now       time.Time
	runs      []*unstructured.Unstructured
	evaluated time.Time
	begun     time.Time
	told      EmittedEvents
	managed   func(schema.GroupVersionKind) bool
	// refuses is the server's answer to creations, refusesDeletes to deletions; empty: it takes them.
	refuses, refusesDeletes string
	// dies: the operator is killed after its next writes, before the status.
	dies bool
	// unwritten: the next pass starting a run leaves the status to the triggered pass, like the controller.
	unwritten bool
	// deletions are the deleting actions of all passes.
	deletions []planning.Action
	// waits is the reason the active run's container waits; empty: it does not.
	waits string
	// started are the instants of all runs ever created.
	started map[int64]int

	due Due
	log strings.Builder
}

func newSimulation(t *testing.T, schedule, created string, options ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, started: map[int64]int{}, managed: func(schema.GroupVersionKind) bool { return true },
		cron: &appsv1beta1.AdvancedCronJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "cron-uid", Generation: 1},
			Spec: appsv1beta1.AdvancedCronJobSpec{
				Schedule:          schedule,
				ConcurrencyPolicy: appsv1beta1.AllowConcurrent,
				Template: appsv1beta1.CronJobTemplate{JobTemplate: &batchv1.JobTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "report"}, Annotations: map[string]string{"team": "data"}},
					Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
						RestartPolicy: corev1.RestartPolicyNever,
						Containers:    []corev1.Container{{Name: "report", Image: "report:1"}, {Name: "log", Image: "log:1", ImagePullPolicy: corev1.PullIfNotPresent}},
					}}},
				}},
			},
		},
	}
	w.at(created)
	w.cron.CreationTimestamp = metav1.NewTime(w.now)
	for _, option := range options {
		option(w)
	}
	return w
}

func policy(p appsv1beta1.ConcurrencyPolicy) func(*simulation) {
	return func(w *simulation) { w.cron.Spec.ConcurrencyPolicy = p }
}

func deadline(seconds int64) func(*simulation) {
	return func(w *simulation) { w.cron.Spec.StartingDeadlineSeconds = &seconds }
}

func limits(succeeded, failed int32) func(*simulation) {
	return func(w *simulation) {
		w.cron.Spec.SuccessfulJobsHistoryLimit, w.cron.Spec.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

func zone(name string) func(*simulation) {
	return func(w *simulation) { w.cron.Spec.TimeZone = &name }
}

// at sets the clock: a time of 1 May 2026, or a whole one.
func (w *simulation) at(text string) {
	w.t.Helper()
	layout := time.RFC3339
	if !strings.Contains(text, "T") {
		text = "2026-05-01T" + text + "Z"
	}
	now, err := time.Parse(layout, text)
	if err != nil {
		w.t.Fatal(err)
	}
	w.now = now
}

func (w *simulation) spec() *Spec {
	w.t.Helper()
	stored, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.cron)
	if err != nil {
		w.t.Fatal(err)
	}
	return Parse(w.cron, stored, w.managed)
}

func (w *simulation) snapshot() Snapshot {
	s := Snapshot{Now: w.now, Evaluated: w.evaluated, Started: w.begun}
	for _, run := range w.runs {
		s.Runs = append(s.Runs, w.spec().Adapter.Observe(run))
	}
	return s
}

// pass is one pass of the controller now, with immediate effect.
func (w *simulation) pass() planning.Plan {
	w.t.Helper()
	spec, s := w.spec(), w.snapshot()
	w.due = Evaluate(spec, s)
	if run, _, _ := Unready(spec, s, w.due); run != nil {
		run.Trouble = TroubleOf([]corev1.Pod{w.pod(run)}, w.now)
	}
	plan := Plan(spec, s, w.due)
	outcome := planning.Outcome{Steps: map[planning.Step]int{}}
	fmt.Fprintf(&w.log, "%s\n", w.now.Format("2006-01-02 15:04:05"))
	for _, action := range plan.Actions {
		if failure := w.carryOut(action); failure != "" {
			outcome.Failures = append(outcome.Failures, planning.Failure{Step: action.Step, Slot: action.Slot, Message: failure})
			continue
		}
		outcome.Done++
		outcome.Steps[action.Step]++
	}
	for _, event := range Events(spec, s, w.due, plan, &w.told) {
		fmt.Fprintf(&w.log, "  (%s) %s\n", event.Reason, w.short(event.Message))
	}
	if w.dies {
		w.dies, w.evaluated, w.begun, w.told = false, time.Time{}, time.Time{}, EmittedEvents{}
		fmt.Fprintf(&w.log, "  killed before the status is written\n")
		return plan
	}
	w.evaluated = EvaluatedUntil(s, w.due, Started(outcome))
	if Started(outcome) {
		w.begun = w.due.Run
		if w.unwritten {
			w.unwritten = false
			return plan
		}
	}
	before := w.cron.Status.LastScheduleTime
	w.cron.Status = Status(spec, s, w.due, plan, outcome)
	if after := w.cron.Status.LastScheduleTime; before != nil && (after == nil || after.Before(before)) {
		w.t.Errorf("lastScheduleTime went back from %v to %v\n%s", before, after, w.log.String())
	}
	for _, c := range w.cron.Status.Conditions {
		if c.Type != "Stalled" || c.Status == metav1.ConditionTrue {
			fmt.Fprintf(&w.log, "  %s=%s %s\n", c.Type, c.Status, c.Reason)
		}
	}
	return plan
}

// pod is the pod of a run.
func (w *simulation) pod(run *Run) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly-x", CreationTimestamp: metav1.NewTime(run.Started)}}
	pod.Spec.NodeName, pod.Spec.Containers = "n1", []corev1.Container{{Name: "main", Image: "report:1"}}
	status := corev1.ContainerStatus{Name: "main"}
	if w.waits != "" {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: w.waits}
	}
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, []corev1.ContainerStatus{status}
	return pod
}

// carryOut carries out an action after its predecessors, and returns the server's refusal.
func (w *simulation) carryOut(action planning.Action) (failure string) {
	for _, first := range action.Before {
		if failure := w.carryOut(first); failure != "" {
			return failure
		}
	}
	fmt.Fprintf(&w.log, "  %s %s %s\n", action.Step, w.short(action.Object.GetName()), action.Reason)
	switch action.Verb {
	case planning.VerbCreate:
		if w.refuses != "" {
			return w.refuses
		}
		run := action.Object.(*unstructured.Unstructured).DeepCopy()
		if w.find(run.GetName()) == nil { // one of ours that exists is a success
			run.SetUID(types.UID("uid-" + run.GetName()))
			run.SetCreationTimestamp(metav1.NewTime(w.now))
			w.runs = append(w.runs, run)
			due, _ := time.Parse(time.RFC3339, run.GetAnnotations()["apps.kruise.io/scheduled-at"])
			w.started[due.Unix()]++
		}
	case planning.VerbDelete:
		w.deletions = append(w.deletions, action)
		if w.refusesDeletes != "" {
			return w.refusesDeletes
		}
		w.runs = slices.DeleteFunc(w.runs, func(run *unstructured.Unstructured) bool { return run.GetUID() == action.Object.GetUID() })
	default:
		w.t.Fatalf("verb %s", action.Verb)
	}
	return ""
}

// passes is a pass at each of some times.
func (w *simulation) passes(times ...string) {
	w.t.Helper()
	for _, at := range times {
		w.at(at)
		w.pass()
	}
}

func (w *simulation) find(name string) *unstructured.Unstructured {
	for _, run := range w.runs {
		if run.GetName() == name {
			return run
		}
	}
	return nil
}

// covered reports whether the status, or this process, knows a run's instant.
func (w *simulation) covered(run *unstructured.Unstructured) bool {
	due, err := time.Parse(time.RFC3339, run.GetAnnotations()["apps.kruise.io/scheduled-at"])
	last := w.cron.Status.LastScheduleTime
	return err == nil && (last != nil && !due.After(last.Time) || !due.After(w.begun))
}

// end lets the run of a time end: Complete or Failed.
func (w *simulation) end(due, how string) {
	w.t.Helper()
	was := w.now
	w.at(due)
	run := w.find(fmt.Sprintf("nightly-%d", w.now.Unix()))
	w.now = was
	if run == nil {
		w.t.Fatalf("there is no run of %s\n%s", due, w.log.String())
	}
	condition := map[string]any{"type": how, "status": "True"}
	if err := unstructured.SetNestedSlice(run.Object, []any{condition}, "status", "conditions"); err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(&w.log, "%s: the run of %s is %s\n", w.now.Format("15:04:05"), due, how)
}

// short writes names of runs with their time.
func (w *simulation) short(text string) string {
	for _, word := range strings.Fields(text) {
		var unix int64
		if _, err := fmt.Sscanf(word, "nightly-%d", &unix); err == nil {
			text = strings.ReplaceAll(text, word, "nightly-"+time.Unix(unix, 0).UTC().Format("0102T1504"))
		}
	}
	return text
}

// expect compares the times of existing runs, on any day.
func (w *simulation) expect(times ...string) {
	w.t.Helper()
	got := []string{}
	for _, run := range w.runs {
		due, err := time.Parse(time.RFC3339, run.GetAnnotations()["apps.kruise.io/scheduled-at"])
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, due.Format("15:04"))
	}
	slices.Sort(got)
	if diff := cmp.Diff(append([]string{}, times...), got); diff != "" {
		w.t.Errorf("runs (-want +got):\n%s\n%s", diff, w.log.String())
	}
}

// expectCondition compares the reason of a True condition
// and searches its message; without a reason it is not True.
func (w *simulation) expectCondition(kind, reason, says string) {
	w.t.Helper()
	got, message := "", ""
	for _, c := range w.cron.Status.Conditions {
		if c.Type == kind && c.Status == metav1.ConditionTrue {
			got, message = c.Reason, c.Message
		}
	}
	if got != reason || !strings.Contains(message, says) {
		w.t.Errorf("condition %s is %q with %q, want %q with %q\n%s", kind, got, message, reason, says, w.log.String())
	}
}

// expectSays looks for texts in the message of a condition.
func (w *simulation) expectSays(kind string, texts ...string) {
	w.t.Helper()
	for _, c := range w.cron.Status.Conditions {
		for _, text := range texts {
			if c.Type == kind && !strings.Contains(c.Message, text) {
				w.t.Errorf("condition %s says %q, want %q", kind, c.Message, text)
			}
		}
	}
}

func (w *simulation) expectLast(want string) {
	w.t.Helper()
	got := ""
	if last := w.cron.Status.LastScheduleTime; last != nil {
		got = last.UTC().Format("15:04")
	}
	if got != want {
		w.t.Errorf("lastScheduleTime is %q, want %q", got, want)
	}
}

func (w *simulation) golden() {
	w.t.Helper()
	podsettest.CompareGolden(w.t, strings.ReplaceAll(strings.TrimPrefix(w.t.Name(), "Test"), "/", "_"), w.log.String())
}

// Schedules over time, one for each field of the spec.

func TestRunIsCreatedWhenDue(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.passes("10:02:00", "10:05:00")
	w.expect("10:05")
	w.expectLast("10:05")
	if plan := w.pass(); plan.RecheckAfter != 5*time.Minute || len(plan.Actions) > 0 {
		t.Errorf("looked at again after %v with %d actions, want 5m and none", plan.RecheckAfter, len(plan.Actions))
	}
	w.golden()
	run := w.runs[0]
	if got, want := run.GetName(), fmt.Sprintf("nightly-%d", w.now.Unix()); got != want {
		t.Errorf("the run is named %s, want %s", got, want)
	}
	wantLabels := map[string]string{"app": "report", "operator.kruise.io/advancedcronjob": "nightly"}
	wantAnnotations := map[string]string{"team": "data", "apps.kruise.io/scheduled-at": "2026-05-01T10:05:00Z"}
	if diff := cmp.Diff([]map[string]string{wantLabels, wantAnnotations}, []map[string]string{run.GetLabels(), run.GetAnnotations()}); diff != "" {
		t.Errorf("labels and annotations (-want +got):\n%s", diff)
	}
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(run.Object, job); err != nil {
		t.Fatal(err)
	}
	want := w.cron.Spec.Template.JobTemplate.Spec.DeepCopy()
	want.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	if diff := cmp.Diff(*want, job.Spec); diff != "" {
		t.Errorf("spec of the Job (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != w.cron.UID || owner.APIVersion != "apps.kruise.io/v1beta1" || !*owner.BlockOwnerDeletion {
		t.Errorf("the owner is %+v", owner)
	}
}

func TestForbid(t *testing.T) {
	t.Run("starts late", func(t *testing.T) {
		w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent))
		w.passes("10:05:00", "10:10:00", "10:11:00")
		w.expect("10:05")
		w.at("10:12:00")
		w.end("10:05:00", "Complete")
		w.pass()
		w.expect("10:05", "10:10")
		w.golden()
	})
	t.Run("unless it is too late", func(t *testing.T) {
		w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent), deadline(60))
		w.passes("10:05:00", "10:10:00")
		w.at("10:12:00")
		w.end("10:05:00", "Complete")
		w.pass()
		w.expect("10:05")
		w.passes("10:15:00")
		w.expect("10:05", "10:15")
		w.golden()
	})
}

func TestReplace(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ReplaceConcurrent))
	w.passes("10:05:00", "10:10:00")
	w.expect("10:10")
	w.pass()
	if got := len(w.cron.Status.Active); got != 1 {
		t.Errorf("%d are active, want 1", got)
	}
	w.golden()
}

func TestDowntime(t *testing.T) {
	t.Run("one run of the newest", func(t *testing.T) {
		w := newSimulation(t, "0 * * * *", "00:30:00")
		w.passes("01:00:00", "05:20:00")
		w.expect("01:00", "05:00")
		w.golden()
	})
	t.Run("none beyond the deadline", func(t *testing.T) {
		w := newSimulation(t, "0 * * * *", "00:30:00", deadline(600))
		w.passes("01:00:00", "05:20:00")
		w.expect("01:00")
		w.passes("06:00:00")
		w.expect("01:00", "06:00")
		w.golden()
	})
}

func TestHistory(t *testing.T) {
	w := newSimulation(t, "0 * * * *", "00:30:00", limits(20, 20))
	for hour := 1; hour <= 9; hour++ {
		at := fmt.Sprintf("%02d:00:00", hour)
		w.passes(at)
		how := "Complete"
		if hour%3 == 0 {
			how = "Failed"
		}
		w.end(at, how)
	}
	limits(3, 1)(w)
	w.passes("09:30:00")
	w.expect("05:00", "07:00", "08:00", "09:00")
	w.golden()
}

func TestTimeZone(t *testing.T) {
	w := newSimulation(t, "0 9 * * *", "10:00:00", zone("Asia/Tokyo"))
	w.passes("10:00:00", "2026-05-02T00:00:00Z")
	w.expect("00:00")
	if got := w.cron.Status.NextScheduleTime.UTC().Format(time.RFC3339); got != "2026-05-03T00:00:00Z" {
		t.Errorf("the next one is due %s", got)
	}
}

func TestHundredMissed(t *testing.T) {
	w := newSimulation(t, "* * * * *", "10:00:00", func(w *simulation) { w.cron.Spec.Paused = ptr.To(true) })
	w.passes("10:01:00", "12:00:00")
	w.expect()
	w.cron.Spec.Paused = nil
	w.passes("13:00:30", "13:00:40", "13:01:00")
	w.expect("13:00", "13:01")
	w.golden()
}

func TestLimitsOfZero(t *testing.T) {
	w := newSimulation(t, "*/10 * * * *", "10:02:00", limits(0, 0))
	w.passes("10:10:00", "10:10:01")
	w.end("10:10:00", "Complete")
	w.passes("10:12:00", "10:13:00")
	w.expect()
	w.expectLast("10:10")
	w.passes("10:19:00")
	w.expect()
	w.passes("10:20:00")
	w.expect("10:20")
	w.golden()
}

// Scenarios once stuck or repeated.

func TestKilledBetweenCreationAndStatus(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", limits(0, 0))
	w.dies = true
	w.passes("10:05:00", "10:05:10")
	w.expect("10:05")
	w.expectLast("10:05")
	w.end("10:05:00", "Complete")
	w.passes("10:05:20", "10:06:00", "10:10:00")
	w.expect("10:10")
	w.golden()
}

func TestRunsThatVanishAreNotRepeated(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.passes("10:05:00")
	w.runs = nil // by its TTL, or by hand
	w.passes("10:06:00", "10:07:00")
	w.expect()
	w.passes("10:10:00")
	w.expect("10:10")
}

// A short run with TTL 0 started twice on a busy operator: the status follows in the run's own pass.
func TestRunThatIsGoneBeforeTheStatusIsWrittenIsNotRepeated(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.unwritten = true
	w.passes("10:05:00")
	w.expect("10:05")
	w.runs = nil
	w.passes("10:05:04", "10:06:00")
	w.expect()
	w.expectLast("10:05")
	w.passes("10:10:00")
	w.expect("10:10")
}

func TestRefusedRunDoesNotHoldUpTheNext(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.refuses = "the quota is used up"
	w.passes("10:05:00", "10:05:01", "10:10:00")
	w.refuses = ""
	w.passes("10:10:05", "10:11:00")
	w.expect("10:10")
	w.golden()
}

func TestRunThatReplacesWaitsForTheDeletion(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ReplaceConcurrent))
	w.passes("10:05:00", "10:05:01")
	w.refusesDeletes = "the webhook says no"
	w.passes("10:10:00", "10:10:40")
	w.expect("10:05")
	w.expectCondition("Stalled", "RequestFailed", "the webhook says no")
	w.refusesDeletes = ""
	w.passes("10:11:00", "10:11:01")
	w.expect("10:10")
	w.expectCondition("Stalled", "", "")
}

// With too many active runs for one plan, the new run started beside the rest.
func TestRunThatReplacesHundredsWaitsUntilAllAreDeleted(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ReplaceConcurrent))
	w.passes("10:05:00", "10:05:01")
	for i := range 449 {
		run := w.runs[0].DeepCopy()
		run.SetName(fmt.Sprintf("other-%03d", i))
		run.SetUID(types.UID(run.GetName()))
		w.runs = append(w.runs, run)
	}
	w.at("10:10:00")
	for _, left := range []int{250, 50} {
		plan := w.pass()
		if len(plan.Actions) != maxDeleted || plan.RecheckAfter > time.Second || len(w.runs) != left {
			t.Fatalf("%d actions, looked at again after %v, %d runs are left, want %d", len(plan.Actions), plan.RecheckAfter, len(w.runs), left)
		}
		w.expectCondition("Reconciling", "RunActive", "more than 200 runs are active")
		if len(w.cron.Status.Active) == 0 || w.cron.Status.LastScheduleTime.Minute() != 5 {
			t.Errorf("the status is %+v", w.cron.Status)
		}
	}
	w.pass()
	w.expectCondition("Reconciling", "", "")
	if len(w.runs) != 1 || w.cron.Status.LastScheduleTime.Minute() != 10 {
		t.Errorf("%d runs, the last one of %v", len(w.runs), w.cron.Status.LastScheduleTime)
	}
}

func TestHistoryThatCannotBeCutIsTold(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", limits(0, 0))
	w.passes("10:05:00", "10:05:01")
	w.end("10:05:00", "Complete")
	w.refusesDeletes = "the webhook says no"
	w.passes("10:06:00", "10:07:00")
	w.expectCondition("FailedDelete", "RequestFailed", "the webhook says no")
	w.expectCondition("Stalled", "", "")
	w.passes("10:10:00")
	w.expect("10:05", "10:10")
	w.expectLast("10:10") // the run was started, whatever became of the history
	w.expectCondition("Reconciling", "", "")
	w.refusesDeletes = ""
	w.passes("10:10:01", "10:10:02")
	w.expectCondition("FailedDelete", "", "")
}

// An unpullable image kept the active run forever: the object stayed Reconciling, unexplained.
func TestRunThatIsStalledStallsTheSchedule(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent))
	w.passes("10:05:00", "10:05:01")
	stalled := func(status string) {
		conditions := []any{map[string]any{"type": "Stalled", "status": status, "message": "pod scan-a: container main: ImagePullBackOff"}}
		if err := unstructured.SetNestedSlice(w.runs[0].Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	}
	stalled("True")
	w.passes("10:06:00")
	w.expectCondition("Stalled", "", "") // no run is due
	w.passes("10:10:00")
	w.expectCondition("Stalled", "RunStalled", "ImagePullBackOff")
	w.expectCondition("Reconciling", "", "")
	w.expect("10:05")
	stalled("False")
	w.passes("10:10:30")
	w.expectCondition("Stalled", "", "")
	w.expectCondition("Reconciling", "RunActive", "")
}

// A Job lacks a condition Stalled, so its unready pods are asked while another run waits.
func TestJobWhosePodsCannotStartStallsTheSchedule(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent))
	w.passes("10:05:00", "10:05:01")
	counts := func(active, ready int64) {
		for field, count := range map[string]int64{"active": active, "ready": ready} {
			if err := unstructured.SetNestedField(w.runs[0].Object, count, "status", field); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.waits = "ImagePullBackOff"
	counts(1, 0)
	w.passes("10:06:00")
	w.expectCondition("Stalled", "", "") // no run is due
	w.expectSays("Reconciling", "1 run is active, and nightly-", "is stalled: pod nightly-x: container main: ImagePullBackOff report:1")
	w.passes("10:10:00")
	w.expectCondition("Stalled", "RunStalled", "is stalled: pod nightly-x: container main: ImagePullBackOff report:1")
	w.expectCondition("Reconciling", "", "")
	w.expect("10:05")
	w.waits = ""
	counts(1, 1)
	w.passes("10:10:30")
	w.expectCondition("Stalled", "", "")
	w.expectCondition("Reconciling", "RunActive", "")
}

// A run being deleted may still have pods, so no other runs
// beside it, as with a CronJob. Its condition only said active.
func TestRunThatIsBeingDeletedForbidsAnotherOne(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent))
	w.passes("10:05:00", "10:05:01")
	now := metav1.NewTime(w.now)
	w.runs[0].SetDeletionTimestamp(&now)
	w.passes("10:10:00")
	w.expectCondition("Reconciling", "RunActive", "is being deleted.")
	w.runs[0].SetFinalizers([]string{"example.com/archive"})
	w.passes("10:10:30")
	w.expectCondition("Reconciling", "RunActive", "is being deleted, and finalizers keep it: example.com/archive.")
	w.expect("10:05")
}

func TestRunThatWaitsTooLongIsLeftOutInTime(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent), deadline(60))
	w.passes("10:05:00")
	w.at("10:10:00")
	again := w.pass().RecheckAfter
	w.expectCondition("Reconciling", "RunActive", "")
	if again <= time.Minute || again > time.Minute+time.Second {
		t.Errorf("looked at again after %v, want just after a minute", again)
	}
	w.now = w.now.Add(again)
	w.pass()
	w.expectCondition("Reconciling", "", "")
	if log := w.log.String(); !strings.Contains(log, "(MissSchedule) The run of 2026-05-01T10:10:00Z") {
		t.Errorf("no event tells of it\n%s", log)
	}
}

// TestWaitsAreShort: a long wait would end late by the machine's sleep, or by the clock's change.
func TestWaitsAreShort(t *testing.T) {
	w := newSimulation(t, "0 3 * * *", "10:02:00")
	if again := w.pass().RecheckAfter; again != longestWait {
		t.Errorf("looked at again after %v, want %v", again, longestWait)
	}
	w.at("2026-05-02T02:59:50Z")
	if again := w.pass().RecheckAfter; again != 10*time.Second {
		t.Errorf("looked at again after %v, want 10s", again)
	}
}

// TestClocksAreComparedAsTheyAreOnTheWall: after the clock
// went back, an earlier pass has to be later than now.
func TestClocksAreComparedAsTheyAreOnTheWall(t *testing.T) {
	now := time.Now()
	for name, got := range map[string]time.Time{
		"all is over":   EvaluatedUntil(Snapshot{Now: now}, Due{}, false),
		"a run waits":   EvaluatedUntil(Snapshot{Now: now}, Due{Run: now, Since: now}, false),
		"one is begun":  EvaluatedUntil(Snapshot{Now: now}, Due{Run: now, Since: now}, true),
		"one was early": EvaluatedUntil(Snapshot{Now: now}, Due{Behind: true, Since: now.Add(time.Hour)}, false),
	} {
		if text := got.String(); strings.Contains(text, "m=") {
			t.Errorf("%s: %s has the reading of another clock", name, text)
		}
	}
}

func TestClockThatJumps(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.passes("10:05:00", "2026-06-01T10:05:00Z", "10:06:00", "10:09:59", "10:10:00", "10:10:01", "10:15:00")
	w.evaluated, w.begun = time.Time{}, time.Time{} // the operator starts again
	w.passes("10:21:00", "10:24:00", "10:25:00", "10:25:01")
	w.runs = nil
	w.passes("10:12:00", "10:15:00", "10:20:00", "10:25:00", "10:30:00") // what has been is not repeated
	w.golden()
	for due, times := range w.started {
		if times != 1 {
			t.Errorf("%v was started %d times", time.Unix(due, 0).UTC(), times)
		}
	}
}

func TestEveryWithADeadlineIsDue(t *testing.T) {
	w := newSimulation(t, "@every 5m", "10:02:10", deadline(60))
	w.passes("10:07:10", "10:08:00", "10:12:11")
	w.expect("10:07", "10:12")
	w.passes("10:40:00")
	w.expect("10:07", "10:12")
	w.passes("10:42:10")
	w.expect("10:07", "10:12", "10:42")
}

func TestDaylightSaving(t *testing.T) {
	w := newSimulation(t, "30 2 * * *", "2026-03-28T12:00:00Z", zone("Europe/Berlin"))
	w.passes("2026-03-29T02:00:00Z", "2026-03-30T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T00:45:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z")
	w.golden()
}

func TestEditedScheduleCountsAtOnce(t *testing.T) {
	w := newSimulation(t, "0 12 * * *", "10:02:00")
	w.passes("10:02:00")
	w.cron.Spec.Schedule = "*/10 * * * *"
	w.passes("10:02:01", "10:15:00", "10:16:00")
	w.expect("10:10")
}

// A schedule edited at 10:15 started a run for 10:10 at once.
func TestAnEditedScheduleStartsNoRunForATimeBeforeTheEdit(t *testing.T) {
	edits := map[string]func(*simulation){
		"the schedule":   func(w *simulation) { w.cron.Spec.Schedule = "*/10 * * * *" },
		"the time zone":  zone("Asia/Kathmandu"), // 5:45 ahead: noon was at 06:15
		"a broken one":   func(w *simulation) { w.cron.Spec.Schedule = "never" },
		"to an interval": func(w *simulation) { w.cron.Spec.Schedule = "@every 7m" },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, "0 12 * * *", "2026-04-30T12:30:00Z")
			w.passes("2026-04-30T12:30:01Z")
			w.at("10:15:20")
			edit(w)
			w.passes("10:15:20")
			w.evaluated, w.begun, w.told = time.Time{}, time.Time{}, EmittedEvents{} // the operator starts anew
			w.passes("10:15:40")
			if len(w.started) > 0 {
				t.Errorf("runs were started\n%s", w.log.String())
			}
			w.cron.Spec.Schedule, w.cron.Spec.TimeZone = "*/10 * * * *", nil
			w.passes("10:17:00", "10:20:01")
			w.expect("10:20")
		})
	}
}

func TestUnreadableAnnotation(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.passes("10:05:00")
	w.runs[0].SetAnnotations(map[string]string{"apps.kruise.io/scheduled-at": "yesterday"})
	w.passes("10:06:00")
	if len(w.runs) != 1 {
		t.Errorf("%d runs", len(w.runs))
	}
	w.expectLast("10:05")
}

// TestRandomWalk lets clocks jump, users edit, runs end and vanish, and the operator die, in any
// order. No instant starts twice, lastScheduleTime never goes back, and finally the schedule goes on.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a seeded walk has to repeat
			expressions := []string{"*/5 * * * *", "* * * * *", "17 * * * *", "@every 7m"}
			policies := []appsv1beta1.ConcurrencyPolicy{appsv1beta1.AllowConcurrent, appsv1beta1.ForbidConcurrent, appsv1beta1.ReplaceConcurrent}
			w := newSimulation(t, expressions[random.IntN(4)], "10:02:00", policy(policies[random.IntN(3)]), limits(random.Int32N(3), random.Int32N(3)))
			if random.IntN(3) == 0 {
				deadline(random.Int64N(600))(w)
			}
			for range 120 {
				switch random.IntN(13) {
				case 0:
					w.now = w.now.Add(-time.Duration(random.IntN(1800)) * time.Second)
				case 1:
					w.now = w.now.Add(time.Duration(random.IntN(100_000)) * time.Second)
				case 2:
					w.dies = !w.due.Behind // what a process knew of a clock that was wrong ends with it
				case 3:
					if !w.due.Behind {
						w.evaluated, w.begun, w.told = time.Time{}, time.Time{}, EmittedEvents{}
					}
				case 4:
					w.cron.Spec.Paused = ptr.To(random.IntN(2) == 0)
				case 5:
					w.runs = slices.DeleteFunc(w.runs, w.covered)
				case 6:
					w.refuses = []string{"", "no"}[random.IntN(2)]
				case 7, 8:
					for _, run := range w.runs {
						how := []string{"Complete", "Failed"}[random.IntN(2)]
						if err := unstructured.SetNestedSlice(run.Object, []any{map[string]any{"type": how, "status": "True"}}, "status", "conditions"); err != nil {
							t.Fatal(err)
						}
					}
				case 9:
					w.unwritten = true
				default:
					w.now = w.now.Add(time.Duration(random.IntN(400)) * time.Second)
				}
				w.pass()
			}
			for due, times := range w.started {
				if times > 1 {
					t.Errorf("%v was started %d times\n%s", time.Unix(due, 0).UTC(), times, w.log.String())
				}
			}
			w.refuses, w.dies, w.unwritten, w.cron.Spec.Paused, w.cron.Spec.StartingDeadlineSeconds = "", false, false, nil, nil
			policy(appsv1beta1.AllowConcurrent)(w)
			w.pass()
			next := w.cron.Status.NextScheduleTime
			if next == nil {
				t.Fatalf("no run is due any more\n%s", w.log.String())
			}
			w.now = next.Time
			w.pass()
			if w.started[next.Unix()] != 1 {
				t.Errorf("the run of %v was not started\n%s", next, w.log.String())
			}
		})
	}
}

func TestOperatorIsAwayForADay(t *testing.T) {
	w := newSimulation(t, "* * * * *", "2026-05-01T10:00:00Z")
	w.passes("2026-05-01T10:01:00Z", "2026-05-02T10:01:30Z", "2026-05-02T10:01:40Z", "2026-05-02T10:02:00Z")
	want := []string{"2026-05-01T10:01:00Z", "2026-05-02T10:01:00Z", "2026-05-02T10:02:00Z"}
	if len(w.started) != len(want) {
		t.Errorf("%d runs were started, want those of %v", len(w.started), want)
	}
	for _, text := range want {
		due, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if times := w.started[due.Unix()]; times != 1 {
			t.Errorf("the run of %s was started %d times", text, times)
		}
	}
}

func TestEventsOfRuns(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", limits(0, 0))
	w.at("10:05:00")
	created := w.pass().Actions
	w.end("10:05:00", "Complete")
	w.passes("10:05:01")
	for what, tc := range map[string]struct {
		actions          []planning.Action
		success, failure string
	}{
		"a run is created":           {created, "SuccessfulCreate", "FailedCreate"},
		"one that has ended is gone": {w.deletions, "SuccessfulDelete", "FailedDelete"},
	} {
		if len(tc.actions) != 1 {
			t.Errorf("%s: %d actions\n%s", what, len(tc.actions), w.log.String())
			continue
		}
		a := tc.actions[0]
		if a.Success.Reason != tc.success || a.Success.Warning || a.Failure.Reason != tc.failure || !a.Failure.Warning {
			t.Errorf("%s: %+v, or %+v", what, a.Success, a.Failure)
		}
	}
}

// By the common policy, runs start beside one with an unpullable image, and nothing reported them stuck.
func TestRunThatIsStalledIsNamedWhereOthersAreStartedBesideIt(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00")
	w.passes("10:05:00", "10:05:01")
	for field, count := range map[string]int64{"active": 1, "ready": 0} {
		if err := unstructured.SetNestedField(w.runs[0].Object, count, "status", field); err != nil {
			t.Fatal(err)
		}
	}
	w.waits = "ImagePullBackOff"
	w.passes("10:05:30")
	w.expectSays("Reconciling", "The next run is started when it is due.")
	if run, _, in := Unready(w.spec(), w.snapshot(), w.due); run != nil || in <= 0 || in > startTimeout {
		t.Errorf("a run that has just begun is looked at now, or after %s", in)
	}
	w.passes("10:06:30")
	w.expectCondition("Stalled", "", "")
	w.expectSays("Reconciling", "The next run is started when it is due. 1 run is active, and ", "is stalled: pod nightly-x: container main: ImagePullBackOff report:1")
	w.cron.Spec.Paused = ptr.To(true)
	w.passes("10:07:00")
	w.expectSays("Reconciling", "No run is started while spec.paused is true. 1 run is active, and ", "ImagePullBackOff")
}

// With a deadline, an endless active run had all runs left out; only the first minutes of each reported it.
func TestRunThatIsLeftOutForAStalledOneStallsTheSchedule(t *testing.T) {
	w := newSimulation(t, "*/5 * * * *", "10:02:00", policy(appsv1beta1.ForbidConcurrent), deadline(30))
	w.passes("10:05:00", "10:05:01")
	conditions := []any{map[string]any{"type": "Stalled", "status": "True", "message": "pod scan-a: container main: ImagePullBackOff"}}
	if err := unstructured.SetNestedSlice(w.runs[0].Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	w.passes("10:10:00")
	w.expectCondition("Stalled", "RunStalled", "ImagePullBackOff")
	w.passes("10:11:00")
	w.expectCondition("Stalled", "RunStalled", "The newest run was left out")
	w.expectCondition("Stalled", "RunStalled", "ImagePullBackOff")
}
