// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// bench is a daemon with a pod of two containers, in memory.
type bench struct {
	*reconciler
	t       *testing.T
	runtime *critest.Runtime
	// scheme begins the kubelet's container IDs.
	scheme string
	// writes counts the daemon's writes.
	writes int
	events *events.FakeRecorder
}

func newBench(t *testing.T, requests ...*v1beta1.ContainerRecreateRequest) *bench {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid"}}
	pod.Status.PodIP = "127.0.0.1"
	runtime := &critest.Runtime{Restart: true}
	var containers []cri.ContainerStatus
	for _, name := range []string{"app", "log"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name, Ready: true})
		containers = append(containers, cri.ContainerStatus{Container: cri.Container{ID: name, Name: name, Created: time.Now().Add(-time.Hour)}})
	}
	runtime.AddPod(critest.Pod{Namespace: "ns", Name: "web-0", UID: "uid"}, containers...)
	builder := fake.NewClientBuilder().WithScheme(types).WithObjects(pod).WithStatusSubresource(&v1beta1.ContainerRecreateRequest{}, &corev1.Pod{})
	for _, r := range requests {
		builder = builder.WithObjects(r)
	}
	recorder := events.NewFakeRecorder(100)
	b := &bench{t: t, runtime: runtime, events: recorder, scheme: "containerd://"}
	builder = builder.WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
	) error {
		b.writes++
		return c.SubResource(subresource).Patch(ctx, object, patch, options...)
	}})
	b.reconciler = &reconciler{
		Host:   host.Host{Node: "node-a", Runtime: runtime, Events: recorder, Clock: clock.RealClock{}, Metrics: host.NewMetrics(prometheus.NewRegistry())},
		client: builder.Build(), times: lru.New(remembered), stopped: make(chan event.GenericEvent, 1000),
	}
	return b
}

func request(name string, containers ...string) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, CreationTimestamp: metav1.Now(), Labels: map[string]string{v1beta1.LabelRequestPodUID: "uid"},
	}}
	r.Spec.PodName = "web-0"
	r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: ptr.To[int64](10)}
	for _, container := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name: container, StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://" + container},
		})
	}
	return r
}

// kubelet brings the pod up to the runtime: the newest containers, all ready.
func (b *bench) kubelet() {
	b.t.Helper()
	all, err := b.runtime.ListContainers(b.t.Context(), "uid")
	if err != nil {
		return // it is as blind as the daemon
	}
	pod := &corev1.Pod{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-0"}, pod); err != nil {
		b.t.Fatal(err)
	}
	for name, container := range cri.Newest(all) {
		for i := range pod.Status.ContainerStatuses {
			if status := &pod.Status.ContainerStatuses[i]; status.Name == name {
				status.ContainerID, status.Ready = b.scheme+container.ID, container.Running
				status.RestartCount = int32(container.Attempt)
				status.State.Running = &corev1.ContainerStateRunning{}
			}
		}
	}
	if err := b.client.Status().Update(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) pass() (ctrl.Result, error) {
	b.t.Helper()
	result, err := b.look("web-0")
	b.stops.Wait()
	return result, err
}

// look is one pass for a pod, without waiting for its stops.
func (b *bench) look(pod string) (ctrl.Result, error) {
	b.t.Helper()
	b.kubelet()
	return b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: pod}})
}

func (b *bench) status(name string) v1beta1.ContainerRecreateRequestStatus {
	b.t.Helper()
	r := &v1beta1.ContainerRecreateRequest{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, r); err != nil {
		b.t.Fatal(err)
	}
	return r.Status
}

// settle passes until the requests of these names are completed.
func (b *bench) settle(names ...string) {
	b.t.Helper()
	for range 50 {
		if _, err := b.pass(); err != nil {
			b.t.Fatal(err)
		}
		if !slices.ContainsFunc(names, func(name string) bool { return b.status(name).Phase != v1beta1.RecreateCompleted }) {
			return
		}
	}
	b.t.Fatalf("%v are not completed: %+v", names, b.status(names[0]))
}

// killed are the stopped IDs.
func (b *bench) killed() []string {
	var ids []string
	for _, call := range b.runtime.Calls() {
		if call.Verb == "Stop" {
			ids = append(ids, call.On)
		}
	}
	return ids
}

