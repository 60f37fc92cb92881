// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// releases records when the lease is given back.
func (e *testEnv) releases() func() []time.Time {
	e.t.Helper()
	events, err := e.Client.Watch(e.t.Context(), &coordinationv1.LeaseList{}, client.InNamespace("kruise-system"), client.MatchingFields{"metadata.name": "kruise-operator-manager"})
	if err != nil {
		e.t.Fatal(err)
	}
	var at []time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && event.Type == watch.Modified && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
				at = append(at, time.Now())
			}
		}
	}()
	return func() []time.Time {
		events.Stop()
		<-done
		return at
	}
}

// Workers change in the middle of a rollout: the operator restarts within its process, and the rollout goes on as if nothing had been.
func TestChangeInTheMiddleOfARollout(t *testing.T) {
	e := take(t)
	const replicas = 40
	o := e.start(operator.Options{Name: "rollout"})
	s := scenario.Start(t, e.Environment, replicas, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Sim(simnode.RestartDelay, "100ms"))
	e.mustConfigure(s.Namespace, "{kinds: [StatefulSet], workers: 2}")
	s.Done()
	pid := o.PID()
	began := len(logged(t, o, `"msg":"Starting"`))
	before := s.Identities()
	log, err := audit.Open(e.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	released := e.releases()
	s.Update(scenario.Image(scenario.V2))
	s.Await("some pods are updated", func(pods map[int]corev1.Pod) error {
		moved := 0
		for _, p := range pods {
			if p.Spec.Containers[0].Image == scenario.V2 {
				moved++
			}
		}
		if moved < 8 || moved > replicas/2 {
			return fmt.Errorf("%d are", moved)
		}
		return nil
	})
	written := e.writing(s.Name())
	kruise := e.mustConfigure(s.Namespace, "{kinds: [StatefulSet], workers: 7, featureGates: [{name: StatefulSetStartOrdinal, state: Enabled}]}")
	s.Done()
	writes, longest, err := written()
	t.Logf("measured: of %d writes by users none failed, and the longest took %s", writes, longest.Round(time.Millisecond))
	if err != nil {
		t.Errorf("users' writes were refused: %v", err)
	}

	if !slices.Contains(kruise.Status.FeatureGates, "StatefulSetStartOrdinal") || len(kruise.Status.Replicas) != 1 || kruise.Status.Replicas[0].Role != operatorv1alpha1.ReplicaLeader {
		t.Errorf("the status is %+v", kruise.Status)
	}
	select {
	case <-o.Done():
		t.Fatal("the process ended")
	default:
	}
	if starts := len(logged(t, o, `"msg":"Starting"`)); o.PID() != pid || starts != began+1 {
		t.Errorf("process %d was %d, and started %d times, want %d", o.PID(), pid, starts, began+1)
	}
	if lines := logged(t, o, `"msg":"Starting workers"`, `"controller":"statefulset-controller"`); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], `"worker count":7`) {
		t.Errorf("workers started: %s", lines)
	}
	s.Kept(before, 1)
	if verdict := s.Limits.Verify(); verdict.Taken != replicas || verdict.Peak > 2 {
		t.Errorf("%d pods were taken out of service, at most %d at once; want %d and at most 2", verdict.Taken, verdict.Peak, replicas)
	}
	at := released()
	if len(at) != 1 {
		t.Fatalf("the lease was given back %d times, want 1", len(at))
	}
	requests, err := log.Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		t.Fatal(err)
	}
	var first time.Duration
	for i := range requests {
		e := &requests[i]
		if ref := e.ObjectRef; ref != nil && ref.Resource == "pods" && e.Verb == "patch" && e.RequestReceivedTimestamp.After(at[0]) {
			first = e.RequestReceivedTimestamp.Sub(at[0])
			break
		}
	}
	t.Logf("measured: the first write to a pod came %s after the lease was given back", first.Round(time.Millisecond))
	// Without handing the lease over it would be the lease's duration, 15 s.
	if first <= 0 || first > 10*time.Second {
		t.Errorf("the first write came %s after the lease was given back, want at most 10s", first)
	}
}

// writing asks for admission again and again, as users do, until it is told to stop.
func (e *testEnv) writing(namespace string) (stop func() (writes int, longest time.Duration, err error)) {
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan struct{})
	var writes int
	var longest time.Duration
	var failed error
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			set := scenario.Set(1)
			set.Namespace, set.Name, set.GenerateName = namespace, "", "asked-"
			began := time.Now()
			err := e.Client.Create(ctx, set, client.DryRunAll)
			if ctx.Err() != nil {
				return
			}
			writes, longest, failed = writes+1, max(longest, time.Since(began)), errors.Join(failed, err)
		}
	}()
	return func() (int, time.Duration, error) {
		cancel()
		<-done
		return writes, longest, failed
	}
}

