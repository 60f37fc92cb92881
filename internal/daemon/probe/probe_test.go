// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// daemon is a prober on a node with one pod of two containers; the test makes its passes.
type daemon struct {
	*prober
	t       *testing.T
	runtime *critest.Runtime
	events  *events.FakeRecorder
	// lifetime is the daemon's, and end ends it.
	lifetime context.Context
	end      context.CancelFunc

	mu     sync.Mutex
	answer map[string]cri.ExecResult
	fails  error
	writes int
}

func start(t *testing.T, list *appsv1alpha1.NodePodProbe) *daemon {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, events: events.NewFakeRecorder(100), answer: map[string]cri.ExecResult{}}
	d.runtime = &critest.Runtime{Restart: true, OnExec: func(_ context.Context, _ cri.Container, command []string) (cri.ExecResult, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.answer[command[0]], d.fails
	}}
	begun := time.Now().Add(-time.Hour)
	d.runtime.AddPod(critest.Pod{Namespace: "ns", Name: "p", UID: "u"},
		cri.ContainerStatus{Container: cri.Container{ID: "app-id", Name: "app", Created: begun}, Started: begun},
		cri.ContainerStatus{Container: cri.Container{ID: "log-id", Name: "log", Created: begun}, Started: begun})
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(list).WithStatusSubresource(list).WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
	) error {
		d.writes++
		return c.SubResource(subresource).Patch(ctx, object, patch, options...)
	}}).Build()
	d.restart(c)
	return d
}

// restart replaces the daemon by a new one without memory.
func (d *daemon) restart(c client.Client) {
	if d.end != nil {
		d.end()
	}
	ctx, end := context.WithCancel(d.t.Context())
	d.t.Cleanup(end)
	d.end = end
	d.lifetime = ctx
	d.prober = newProber(host.Host{
		Node: "n1", Runtime: d.runtime, Events: d.events, Clock: clock.RealClock{}, Metrics: host.NewMetrics(prometheus.NewRegistry()),
	}, c)
	d.limit, d.begun, d.spread = flowcontrol.NewFakeAlwaysRateLimiter(), time.Time{}, func() float64 { return 0 }
}

func list(probes ...appsv1alpha1.ContainerProbe) *appsv1alpha1.NodePodProbe {
	l := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "list"}}
	l.Spec.PodProbes = []appsv1alpha1.PodProbe{{Name: "p", Namespace: "ns", UID: "u", IP: "127.0.0.1", Probes: probes}}
	return l
}

func exec(name, container, command string) appsv1alpha1.ContainerProbe {
	return appsv1alpha1.ContainerProbe{Name: "m#" + name, ContainerName: container, Probe: corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}}
}

func (d *daemon) answers(command string, code int32, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer[command] = cri.ExecResult{ExitCode: code, Stdout: []byte(text), Stderr: []byte(text)}
}

func (d *daemon) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

func (d *daemon) pass() {
	d.t.Helper()
	request := reconcile.Request{}
	request.Name = "n1"
	if _, err := d.Reconcile(d.lifetime, request); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) stored() *appsv1alpha1.NodePodProbe {
	d.t.Helper()
	l := &appsv1alpha1.NodePodProbe{}
	if err := d.Client.Get(d.t.Context(), client.ObjectKey{Name: "n1"}, l); err != nil {
		d.t.Fatal(err)
	}
	return l
}

// says is the stored status as text.
func (d *daemon) says() string {
	var parts []string
	for _, pod := range d.stored().Status.PodProbeStatuses {
		for _, s := range pod.ProbeStates {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.Name, s.State, s.Message, s.Error)))
		}
	}
	return strings.Join(parts, ", ")
}

// until passes until the status says so.
func (d *daemon) until(want string) {
	d.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		d.pass()
		got := d.says()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the status says %q, want %q", got, want)
		}
		select {
		case <-d.Changed:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *daemon) change(change func(*appsv1alpha1.NodePodProbe)) {
	d.t.Helper()
	l := d.stored()
	change(l)
	if err := d.Client.Update(d.t.Context(), l); err != nil {
		d.t.Fatal(err)
	}
}

