// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containermeta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// bench is a daemon with a pod in memory: app reads the label release through its environment, log reads nothing.
type bench struct {
	*reconciler
	t       *testing.T
	runtime *critest.Runtime
	clock   *clocktesting.FakeClock
	events  *events.FakeRecorder
	writes  int
	// hash and exited are for containers made now. A zero hash is 255.
	hash   uint64
	exited bool
	// made is the value given to a container made now; empty: the label's.
	made string
}

func newBench(t *testing.T, change ...func(*corev1.Pod)) *bench {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web-0", UID: "uid", Labels: map[string]string{"release": "r2"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "set", Controller: ptr.To(true)}},
		Annotations: map[string]string{
			shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"2026-07-01T11:59:00Z","lastContainerStatuses":null,"updateEnvFromMetadata":true}`,
		},
	}}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionFalse}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1", Env: []corev1.EnvVar{{
		Name: "RELEASE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['release']"}},
	}}}, {Name: "log", Image: "log:1"}}
	for _, name := range []string{"app", "log"} {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name + "-0", Ready: true})
	}
	for _, c := range change {
		c(pod)
	}
	b := &bench{t: t, clock: clocktesting.NewFakeClock(now), events: events.NewFakeRecorder(100)}
	b.runtime = &critest.Runtime{OnStop: func(_ context.Context, c cri.Container, _ time.Duration) error {
		value := b.made
		if value == "" {
			value = b.pod().Labels["release"]
		}
		b.make(c.Name, c.Attempt+1, "RELEASE="+value)
		return nil
	}}
	b.make("app", 0, "PATH=/bin", "RELEASE=r1")
	b.make("log", 0, "PATH=/bin")
	stored := fake.NewClientBuilder().WithScheme(types).WithObjects(pod).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, of string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			b.writes++
			return c.Patch(ctx, object, patch) // a server takes annotations by the status, too
		},
	}).Build()
	b.reconciler = newReconciler(host.Host{Node: "node", Runtime: b.runtime, Events: b.events, Clock: b.clock, Metrics: host.NewMetrics(prometheus.NewRegistry())}, stored)
	return b
}

// make makes a container as the kubelet does.
func (b *bench) make(name string, attempt uint32, environment ...string) {
	b.runtime.AddPod(critest.Pod{Namespace: "ns", Name: "web-0", UID: "uid"}, cri.ContainerStatus{
		Container: cri.Container{
			ID: fmt.Sprintf("%s-%d", name, attempt), Name: name, Attempt: attempt, Exited: b.exited, Created: b.clock.Now().Add(time.Duration(attempt) * time.Millisecond),
			Annotations: map[string]string{kubeletHash: strconv.FormatUint(cmp.Or(b.hash, 255), 16)},
		},
		Environment: environment,
	})
}

func (b *bench) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: "ns", Name: "web-0"}, pod); err != nil {
		b.t.Fatal(err)
	}
	return pod
}

// pass reconciles the pod and waits for the work it began.
func (b *bench) pass() error {
	b.t.Helper()
	_, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web-0"}})
	b.stops.Wait()
	for len(b.stopped) > 0 {
		<-b.stopped
	}
	return err
}

// passes reconciles the pod so often, two seconds apart.
func (b *bench) passes(times int) {
	b.t.Helper()
	for range times {
		if err := b.pass(); err != nil {
			b.t.Fatal(err)
		}
		b.clock.Step(kubeletDelay)
	}
}

// told counts the events with a text, and takes all.
func (b *bench) told(text string) int {
	told := 0
	for len(b.events.Events) > 0 {
		if strings.Contains(<-b.events.Events, text) {
			told++
		}
	}
	return told
}

// calls are the runtime's calls about containers.
func (b *bench) calls() string {
	var all []string
	for _, call := range b.runtime.Calls() {
		all = append(all, call.Verb+" "+call.On)
	}
	return strings.Join(all, ", ")
}

// Nothing is run inside of the container, so it works without a shell; the report proves the update to the operator.
func TestAContainerThatReadsChangedMetadataIsRestarted(t *testing.T) {
	b := newBench(t)
	b.passes(1)
	if got := b.calls(); got != "" {
		t.Errorf("before the kubelet can have heard: %s", got)
	}
	b.passes(4)
	if got := b.calls(); got != "Stop app-0" {
		t.Errorf("asked of the runtime: %q, want one stop", got)
	}
	if b.writes != 1 {
		t.Errorf("%d writes, want one report", b.writes)
	}
	pod := b.pod()
	for i, id := range []string{"containerd://app-1", "containerd://log-0"} {
		pod.Status.ContainerStatuses[i].ContainerID = id
	}
	if s := inplace.Check(pod, inplace.Options{EnvFromMetadata: true}, b.clock.Now()); s.Progress != inplace.Done {
		t.Errorf("with the report %s the update is %+v", pod.Annotations[shared.AnnotationRuntimeContainersMeta], s)
	}
	if want := `"containerID":"containerd://app-1","restartCount":1,"hashes":{"plainHash":255,`; !strings.Contains(pod.Annotations[shared.AnnotationRuntimeContainersMeta], want) {
		t.Errorf("the report is %s, want %s in it", pod.Annotations[shared.AnnotationRuntimeContainersMeta], want)
	}
}

func TestContainersThatAreNotStopped(t *testing.T) {
	for what, tc := range map[string]struct{ pod func(*corev1.Pod) }{
		"a pod in service":                   {pod: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }},
		"a pod without the gate's condition": {pod: func(p *corev1.Pod) { p.Status.Conditions = nil }},
		"an update of images": {pod: func(p *corev1.Pod) {
			p.Annotations[shared.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-07-01T11:59:00Z","updateImages":true}`
		}},
		"a pod in its grace period":   {pod: func(p *corev1.Pod) { p.Annotations[shared.AnnotationInPlaceGrace] = `{"revision":"web-2"}` }},
		"a pod of another controller": {pod: func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" }},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, tc.pod)
			b.passes(4)
			if b.calls() != "" {
				t.Errorf("asked of the runtime: %q", b.calls())
			}
		})
	}
}

