// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

var start = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// simulation is one pod, its runtime and its kubelet.
type simulation struct {
	now  time.Time
	pod  *corev1.Pod
	runs map[string]Instance
	// kills are the IDs of what was stopped, in their order.
	kills []string
}

func id(text string) string { return "containerd://" + text }

// newSimulation is a pod with running, ready containers whose instances are called name-0.
func newSimulation(names ...string) *simulation {
	w := &simulation{now: start, runs: map[string]Instance{}}
	w.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid"}}
	w.pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for _, name := range names {
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, corev1.Container{Name: name})
		w.start(name, name+"-0")
		w.ready(name, true)
	}
	return w
}

// start has the kubelet start an instance, which is not ready yet.
func (w *simulation) start(name, instance string) {
	w.runs[name] = Instance{ID: id(instance), Running: true, Started: w.now}
	status := StatusOf(w.pod, name)
	if status == nil {
		w.pod.Status.ContainerStatuses = append(w.pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
		status = StatusOf(w.pod, name)
	} else {
		status.RestartCount++
	}
	status.ContainerID, status.Ready = id(instance), false
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}}
}

func (w *simulation) ready(name string, is bool) { StatusOf(w.pod, name).Ready = is }

func (w *simulation) exit(name string, code int32) {
	instance := w.runs[name]
	instance.Running, instance.Exited, instance.ExitCode = false, true, code
	w.runs[name] = instance
	StatusOf(w.pod, name).Ready = false
}

func (w *simulation) snapshot() Snapshot {
	return Snapshot{Now: w.now, Known: start, Held: start, Runtime: "containerd", Pod: w.pod, Instances: w.runs}
}

// request is one for the containers as they are in the simulation.
func (w *simulation) request(name string, containers ...string) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(w.now),
		Labels: map[string]string{v1beta1.LabelRequestPodUID: "uid", v1beta1.LabelRequestActive: "true"},
	}}
	r.Spec.PodName = "web-0"
	r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{FailurePolicy: v1beta1.RecreateFail, TerminationGracePeriodSeconds: ptr.To[int64](30)}
	for _, container := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name:          container,
			StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: StatusOf(w.pod, container).ContainerID},
		})
	}
	return r
}

// settle plans, writes and stops until nothing is left to do. What is stopped ends with code 0; the kubelet does nothing.
func (w *simulation) settle(t *testing.T, r *v1beta1.ContainerRecreateRequest) {
	t.Helper()
	for range 50 {
		d := Plan(r, w.snapshot())
		switch {
		case d.Changed && d.Kill != nil:
			t.Fatalf("something is stopped before it is written: %+v", d.Kill)
		case d.Changed:
			r.Status = *d.Status
		case d.Kill != nil:
			w.kills = append(w.kills, d.Kill.ID)
			w.exit(d.Kill.Container.Name, 0)
		default:
			return
		}
	}
	t.Fatal("it does not come to rest")
}

// states are phase and name of all containers, with a mark for those that were stopped.
func states(r *v1beta1.ContainerRecreateRequest) string {
	var parts []string
	for _, s := range r.Status.ContainerRecreateStates {
		text := s.Name + " " + string(s.Phase)
		if s.IsKilled {
			text += " killed"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (w *simulation) expect(t *testing.T, r *v1beta1.ContainerRecreateRequest, phase v1beta1.ContainerRecreateRequestPhase, want string, kills ...string) {
	t.Helper()
	if got := states(r); got != want || r.Status.Phase != phase {
		t.Errorf("%s with %q, want %s with %q", r.Status.Phase, got, phase, want)
	}
	wanted := make([]string, len(kills))
	for i, kill := range kills {
		wanted[i] = id(kill)
	}
	if !slices.Equal(w.kills, wanted) {
		t.Errorf("stopped %v, want %v", w.kills, wanted)
	}
}

// A request without an order stops its containers one after the other, and then waits for all of them.
func TestTwoContainersAreStoppedOneAfterTheOtherWithoutWaiting(t *testing.T) {
	w := newSimulation("app", "log")
	r := w.request("restart", "app", "log")
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed, log Recreating killed", "app-0", "log-0")
	w.start("app", "app-1")
	w.start("log", "log-1")
	w.ready("app", true)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Succeeded killed, log Recreating killed", "app-0", "log-0")
	w.ready("log", true)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateCompleted, "app Succeeded killed, log Succeeded killed", "app-0", "log-0")
	if r.Status.Message != "" || r.Status.CompletionTime == nil {
		t.Errorf("completed with message %q at %v", r.Status.Message, r.Status.CompletionTime)
	}
	snapshot := r.Status.ContainerStatusSnapshot
	if len(snapshot) != 2 || !snapshot[0].Ready || snapshot[0].ContainerID != id("app-1") || snapshot[0].RestartCount != 1 {
		t.Errorf("snapshot %+v", snapshot)
	}
}

// Container a is not ready for 20 seconds, and b waits that long.
func TestOrderedWaitsUntilTheOneBeforeIsReady(t *testing.T) {
	w := newSimulation("a", "b")
	r := w.request("restart", "a", "b")
	r.Spec.Strategy.OrderedRecreate = true
	w.settle(t, r)
	w.start("a", "a-1")
	for range 20 {
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateRecreating, "a Recreating killed, b Pending", "a-0")
		w.now = w.now.Add(time.Second)
	}
	w.ready("a", true)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "a Succeeded killed, b Recreating killed", "a-0", "b-0")
}

