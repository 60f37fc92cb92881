// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	v1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

func start() time.Time { return time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC) }

// simulation is a request, its pod, and an obedient API server.
type simulation struct {
	t       *testing.T
	now     time.Time
	request *v1beta1.ContainerRecreateRequest
	pod     *corev1.Pod
	first   string
	// starting: the daemon is being started. busy: it works on the request before.
	starting, busy bool
	// absent is since when the daemon is not there; zero when it is.
	absent time.Time
	// gone: the request was deleted.
	gone bool
	did  []string
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	w := &simulation{t: t, now: start()}
	w.request = &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "crr1", UID: "request", Generation: 1, CreationTimestamp: metav1.NewTime(start()),
			Labels: map[string]string{v1beta1.LabelRequestPodUID: "uid", v1beta1.LabelRequestActive: "true", v1beta1.LabelRequestNode: "node-a"},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{
			PodName: "web-0", Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}, {Name: "log"}},
			Strategy: &v1beta1.ContainerRecreateRequestStrategy{},
		},
	}
	w.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid"}}
	w.pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: shared.GateKruisePodReady}}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady, shared.GateKruisePodReady} {
		w.pod.Status.Conditions = append(w.pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	return w
}

func (w *simulation) snapshot() Snapshot {
	s := Snapshot{Now: w.now, First: w.first, DaemonStarting: w.starting, DaemonBusy: w.busy, AbsentSince: w.absent}
	s.PodKnown = w.pod != nil && w.pod.DeletionTimestamp == nil
	if NeedsPod(w.request) {
		s.Pod = w.pod
	}
	if s.PodKnown && MayNeverBeReady(w.request, w.now) {
		s.Trouble = TroubleOf(w.request, w.pod, w.now)
	}
	return s
}

// pass is one pass of the reconciler.
func (w *simulation) pass() Decision {
	w.t.Helper()
	d := Plan(w.request, w.snapshot())
	for _, a := range d.Actions {
		w.did = append(w.did, string(a.Step))
		switch a.Step {
		case StepMark:
			w.mark(a)
		case StepDelete:
			w.gone = true
		default:
			w.pod = podsettest.EditOf(a).Apply(w.pod)
		}
	}
	if d.Marks() {
		return d
	}
	w.request.Status = Status(w.request, w.snapshot(), d, planning.Outcome{Done: len(d.Actions)})
	return d
}

func (w *simulation) mark(a planning.Action) {
	w.t.Helper()
	patch, ok := a.Change.(planning.RawPatch)
	var body struct {
		Metadata struct {
			Finalizers []string
			Labels     map[string]*string
		}
	}
	if !ok || json.Unmarshal(patch.Body, &body) != nil {
		w.t.Fatalf("no patch: %+v", a.Change)
	}
	w.request.Finalizers = body.Metadata.Finalizers
	for key, value := range body.Metadata.Labels {
		if value != nil {
			w.t.Errorf("label %s is set to %q", key, *value)
		}
		delete(w.request.Labels, key)
	}
}

// settle passes until nothing is done any more.
func (w *simulation) settle() {
	w.t.Helper()
	for range 20 {
		before, err := json.Marshal([]any{w.request, w.pod})
		if err != nil {
			w.t.Fatal(err)
		}
		d := w.pass()
		after, err := json.Marshal([]any{w.request, w.pod})
		if err != nil {
			w.t.Fatal(err)
		}
		if w.gone || string(before) == string(after) && len(d.Actions) == 0 {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}

func (w *simulation) condition(kind string) metav1.Condition {
	i := slices.IndexFunc(w.request.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}
	}
	return w.request.Status.Conditions[i]
}

func (w *simulation) held() bool {
	return slices.Contains(podstate.Holders(w.pod), shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: "ns/crr1"})
}

func (w *simulation) says(kind string, status metav1.ConditionStatus, reason, message string) {
	w.t.Helper()
	c := w.condition(kind)
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.t.Errorf("%s is %s (%s): %q; want %s (%s) with %q", kind, c.Status, c.Reason, c.Message, status, reason, message)
	}
}