func TestAContainerThatNeverGetsTheValues(t *testing.T) {
	b := newBench(t)
	b.made = "other"
	b.passes(20)
	if got := strings.Count(b.calls(), "Stop"); got != maxRestarts {
		t.Errorf("stopped %d times, want %d", got, maxRestarts)
	}
	if told := b.told("EnvironmentDiffers"); told != 1 {
		t.Errorf("told %d times", told)
	}
}

// A failed stop restarts nothing, and is neither counted nor told as a restart. Anybody who
// may change a pod's metadata could make the daemon remember any number of values.
func TestValuesThatChangeWithoutEndAreNotAllRemembered(t *testing.T) {
	b := newBench(t)
	for i := range 10 {
		pod := b.pod()
		pod.Labels["release"] = fmt.Sprint("r", i+2)
		if err := b.client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := b.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if known := len(b.remembered(b.pod()).differ); known != 1 {
		t.Errorf("%d differences are remembered", known)
	}
}

func TestAStopThatFailsIsNoRestart(t *testing.T) {
	b := newBench(t)
	restarted := b.runtime.OnStop
	refused := errors.New("no such luck")
	b.runtime.OnStop = func(context.Context, cri.Container, time.Duration) error { return refused }
	failed := 0
	for range 30 {
		if err := b.pass(); errors.Is(err, refused) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
		b.clock.Step(kubeletDelay)
	}
	if got := strings.Count(b.calls(), "Stop"); got <= maxRestarts || got > 6 || failed < maxRestarts {
		t.Errorf("in a minute it was tried %d times, and %d failures were returned", got, failed)
	}
	if told := b.told("EnvironmentDiffers"); told != 0 {
		t.Error("an event says that the container was restarted")
	}
	b.runtime.OnStop = restarted
	b.made = "other"
	for range 60 {
		if err := b.pass(); err != nil && !errors.Is(err, refused) {
			t.Fatal(err)
		}
		b.clock.Step(kubeletDelay)
	}
	if got := b.runtime.Calls(); got[len(got)-1].On != fmt.Sprintf("app-%d", maxRestarts-1) || b.told("EnvironmentDiffers") != 1 {
		t.Errorf("when stops succeed again: %q", b.calls())
	}
}

// A runtime may end a container and report a failure: each new instance counts, so restarts
// end.
func TestAStopThatFailsAndEndsTheContainerIsARestart(t *testing.T) {
	b := newBench(t)
	b.made = "other"
	restarts := b.runtime.OnStop
	late := errors.New("it took too long")
	b.runtime.OnStop = func(ctx context.Context, c cri.Container, grace time.Duration) error {
		if err := restarts(ctx, c, grace); err != nil {
			return err
		}
		return late
	}
	for range 30 {
		if err := b.pass(); err != nil && !errors.Is(err, late) {
			t.Fatal(err)
		}
		b.clock.Step(kubeletDelay)
	}
	if got := strings.Count(b.calls(), "Stop"); got != maxRestarts || b.told("EnvironmentDiffers") != 1 {
		t.Errorf("stopped %d times, want %d", got, maxRestarts)
	}
}

// A container may take hours to stop. Meanwhile workers are free for other pods.
func TestAContainerThatTakesLongToStopHoldsUpNoWorker(t *testing.T) {
	b := newBench(t)
	gate := make(chan struct{})
	restarted := b.runtime.OnStop
	b.runtime.OnStop = func(ctx context.Context, c cri.Container, grace time.Duration) error {
		<-gate
		return restarted(ctx, c, grace)
	}
	for range 10 {
		if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web-0"}}); err != nil {
			t.Fatal(err)
		}
		b.clock.Step(kubeletDelay)
	}
	if len(b.stopped) != 0 {
		t.Error("the pod is looked at again, and nothing has stopped")
	}
	close(gate)
	b.stops.Wait()
	if len(b.stopped) != 1 {
		t.Fatal("nobody looks at the pod again")
	}
	var later enqueued
	looksAgain().Generic(t.Context(), <-b.stopped, &later)
	if later != (enqueued{later: 1}) {
		t.Errorf("enqueued %+v", later)
	}
	b.passes(2)
	if got := b.calls(); got != "Stop app-0" || b.writes != 1 {
		t.Errorf("asked of the runtime: %q, with %d writes; want one of each", got, b.writes)
	}
}