// Whether the containers after a failed one are still stopped is decided by failurePolicy.
func TestAContainerThatCannotBeStopped(t *testing.T) {
	for policy, want := range map[v1beta1.ContainerRecreateRequestFailurePolicyType]string{
		v1beta1.RecreateFail:   "Completed: a Failed, b Pending",
		v1beta1.RecreateIgnore: "Recreating: a Failed, b Recreating killed",
		"":                     "Completed: a Failed, b Pending",
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			w := newSimulation("a", "b")
			r := w.request("restart", "a", "b")
			r.Spec.Strategy.FailurePolicy = policy
			r.Status = *Plan(r, w.snapshot()).Status
			d := Plan(r, w.snapshot())
			if d.Kill == nil || d.Kill.Container.Name != "a" {
				t.Fatalf("stops %+v", d.Kill)
			}
			r.Status = *NotStopped(r, "a", errors.New("no such luck"))
			w.settle(t, r)
			if got := string(r.Status.Phase) + ": " + states(r); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got := r.Status.ContainerRecreateStates[0].Message; got != "kill container error: no such luck" {
				t.Errorf("message %q", got)
			}
			if r.Status.ContainerRecreateStates[1].ContainerID != "" && policy != v1beta1.RecreateIgnore {
				t.Error("b is noted for a stop that never comes")
			}
		})
	}
}

// The daemon waits for the operator to take the pod out of service, and then for the grace period, before it stops a container. The operator's part is
// in package plan of its controller.
func TestTheUnreadyGracePeriodComesFirst(t *testing.T) {
	w := newSimulation("app")
	r := w.request("restart", "app")
	r.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "")
	r.Status.Conditions = []metav1.Condition{{Type: v1beta1.RecreatePreRecreateGrace, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	w.now = start.Add(9900 * time.Millisecond)
	if d := Plan(r, w.snapshot()); d.RecheckAfter != 100*time.Millisecond || d.Changed || d.Kill != nil {
		t.Errorf("at the end of the grace period: %+v", d)
	}
	w.now = w.now.Add(100 * time.Millisecond)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed", "app-0")
}

// The times in a request are of the clocks of others. On a node whose clock was ahead, a request was past its deadline at once, and there was no grace
// period; where it was behind, both took longer.
func TestTheClockOfTheNodeMayDiffer(t *testing.T) {
	for name, differs := range map[string]time.Duration{"ahead": 2 * time.Minute, "behind": -2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			begin := func() (*simulation, *v1beta1.ContainerRecreateRequest, func(after time.Duration) Snapshot) {
				w := newSimulation("app")
				r := w.request("restart", "app")
				return w, r, func(after time.Duration) Snapshot {
					s := w.snapshot()
					s.Now, s.Known, s.Held = start.Add(differs+after), start.Add(differs), start.Add(differs)
					return s
				}
			}
			_, r, at := begin()
			r.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
			if d := Plan(r, at(59*time.Second)); !d.Changed {
				t.Error("before the deadline nothing is done")
			}
			if d := Plan(r, at(60*time.Second)); d.Changed {
				t.Errorf("at the deadline it does %+v", d)
			}

			w, r, at := begin()
			r.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
			r.Status.Phase = v1beta1.RecreateRecreating
			r.Status.Conditions = []metav1.Condition{{Type: v1beta1.RecreatePreRecreateGrace, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
			r.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: v1beta1.RecreatePending, ContainerID: id("app-0")}}
			r.Status.ContainerStatusSnapshot = newInstances(r, w.pod)
			if d := Plan(r, at(9*time.Second)); d.Kill != nil || d.RecheckAfter != time.Second {
				t.Errorf("in the grace period it does %+v", d)
			}
			if d := Plan(r, at(10*time.Second)); d.Kill == nil {
				t.Errorf("after the grace period it does %+v", d)
			}
		})
	}
}

