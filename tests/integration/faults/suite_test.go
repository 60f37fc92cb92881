// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package faults_test puts faults between the operator and the API server and shows they
// cost time alone: no pod is made twice or lost, no more are taken out of service than
// allowed, and a troubled namespace affects no other.
package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// seed makes runs comparable.
const seed = 20260101

// env and proxy are shared by all tests of this package; every test has its own namespace.
var (
	env   *environment.Environment
	proxy *faultproxy.Proxy
)

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster:    cluster.Options{},
		Nodes:      &simnode.Options{Delays: simnode.Delays{Restart: 50 * time.Millisecond}},
		NoOperator: true,
	}, func(e *environment.Environment) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		env = e
		var err error
		if proxy, err = faultproxy.Start(e.Cluster, seed); err != nil {
			panic(fmt.Errorf("starting the proxy: %w", err))
		}
		if e.Operator, err = operator.Start(ctx, e.Cluster, operator.Options{Kubeconfig: proxy.Kubeconfig()}); err != nil {
			panic(fmt.Errorf("starting the operator: %w", err))
		}
	})
}

// faulty puts faults in place until the test ends.
func faulty(t *testing.T, faults faultproxy.Faults) {
	t.Helper()
	proxy.Counts()
	proxy.Set(faults)
	t.Cleanup(func() { proxy.Set(faultproxy.Faults{}) })
}

// observer follows a namespace's pods through its own watch, past the proxy, and misses
// nothing.
type observer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mutex sync.Mutex
	pods  map[string]*corev1.Pod
	// made are the UIDs by pod name.
	made map[string][]types.UID
	// counting: all pods are expected to exist; most is then the highest number out of
	// service.
	counting bool
	most     int
}

func observe(t *testing.T, n *environment.Namespace) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{cancel: cancel, done: make(chan struct{}), pods: map[string]*corev1.Pod{}, made: map[string][]types.UID{}}
	ready := make(chan struct{})
	go func() {
		defer close(o.done)
		tell := sync.OnceFunc(func() { close(ready) })
		for ctx.Err() == nil {
			o.follow(ctx, n, tell)
			select {
			case <-time.After(50 * time.Millisecond): // the API server is away
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(o.stop)
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("no watch of pods within 30 seconds")
	}
	return o
}

// follow lists and watches until the watch ends.
func (o *observer) follow(ctx context.Context, n *environment.Namespace, began func()) {
	list := &corev1.PodList{}
	if err := n.Client.List(ctx, list, client.InNamespace(n.Name)); err != nil {
		return
	}
	o.mutex.Lock()
	o.pods = map[string]*corev1.Pod{}
	for i := range list.Items {
		o.see(&list.Items[i])
	}
	o.count()
	o.mutex.Unlock()
	events, err := n.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(n.Name),
		&client.ListOptions{Raw: rawFrom(list.ResourceVersion)})
	if err != nil {
		return
	}
	defer events.Stop()
	began()
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		o.mutex.Lock()
		if event.Type == watch.Deleted {
			delete(o.pods, pod.Name)
		} else {
			o.see(pod)
		}
		o.count()
		o.mutex.Unlock()
	}
}

func (o *observer) see(pod *corev1.Pod) {
	o.pods[pod.Name] = pod
	if !slices.Contains(o.made[pod.Name], pod.UID) {
		o.made[pod.Name] = append(o.made[pod.Name], pod.UID)
	}
}

// count looks at every single state of the API server.
func (o *observer) count() {
	if !o.counting {
		return
	}
	serving := 0
	for _, pod := range o.pods {
		if serves(pod) {
			serving++
		}
	}
	o.most = max(o.most, len(o.made)-serving)
}

// serves is true if a pod is ready and nobody holds it back.
func serves(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || !environment.IsReady(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == "InPlaceUpdateReady" && c.Status == corev1.ConditionTrue
	})
}

// startCounting begins to look for the highest number of pods out of service.
func (o *observer) startCounting() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.counting, o.most = true, 0
}

// verify ends the watch and judges it: every pod was made once, and at most limit were out
// of service.
func (o *observer) verify(t *testing.T, pods, limit int) {
	t.Helper()
	o.stop()
	if len(o.made) != pods {
		t.Errorf("%d pods were made, want %d", len(o.made), pods)
	}
	for name, uids := range o.made {
		if len(uids) != 1 {
			t.Errorf("pod %s was made %d times", name, len(uids))
		}
	}
	if len(o.pods) != pods {
		t.Errorf("there are %d pods, want %d", len(o.pods), pods)
	}
	if o.most > limit {
		t.Errorf("up to %d pods were out of service at a time, want at most %d", o.most, limit)
	}
	if o.counting && o.most == 0 {
		t.Error("no pod was seen out of service: the watch missed the rollout")
	}
}

func (o *observer) stop() {
	o.cancel()
	<-o.done
}