// A restarted daemon writes nothing about unchanged pods, and stops nothing.
func TestARestartOfTheDaemonWritesNothing(t *testing.T) {
	b := newBench(t)
	b.passes(6)
	calls, writes := b.calls(), b.writes
	if writes != 1 {
		t.Fatalf("%d writes, want one report", writes)
	}
	b.reconciler = newReconciler(b.Host, b.client)
	b.passes(6)
	if b.calls() != calls || b.writes != writes {
		t.Errorf("after the restart: asked of the runtime %q, was %q; %d writes, were %d", b.calls(), calls, b.writes, writes)
	}
}

// A daemon killed after a stop finds the new container and does not stop it again.
func TestADaemonThatWasKilledDoesNotRepeatAStop(t *testing.T) {
	b := newBench(t)
	b.passes(2)
	b.reconciler = newReconciler(b.Host, b.client)
	b.passes(4)
	if got := b.calls(); got != "Stop app-0" {
		t.Errorf("asked of the runtime: %q, want one stop", got)
	}
}

func TestARuntimeThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.runtime.SetDown(true)
	if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web-0"}}); err == nil {
		t.Error("no error, so nobody would come back")
	}
	b.runtime.SetDown(false)
	b.passes(5)
	if got := b.calls(); got != "Stop app-0" || b.writes != 1 {
		t.Errorf("asked of the runtime: %q, %d writes", got, b.writes)
	}
}