func TestProbesOfTwoContainers(t *testing.T) {
	d := start(t, list(exec("idle", "app", "idle"), exec("full", "log", "full")))
	d.answers("idle", 0, "yes")
	d.answers("full", 1, "no room")
	d.until("m#idle Succeeded yes, m#full Failed no room")
	d.answers("idle", 3, "busy")
	d.until("m#idle Failed busy, m#full Failed no room")
	got := []string{<-d.events.Events, <-d.events.Events, <-d.events.Events}
	for _, want := range []string{
		"Normal KruiseProbeSucceeded Probe idle of PodProbeMarker m succeeded", "Warning KruiseProbeFailed Probe full of PodProbeMarker m failed",
		"Warning KruiseProbeFailed Probe idle of PodProbeMarker m failed",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("events %q, want one that is %q", got, want)
		}
	}
}

func TestACommandRunsInTheRuntimeOfItsPod(t *testing.T) {
	d := start(t, list(exec("idle", "app", "idle")))
	d.runtime.Name = "cri-o"
	d.Runtime = critest.Several{Runtime: &critest.Runtime{}, Others: []*critest.Runtime{d.runtime}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "cri-o://app-id"}}
	if err := d.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	d.answers("idle", 0, "yes")
	d.until("m#idle Succeeded yes")
}

func TestTriesAreMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	d := start(t, list())
	d.Metrics = host.NewMetrics(registry)
	d.answers("idle", 0, "yes")
	d.change(func(stored *appsv1alpha1.NodePodProbe) { stored.Spec = list(exec("idle", "app", "idle")).Spec })
	d.until("m#idle Succeeded yes")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		one := family.GetMetric()[0]
		if family.GetName() != "kruise_daemon_probe_duration_seconds" || one.GetHistogram().GetSampleCount() == 0 {
			continue
		}
		if labels := one.GetLabel(); labels[0].GetValue() != "exec" || labels[1].GetValue() != "success" {
			t.Errorf("measured %v", labels)
		}
		return
	}
	t.Error("no try was measured")
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	d := start(t, list(exec("idle", "app", "idle")))
	d.answers("idle", 0, "yes")
	d.until("m#idle Succeeded yes")
	writes, tried := d.writes, len(d.runtime.Calls())
	deadline := time.Now().Add(60 * time.Second)
	for len(d.runtime.Calls()) < tried+3 {
		if time.Now().After(deadline) {
			t.Fatal("it is not tried any more")
		}
		d.pass()
		<-time.After(50 * time.Millisecond)
	}
	if d.writes != writes {
		t.Errorf("%d writes while nothing has changed", d.writes-writes)
	}
	// Another message is no change of state: it waits for its minute.
	d.answers("idle", 0, "still")
	for len(d.runtime.Calls()) < tried+5 {
		if time.Now().After(deadline) {
			t.Fatal("it is not tried any more")
		}
		d.pass()
		<-time.After(50 * time.Millisecond)
	}
	if d.writes != writes || d.says() != "m#idle Succeeded yes" {
		t.Errorf("%d writes, and it says %q", d.writes-writes, d.says())
	}
	d.told = time.Now().Add(-2 * messageInterval)
	d.until("m#idle Succeeded still")
}

func TestGoesOnAfterARestart(t *testing.T) {
	d := start(t, list(exec("idle", "app", "idle")))
	d.answers("idle", 0, "yes")
	d.until("m#idle Succeeded yes")
	select {
	case <-d.events.Events:
	case <-time.After(10 * time.Second):
		t.Fatal("no event came")
	}
	before, writes := d.stored().Status, d.writes
	d.restart(d.Client)
	tried := len(d.runtime.Calls())
	deadline := time.Now().Add(60 * time.Second)
	for len(d.runtime.Calls()) < tried+2 {
		if time.Now().After(deadline) {
			t.Fatal("it is not tried after the restart")
		}
		d.pass()
		<-time.After(50 * time.Millisecond)
	}
	if d.writes != writes || !d.stored().Status.PodProbeStatuses[0].ProbeStates[0].LastTransitionTime.Equal(before.PodProbeStatuses[0].ProbeStates[0].LastTransitionTime) {
		t.Errorf("%d writes after a restart without news", d.writes-writes)
	}
	select {
	case e := <-d.events.Events:
		t.Errorf("told again: %s", e)
	default:
	}
}

