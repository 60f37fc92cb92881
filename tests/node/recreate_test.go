// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// runDaemon runs the node daemon in this process, on the socket of the node's containerd, until the test ends.
func runDaemon(t *testing.T) {
	t.Helper()
	runDaemonWith(t, env.Cluster.Config(), func(runtime cri.Runtime) cri.Runtime { return runtime })
}

// runDaemonWith runs it with another view of the API server and of the runtime, until the returned function is called or the test ends.
func runDaemonWith(t *testing.T, config *rest.Config, over func(cri.Runtime) cri.Runtime) (stop func()) {
	t.Helper()
	enter := theNode().Command(t.Context(), "true").Args
	at := slices.Index(enter, "--target")
	if at < 0 {
		t.Fatalf("the node is entered by %v", enter)
	}
	registry := prometheus.NewRegistry()
	runtime := cri.New(cri.Sockets("/proc/"+enter[at+1]+"/root/run"), registry)
	options := daemon.Options{Node: theNode().Name(), Namespace: "default", Address: "0", MaxPulls: 1}
	mgr, err := daemon.New(config, options, over(runtime), host.NewMetrics(registry))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon: %v", err)
		}
		runtime.Close()
	})
	t.Cleanup(stop)
	return stop
}

// recreated creates a request for containers of a pod and waits until it has succeeded.
func recreated(t *testing.T, n *environment.Namespace, name, pod string, how *v1beta1.ContainerRecreateRequestStrategy, containers ...string) *v1beta1.ContainerRecreateRequest {
	t.Helper()
	request := newRequest(t, n, name, pod, how, containers...)
	succeeds(n, request)
	return request
}

// newRequest creates a request.
func newRequest(t *testing.T, n *environment.Namespace, name, pod string, how *v1beta1.ContainerRecreateRequestStrategy, containers ...string) *v1beta1.ContainerRecreateRequest {
	t.Helper()
	request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	request.Spec.PodName, request.Spec.Strategy, request.Spec.ActiveDeadlineSeconds = pod, how, ptr.To[int64](60)
	for _, container := range containers {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: container})
	}
	create(t, n, request)
	return request
}

// succeeds waits until a request has succeeded.
func succeeds(n *environment.Namespace, request *v1beta1.ContainerRecreateRequest) {
	n.Eventually("request "+request.Name+" succeeds", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		for _, c := range request.Status.Conditions {
			if c.Type == v1beta1.RecreateConditionSucceeded && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", request.Status)
	})
}

// TestRestartOfOneContainer: a request restarts one container of a pod on containerd and leaves the other one running; the kubelet starts it
// again, and agrees when the pod is taken out of service before.
func TestRestartOfOneContainer(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(1))[0]
	runDaemon(t)

	request := recreated(t, n, "once", "web-0", nil, "web")
	is := n.Pod("web-0")
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	state := request.Status.ContainerRecreateStates[0]
	if !state.IsKilled || state.ContainerID != status(&was, "web").ContainerID {
		t.Errorf("the state is %+v", state)
	}

	seen := follow(t, n)
	recreated(t, n, "drained", "web-0", &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: ptr.To[int64](2)}, "web")
	var after *corev1.Pod
	n.Eventually("the pod serves again", func(context.Context) error {
		after = n.Pod("web-0")
		if holders := podstate.Holders(after); len(holders) > 0 || !environment.IsReady(after) {
			return fmt.Errorf("held by %v, the conditions are %+v", holders, after.Status.Conditions)
		}
		return nil
	})
	assertSamePod(t, &was, after)
	assertReplacedOnce(t, is, after, "web")
	states := seen.of(n, after)
	held, rest := first(t, states, "the request holds the pod", func(pod *corev1.Pod) bool { return len(podstate.Holders(pod)) > 0 })
	replaced, _ := first(t, rest, "the container is replaced", func(pod *corev1.Pod) bool {
		return status(pod, "web").ContainerID != status(is, "web").ContainerID
	})
	if environment.IsReady(held.pod) || replaced.at.Sub(held.at) < 1e9 {
		t.Errorf("ready %v while it is held, and replaced %s later", environment.IsReady(held.pod), replaced.at.Sub(held.at))
	}
}

// mortal is a daemon that dies right after one of its actions: stopping a container, or
// writing a status. Nothing it does later arrives.
type mortal struct {
	// dies is the last one.
	dies int
	dead chan struct{}

	mutex sync.Mutex
	done  []string
}

// does carries out one of them, unless the daemon is dead.
func (m *mortal) does(what string, do func() error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.done) >= m.dies {
		return errors.New("the daemon is dead")
	}
	err := do()
	if m.done = append(m.done, what); len(m.done) == m.dies {
		close(m.dead)
	}
	return err
}

type mortalRuntime struct {
	cri.Runtime
	*mortal
}

// Of implements cri.Runtime.
func (m mortalRuntime) Of(name string) cri.Runtime {
	return mortalRuntime{m.Runtime.Of(name), m.mortal}
}

// StopContainer implements cri.Runtime.
func (m mortalRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return m.does("stop", func() error { return m.Runtime.StopContainer(ctx, id, grace) })
}

// writes lets writes of a mortal daemon through.
type writes func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (w writes) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// TestTheDaemonDiesDuringARestart: if the daemon dies between two steps of a request, the
// next one continues, stops no container twice, and leaves the other one alone. The last
// request meets a restarting runtime.
func TestTheDaemonDiesDuringARestart(t *testing.T) {
	n := onNode(t)
	const steps = 3
	was := start(t, n, guestbook(steps+1))
	for i := range steps {
		m := &mortal{dies: i + 1, dead: make(chan struct{})}
		config := rest.CopyConfig(env.Cluster.Config())
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return writes(func(r *http.Request) (response *http.Response, err error) {
				if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/containerrecreaterequests/") {
					return next.RoundTrip(r)
				}
				err = m.does("write", func() error {
					response, err = next.RoundTrip(r) //nolint:bodyclose // whoever asked closes it
					return err
				})
				return response, err
			})
		})
		stop := runDaemonWith(t, config, func(runtime cri.Runtime) cri.Runtime { return mortalRuntime{runtime, m} })
		pod := was[i].Name
		request := newRequest(t, n, "dies-"+pod, pod, nil, "web")
		select {
		case <-m.dead:
		case <-time.After(time.Minute):
			t.Fatalf("after a minute the daemon has done %v", m.done)
		}
		stop()
		t.Logf("measured: the daemon died after it did %v", m.done)
		stop = runDaemonWith(t, env.Cluster.Config(), func(runtime cri.Runtime) cri.Runtime { return runtime })
		succeeds(n, request)
		stop()
		is := n.Pod(pod)
		assertSamePod(t, &was[i], is)
		assertReplacedOnce(t, &was[i], is, "web")
	}

	last := &was[steps]
	if err := theNode().StopProgram(t.Context(), realnode.Containerd); err != nil {
		t.Fatal(err)
	}
	again := sync.OnceValue(func() error { return theNode().StartProgram(context.Background(), realnode.Containerd) })
	t.Cleanup(func() { _ = again() })
	runDaemon(t)
	request := newRequest(t, n, "without-a-runtime", last.Name, nil, "web")
	n.Consistently(3*time.Second, "the request waits for the runtime", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if request.Status.Phase == v1beta1.RecreateCompleted {
			return fmt.Errorf("it is over: %+v", request.Status)
		}
		return nil
	})
	if err := again(); err != nil {
		t.Fatal(err)
	}
	succeeds(n, request)
	is := n.Pod(last.Name)
	assertSamePod(t, last, is)
	assertReplacedOnce(t, last, is, "web")
}
