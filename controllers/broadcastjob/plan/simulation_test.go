// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// began is when every simulation begins.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// simulation is a cluster with one job, on the test's clock.
// Nodes and pods are replaced, never changed, to allow clones.
type simulation struct {
	t     *testing.T
	job   *appsv1beta1.BroadcastJob
	bind  bool
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
	now   time.Time
	// made counts the nodes ever made of a name.
	made map[string]int
	// gone: the job was deleted.
	gone bool
	// refuses: the server refuses creations.
	refuses bool

	decision Decision
	log      *strings.Builder
}

// newSimulation is a job named scan, with a pod never restarting, and nodes n0, n1 and so on.
func newSimulation(t *testing.T, nodes int, options ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}, made: map[string]int{}, now: began(), log: &strings.Builder{},
		job: &appsv1beta1.BroadcastJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scan", UID: "job-uid", Generation: 1},
			Spec: appsv1beta1.BroadcastJobSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "scan"}},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "scan", Image: "scan:1"}}},
			}},
		},
	}
	for i := range nodes {
		w.join(fmt.Sprintf("n%d", i))
	}
	for _, option := range options {
		option(w)
	}
	return w
}

func parallelism(v string) func(*simulation) {
	return func(w *simulation) { p := intstr.Parse(v); w.job.Spec.Parallelism = &p }
}

func onFailure(p appsv1beta1.BroadcastJobFailurePolicyType) func(*simulation) {
	return func(w *simulation) { w.job.Spec.FailurePolicy.Type = p }
}

func restarts(limit int32) func(*simulation) {
	return func(w *simulation) {
		w.job.Spec.Template.Spec.RestartPolicy, w.job.Spec.FailurePolicy.RestartLimit = corev1.RestartPolicyOnFailure, limit
	}
}

func never(w *simulation) { w.job.Spec.CompletionPolicy.Type = appsv1beta1.BroadcastJobNever }

func deadline(seconds int64) func(*simulation) {
	return func(w *simulation) { w.job.Spec.CompletionPolicy.ActiveDeadlineSeconds = &seconds }
}

func ttl(seconds int32) func(*simulation) {
	return func(w *simulation) { w.job.Spec.CompletionPolicy.TTLSecondsAfterFinished = &seconds }
}

func resume(value string) func(*simulation) {
	return func(w *simulation) {
		job := w.job.DeepCopy()
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, shared.AnnotationResume, value)
		w.job = job
	}
}

func (w *simulation) join(name string) {
	w.made[name]++
	w.nodes[name] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("uid-%s-%d", name, w.made[name])), CreationTimestamp: metav1.NewTime(w.now), Labels: map[string]string{"zone": "a"}},
	}
}

func (w *simulation) changeNode(name string, change func(*corev1.Node)) {
	node := w.nodes[name].DeepCopy()
	change(node)
	w.nodes[name] = node
}

func (w *simulation) cordon(name string, on bool) {
	w.changeNode(name, func(node *corev1.Node) { node.Spec.Unschedulable = on })
}

func (w *simulation) taint(name string, effect corev1.TaintEffect) {
	w.changeNode(name, func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: effect}} })
}

func (w *simulation) changePod(name string, change func(*corev1.Pod)) {
	pod := w.pods[name].DeepCopy()
	change(pod)
	w.pods[name] = pod
}

// podOn is the pod made for a node.
func (w *simulation) podOn(node string) *corev1.Pod {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if pod := w.pods[name]; pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	w.t.Fatalf("there is no pod on %s\n%s", node, w.log)
	return nil
}

func (w *simulation) end(phase corev1.PodPhase, nodes ...string) {
	w.t.Helper()
	for _, node := range nodes {
		w.changePod(w.podOn(node).Name, func(pod *corev1.Pod) { pod.Status.Phase = phase })
		fmt.Fprintf(w.log, "%s: the pod of %s: %s\n", w.clock(), node, phase)
	}
}

func (w *simulation) restart(node string, times int32) {
	w.t.Helper()
	w.changePod(w.podOn(node).Name, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "scan", RestartCount: times}}
	})
}

// collect removes terminating pods, and pods of missing nodes.
func (w *simulation) collect() {
	for name, pod := range w.pods {
		if pod.DeletionTimestamp != nil || w.nodes[pod.Spec.NodeName] == nil {
			delete(w.pods, name)
		}
	}
}

func (w *simulation) clock() string { return w.now.Sub(began()).String() }