func TestAReplacedContainerAndARemovedProbe(t *testing.T) {
	never := exec("idle", "app", "idle")
	never.Probe.SuccessThreshold = 1000
	d := start(t, list(exec("idle", "app", "idle"), exec("other", "log", "other")))
	d.answers("idle", 0, "yes")
	d.answers("other", 0, "yes")
	d.until("m#idle Succeeded yes, m#other Succeeded yes")
	d.change(func(l *appsv1alpha1.NodePodProbe) { l.Spec.PodProbes[0].Probes[0] = never })
	d.until("m#idle Succeeded yes, m#other Succeeded yes")
	if err := d.runtime.StopContainer(t.Context(), "app-id", 0); err != nil {
		t.Fatal(err)
	}
	d.until("m#idle Unknown, m#other Succeeded yes")
	d.change(func(l *appsv1alpha1.NodePodProbe) {
		l.Spec.PodProbes[0].Probes = l.Spec.PodProbes[0].Probes[1:]
	})
	d.until("m#other Succeeded yes")
	d.change(func(l *appsv1alpha1.NodePodProbe) { l.Spec.PodProbes = nil })
	d.until("")
	if len(d.probes) != 0 {
		t.Errorf("%d probes go on", len(d.probes))
	}
}

func TestAnotherPeriodHoldsAtOnce(t *testing.T) {
	slow := exec("idle", "app", "idle")
	slow.Probe.PeriodSeconds = 86400
	d := start(t, list(slow))
	d.answers("idle", 0, "yes")
	d.until("m#idle Succeeded yes")
	d.answers("idle", 1, "busy")
	d.change(func(l *appsv1alpha1.NodePodProbe) { l.Spec.PodProbes[0].Probes[0].Probe.PeriodSeconds = 1 })
	d.until("m#idle Failed busy")
}

// OpenKruise's lists omit defaults; its daemon takes one second and one failure then.
func TestWhatAProbeLeavesOutIsTheDefaultOfTheKubelet(t *testing.T) {
	probe := exec("idle", "app", "idle")
	probe.Probe = corev1.Probe{ProbeHandler: probe.Probe.ProbeHandler, PeriodSeconds: 5}
	d := start(t, list(probe))
	d.pass()
	got, _ := d.probes[key{"u", "m#idle"}].current()
	if got.PeriodSeconds != 5 || got.TimeoutSeconds != 1 || got.SuccessThreshold != 1 || got.FailureThreshold != 3 {
		t.Errorf("carried out is %+v", got)
	}
}

