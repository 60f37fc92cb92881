// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// door is one address for several replicas, as a Service is, and leads to one of them at a time.
type door struct {
	listener net.Listener
	mutex    sync.Mutex
	to       string
	open     map[net.Conn]bool
}

func newDoor(t *testing.T) *door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: listener, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); d.leadTo(t, nil) })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go d.pass(in)
		}
	}()
	return d
}

func (d *door) url() string { return "https://" + d.listener.Addr().String() }

// leadTo leads to another replica, or to none, and ends the connections to the one before.
func (d *door) leadTo(t *testing.T, o *operator.Operator) {
	t.Helper()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.to = ""
	if o != nil {
		at, err := url.Parse(o.WebhookURL())
		if err != nil {
			t.Fatal(err)
		}
		d.to = at.Host
	}
	for conn := range d.open {
		_ = conn.Close()
	}
	clear(d.open)
}

// pass copies between a client and the replica until one of them closes.
func (d *door) pass(in net.Conn) {
	d.mutex.Lock()
	out, err := net.Dial("tcp", d.to)
	if err != nil {
		d.mutex.Unlock()
		_ = in.Close()
		return
	}
	d.open[in], d.open[out] = true, true
	d.mutex.Unlock()
	both := func(to, from net.Conn) { _, _ = io.Copy(to, from); _ = to.Close(); _ = from.Close() }
	go both(out, in)
	both(in, out)
	d.mutex.Lock()
	delete(d.open, in)
	delete(d.open, out)
	d.mutex.Unlock()
}

// replicasBehind are a leader and a standby with one address for their webhooks.
func (e *testEnv) replicasBehind(d *door) (leader, standby *operator.Operator) {
	e.t.Helper()
	if err := install.Install(e.t.Context(), e.Client, install.Options{WebhookURL: d.url()}); err != nil {
		e.t.Fatal(err)
	}
	start := func(name string) *operator.Operator {
		o, err := operator.New(e.t.Context(), e.Cluster, operator.Options{Name: name, LeaderElect: true, Args: []string{"--webhook-url=" + d.url()}})
		if err == nil {
			err = o.Run(e.t.Context())
		}
		if err != nil {
			e.t.Fatal(err)
		}
		e.t.Cleanup(func() { _ = o.Stop() })
		return o
	}
	leader = start("leader")
	d.leadTo(e.t, leader)
	n := e.Namespace(e.t)
	n.Eventually("it leads", func(context.Context) error {
		if len(logged(e.t, leader, `"msg":"Starting workers"`)) == 0 {
			return fmt.Errorf("no worker has started")
		}
		return nil
	})
	return leader, start("standby")
}

// told counts warnings that a set may not be in force.
type told struct{ times int }

// HandleWarningHeader implements rest.WarningHandler.
func (w *told) HandleWarningHeader(_ int, _, text string) {
	if strings.Contains(text, "may not get the sidecars") {
		w.times++
	}
}

// announced creates a set for one namespace. It reports whether its answer was without a warning.
func (e *testEnv) announced(n *environment.Namespace, name string, byWebhook bool) (*v1beta1.SidecarSet, bool) {
	e.t.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}}
	agent := v1beta1.SidecarContainer{Container: corev1.Container{Name: "agent", Image: "example/agent:v1"}}
	if byWebhook { // such expressions are beyond policies
		agent.ResourcesPolicy = &v1beta1.SidecarResourcesPolicy{
			TargetContainersMode: v1beta1.TargetContainersSum, TargetContainersNameRegex: ".*",
			ResourcesExpr: v1beta1.SidecarResourcesExpr{
				Requests: &v1beta1.SidecarResourceExpressions{CPU: strings.Repeat("max(", 9) + "cpu" + strings.Repeat("/2, 1m)", 9)},
			},
		}
	}
	set.Spec.Containers = []v1beta1.SidecarContainer{agent}
	config, warnings := rest.CopyConfig(e.Cluster.Config()), &told{}
	config.WarningHandler, config.WarningHandlerWithContext = warnings, nil
	author, err := client.New(config, client.Options{Scheme: environment.Scheme()})
	if err == nil {
		err = author.Create(e.t.Context(), set)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.t.Context()), set)) })
	return set, warnings.times == 0
}

// hasSidecar creates a pod for a set in a dry run.
func (e *testEnv) hasSidecar(ctx context.Context, n *environment.Namespace, set string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, GenerateName: set + "-", Labels: map[string]string{"app": set}}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example/main:v1"}}
	if err := e.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if len(pod.Spec.Containers) != 2 {
		return fmt.Errorf("a pod for %s has no sidecar", set)
	}
	return nil
}

// inForceByLeader waits until a leader has taken over a set. Each pod until then has its sidecar.
func (e *testEnv) inForceByLeader(n *environment.Namespace, sets ...*v1beta1.SidecarSet) {
	e.t.Helper()
	n.EventuallyWithin(3*time.Minute, "the leader has the sets", func(ctx context.Context) error {
		var waits error
		for _, set := range sets {
			if err := e.hasSidecar(ctx, n, set.Name); err != nil {
				e.t.Fatal(err)
			}
			have := &v1beta1.SidecarSet{}
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(set), have); err != nil {
				return err
			}
			if have.Status.ObservedGeneration != have.Generation {
				waits = fmt.Errorf("%s has the status %+v", set.Name, have.Status)
			}
		}
		return waits
	})
}

// Any replica answers for a set, also one that does not lead, and a leader that is killed right after the
// answer has done nothing for it yet. Pods created from the answer on have their sidecar all the same.
func TestSidecarsWhicheverReplicaLives(t *testing.T) {
	e := take(t)
	d := newDoor(t)
	leader, standby := e.replicasBehind(d)
	n := e.Namespace(t)
	ways := map[string]bool{"policy": false, "webhook": true}
	created := func(when string) (sets []*v1beta1.SidecarSet) {
		for way, byWebhook := range ways {
			set, inForce := e.announced(n, n.Name+"-"+when+"-"+way, byWebhook)
			if !inForce {
				n.Eventually("a set with a warning is in force a little later", func(ctx context.Context) error { return e.hasSidecar(ctx, n, set.Name) })
			} else if err := e.hasSidecar(t.Context(), n, set.Name); err != nil {
				t.Errorf("%s: right after the answer: %v", when, err)
			}
			sets = append(sets, set)
		}
		return sets
	}

	e.inForceByLeader(n, created("leader")...)
	d.leadTo(t, standby)
	e.inForceByLeader(n, created("standby")...)

	d.leadTo(t, leader)
	last := created("killed")
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	d.leadTo(t, standby)
	last = append(last, created("without-leader")...)
	e.inForceByLeader(n, last...)
	if len(logged(t, standby, `"msg":"Starting workers"`)) == 0 {
		t.Error("the standby does not lead")
	}
}
