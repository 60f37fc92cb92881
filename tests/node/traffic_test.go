// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// TestNoRequestIsLost rolls three pods behind a Service while a client sends requests all the time. Like a proxy, the client knows
// nothing but the EndpointSlices.
func TestNoRequestIsLost(t *testing.T) {
	// Longer than a kubelet can write the earlier readiness, about two seconds.
	const grace, replicas = 4 * time.Second, 3
	n := onNode(t)
	set := guestbook(replicas)
	set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: int32(grace / time.Second)}
	// When a pod leaves the Service just as another one is let in, the EndpointSlice
	// controller meets its own write in a stale cache, and tries again a second or more
	// later. This would use up the grace period.
	set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(1))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 3000}}},
	}
	if err := n.Client.Create(t.Context(), service); err != nil {
		t.Fatalf("creating the Service: %v", err)
	}
	was := start(t, n, set)
	for i := range was {
		was[i] = steady(n, was[i])
	}
	states := follow(t, n)
	p := newProxy(t, n, service.Name, replicas)

	stop := p.sendRequests(t)
	n.Eventually("every pod serves the old version", serves(p, "v1", replicas))
	began := time.Now()
	n.SetImage("web", repository+":v2")
	n.Settled("web")
	took := time.Since(began)
	n.Eventually("every pod serves the new version", serves(p, "v2", replicas))
	requests := stop()

	for _, r := range requests {
		if r.err != nil {
			t.Errorf("a request to %s, %s after the rollout began, failed: %v", r.pod, seconds(r.sent.Sub(began)), r.err)
		}
	}
	if p.fewest < replicas-1 {
		t.Errorf("at some time only %d of %d endpoints were ready; maxUnavailable is 1", p.fewest, replicas)
	}
	var lateness time.Duration
	for i, is := range n.Pods() {
		assertSamePod(t, &was[i], &is)
		assertReplacedOnce(t, &was[i], &is, "web")
		history := states.of(n, &is)
		out, rest := first(t, history, "the pod is not ready", func(pod *corev1.Pod) bool { return !environment.IsReady(pod) })
		edited, rest := first(t, rest, "the image is changed", func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == repository+":v2" })
		assertNotReadyWithOld(t, append([]moment{edited}, rest...), &was[i])
		// The watch may have told the first of the two a little late.
		if drained := edited.at.Sub(out.at); drained < grace*3/4 {
			t.Errorf("pod %s was edited %s after it left the Service, want %s", is.Name, drained, grace)
		}
		again, _ := first(t, rest, "the pod is ready again", func(pod *corev1.Pod) bool {
			return environment.IsReady(pod) && condition(pod, shared.GateInPlaceUpdateReady).Status == corev1.ConditionTrue
		})
		// Conditions have whole seconds, rounded down. A slow machine may miss a probe later, so the last transition says nothing.
		ready := condition(again.pod, corev1.PodReady).LastTransitionTime.Time
		for _, r := range requests {
			if r.pod != is.Name {
				continue
			}
			if r.sent.After(edited.at) && r.sent.Before(ready) {
				t.Errorf("a request was sent to %s after its edit and %s before it was ready again", is.Name, ready.Sub(r.sent))
			}
			if r.sent.After(out.at) && r.sent.Before(edited.at) {
				lateness = max(lateness, r.sent.Sub(out.at))
			}
			if r.version == "v1" && r.sent.After(edited.at) {
				t.Errorf("the old container of %s was asked after the edit of its pod", is.Name)
			}
		}
	}
	t.Logf("measured: rollout of %d pods one at a time with a grace period of %s: %s; %d requests, none failed; last request to a pod %s after it was not ready",
		replicas, seconds(grace), seconds(took), len(requests), lateness.Round(time.Millisecond))
}

func serves(p *proxy, version string, replicas int) func(context.Context) error {
	return func(context.Context) error {
		if served := p.servedBy(version); len(served) != replicas {
			return fmt.Errorf("%s answers on %v", version, served)
		}
		return nil
	}
}

// proxy sends requests to the ready endpoints of a Service.
type proxy struct {
	mutex    sync.Mutex
	slices   map[string]map[string]string // the ready pods of each slice, and their addresses
	complete bool                         // every pod has been ready
	fewest   int                          // ready endpoints at any time since then
	next     int
	requests []request
}

// request is one request and its result.
type request struct {
	pod     string
	sent    time.Time
	version string
	err     error
}

// newProxy follows the EndpointSlices of a Service until the test ends, and returns when all its pods are ready endpoints.
func newProxy(t *testing.T, n *environment.Namespace, service string, replicas int) *proxy {
	t.Helper()
	watcher, err := n.Client.Watch(t.Context(), &discoveryv1.EndpointSliceList{}, client.InNamespace(n.Name),
		client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		t.Fatalf("watching EndpointSlices: %v", err)
	}
	p := &proxy{slices: map[string]map[string]string{}, fewest: replicas}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if slice, is := event.Object.(*discoveryv1.EndpointSlice); is {
				p.learn(slice, replicas)
			}
		}
	}()
	t.Cleanup(func() { watcher.Stop(); <-done })
	n.Eventually("all endpoints are ready", func(context.Context) error {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if !p.complete {
			return fmt.Errorf("ready are %v", p.slices)
		}
		return nil
	})
	return p
}

func (p *proxy) learn(slice *discoveryv1.EndpointSlice, replicas int) {
	ready := map[string]string{}
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
			ready[endpoint.TargetRef.Name] = endpoint.Addresses[0]
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.slices[slice.Name] = ready
	count := len(p.ready())
	p.complete = p.complete || count == replicas
	if p.complete {
		p.fewest = min(p.fewest, count)
	}
}

// ready are the addresses of ready pods. The mutex is held.
func (p *proxy) ready() map[string]string {
	all := map[string]string{}
	for _, ready := range p.slices {
		maps.Copy(all, ready)
	}
	return all
}

// sendRequests sends a hundred requests each second, to one ready pod after the other. The
// returned function ends it and returns all.
func (p *proxy) sendRequests(t *testing.T) func() []request {
	ctx, cancel := context.WithCancel(t.Context())
	c := newHTTPClient()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				running.Go(func() { p.send(t.Context(), c) })
			case <-ctx.Done():
				return
			}
		}
	})
	stop := func() []request {
		cancel()
		running.Wait()
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return slices.Clone(p.requests)
	}
	t.Cleanup(func() { stop() })
	return stop
}

func (p *proxy) send(ctx context.Context, c *http.Client) {
	p.mutex.Lock()
	ready := p.ready()
	pods := slices.Sorted(maps.Keys(ready))
	r := request{sent: time.Now(), err: errors.New("no endpoint was ready")}
	if len(pods) > 0 {
		r.pod = pods[p.next%len(pods)]
		p.next++
	}
	p.mutex.Unlock()
	if r.pod != "" {
		r.version, r.err = version(ctx, c, r.pod, ready[r.pod])
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.requests = append(p.requests, r)
}

// version asks a pod for its page and returns the version in it.
func version(ctx context.Context, c *http.Client, pod, address string) (string, error) {
	page, err := ask(ctx, c, "http://"+address+":3000/")
	if err != nil {
		return "", err
	}
	words := strings.Fields(page)
	if len(words) < 4 || strings.TrimSuffix(words[3], ",") != pod {
		return "", fmt.Errorf("the answer is %q, want one of pod %s", page, pod)
	}
	return words[1], nil
}

// servedBy are the pods with answers of this version.
func (p *proxy) servedBy(version string) []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var pods []string
	for _, r := range p.requests {
		if r.version == version {
			pods = append(pods, r.pod)
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}