// A try may take its timeoutSeconds, up to a day by admission.
func TestProbesThatHangHoldUpNoOtherNamespace(t *testing.T) {
	var hang []appsv1alpha1.ContainerProbe
	for i := range tries + 2*ownTries {
		p := exec(fmt.Sprintf("hang-%d", i), "app", "hang")
		p.Probe.TimeoutSeconds = 86400
		hang = append(hang, p)
	}
	l := list(hang...)
	l.Spec.PodProbes = append(l.Spec.PodProbes, appsv1alpha1.PodProbe{
		Name: "victim", Namespace: "other", UID: "v", IP: "127.0.0.1", Probes: []appsv1alpha1.ContainerProbe{exec("idle", "app", "idle")},
	})
	d := start(t, list())
	begun := time.Now().Add(-time.Hour)
	d.runtime.AddPod(critest.Pod{Namespace: "other", Name: "victim", UID: "v"},
		cri.ContainerStatus{Container: cri.Container{ID: "victim-id", Name: "app", Created: begun}, Started: begun})
	d.answers("idle", 0, "yes")
	hanging := make(chan struct{})
	answers := d.runtime.OnExec
	d.runtime.OnExec = func(ctx context.Context, c cri.Container, command []string) (cri.ExecResult, error) {
		if command[0] == "hang" {
			select {
			case hanging <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return cri.ExecResult{}, ctx.Err()
		}
		return answers(ctx, c, command)
	}
	d.change(func(stored *appsv1alpha1.NodePodProbe) { stored.Spec = list(hang...).Spec })
	d.pass()
	for range tries + ownTries { // the others of their namespace wait
		<-hanging
	}
	d.change(func(stored *appsv1alpha1.NodePodProbe) { stored.Spec = l.Spec })
	d.until("m#idle Succeeded yes")
}

func TestWhatCannotBeTriedIsTold(t *testing.T) {
	p := exec("idle", "app", "idle")
	p.Probe.FailureThreshold = 2
	d := start(t, list(p))
	d.answers("idle", 0, "yes")
	d.until("m#idle Succeeded yes")
	d.fail(errors.New("no shell in app-id"))
	d.until("m#idle Succeeded yes no shell in app")
	d.fail(nil)
	d.until("m#idle Succeeded yes")
	d.runtime.SetDown(true)
	d.until("m#idle Succeeded yes asking for the container: asking: " + cri.ErrUnavailable.Error())
	d.runtime.SetDown(false)
	d.until("m#idle Succeeded yes")
	d.fail(context.DeadlineExceeded)
	d.until("m#idle Failed the command has not ended after 1s")
}

func TestRequestsAndConnections(t *testing.T) {
	var seen http.Header
	var host string
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(_ http.ResponseWriter, r *http.Request) { seen, host = r.Header.Clone(), r.Host })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://other.example/ok", http.StatusFound)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(secure.Close)
	port := func(address net.Addr) intstr.IntOrString {
		_, text, err := net.SplitHostPort(address.String())
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return intstr.FromInt(number)
	}
	open, closed := port(server.Listener.Addr()), intstr.FromInt(1)
	for name, tc := range map[string]struct {
		got  probing.Outcome
		want string
	}{
		"an answer":                    {get(t.Context(), &corev1.HTTPGetAction{Path: "/ok", Port: open}, "127.0.0.1", time.Minute), "true 200 OK"},
		"an answer over TLS":           {get(t.Context(), &corev1.HTTPGetAction{Path: "/ok?x=1", Port: port(secure.Listener.Addr()), Scheme: "HTTPS"}, "127.0.0.1", time.Minute), "true 200 OK"},
		"an error":                     {get(t.Context(), &corev1.HTTPGetAction{Path: "/broken", Port: open}, "127.0.0.1", time.Minute), "false HTTP probe failed with status 503"},
		"a redirect is followed":       {get(t.Context(), &corev1.HTTPGetAction{Path: "/moved", Port: open}, "127.0.0.1", time.Minute), "false HTTP probe failed with status 503"},
		"one to another host is not":   {get(t.Context(), &corev1.HTTPGetAction{Path: "/elsewhere", Port: open}, "127.0.0.1", time.Minute), "true 302 Found to host other.example"},
		"nobody listens":               {get(t.Context(), &corev1.HTTPGetAction{Path: "/ok", Port: closed}, "127.0.0.1", time.Minute), "false dial tcp 127.0.0.1:1: connect: connection refused"},
		"too slow":                     {get(t.Context(), &corev1.HTTPGetAction{Path: "/slow", Port: open}, "127.0.0.1", 100*time.Millisecond), "false context deadline exceeded"},
		"no address":                   {get(t.Context(), &corev1.HTTPGetAction{Path: "/ok", Port: open}, "", time.Minute), `error the pod has no address, but ""`},
		"a name that nobody resolves":  {get(t.Context(), &corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("web")}, "127.0.0.1", time.Minute), "error web is no number"},
		"a path that is another host":  {get(t.Context(), &corev1.HTTPGetAction{Path: "http://other.example/ok", Port: open}, "127.0.0.1", time.Minute), "true 200 OK"},
		"a connection":                 {connect(t.Context(), open, "127.0.0.1", time.Minute), "true"},
		"no connection":                {connect(t.Context(), closed, "127.0.0.1", time.Minute), "false dial tcp 127.0.0.1:1: connect: connection refused"},
		"no connection without a port": {connect(t.Context(), intstr.FromInt(0), "127.0.0.1", time.Minute), "error 0 is no number"},
	} {
		said := fmt.Sprint(tc.got.Success, " ", tc.got.Message)
		if tc.got.Error != "" {
			said = "error " + tc.got.Error
		}
		if !strings.HasPrefix(said, tc.want) {
			t.Errorf("%s: %q, want %q", name, said, tc.want)
		}
	}
	if seen.Get("User-Agent") != "kube-probe" || seen.Get("Accept") != "*/*" {
		t.Errorf("headers %v", seen)
	}
	headers := []corev1.HTTPHeader{{Name: "Host", Value: "game.example"}, {Name: "User-Agent", Value: "mine"}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}}
	get(t.Context(), &corev1.HTTPGetAction{Path: "/ok", Port: open, HTTPHeaders: headers}, "127.0.0.1", time.Minute)
	if host != "game.example" || seen.Get("User-Agent") != "mine" || len(seen.Values("X-A")) != 2 {
		t.Errorf("host %s, headers %v", host, seen)
	}
}