// A request ends by itself on the daemon's silence, past its deadline, or when its pod goes.
func TestWhatEndsARequest(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*simulation)
		message, reason string
		recheck         time.Duration
	}{
		"nothing, while the daemon may still answer": {change: func(w *simulation) { w.now = w.now.Add(59 * time.Second) }, recheck: time.Second},
		"a daemon that is silent for a minute": {
			change: func(w *simulation) { w.now = w.now.Add(time.Minute) }, message: "daemon has not responded for a long time", reason: "DaemonSilent",
		},
		"nothing, while the daemon is being started": {
			change: func(w *simulation) { w.starting = true; w.now = w.now.Add(4 * time.Minute) }, recheck: 5 * time.Second,
		},
		"a daemon that does not start in five minutes": {
			change: func(w *simulation) { w.starting = true; w.now = w.now.Add(5 * time.Minute) }, message: "daemon has not responded for a long time", reason: "DaemonSilent",
		},
		"nothing, while the daemon is at work on the request before, however long a container takes to stop": {
			change: func(w *simulation) { w.first, w.busy = "crr0", true; w.now = w.now.Add(time.Hour) }, recheck: 5 * time.Second,
		},
		"a daemon that is silent, behind a request that it does not work on": {
			change: func(w *simulation) { w.first = "crr0"; w.now = w.now.Add(time.Minute) }, message: "daemon has not responded for a long time", reason: "DaemonSilent",
		},
		"nothing, while the deadline of its user lasts": {
			change: func(w *simulation) {
				w.request.Spec.ActiveDeadlineSeconds = ptr.To[int64](600)
				w.now = w.now.Add(9 * time.Minute)
			}, recheck: time.Minute,
		},
		"its deadline": {
			change: func(w *simulation) {
				w.request.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
				w.request.Status.Phase = v1beta1.RecreateRecreating
				w.request.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: v1beta1.RecreateRecreating}}
				w.now = w.now.Add(5 * time.Second)
			}, message: "recreating has exceeded the activeDeadlineSeconds", reason: "DeadlineExceeded",
		},
		"nothing before its deadline": {
			change: func(w *simulation) {
				w.request.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
				w.request.Status.Phase = v1beta1.RecreatePending
			}, recheck: 5 * time.Second,
		},
		"a pod that is gone":          {change: func(w *simulation) { w.pod = nil }, message: "pod has gone", reason: "PodGone"},
		"a pod that is being deleted": {change: func(w *simulation) { w.pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) }, message: "pod has gone", reason: "PodGone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t)
			tc.change(w)
			d := w.pass()
			if d.End != tc.message || d.RecheckAfter != tc.recheck {
				t.Errorf("ends with %q, looks again after %s", d.End, d.RecheckAfter)
			}
			if tc.message == "" {
				if w.request.Status.Phase == v1beta1.RecreateCompleted {
					t.Error("it is completed")
				}
				return
			}
			if w.request.Status.Phase != v1beta1.RecreateCompleted || w.request.Status.Message != tc.message || w.request.Status.CompletionTime == nil {
				t.Errorf("status %+v", w.request.Status)
			}
			for _, state := range w.request.Status.ContainerRecreateStates {
				if state.Phase != v1beta1.RecreateFailed || state.Message != tc.message {
					t.Errorf("a request that is over leaves a container so: %+v", state)
				}
			}
			w.settle()
			w.says(v1beta1.RecreateConditionSucceeded, metav1.ConditionFalse, tc.reason, "Not restarted: app, log.")
			w.says(v1beta1.RecreateStalled, metav1.ConditionTrue, tc.reason, tc.message)
			w.says(v1beta1.RecreateReconciling, metav1.ConditionFalse, tc.reason, tc.message)
			if _, active := w.request.Labels[v1beta1.LabelRequestActive]; active {
				t.Error("daemons still see it")
			}
		})
	}
}