func (b *bench) told() string {
	var all []string
	for {
		select {
		case event := <-b.events.Events:
			all = append(all, event)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func TestOneContainerIsRestartedAndTheOtherUntouched(t *testing.T) {
	b := newBench(t, request("restart", "app"))
	b.settle("restart")
	if got := b.killed(); !slices.Equal(got, []string{"app"}) {
		t.Errorf("stopped %v", got)
	}
	state := b.status("restart").ContainerRecreateStates[0]
	if state.Phase != v1beta1.RecreateSucceeded || !state.IsKilled || state.ContainerID != "containerd://app" {
		t.Errorf("%+v", state)
	}
	if told := b.told(); !strings.Contains(told, "Normal Killing Stopping container app for ContainerRecreateRequest restart") || strings.Contains(told, "containerd") {
		t.Errorf("events: %s", told)
	}
}

// newBenchInCRIO has its pod in CRI-O, on a node with containerd, too.
func newBenchInCRIO(t *testing.T, created metav1.Time) *bench {
	t.Helper()
	r := request("restart", "app")
	r.CreationTimestamp = created
	r.Spec.Containers[0].StatusContext.ContainerID = "cri-o://app"
	b := newBench(t, r)
	b.scheme, b.runtime.Name = "cri-o://", "cri-o"
	b.Runtime = critest.Several{Runtime: &critest.Runtime{}, Others: []*critest.Runtime{b.runtime}}
	return b
}

func TestAContainerOfTheSecondRuntimeIsRestarted(t *testing.T) {
	b := newBenchInCRIO(t, metav1.Now())
	b.settle("restart")
	if got := b.killed(); !slices.Equal(got, []string{"app"}) {
		t.Errorf("stopped %v", got)
	}
	if state := b.status("restart").ContainerRecreateStates[0]; state.Phase != v1beta1.RecreateSucceeded || state.ContainerID != "cri-o://app" {
		t.Errorf("%+v", state)
	}
}

// While the pod's runtime starts, another one answers: it does not know the container.
func TestARequestWaitsForTheRuntimeOfItsPodAndThenSaysThatThereIsNone(t *testing.T) {
	b := newBenchInCRIO(t, metav1.Now())
	b.Runtime = critest.Several{Runtime: &critest.Runtime{}}
	now := clocktesting.NewFakeClock(time.Now())
	b.Clock = now
	if result, err := b.pass(); err != nil || result.RequeueAfter != lookAgain || b.status("restart").Phase != "" {
		t.Errorf("at first: %+v, %v, %+v", result, err, b.status("restart"))
	}
	now.Step(starting + time.Second)
	if _, err := b.pass(); err != nil {
		t.Fatal(err)
	}
	want := `failed to find runtime service: container ID "cri-o://app" is not one of containerd`
	if got := b.status("restart"); got.Phase != v1beta1.RecreateCompleted || got.Message != want {
		t.Errorf("later: %+v", got)
	}
}

// With the node's clock ahead, a request was past its deadline at once, and its runtime
// could not be starting. With the clock behind, both took longer.
func TestTheClockOfTheNodeMayDiffer(t *testing.T) {
	for name, differs := range map[string]time.Duration{"ahead": 2 * time.Minute, "behind": -2 * time.Minute} {
		server := metav1.NewTime(time.Now().Add(-differs))
		t.Run(name+", a deadline", func(t *testing.T) {
			r := request("restart", "app")
			r.CreationTimestamp, r.Spec.ActiveDeadlineSeconds = server, ptr.To[int64](60)
			b := newBench(t, r)
			b.settle("restart")
			if got := b.killed(); !slices.Equal(got, []string{"app"}) {
				t.Errorf("stopped %v", got)
			}
		})
		t.Run(name+", past the deadline", func(t *testing.T) {
			r := request("restart", "app")
			r.CreationTimestamp, r.Spec.ActiveDeadlineSeconds = server, ptr.To[int64](60)
			b := newBench(t, r)
			now := clocktesting.NewFakeClock(time.Now())
			b.Clock = now
			if _, err := b.pass(); err != nil {
				t.Fatal(err)
			}
			now.Step(time.Minute)
			for range 5 {
				if _, err := b.pass(); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.killed(); len(got) > 0 {
				t.Errorf("stopped %v", got)
			}
		})
		t.Run(name+", out of service first", func(t *testing.T) {
			r := request("restart", "app")
			r.Spec.Strategy.UnreadyGracePeriodSeconds = ptr.To[int64](10)
			r.Status.Phase = v1beta1.RecreateRecreating
			r.Status.Conditions = []metav1.Condition{{Type: v1beta1.RecreatePreRecreateGrace, Status: metav1.ConditionTrue, LastTransitionTime: server}}
			b := newBench(t, r)
			now := clocktesting.NewFakeClock(time.Now())
			b.Clock = now
			if result, err := b.pass(); err != nil || result.RequeueAfter != 10*time.Second || len(b.killed()) > 0 {
				t.Errorf("at first: %+v, %v, stopped %v", result, err, b.killed())
			}
			now.Step(10 * time.Second)
			b.settle("restart")
			if got := b.killed(); !slices.Equal(got, []string{"app"}) {
				t.Errorf("stopped %v", got)
			}
			if err := b.client.Delete(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if _, err := b.pass(); err != nil {
				t.Errorf("a request that is gone: %v", err)
			}
		})
		t.Run(name+", a runtime that is starting", func(t *testing.T) {
			b := newBenchInCRIO(t, server)
			b.Runtime = critest.Several{Runtime: &critest.Runtime{}}
			if result, err := b.pass(); err != nil || result.RequeueAfter != lookAgain || b.status("restart").Phase != "" {
				t.Errorf("at first: %+v, %v, %+v", result, err, b.status("restart"))
			}
		})
	}
}

func TestWritesAreFew(t *testing.T) {
	b := newBench(t, request("restart", "app", "log"))
	b.settle("restart")
	if most := 2 + 2*2; b.writes > most {
		t.Errorf("%d writes for two containers, want at most 2 and 2 for each", b.writes)
	}
	was := b.writes
	for range 5 {
		if _, err := b.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if b.writes != was {
		t.Errorf("%d writes at rest", b.writes-was)
	}
	t.Logf("%d writes", was)
}

// Requests for one pod take turns. The second does not repeat the restarts of the first.
func TestASecondRequestFollowsTheFirst(t *testing.T) {
	second := request("second", "app", "log")
	second.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
	b := newBench(t, request("first", "app"), second)
	if _, err := b.pass(); err != nil {
		t.Fatal(err)
	}
	if got := b.status("second").Phase; got != v1beta1.RecreatePending {
		t.Errorf("the second is %q", got)
	}
	b.settle("first", "second")
	// The first has restarted app, so the second does not do it again.
	if got := b.killed(); !slices.Equal(got, []string{"app", "log"}) {
		t.Errorf("stopped %v", got)
	}
}

func TestARuntimeThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	b := newBench(t, request("restart", "app"))
	b.runtime.SetDown(true)
	if _, err := b.pass(); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	b.runtime.SetDown(false)
	first := true
	b.runtime.OnStop = func(context.Context, cri.Container, time.Duration) error {
		if first {
			first = false
			return cri.ErrUnavailable
		}
		return nil
	}
	for range 3 {
		if _, err := b.pass(); err != nil && !errors.Is(err, cri.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	b.settle("restart")
	if got := b.status("restart").ContainerRecreateStates[0]; got.Phase != v1beta1.RecreateSucceeded {
		t.Errorf("%+v", got)
	}
}

func TestARuntimeThatRefusesFailsTheContainer(t *testing.T) {
	b := newBench(t, request("restart", "app"))
	b.runtime.OnStop = func(context.Context, cri.Container, time.Duration) error { return errors.New("no") }
	b.settle("restart")
	if got := b.status("restart").ContainerRecreateStates[0]; got.Phase != v1beta1.RecreateFailed || got.Message != "kill container error: no" {
		t.Errorf("%+v", got)
	}
}

func TestADaemonThatDiesAfterAStopDoesNotRepeatIt(t *testing.T) {
	b := newBench(t, request("restart", "app"))
	died := errors.New("the daemon died")
	// The runtime has done it, and nobody hears of it.
	b.runtime.OnStop = func(ctx context.Context, _ cri.Container, _ time.Duration) error {
		b.runtime.OnStop = nil
		if err := b.runtime.StopContainer(ctx, "app", 0); err != nil {
			t.Error(err)
		}
		return errors.Join(died, cri.ErrUnavailable)
	}
	for range 4 {
		if _, err := b.pass(); err != nil && !errors.Is(err, died) {
			t.Fatal(err)
		}
	}
	b.settle("restart")
	state := b.status("restart").ContainerRecreateStates[0]
	if state.Phase != v1beta1.RecreateSucceeded || !state.IsKilled {
		t.Errorf("%+v", state)
	}
	if got := b.killed(); !slices.Equal(got, []string{"app", "app"}) { // one request of the daemon, and the one that the runtime carried out
		t.Errorf("stopped %v: the new instance must be left alone", got)
	}
}

func TestAPodOfAnotherUIDIsLeftAlone(t *testing.T) {
	r := request("restart", "app")
	r.Labels[v1beta1.LabelRequestPodUID] = "earlier"
	b := newBench(t, r)
	for range 3 {
		if _, err := b.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.killed(); len(got) > 0 || b.status("restart").Phase != "" {
		t.Errorf("stopped %v, phase %q", got, b.status("restart").Phase)
	}
}

func TestHooks(t *testing.T) {
	served := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served <- r.Host + r.URL.String() + " " + r.Header.Get("X-Why")
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, port intstr.IntOrString) *v1beta1.ProbeHandler {
		return &v1beta1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port, HTTPHeaders: []corev1.HTTPHeader{
			{Name: "Host", Value: "pod.example"}, {Name: "X-Why", Value: "drain"},
		}}}
	}
	exec := &v1beta1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"drain", "now"}}}
	for name, tc := range map[string]struct {
		hook           *v1beta1.ProbeHandler
		code           int32
		hangs          bool
		served, failed string
		grace          time.Duration
	}{
		"no hook":                               {grace: 10 * time.Second},
		"a command":                             {hook: exec, grace: 10 * time.Second},
		"a command that fails":                  {hook: exec, code: 3, failed: "ended with code 3", grace: 10 * time.Second},
		"a command that hangs":                  {hook: exec, hangs: true, failed: "deadline", grace: 2 * time.Second},
		"a request to a named port":             {hook: get("/drain?all=1", intstr.FromString("web")), served: "pod.example/drain?all=1 drain", grace: 10 * time.Second},
		"a request that is refused":             {hook: get("/refuse", intstr.FromInt(number)), served: "pod.example/refuse drain", failed: "500", grace: 10 * time.Second},
		"a request to a port that is not there": {hook: get("/", intstr.FromString("nope")), failed: "no port nope", grace: 10 * time.Second},
		"a connection, which does nothing":      {hook: &v1beta1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}, failed: "not supported", grace: 10 * time.Second},
		"a sleep of no time":                    {hook: &v1beta1.ProbeHandler{Sleep: &corev1.SleepAction{}}, grace: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("restart", "app")
			r.Spec.Containers[0].PreStop = tc.hook
			r.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: int32(number)}}
			if tc.hangs {
				r.Spec.Strategy.TerminationGracePeriodSeconds = ptr.To[int64](0)
			}
			b := newBench(t, r)
			b.runtime.OnExec = func(ctx context.Context, _ cri.Container, command []string) (cri.ExecResult, error) {
				if !slices.Equal(command, []string{"drain", "now"}) {
					t.Errorf("runs %v", command)
				}
				if tc.hangs {
					<-ctx.Done()
					return cri.ExecResult{}, ctx.Err()
				}
				return cri.ExecResult{ExitCode: tc.code}, nil
			}
			b.settle("restart")
			if tc.served != "" {
				if got := <-served; got != tc.served {
					t.Errorf("served %q, want %q", got, tc.served)
				}
			}
			told := b.told()
			if tc.failed == "" && strings.Contains(told, "FailedPreStopHook") || !strings.Contains(told, tc.failed) {
				t.Errorf("events: %s; want %q", told, tc.failed)
			}
			for _, call := range b.runtime.Calls() {
				if call.Verb == "Stop" && (call.Grace > tc.grace || call.Grace < tc.grace-2*time.Second) {
					t.Errorf("grace %s, want about %s", call.Grace, tc.grace)
				}
			}
			if got := b.status("restart").ContainerRecreateStates[0].Phase; got != v1beta1.RecreateSucceeded {
				t.Errorf("the container is %s: a hook that fails must not keep it", got)
			}
		})
	}
}
