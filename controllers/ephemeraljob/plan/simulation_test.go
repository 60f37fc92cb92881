// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// began is when every simulation begins.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// simulation is a namespace with one job and a fake clock. Pods are never changed in place, so simulations can be cloned.
type simulation struct {
	t    *testing.T
	job  *appsv1beta1.EphemeralJob
	pods map[string]*corev1.Pod
	now  time.Time
	// made counts all pods ever made.
	made int
	// refused is the controller's memory.
	refused map[types.UID]Refusal
	// refuses are pods the server gives no containers.
	refuses map[string]bool
	// gone: the job was deleted.
	gone bool

	decision Decision
	log      *strings.Builder
}

// newSimulation has a job named debug with one container, and running pods p0, p1 and so on, each a second younger.
func newSimulation(t *testing.T, pods int, options ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, pods: map[string]*corev1.Pod{}, refuses: map[string]bool{}, now: began(), log: &strings.Builder{},
		job: &appsv1beta1.EphemeralJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "debug", UID: "job-uid", Generation: 1, ResourceVersion: "7"},
			Spec: appsv1beta1.EphemeralJobSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Template: appsv1beta1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{ephemeral("dbg")}},
			},
		},
	}
	for range pods {
		w.join(corev1.PodRunning)
	}
	for _, option := range options {
		option(w)
	}
	return w
}

func ephemeral(name string, env ...corev1.EnvVar) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox:1", Env: env}}
}

func parallelism(n int32) func(*simulation) {
	return func(w *simulation) { w.job.Spec.Parallelism = &n }
}
func replicas(n int32) func(*simulation) { return func(w *simulation) { w.job.Spec.Replicas = &n } }
func ttl(n int32) func(*simulation) {
	return func(w *simulation) { w.job.Spec.TTLSecondsAfterFinished = &n }
}
func deadline(n int64) func(*simulation) {
	return func(w *simulation) { w.job.Spec.ActiveDeadlineSeconds = &n }
}

func names(all ...string) func(*simulation) {
	return func(w *simulation) {
		w.job.Spec.Template.EphemeralContainers = nil
		for _, name := range all {
			w.job.Spec.Template.EphemeralContainers = append(w.job.Spec.Template.EphemeralContainers, ephemeral(name))
		}
	}
}

func refusing(pods ...string) func(*simulation) {
	return func(w *simulation) {
		w.refuses = map[string]bool{}
		for _, name := range pods {
			w.refuses[name] = true
		}
	}
}

// join adds a pod of the phase on a node, and returns its name.
func (w *simulation) join(phase corev1.PodPhase) string {
	name := fmt.Sprintf("p%d", w.made)
	w.pods[name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(began().Add(time.Duration(w.made) * time.Second)),
		},
		Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web"}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	w.made++
	return name
}

func (w *simulation) changePod(name string, change func(*corev1.Pod)) {
	pod := w.pods[name].DeepCopy()
	change(pod)
	w.pods[name] = pod
}

func (w *simulation) changeJob(change func(*appsv1beta1.EphemeralJob)) {
	job := w.job.DeepCopy()
	change(job)
	w.job = job
}

// reports lets the kubelet report a state of a container of each pod.
func (w *simulation) reports(container string, state corev1.ContainerState, pods ...string) {
	for _, name := range pods {
		w.changePod(name, func(pod *corev1.Pod) {
			list := slices.DeleteFunc(pod.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
			pod.Status.EphemeralContainerStatuses = append(list, corev1.ContainerStatus{Name: container, State: state})
		})
	}
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

func exits(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(began())}}
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "said the kubelet"}}
}

func (w *simulation) run(pods ...string) { w.reports("dbg", runs(), pods...) }
func (w *simulation) exit(code int32, pods ...string) {
	w.reports("dbg", exits(code), pods...)
	fmt.Fprintf(w.log, "%s: exit code %d in %s\n", w.clock(), code, strings.Join(pods, " "))
}

func (w *simulation) clock() string { return w.now.Sub(began()).String() }

func (w *simulation) snapshot() (*Spec, Snapshot) {
	spec := Parse(w.job)
	s := Snapshot{Now: w.now, Refused: w.refused}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if spec.NeedsPods() && spec.Selector.Matches(labels.Set(w.pods[name].Labels)) {
			s.Pods = append(s.Pods, w.pods[name])
		}
	}
	return spec, s
}