// A container's image may have left its registry since. The
// request was Reconciling until its deadline, or for ever.
func TestANewInstanceThatCannotStartStallsTheRequest(t *testing.T) {
	w := newSimulation(t)
	w.pod.Spec.NodeName = "node-a"
	for _, name := range []string{"app", "log", "other"} {
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, corev1.Container{Name: name, Image: name + ":1"})
		w.pod.Status.ContainerStatuses = append(w.pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	w.pod.CreationTimestamp, w.pod.Status.StartTime = metav1.NewTime(start().Add(-time.Hour)), ptr.To(metav1.NewTime(start().Add(-time.Hour)))
	waits := func(container int, reason string) {
		w.pod.Status.ContainerStatuses[container].State = corev1.ContainerState{}
		if reason != "" {
			w.pod.Status.ContainerStatuses[container].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		}
	}
	w.request.Status.Phase = v1beta1.RecreateRecreating
	w.request.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{
		{Name: "app", Phase: v1beta1.RecreateRecreating}, {Name: "log", Phase: v1beta1.RecreateSucceeded},
	}
	waits(0, "ImagePullBackOff")
	w.settle()
	w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, "Recreating", "app is Recreating") // it takes seconds, mostly
	w.now = w.now.Add(2 * time.Minute)
	d := w.pass()
	w.says(v1beta1.RecreateStalled, metav1.ConditionTrue, "ImagePullFailed", "container app: ImagePullBackOff app:1")
	w.says(v1beta1.RecreateReconciling, metav1.ConditionFalse, "ImagePullFailed", "app is Recreating")
	if d.RecheckAfter <= 0 || d.RecheckAfter > time.Minute {
		t.Errorf("looked at again after %s", d.RecheckAfter)
	}
	waits(0, "")
	waits(1, "ImagePullBackOff") // log is over
	waits(2, "ImagePullBackOff") // nobody asked for other
	w.pass()
	w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, "Recreating", "app is Recreating")
	w.says(v1beta1.RecreateStalled, metav1.ConditionFalse, "NotStalled", "")
}

// drained is a begun request with an unready grace period, holding its pod.
func drained(t *testing.T) *simulation {
	t.Helper()
	w := newSimulation(t)
	w.request.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
	w.request.Status.Phase = v1beta1.RecreateRecreating
	w.settle()
	return w
}

// With unreadyGracePeriodSeconds the operator first takes the pod out
// of service, and finally gives it back. The daemon waits and restarts.
func TestThePodIsTakenOutOfServiceAndGivenBack(t *testing.T) {
	w := drained(t)
	if !w.held() || podstate.Ready(w.pod) {
		t.Errorf("the pod is not out of service: %+v", w.pod.Status.Conditions)
	}
	if want := []string{"MarkRequest", "HoldPod"}; !slices.Equal(w.did, want) {
		t.Errorf("did %v, want %v: the finalizer comes before the hold", w.did, want)
	}
	w.says(v1beta1.RecreatePreRecreateGrace, metav1.ConditionTrue, "PreRecreateGrace", "Pod web-0 is held not ready by ContainerRecreateRequest ns/crr1")
	at := w.condition(v1beta1.RecreatePreRecreateGrace).LastTransitionTime
	w.now = w.now.Add(5 * time.Second)
	w.settle()
	if got := w.condition(v1beta1.RecreatePreRecreateGrace).LastTransitionTime; !got.Equal(&at) {
		t.Errorf("the grace period began at %s, and then at %s", at, got)
	}
	w.did = nil
	w.request.Status.Phase = v1beta1.RecreateCompleted
	w.request.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{
		{Name: "app", Phase: v1beta1.RecreateSucceeded}, {Name: "log", Phase: v1beta1.RecreateSucceeded},
	}
	w.settle()
	if want := []string{"ReleasePod", "MarkRequest"}; !slices.Equal(w.did, want) {
		t.Errorf("did %v, want %v", w.did, want)
	}
	if c := podstate.Condition(w.pod, shared.GateKruisePodReady); w.held() || c.Status != corev1.ConditionTrue || c.Message != "[]" {
		t.Errorf("the pod is not given back: %+v", c)
	}
	if len(w.request.Finalizers) > 0 || w.request.Labels[v1beta1.LabelRequestActive] != "" {
		t.Errorf("left on the request: %v %v", w.request.Finalizers, w.request.Labels)
	}
	w.says(v1beta1.RecreateConditionSucceeded, metav1.ConditionTrue, "Recreated", "2 containers were restarted.")
	events := Events(drained(t).request, &w.request.Status)
	if len(events) != 1 || events[0].Warning || events[0].Reason != "Succeeded" {
		t.Errorf("told %+v", events)
	}
	w.says(v1beta1.RecreateStalled, metav1.ConditionFalse, "NotStalled", "")
}