// A daemon that is killed again and again would never come to the end of a period that begins with it.
func TestPeriodsEndAlthoughTheDaemonBeginsAnew(t *testing.T) {
	w := newSimulation("app")
	r := w.request("restart", "app")
	r.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	w.now = start.Add(60*time.Second + clocksDiffer)
	s := w.snapshot()
	s.Known, s.Held = w.now, w.now
	if d := Plan(r, s); d.Changed {
		t.Errorf("after the deadline it does %+v", d)
	}
	r.Spec.ActiveDeadlineSeconds, r.Spec.Strategy.UnreadyGracePeriodSeconds = nil, ptr.To[int64](60)
	r.Status.Conditions = []metav1.Condition{{Type: v1beta1.RecreatePreRecreateGrace, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	if d := Plan(r, s); d.Status.ContainerRecreateStates == nil {
		t.Errorf("after the grace period it does %+v", d)
	}
}

// A container that has restarted by itself since the request was created is stopped only with forceRecreate, and then once. One that restarts every few
// seconds is waited for until the deadline.
func TestAContainerThatRestartedByItself(t *testing.T) {
	t.Run("counts as restarted", func(t *testing.T) {
		w := newSimulation("app")
		r := w.request("restart", "app")
		w.start("app", "app-1")
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating")
		w.ready("app", true)
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateCompleted, "app Succeeded")
	})
	t.Run("ends by its deadline alone when it loops", func(t *testing.T) {
		w := newSimulation("app")
		r := w.request("restart", "app")
		r.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
		for i := range 12 {
			w.start("app", fmt.Sprintf("app-%d", i+1))
			w.settle(t, r)
			w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating")
			w.now = w.now.Add(5 * time.Second)
		}
		if d := Plan(r, w.snapshot()); d.Kill != nil || d.Changed {
			t.Errorf("at the deadline: %+v", d)
		}
	})
	t.Run("is restarted once more by force, and once only", func(t *testing.T) {
		w := newSimulation("app")
		r := w.request("restart", "app")
		r.Spec.Strategy.ForceRecreate = true
		w.start("app", "app-1")
		w.settle(t, r)
		w.start("app", "app-2")
		w.settle(t, r)
		w.start("app", "app-3") // it loops
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed", "app-1")
		w.ready("app", true)
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateCompleted, "app Succeeded killed", "app-1")
	})
	t.Run("is waited for by force while it is between two instances", func(t *testing.T) {
		w := newSimulation("app")
		r := w.request("restart", "app")
		r.Spec.Strategy.ForceRecreate = true
		w.exit("app", 1)
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating")
		w.start("app", "app-1")
		w.settle(t, r)
		w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed", "app-1")
	})
}

func TestAnInstanceThatHasNotBeenStartedIsNotStoppedYet(t *testing.T) {
	w := newSimulation("app")
	r := w.request("restart", "app")
	r.Spec.Strategy.ForceRecreate = true
	w.start("app", "app-1")
	created := w.runs["app"]
	created.Running = false
	w.runs["app"] = created
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Pending")
	if d := Plan(r, w.snapshot()); d.RecheckAfter < time.Second {
		t.Errorf("it looks again after %s: the runtime would be asked without end", d.RecheckAfter)
	}
	created.Running = true
	w.runs["app"] = created
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed", "app-1")
}

func TestTheNewInstanceHasToRunForMinStartedSeconds(t *testing.T) {
	w := newSimulation("app")
	r := w.request("restart", "app")
	r.Spec.Strategy.MinStartedSeconds = 2
	w.settle(t, r)
	w.start("app", "app-1")
	w.ready("app", true)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed", "app-0")
	if d := Plan(r, w.snapshot()); d.RecheckAfter != 2*time.Second {
		t.Errorf("looks again after %s", d.RecheckAfter)
	}
	w.now = w.now.Add(2 * time.Second)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateCompleted, "app Succeeded killed", "app-0")
}