// Both tags are of one image: only the report proves the update at once.
func TestAnUpdateOfAnImageIsProvenByOneReport(t *testing.T) {
	b := newBench(t, func(p *corev1.Pod) {
		p.Generation, p.Status.ObservedGeneration = 2, 2
		p.Status.Phase = corev1.PodRunning
		p.Spec.Containers[1].Image = "log:2"
		p.Annotations = map[string]string{
			shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"2026-07-01T12:00:00Z","updateImages":true,` +
				`"lastContainerStatuses":{"log":{"imageID":"sha256:1"}},"containerBatchesRecord":[{"timestamp":"2026-07-01T12:00:00Z","containers":["log"]}]}`,
			shared.AnnotationRuntimeContainersMeta: `{"containers":[{"name":"app","containerID":"containerd://app-0","restartCount":0,"hashes":{"plainHash":7}},` +
				`{"name":"log","containerID":"containerd://log-0","restartCount":0,"hashes":{"plainHash":100}}]}`,
		}
		p.Status.ContainerStatuses[1].ImageID, p.Status.ContainerStatuses[1].Image = "sha256:1", "log:1"
	})
	b.passes(2)
	if b.writes != 0 {
		t.Fatalf("%d writes while the status shows the containers of the report", b.writes)
	}
	b.hash = 2221943522 // what a kubelet gives a container log of image log:2
	b.make("log", 1)
	pod := b.pod()
	pod.Status.ContainerStatuses[1].ContainerID = "containerd://log-1"
	pod.Status.ContainerStatuses[1].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(b.clock.Now())}}
	if err := b.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	options := inplace.Options{}
	if s := inplace.Check(b.pod(), options, b.clock.Now()); s.Progress == inplace.Done {
		t.Fatalf("without a report the update is %+v already", s)
	}
	b.passes(3)
	want := fmt.Sprintf(`{"containers":[{"name":"app","containerID":"containerd://app-0","restartCount":0,"hashes":{"plainHash":7}},`+
		`{"name":"log","containerID":"containerd://log-1","restartCount":1,"hashes":{"plainHash":%d,"extractedEnvFromMetadataHash":%d}}]}`,
		b.hash, hashOfNone)
	if got := b.pod().Annotations[shared.AnnotationRuntimeContainersMeta]; got != want || b.writes != 1 {
		t.Errorf("after %d writes the report is\n%s, want\n%s", b.writes, got, want)
	}
	if s := inplace.Check(b.pod(), options, b.clock.Now()); s.Progress != inplace.Done {
		t.Errorf("with the report the update is %+v", s)
	}
}

// hashOfNone is OpenKruise's hash of a container without metadata, from its fixtures.
const hashOfNone = 86995377

// A container ending at once is reported, too: an update must not wait for it.
func TestAContainerThatHasEndedIsReported(t *testing.T) {
	b := newBench(t, func(p *corev1.Pod) { p.Annotations = nil })
	b.exited = true
	b.make("log", 1)
	b.passes(2)
	if got := b.pod().Annotations[shared.AnnotationRuntimeContainersMeta]; b.writes != 1 || !strings.Contains(got, `"containerd://log-1","restartCount":1,"hashes":{"plainHash":255`) {
		t.Errorf("after %d writes the report is %s", b.writes, got)
	}
}

// enqueued records immediate and delayed additions.
type enqueued struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	now, later int
}

func (w *enqueued) Add(reconcile.Request)                     { w.now++ }
func (w *enqueued) AddAfter(reconcile.Request, time.Duration) { w.later++ }

const current = `{"containers":[{"name":"app","containerID":"containerd://app-0"},{"name":"log","containerID":"containerd://log-0"}]}`

func TestWhichPodsAreLookedAt(t *testing.T) {
	inService := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }
	reported := func(p *corev1.Pod) { p.Annotations[shared.AnnotationRuntimeContainersMeta] = current }
	cases := map[string]struct {
		change []func(*corev1.Pod)
		// added and updated are how the pod is enqueued when the daemon finds it, and when it changes.
		added, updated enqueued
	}{
		"without a report":     {change: []func(*corev1.Pod){inService}, updated: enqueued{later: 1}},
		"with its report":      {change: []func(*corev1.Pod){inService, reported}},
		"its restart is asked": {added: enqueued{now: 1}, updated: enqueued{now: 1}},
		"another container runs": {
			change: []func(*corev1.Pod){inService, reported, func(p *corev1.Pod) { p.Status.ContainerStatuses[1].ContainerID = "containerd://log-1" }},
			added:  enqueued{later: 1}, updated: enqueued{later: 1},
		},
		"the status names the containers in another order": {
			change: []func(*corev1.Pod){inService, reported, func(p *corev1.Pod) { slices.Reverse(p.Status.ContainerStatuses) }},
		},
		"a container was never made": {
			change: []func(*corev1.Pod){inService, reported, func(p *corev1.Pod) {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "late"})
			}},
		},
		"a container is new": {
			change: []func(*corev1.Pod){inService, reported, func(p *corev1.Pod) {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "late", ContainerID: "containerd://late-0"})
			}},
			added: enqueued{later: 1}, updated: enqueued{later: 1},
		},
		"the report cannot be read": {
			change: []func(*corev1.Pod){inService, func(p *corev1.Pod) { p.Annotations[shared.AnnotationRuntimeContainersMeta] = "{" }},
			added:  enqueued{later: 1}, updated: enqueued{later: 1},
		},
		"of another controller": {change: []func(*corev1.Pod){inService, func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" }}},
		"of another controller, with a sidecar": {
			change: []func(*corev1.Pod){inService, func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion = "apps/v1"
				p.Annotations[shared.AnnotationSidecarSetHash] = "{}"
			}},
			updated: enqueued{later: 1},
		},
		"terminating": {change: []func(*corev1.Pod){func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			p.Finalizers = []string{"a/b"}
		}}},
		"ended":       {change: []func(*corev1.Pod){inService, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }}},
		"not started": {change: []func(*corev1.Pod){inService, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }}},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			pod := newBench(t, tc.change...).pod()
			var added, updated enqueued
			podEvents().Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: pod}, &added)
			podEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: pod}, &updated)
			if added != tc.added || updated != tc.updated {
				t.Errorf("when found: %+v, want %+v; when changed: %+v, want %+v", added, tc.added, updated, tc.updated)
			}
		})
	}
}