func TestAPodIsGivenBackHoweverItsRequestEnds(t *testing.T) {
	for name, change := range map[string]func(*simulation){
		"deleted while it waits": func(w *simulation) { w.request.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) },
		"at its deadline": func(w *simulation) {
			w.request.Spec.ActiveDeadlineSeconds = ptr.To[int64](3)
			w.now = w.now.Add(time.Minute)
		},
		"deleted after it was over": func(w *simulation) {
			w.request.Status.Phase = v1beta1.RecreateCompleted
			w.request.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		},
		"with another holder that stays": func(w *simulation) {
			other := shared.ReadinessHolder{UserAgent: "Lifecycle", Key: "preUpdateHook"}
			w.pod = podstate.Hold(w.pod, other, w.now).Apply(w.pod)
			w.request.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := drained(t)
			change(w)
			w.settle()
			if w.held() || len(w.request.Finalizers) > 0 {
				t.Errorf("holders %v, finalizers %v", podstate.Holders(w.pod), w.request.Finalizers)
			}
		})
	}
	t.Run("the finalizer goes with the pod", func(t *testing.T) {
		w := drained(t)
		w.pod = nil
		w.settle()
		if len(w.request.Finalizers) > 0 || w.request.Status.Message != "pod has gone" {
			t.Errorf("finalizers %v, message %q", w.request.Finalizers, w.request.Status.Message)
		}
	})
}

func TestAPodWithoutTheGateStaysInService(t *testing.T) {
	w := newSimulation(t)
	w.pod.Spec.ReadinessGates = nil
	w.request.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
	w.request.Status.Phase = v1beta1.RecreateRecreating
	w.settle()
	if len(w.did) > 0 || !podstate.Ready(w.pod) {
		t.Errorf("did %v", w.did)
	}
	w.says(v1beta1.RecreatePreRecreateGrace, metav1.ConditionTrue, "PreRecreateGrace", "has no readiness gate KruisePodReady")
}

func TestWhatItWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*simulation)
		reason, message string
	}{
		"the daemon":      {func(*simulation) {}, "WaitingForDaemon", "The daemon of node node-a has not taken up the request"},
		"another request": {func(w *simulation) { w.first = "crr0"; w.request.Status.Phase = v1beta1.RecreatePending }, "WaitingForRequest", "Request crr0 for the same pod"},
		"its own turn":    {func(w *simulation) { w.request.Status.Phase = v1beta1.RecreatePending }, "WaitingForDaemon", "It is the turn of this request"},
		"a new instance": {
			func(w *simulation) {
				w.request.Status.Phase = v1beta1.RecreateRecreating
				w.request.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{
					{Name: "app", Phase: v1beta1.RecreateRecreating, Message: "the new instance is not ready"}, {Name: "log", Phase: v1beta1.RecreatePending},
				}
			}, "Recreating", "app is Recreating (the new instance is not ready), log is Pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t)
			tc.change(w)
			w.settle()
			w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, tc.reason, tc.message)
			w.says(v1beta1.RecreateStalled, metav1.ConditionFalse, "NotStalled", "")
		})
	}
}