func (w *simulation) snapshot() (*Spec, Snapshot) {
	spec := Parse(w.job, w.bind)
	if !spec.NeedsNodes() {
		return spec, Snapshot{Now: w.now}
	}
	nodes := slices.Collect(maps.Values(w.nodes))
	pods := slices.Collect(maps.Values(w.pods))
	return spec, Snapshot{Now: w.now, Nodes: spec.Nodes(nodes), Pods: Pods(pods, w.now)}
}

// pass is one pass of the controller: the whole plan, and the status.
func (w *simulation) pass() {
	w.t.Helper()
	spec, s := w.snapshot()
	w.decision = Plan(spec, s)
	fmt.Fprintf(w.log, "%s\n", w.clock())
	outcome := planning.Outcome{}
	for _, action := range w.decision.Actions {
		fmt.Fprintf(w.log, "  %s %s %s\n", action.Step, action.Slot, action.Reason)
		if w.refuses && action.Verb == planning.VerbCreate {
			outcome.Failures = append(outcome.Failures, planning.Failure{Step: action.Step, Slot: action.Slot, Message: "the quota is used up"})
			continue
		}
		if err := w.carryOut(action); err != nil {
			w.t.Fatalf("%v\n%s", err, w.log)
		}
		outcome.Done++
	}
	w.report(spec, s, outcome)
	status := &w.job.Status
	fmt.Fprintf(w.log, "  desired %d active %d succeeded %d failed %d %s", status.Desired, status.Active, status.Succeeded, status.Failed, status.Phase)
	for _, c := range status.Conditions {
		if c.Status == corev1.ConditionTrue {
			fmt.Fprintf(w.log, " %s=%s", c.Type, c.Reason)
		}
	}
	fmt.Fprintln(w.log)
}

// report writes the status.
func (w *simulation) report(spec *Spec, s Snapshot, outcome planning.Outcome) {
	status := Status(spec, s, w.decision, outcome)
	for _, event := range Events(spec, w.decision, &status) {
		fmt.Fprintf(w.log, "  (%s) %s\n", event.Reason, event.Message)
	}
	job := w.job.DeepCopy()
	job.Status = status
	w.job = job
}

// carryOut does an action as the server would.
func (w *simulation) carryOut(action planning.Action) error {
	name := action.Object.GetName()
	switch action.Step {
	case podset.StepCreate:
		if w.pods[name] != nil {
			if w.pods[name].DeletionTimestamp != nil {
				return nil // it is still going: a conflict, and tried again
			}
			return fmt.Errorf("pod %s exists", name)
		}
		pod := action.Object.(*corev1.Pod).DeepCopy()
		pod.UID = types.UID("uid-" + name)
		pod.CreationTimestamp = metav1.NewTime(w.now)
		pod.Status.Phase = corev1.PodRunning
		pod.Spec.NodeName = string(action.Slot) // the scheduler binds it
		w.pods[name] = pod
	case podset.StepDelete:
		now := metav1.NewTime(w.now)
		w.changePod(name, func(pod *corev1.Pod) { pod.DeletionTimestamp = &now })
	case planning.StepDeleteJob:
		w.gone = true
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

// working are the nodes with a pod at work.
func (w *simulation) working() string {
	var nodes []string
	for _, pod := range w.pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

func (w *simulation) expectWorking(want string) {
	w.t.Helper()
	if got := w.working(); got != want {
		w.t.Errorf("pods work on %q, want %q\n%s", got, want, w.log)
	}
}

// expect compares phase and counters.
func (w *simulation) expect(phase appsv1beta1.BroadcastJobPhase, desired, active, succeeded, failed int32) {
	w.t.Helper()
	s := &w.job.Status
	got := fmt.Sprint(s.Phase, s.Desired, s.Active, s.Succeeded, s.Failed)
	if want := fmt.Sprint(phase, desired, active, succeeded, failed); got != want {
		w.t.Errorf("phase, desired, active, succeeded, failed: %s, want %s\n%s", got, want, w.log)
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

func (w *simulation) expectCondition(kind, reason string) {
	w.t.Helper()
	if got, _ := w.condition(kind); got != reason {
		w.t.Errorf("condition %s is %q, want %q\n%s", kind, got, reason, w.log)
	}
}

func (w *simulation) golden() {
	w.t.Helper()
	podsettest.CompareGolden(w.t, strings.ReplaceAll(strings.TrimPrefix(w.t.Name(), "Test"), "/", "_"), w.log.String())
}