func TestAContainerThatIsNotStartedAgainFails(t *testing.T) {
	for name, tc := range map[string]struct {
		policy corev1.RestartPolicy
		code   int32
		want   v1beta1.ContainerRecreateRequestPhase
	}{
		"Never":                           {corev1.RestartPolicyNever, 143, v1beta1.RecreateFailed},
		"OnFailure and no failure":        {corev1.RestartPolicyOnFailure, 0, v1beta1.RecreateFailed},
		"OnFailure and a failure":         {corev1.RestartPolicyOnFailure, 1, v1beta1.RecreateRecreating},
		"Always, however it ended":        {corev1.RestartPolicyAlways, 0, v1beta1.RecreateRecreating},
		"Always, as the default is empty": {"", 0, v1beta1.RecreateRecreating},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation("app")
			w.pod.Spec.RestartPolicy = tc.policy
			r := w.request("restart", "app")
			w.exit("app", tc.code)
			w.settle(t, r)
			if got := r.Status.ContainerRecreateStates[0]; got.Phase != tc.want {
				t.Errorf("%+v, want %s", got, tc.want)
			}
		})
	}
}

// The kubelet asks the rules of the container before its policy, the first that matches alone.
func TestRulesOfTheContainerComeBeforeItsRestartPolicy(t *testing.T) {
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	rule := func(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
	}
	const restarts, all = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	for name, tc := range map[string]struct {
		rules []corev1.ContainerRestartRule
		want  v1beta1.ContainerRecreateRequestPhase
	}{
		"a rule with the code":                    {[]corev1.ContainerRestartRule{rule(restarts, in, 1, 143)}, v1beta1.RecreateRecreating},
		"a rule with another code":                {[]corev1.ContainerRestartRule{rule(restarts, in, 1)}, v1beta1.RecreateFailed},
		"all codes but others":                    {[]corev1.ContainerRestartRule{rule(restarts, notIn, 0)}, v1beta1.RecreateRecreating},
		"all codes but this one":                  {[]corev1.ContainerRestartRule{rule(restarts, notIn, 143)}, v1beta1.RecreateFailed},
		"all containers of the pod are restarted": {[]corev1.ContainerRestartRule{rule(all, in, 143)}, v1beta1.RecreateRecreating},
		"the second rule matches":                 {[]corev1.ContainerRestartRule{rule(restarts, in, 1), rule(restarts, in, 143)}, v1beta1.RecreateRecreating},
		"the first that matches does something else": {
			[]corev1.ContainerRestartRule{rule("Else", in, 143), rule(restarts, in, 143)}, v1beta1.RecreateFailed,
		},
		"a rule without codes":          {[]corev1.ContainerRestartRule{{Action: restarts}}, v1beta1.RecreateFailed},
		"a rule of an unknown operator": {[]corev1.ContainerRestartRule{rule(restarts, "Near", 143)}, v1beta1.RecreateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation("app")
			w.pod.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
			w.pod.Spec.Containers[0].RestartPolicyRules = tc.rules
			r := w.request("restart", "app")
			w.exit("app", 143)
			w.settle(t, r)
			if got := r.Status.ContainerRecreateStates[0]; got.Phase != tc.want {
				t.Errorf("%+v, want %s", got, tc.want)
			}
		})
	}
}

// The operator's own request that ends the sidecars of a finished job has done what it should when they are down.
func TestASidecarOfAFinishedJobThatStaysDownHasSucceeded(t *testing.T) {
	w := newSimulation("app")
	w.pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	r := w.request(TerminationPrefix+"uid", "app")
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "uid", Controller: ptr.To(true)}}
	w.exit("app", 143)
	w.settle(t, r)
	if got := r.Status.ContainerRecreateStates[0]; got.Phase != v1beta1.RecreateSucceeded || r.Status.Phase != v1beta1.RecreateCompleted {
		t.Errorf("%+v", r.Status)
	}
}

// An evicted pod stays as an object, whatever its restart policy, and starts nothing again.
func TestAPodThatHasEndedStartsNothingAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*simulation)
		// want is the state, terminated that of a request which ends the sidecars of a finished job.
		want, terminated string
	}{
		"its container has ended": {
			func(w *simulation) { w.exit("app", 137) }, "Completed: app Failed", "Completed: app Succeeded",
		},
		"its container is gone": {
			func(w *simulation) { delete(w.runs, "app") }, "Completed: app Failed", "Completed: app Succeeded",
		},
		"its container was never started": {
			func(w *simulation) { w.runs["app"] = Instance{ID: id("app-1")} }, "Completed: app Failed", "Completed: app Succeeded",
		},
		// The sidecar terminator gives a pod its phase before it stops what is left.
		"its container still runs": {
			func(*simulation) {}, "Completed: app Failed killed", "Completed: app Succeeded killed",
		},
	} {
		for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
			t.Run(name+", "+string(phase), func(t *testing.T) {
				for _, terminates := range []bool{false, true} {
					w := newSimulation("app")
					r, want := w.request("restart", "app"), tc.want
					if terminates {
						r, want = w.request(TerminationPrefix+"uid", "app"), tc.terminated
						r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "uid", Controller: ptr.To(true)}}
					}
					w.pod.Status.Phase = phase
					tc.change(w)
					w.settle(t, r)
					if got := string(r.Status.Phase) + ": " + states(r); got != want {
						t.Errorf("terminates %v: %q, want %q", terminates, got, want)
					}
					message := r.Status.ContainerRecreateStates[0].Message
					if says := strings.HasPrefix(message, "the pod has ended ("+string(phase)+")"); says == terminates {
						t.Errorf("terminates %v: message %q", terminates, message)
					}
				}
			})
		}
	}
}