// Without a deadline, such a request never ends, and may hold its pod out of service.
func TestARequestWhoseDaemonIsGoneSaysSo(t *testing.T) {
	w := newSimulation(t)
	w.request.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](600)
	w.request.Status.Phase = v1beta1.RecreateRecreating
	w.settle()
	if d := w.pass(); d.RecheckAfter != time.Minute {
		t.Errorf("looks at the daemon after %s", d.RecheckAfter)
	}
	w.now = w.now.Add(time.Minute)
	w.absent = w.now
	if d := w.pass(); d.RecheckAfter != Absence {
		t.Errorf("looks again after %s", d.RecheckAfter)
	}
	w.says(v1beta1.RecreateStalled, metav1.ConditionFalse, "NotStalled", "") // it may be replaced
	w.now = w.now.Add(Absence)
	w.settle()
	w.says(v1beta1.RecreateStalled, metav1.ConditionTrue, "DaemonSilent", "There is no node daemon on node node-a any more.")
	w.absent, w.starting = time.Time{}, true
	w.settle()
	w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, "WaitingForDaemon", "The daemon of node node-a is not ready")
	w.starting = false
	w.settle()
	w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, "Recreating", "")
	w.request.Labels[v1beta1.LabelNodeType] = v1beta1.NodeTypeVirtual
	if DaemonMayBeGone(w.request, w.now) {
		t.Error("a daemon is looked for on a virtual node")
	}
}

func TestTimeToLive(t *testing.T) {
	w := newSimulation(t)
	w.request.Spec.TTLSecondsAfterFinished = ptr.To[int32](30)
	w.request.Status.Phase, w.request.Status.CompletionTime = v1beta1.RecreateCompleted, ptr.To(metav1.NewTime(w.now))
	w.request.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: v1beta1.RecreateFailed, Message: "kill container error: x"}}
	w.settle()
	w.says(v1beta1.RecreateConditionSucceeded, metav1.ConditionFalse, "ContainersFailed", "Not restarted: app, log. app: kill container error: x.")
	w.now = w.now.Add(29 * time.Second)
	if d := w.pass(); w.gone || d.RecheckAfter != time.Second {
		t.Errorf("gone %v, looks again after %s", w.gone, d.RecheckAfter)
	}
	w.now = w.now.Add(time.Second)
	if w.pass(); !w.gone {
		t.Error("it is still there")
	}
}

// A slow node's clock ended a request in the past: it was deleted before anybody saw its end.
func TestTimeToLiveDoesNotDependOnTheClockOfTheNode(t *testing.T) {
	for name, differs := range map[string]time.Duration{"ahead": 2 * time.Minute, "behind": -2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t)
			w.request.Spec.TTLSecondsAfterFinished = ptr.To[int32](30)
			w.request.Status.Phase, w.request.Status.CompletionTime = v1beta1.RecreateCompleted, ptr.To(metav1.NewTime(w.now.Add(differs)))
			w.settle()
			w.now = w.now.Add(29 * time.Second)
			if d := w.pass(); w.gone || d.RecheckAfter != time.Second {
				t.Errorf("gone %v, looks again after %s", w.gone, d.RecheckAfter)
			}
			w.now = w.now.Add(time.Second)
			if w.pass(); !w.gone {
				t.Error("it is still there")
			}
		})
	}
}

func TestARefusedWriteIsTold(t *testing.T) {
	w := newSimulation(t)
	failed := planning.Outcome{Failures: []planning.Failure{{Step: StepHold, Message: "patching status of pod web-0: forbidden"}}}
	w.request.Status = Status(w.request, w.snapshot(), Plan(w.request, w.snapshot()), failed)
	w.says(v1beta1.RecreateReconciling, metav1.ConditionTrue, "RequestFailed", "forbidden")
	w.says(v1beta1.RecreateStalled, metav1.ConditionFalse, "NotStalled", "tried again")
}

func TestAWriteThatIsRefusedForHalfAMinuteStalls(t *testing.T) {
	w := newSimulation(t)
	failed := planning.Outcome{Failures: []planning.Failure{{Step: StepHold, Message: "forbidden", Since: w.now}}}
	for after, want := range map[time.Duration]metav1.ConditionStatus{29 * time.Second: metav1.ConditionFalse, 30 * time.Second: metav1.ConditionTrue} {
		s := w.snapshot()
		s.Now = w.now.Add(after)
		w.request.Status = Status(w.request, s, Plan(w.request, s), failed)
		reason := map[metav1.ConditionStatus]string{metav1.ConditionFalse: "NotStalled", metav1.ConditionTrue: "RequestFailed"}[want]
		w.says(v1beta1.RecreateStalled, want, reason, "")
	}
}