// pass is one pass of the controller: the whole plan, and the status.
func (w *simulation) pass() {
	w.t.Helper()
	spec, s := w.snapshot()
	w.decision = Plan(spec, s)
	fmt.Fprintf(w.log, "%s\n", w.clock())
	outcome := planning.Outcome{}
	for _, action := range w.decision.Actions {
		if action.Step == StepAdd && w.refuses[string(action.Slot)] {
			fmt.Fprintf(w.log, "  %s %s is refused\n", action.Step, action.Slot)
			outcome.Failures = append(outcome.Failures, planning.Failure{Step: action.Step, Slot: action.Slot, Refused: true, Message: "forbidden by policy"})
			continue
		}
		fmt.Fprintf(w.log, "  %s %s %s\n", action.Step, action.Slot, action.Reason)
		if err := w.carryOut(action); err != nil {
			w.t.Fatalf("%v\n%s", err, w.log)
		}
		outcome.Done++
	}
	w.refused = Refusals(s, w.decision, outcome)
	status := Status(spec, s, w.decision, outcome)
	for _, event := range Events(spec, &status) {
		fmt.Fprintf(w.log, "  (%s) %s\n", event.Reason, event.Message)
	}
	w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.Status = status })
	fmt.Fprintf(w.log, "  match %d running %d waiting %d succeeded %d failed %d %s", status.Matches, status.Running, status.Waiting, status.Succeeded, status.Failed, status.Phase)
	for _, c := range status.Conditions {
		if c.Status == corev1.ConditionTrue {
			fmt.Fprintf(w.log, " %s=%s", c.Type, c.Reason)
		}
	}
	fmt.Fprintln(w.log)
}

// carryOut does an action as the server would.
func (w *simulation) carryOut(action planning.Action) error {
	switch action.Step {
	case StepAdd:
		pod := w.pods[action.Object.GetName()]
		requests := action.Change.Requests(action.Object)
		if len(requests) != 1 || requests[0].Subresource != "ephemeralcontainers" || requests[0].Type != types.StrategicMergePatchType {
			return fmt.Errorf("requests %+v", requests)
		}
		body, err := requests[0].Body(planning.Version{})
		if err != nil {
			return err
		}
		before, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		merged, err := strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
		if err != nil {
			return err
		}
		after := &corev1.Pod{}
		if err := json.Unmarshal(merged, after); err != nil {
			return err
		}
		if after.UID != pod.UID {
			return fmt.Errorf("the patch of pod %s is for %s", pod.UID, after.UID)
		}
		w.pods[pod.Name] = after
	case planning.StepDeleteJob:
		w.gone = true
	case StepReleaseJob:
		body, err := action.Change.Requests(action.Object)[0].Body(planning.Version{})
		if err != nil {
			return err
		}
		var patch struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(body, &patch); err != nil {
			return err
		}
		if patch.Metadata.ResourceVersion != w.job.ResourceVersion || patch.Metadata.UID != w.job.UID {
			return fmt.Errorf("the patch is for %s", body)
		}
		w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.Finalizers = patch.Metadata.Finalizers })
	default:
		return fmt.Errorf("step %s", action.Step)
	}
	return nil
}

// at sets the clock, in seconds since the beginning, and runs a pass.
func (w *simulation) at(seconds int) {
	w.t.Helper()
	w.now = began().Add(time.Duration(seconds) * time.Second)
	w.pass()
}

// served are the pods with containers of the job.
func (w *simulation) served() string {
	spec := Parse(w.job)
	var served []string
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if own, _ := containersOf(spec, w.pods[name]); len(own) > 0 {
			served = append(served, name)
		}
	}
	return strings.Join(served, " ")
}

func (w *simulation) expectServed(want string) {
	w.t.Helper()
	if got := w.served(); got != want {
		w.t.Errorf("served are %q, want %q\n%s", got, want, w.log)
	}
}

// expect compares phase and counters.
func (w *simulation) expect(phase appsv1beta1.EphemeralJobPhase, match, running, waiting, succeeded, failed int32) {
	w.t.Helper()
	s := &w.job.Status
	got := fmt.Sprint(s.Phase, " ", s.Matches, s.Running, s.Waiting, s.Succeeded, s.Failed)
	if want := fmt.Sprint(phase, " ", match, running, waiting, succeeded, failed); got != want {
		w.t.Errorf("phase, match, running, waiting, succeeded, failed: %s, want %s\n%s", got, want, w.log)
	}
	if ended := phase == appsv1beta1.EphemeralJobSucceeded || phase == appsv1beta1.EphemeralJobFailed; ended != (s.CompletionTime != nil) {
		w.t.Errorf("completionTime is %v\n%s", s.CompletionTime, w.log)
	}
}

func (w *simulation) condition(kind string) (reason, message string) {
	for _, c := range w.job.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

func (w *simulation) expectCondition(kind, reason string, says ...string) {
	w.t.Helper()
	got, message := w.condition(kind)
	if got != reason {
		w.t.Errorf("condition %s is %q, want %q\n%s", kind, got, reason, w.log)
	}
	for _, text := range says {
		if !strings.Contains(message, text) {
			w.t.Errorf("condition %s says %q, want %q in it", kind, message, text)
		}
	}
}

func (w *simulation) golden() {
	w.t.Helper()
	podsettest.CompareGolden(w.t, strings.ReplaceAll(strings.TrimPrefix(w.t.Name(), "Test"), "/", "_"), w.log.String())
}