// Managers that were replaced leave nothing behind: no memory, no goroutine.
func TestRestartsLeaveNothingBehind(t *testing.T) {
	e := take(t)
	const restarts = 20
	o := e.start(operator.Options{Name: "restarts"})
	s := scenario.Start(t, e.Environment, 100, limits.Rules{})
	s.Done()
	goroutines := func() (count int) {
		t.Helper()
		text, err := o.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if text, found := strings.CutPrefix(line, "go_goroutines "); found {
				if count, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return count
	}
	var firstBytes int64
	var firstCount int
	for i := range restarts {
		e.mustConfigure(s.Namespace, fmt.Sprintf("{workers: %d}", 4+i%2))
		if i == 0 {
			firstBytes, firstCount = atRest(t, o), goroutines()
		}
	}
	// A manager gives back what its start took ten seconds after its caches are filled, which on a busy machine they are late.
	var lastBytes int64
	s.EventuallyWithin(time.Minute, "the last manager holds as little as the first", func(context.Context) error {
		usage, err := o.Usage()
		if lastBytes = usage.Anonymous; err == nil && lastBytes > firstBytes*13/10 {
			err = fmt.Errorf("%.1f MiB became %.1f MiB", mib(firstBytes), mib(lastBytes))
		}
		return err
	})
	lastCount := goroutines()
	if began := len(logged(t, o, `"msg":"Restarting"`)); began < restarts {
		t.Errorf("it restarted %d times, want %d", began, restarts)
	}
	t.Logf("measured: %.1f MiB of its own at rest and %d goroutines after one restart, %.1f MiB and %d after %d", mib(firstBytes), firstCount, mib(lastBytes), lastCount, restarts)
	if lastCount > firstCount*12/10 {
		t.Errorf("%d goroutines became %d", firstCount, lastCount)
	}
	s.Done()
}

// Log levels change without a restart, for one controller alone.
func TestLogLevelChangesLive(t *testing.T) {
	e := take(t)
	o := e.start(operator.Options{Name: "levels"})
	s := scenario.Start(t, e.Environment, 2, limits.Rules{})
	began := len(logged(t, o, `"msg":"Starting"`))
	of := func() int { return len(logged(t, o, `"controller":"statefulset-controller"`, `"reconcileID"`)) }
	for i, tc := range []struct {
		spec string
		loud bool
	}{
		{"{logLevel: Info, controllers: [{kind: StatefulSet, logLevel: Error}]}", false},
		{"{logLevel: Error, controllers: [{kind: StatefulSet, logLevel: Info}]}", true},
		{"{logLevel: Error}", false},
		{"{logLevel: Trace}", true},
	} {
		s.Done()
		e.mustConfigure(s.Namespace, tc.spec)
		before := of()                            // lines so far
		s.Update(scenario.Replicas(int32(3 + i))) // the controller says so at the level Info
		s.Done()
		if after := of(); (after > before) != tc.loud {
			t.Errorf("%s: the controller logged %d lines", tc.spec, after-before)
		}
	}
	if starts := len(logged(t, o, `"msg":"Starting"`)); starts != began {
		t.Errorf("the process began %d times, want %d", starts, began)
	}
}

// Of two replicas the standby restarts first; the leader waits for it and then gives the lease to it.
func TestStandbyFirst(t *testing.T) {
	e := take(t)
	first := e.start(operator.Options{Name: "first"})
	n := e.Namespace(t)
	e.mustConfigure(n, "{workers: 2}")
	second := e.start(operator.Options{Name: "second"})
	n.Eventually("both report", func(ctx context.Context) error { return e.reported(ctx, 2) })
	pids := [2]int{first.PID(), second.PID()}
	restarted := func(o *operator.Operator) int { return len(logged(t, o, `"msg":"Restarting"`)) }
	before := [2]int{restarted(first), restarted(second)}

	changes := map[string]time.Time{} // when a replica was first seen with the new configuration
	events, err := e.Client.Watch(t.Context(), &operatorv1alpha1.KruiseList{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var order []string
	kruise := &operatorv1alpha1.Kruise{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, kruise); err != nil {
		t.Fatal(err)
	}
	leader := ""
	for _, replica := range kruise.Status.Replicas {
		if replica.Role == operatorv1alpha1.ReplicaLeader {
			leader = replica.Name
		}
	}
	if err := e.configure("{workers: 5}"); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for len(order) < 2 {
		select {
		case event := <-events.ResultChan():
			seen, ok := event.Object.(*operatorv1alpha1.Kruise)
			if !ok {
				t.Fatalf("watching: %+v", event)
			}
			for _, replica := range seen.Status.Replicas {
				if _, known := changes[replica.Name]; !known && replica.ObservedGeneration > kruise.Generation {
					changes[replica.Name] = time.Now()
					order = append(order, replica.Name)
				}
			}
		case <-deadline:
			t.Fatalf("only %v have the new configuration", order)
		}
	}
	if order[0] == leader || order[1] != leader {
		t.Errorf("the order was %v, the leader was %s", order, leader)
	}
	// Mostly the former standby. On a busy machine the leader can have restarted before the standby tried for the lease again.
	n.Eventually("one of them leads", func(ctx context.Context) error { return e.reported(ctx, 2) })
	if pids != [2]int{first.PID(), second.PID()} {
		t.Errorf("the processes are %d and %d, were %v", first.PID(), second.PID(), pids)
	}
	if after := [2]int{restarted(first), restarted(second)}; after != [2]int{before[0] + 1, before[1] + 1} {
		t.Errorf("they restarted %v times, before the change %v times", after, before)
	}
	t.Logf("measured: the leader had the new configuration %s after the standby", changes[order[1]].Sub(changes[order[0]]).Round(time.Millisecond))
}

// reported says whether that many replicas report, and one of them leads.
func (e *testEnv) reported(ctx context.Context, count int) error {
	kruise := &operatorv1alpha1.Kruise{}
	if err := e.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
		return err
	}
	leaders := 0
	for _, replica := range kruise.Status.Replicas {
		if replica.Role == operatorv1alpha1.ReplicaLeader {
			leaders++
		}
	}
	if len(kruise.Status.Replicas) != count || leaders != 1 {
		return fmt.Errorf("the replicas are %+v", kruise.Status.Replicas)
	}
	return nil
}