// The pod ends while the request waits for the new instance.
func TestAPodThatEndsMeanwhileEndsTheRequest(t *testing.T) {
	w := newSimulation("app", "log")
	r := w.request("restart", "app", "log")
	w.settle(t, r)
	w.start("app", "app-1")
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "app Recreating killed, log Recreating killed", "app-0", "log-0")
	w.exit("app", 137)
	w.pod.Status.Phase = corev1.PodFailed
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateCompleted, "app Failed killed, log Failed killed", "app-0", "log-0")
}

func TestASidecarOfTheInitContainersIsRestarted(t *testing.T) {
	w := newSimulation("app")
	w.pod.Spec.InitContainers = []corev1.Container{{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}, {Name: "once"}}
	w.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", ContainerID: id("mesh-0"), Ready: true}}
	w.runs["mesh"] = Instance{ID: id("mesh-0"), Running: true, Started: start}
	w.pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	r := w.request("restart", "mesh")
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateRecreating, "mesh Recreating killed", "mesh-0")
	w.start("mesh", "mesh-1")
	w.ready("mesh", true)
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateCompleted, "mesh Succeeded killed", "mesh-0")
	if c, _ := Find(w.pod, "once"); c != nil {
		t.Error("an init container that runs once can be named")
	}
}

func TestNothingIsDone(t *testing.T) {
	for name, change := range map[string]func(*simulation, *v1beta1.ContainerRecreateRequest){
		"after the deadline": func(w *simulation, r *v1beta1.ContainerRecreateRequest) {
			r.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
			w.now = w.now.Add(5 * time.Second)
		},
		"for a request that is completed": func(_ *simulation, r *v1beta1.ContainerRecreateRequest) { r.Status.Phase = v1beta1.RecreateCompleted },
		"for a request that is being deleted": func(w *simulation, r *v1beta1.ContainerRecreateRequest) {
			r.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		},
		"for a later pod of the name": func(w *simulation, _ *v1beta1.ContainerRecreateRequest) { w.pod.UID = "another" },
		"for a pod that is being deleted": func(w *simulation, _ *v1beta1.ContainerRecreateRequest) {
			w.pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation("app")
			r := w.request("restart", "app")
			change(w, r)
			if d := Plan(r, w.snapshot()); d.Changed || d.Kill != nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestIDsOfAnotherRuntimeEndTheRequest(t *testing.T) {
	w := newSimulation("app")
	r := w.request("restart", "app")
	r.Spec.Containers[0].StatusContext.ContainerID = "docker://1"
	w.settle(t, r)
	w.expect(t, r, v1beta1.RecreateCompleted, "")
	if !strings.HasPrefix(r.Status.Message, "failed to find runtime service: ") {
		t.Errorf("message %q", r.Status.Message)
	}
}

func TestGracePeriods(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds *int64
		want    time.Duration
	}{
		"omitted": {nil, 30 * time.Second}, "0 is 2": {ptr.To[int64](0), 2 * time.Second}, "60": {ptr.To[int64](60), time.Minute},
		"more than a duration holds": {ptr.To[int64](1 << 62), 100 * 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := &v1beta1.ContainerRecreateRequest{}
			r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: tc.seconds}
			if got := grace(r); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	at := func(name string, second int, phase v1beta1.ContainerRecreateRequestPhase) *v1beta1.ContainerRecreateRequest {
		r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(time.Duration(second) * time.Second))}}
		r.Status.Phase = phase
		return r
	}
	deleted := at("deleted", 0, v1beta1.RecreateRecreating)
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(start))
	var names []string
	for _, r := range Queue([]*v1beta1.ContainerRecreateRequest{
		at("new-b", 1, ""), at("new-a", 1, ""), at("older", 0, ""), at("pending", 3, v1beta1.RecreatePending),
		at("done", 0, v1beta1.RecreateCompleted), deleted, at("begun", 4, v1beta1.RecreateRecreating),
	}) {
		names = append(names, r.Name)
	}
	if want := []string{"begun", "pending", "older", "new-a", "new-b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
