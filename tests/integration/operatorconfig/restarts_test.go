// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Workers change in the middle of a rollout: the operator ends and is started again, and the rollout goes on as if nothing had been.
func TestChangeInTheMiddleOfARollout(t *testing.T) {
	e := take(t)
	const replicas = 40
	o := e.start(operator.Options{Name: "rollout"})
	s := scenario.Start(t, e.Environment, replicas, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Sim(simnode.RestartDelay, "100ms"))
	e.mustConfigure(s.Namespace, "{kinds: [StatefulSet], workers: 2}")
	s.Done()
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
	kruise := e.mustConfigure(s.Namespace, "{kinds: [StatefulSet], workers: 7, featureGates: [{name: StatefulSetStartOrdinal, state: Enabled}]}")
	s.Done()

	if !slices.Contains(kruise.Status.FeatureGates, "StatefulSetStartOrdinal") || len(kruise.Status.Replicas) != 1 || kruise.Status.Replicas[0].Role != operatorv1alpha1.ReplicaLeader {
		t.Errorf("the status is %+v", kruise.Status)
	}
	if starts := len(logged(t, o, `"msg":"Starting"`)); starts != began+1 {
		t.Errorf("it started %d times, want %d", starts, began+1)
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

// A changed setting that is not live ends the replicas one after another, the holder of the
// lease last, and is then in effect.
func TestReplicasEndOneAfterAnother(t *testing.T) {
	e := take(t)
	if err := e.start(operator.Options{Name: "installed"}).Stop(); err != nil { // for the namespace
		t.Fatal(err)
	}
	n := e.Namespace(t)
	e.create(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: kruise-system, name: kruise-operator-manager},
		spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: manager, image: example/manager}]}}}}`)
	var replicas []*operator.Operator
	names := []string{"replica-b", "replica-a", "replica-c"} // the first one leads
	for _, name := range names {
		e.runningPod(name)
		o := e.start(operator.Options{Name: name, Env: []string{"POD_NAME=" + name}, Args: []string{
			"--deployment=kruise-operator-manager", "--metrics-bind-address=0", // replicas have the same flags
		}})
		replicas = append(replicas, o)
		if name == "replica-b" {
			e.mustConfigure(n, "{workers: 2}")
		}
	}
	n.Eventually("all are reported, and the first one leads", func(ctx context.Context) error {
		kruise := &operatorv1alpha1.Kruise{}
		if err := e.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
			return err
		}
		all := kruise.Status.Replicas
		if len(all) != 3 || all[1].Role != operatorv1alpha1.ReplicaLeader || all[0].ConfigurationHash != all[1].ConfigurationHash || all[2].ObservedGeneration != kruise.Generation {
			return fmt.Errorf("the replicas are %+v", all)
		}
		return nil
	})
	starts := func(o *operator.Operator) int { return len(logged(t, o, `"msg":"Starting"`)) }
	before := []int{starts(replicas[0]), starts(replicas[1]), starts(replicas[2])}
	if err := e.configure("{workers: 5}"); err != nil {
		t.Fatal(err)
	}
	var order []string
	n.EventuallyWithin(2*time.Minute, "all have started again", func(context.Context) error {
		for i, o := range replicas {
			if starts(o) > before[i] && !slices.Contains(order, names[i]) {
				order = append(order, names[i])
			}
		}
		if len(order) < 3 {
			return fmt.Errorf("only %v have", order)
		}
		return nil
	})
	if want := []string{"replica-a", "replica-c", "replica-b"}; !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
	kruise := e.mustConfigure(n, "{workers: 5}")
	for _, replica := range kruise.Status.Replicas {
		if replica.ObservedGeneration != kruise.Generation {
			t.Errorf("%s runs with generation %d, want %d", replica.Name, replica.ObservedGeneration, kruise.Generation)
		}
	}
	var last float64 // when the replica before had started again
	for _, name := range order {
		o := replicas[slices.Index(names, name)]
		ended, began := logged(t, o, `"msg":"Ending to start again`), logged(t, o, `"msg":"Starting"`, `"workers":5`)
		if len(ended) == 0 || len(began) != 1 { // the first one has ended before, when it was alone
			t.Fatalf("%s ended %d times and took the change over %d times", name, len(ended), len(began))
		}
		if loggedAt(t, ended[len(ended)-1]) < last {
			t.Errorf("%s ended before the replica before it was back", name)
		}
		last = loggedAt(t, began[0])
	}
}

// loggedAt is when a line was written.
func loggedAt(t *testing.T, line string) float64 {
	t.Helper()
	var decoded struct {
		TS float64 `json:"ts"`
	}
	if err := json.Unmarshal([]byte(line), &decoded); err != nil || decoded.TS == 0 {
		t.Fatalf("%s: %v", line, err)
	}
	return decoded.TS
}

// runningPod makes a ready pod of the operator without a kubelet.
func (e *testEnv) runningPod(name string) {
	e.t.Helper()
	pod := e.create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: kruise-system, name: %s,
		labels: {app.kubernetes.io/name: kruise-operator, app.kubernetes.io/component: manager}}, spec: {schedulerName: nobody,
		securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: manager, image: example/manager,
		securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`, name))
	status := `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`
	if err := e.Client.Status().Patch(e.t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		e.t.Fatal(err)
	}
}