func TestTheStartIsToldOnce(t *testing.T) {
	w := newSimulation(t)
	w.pass()
	before := w.request.DeepCopy()
	w.request.Status.Phase = v1beta1.RecreateRecreating
	w.pass()
	if got := Events(before, &w.request.Status); len(got) != 1 || got[0].Warning || got[0].Reason != "Started" {
		t.Errorf("%+v", got)
	}
	refused := w.request.DeepCopy()
	failed := planning.Outcome{Failures: []planning.Failure{{Step: StepHold, Message: "forbidden"}}}
	refused.Status = Status(refused, w.snapshot(), Plan(refused, w.snapshot()), failed)
	if got := Events(refused, &w.request.Status); len(got) > 0 {
		t.Errorf("told again after a refused write: %+v", got)
	}
}

func TestEvents(t *testing.T) {
	w := newSimulation(t)
	before := w.request.DeepCopy()
	w.pod = nil
	w.pass()
	events := Events(before, &w.request.Status)
	if len(events) != 1 || !events[0].Warning || events[0].Reason != "Failed" {
		t.Errorf("%+v", events)
	}
	if reason, took, ok := End(before, &w.request.Status); !ok || reason != v1beta1.ReasonPodGone || took < 0 {
		t.Errorf("measured as %q after %s: %v", reason, took, ok)
	}
	if _, _, ok := End(w.request, &w.request.Status); ok {
		t.Error("measured twice")
	}
	if _, _, ok := End(before, &before.Status); ok {
		t.Error("measured before its end")
	}
	if again := Events(w.request, &w.request.Status); len(again) > 0 {
		t.Errorf("told twice: %+v", again)
	}
}

// Refusals are reported once for each write, with other kinds' reasons.
func TestEventsOfRefusedWrites(t *testing.T) {
	want := map[planning.Step]string{StepMark: "FailedUpdate", StepHold: "FailedUpdate", StepRelease: "FailedUpdate", StepDelete: "FailedDelete"}
	seen := map[planning.Step]bool{}
	w := newSimulation(t)
	w.request.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
	w.request.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	w.request.Status.Phase = v1beta1.RecreateRecreating
	for pass := range 12 {
		for _, a := range Plan(w.request, w.snapshot()).Actions {
			seen[a.Step] = true
			if a.Failure.Reason != want[a.Step] || !a.Failure.Warning {
				t.Errorf("%s refused: %+v", a.Step, a.Failure)
			}
		}
		if w.pass(); pass == 4 {
			w.request.Status.Phase, w.request.Status.CompletionTime = v1beta1.RecreateCompleted, &metav1.Time{Time: w.now}
		}
	}
	for step := range want {
		if !seen[step] {
			t.Errorf("%s was never planned", step)
		}
	}
}

// A request is filled in only for its own pod, and for the instances present at its creation.
func TestARequestIsFilledInForItsPodAlone(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid"}}
	pod.Spec.NodeName = "node-a"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://app", RestartCount: 3}}
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
	r.Spec.PodName, r.Spec.Containers = "web-0", []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	r.Labels = map[string]string{restart.LabelPin: restart.Pin([]byte("salt"), r, pod)}
	if !NeedsPod(r) {
		t.Error("the pod is not read")
	}
	d := Plan(r, Snapshot{Pod: pod})
	if len(d.Actions) != 1 || d.End != "" {
		t.Fatalf("%+v", d)
	}
	requests := d.Actions[0].Change.Requests(r)
	body, err := requests[0].Body(planning.Version{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"crr.apps.kruise.io/pod-uid":"uid"`, `"crr.apps.kruise.io/node-name":"node-a"`, `"operator.kruise.io/pod-pin":null`, `"containerID":"containerd://app"`, `"drain"`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	again := pod.DeepCopy()
	again.UID = "other"
	restarted := pod.DeepCopy()
	restarted.Status.ContainerStatuses[0].ContainerID = "containerd://new"
	for name, now := range map[string]*corev1.Pod{"gone": nil, "created again": again, "restarted": restarted} {
		if d := Plan(r, Snapshot{Pod: now}); d.End != messageGone || len(d.Actions) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
