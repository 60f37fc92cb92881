// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package operatorconfig_test changes how the operator runs while it runs, through the Kruise object.
package operatorconfig_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
	"github.com/kruise-operator/kruise-operator/tests/framework/scorecard"
)

// env is what all tests of this package share. Each test runs the operators it needs and stops them.
var env *environment.Environment

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster:    cluster.Options{Audit: &cluster.Audit{}},
		Nodes:      &simnode.Options{},
		NoOperator: true,
	}, func(e *environment.Environment) { env = e })
}

// start runs an operator until the test ends.
func start(t *testing.T, options operator.Options) *operator.Operator {
	t.Helper()
	options.LeaderElect = true
	return operator.StartForTest(t, env.Cluster, options)
}

// configure applies a Kruise with the fields of spec, and deletes it when the test ends.
func configure(t *testing.T, spec string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: operator.kruise.io/v1alpha1\nkind: Kruise\nmetadata: {name: cluster}\nspec: "+spec), &object.Object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})); err != nil {
			t.Error(err)
		}
	})
	return env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
}

// create creates an object and deletes it when the test ends.
func create(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), object)); err != nil {
			t.Error(err)
		}
	})
	return object
}

// mustConfigure applies a Kruise and waits until the operator runs with it and says so.
func mustConfigure(t *testing.T, n *environment.Namespace, spec string) *operatorv1alpha1.Kruise {
	t.Helper()
	if err := configure(t, spec); err != nil {
		t.Fatal(err)
	}
	kruise := &operatorv1alpha1.Kruise{}
	n.Eventually("the operator runs as the Kruise says", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
			return err
		}
		if kruise.Status.ObservedGeneration != kruise.Generation || !is(kruise, operatorv1alpha1.KruiseAvailable, true) || !is(kruise, operatorv1alpha1.KruiseProgressing, false) {
			return fmt.Errorf("generation %d, status %+v", kruise.Generation, kruise.Status)
		}
		return nil
	})
	return kruise
}

func is(kruise *operatorv1alpha1.Kruise, kind string, want bool) bool {
	c := meta.FindStatusCondition(kruise.Status.Conditions, kind)
	return c != nil && (c.Status == metav1.ConditionTrue) == want
}

// logged are the lines of a log that hold all parts.
func logged(t *testing.T, o *operator.Operator, parts ...string) []string {
	t.Helper()
	text, err := os.ReadFile(o.Log())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// releases records when the lease is given back.
func releases(t *testing.T) func() []time.Time {
	t.Helper()
	events, err := env.Client.Watch(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace("kruise-system"), client.MatchingFields{"metadata.name": "kruise-operator-manager"})
	if err != nil {
		t.Fatal(err)
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
	const replicas = 40
	o := start(t, operator.Options{Name: "rollout"})
	s := scenario.Start(t, env, replicas, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Sim(simnode.RestartDelay, "100ms"))
	mustConfigure(t, s.Namespace, "{kinds: [StatefulSet], workers: 2}")
	s.Done()
	pid := o.PID()
	began := len(logged(t, o, `"msg":"Starting"`))
	before := s.Identities()
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	released := releases(t)
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
	written := writing(t, s.Name())
	kruise := mustConfigure(t, s.Namespace, "{kinds: [StatefulSet], workers: 7, featureGates: [{name: StatefulSetStartOrdinal, state: Enabled}]}")
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
	if first <= 0 || first > 2*time.Second {
		t.Errorf("the first write came %s after the lease was given back, want at most 2s", first)
	}
}

// writing asks for admission again and again, as users do, until it is told to stop.
func writing(t *testing.T, namespace string) (stop func() (writes int, longest time.Duration, err error)) {
	ctx, cancel := context.WithCancel(t.Context())
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
			err := env.Client.Create(ctx, set, client.DryRunAll)
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

// A kind that is switched off costs nothing, and is as before when it is switched on again.
func TestDisabledKindCostsNothing(t *testing.T) {
	o := start(t, operator.Options{Name: "disabled"})
	s := scenario.Start(t, env, 150, limits.Rules{})
	mustConfigure(t, s.Namespace, "{}")
	s.Done()
	before := s.Identities()
	if entries := webhooks(t); len(entries) < 2 {
		t.Fatalf("the webhook entries are %v", entries)
	}
	with := atRest(t, o)

	kruise := mustConfigure(t, s.Namespace, "{kinds: []}")
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kruise.Status.Kinds {
		if kind.State != operatorv1alpha1.Disabled || kind.Ready != metav1.ConditionFalse || kind.Reason != operatorv1alpha1.KindDisabled {
			t.Errorf("the status of a disabled kind is %+v", kind)
		}
	}
	if entries := webhooks(t); len(entries) != 0 { // of any kind
		t.Errorf("webhook entries of disabled kinds: %v", entries)
	}
	s.Update(scenario.Image(scenario.V2)) // nobody answers, and nobody has to
	if err := env.Client.Delete(t.Context(), s.Pod("web-3")); err != nil {
		t.Fatal(err)
	}
	s.Consistently(2*time.Second, "nothing is done for the set", func(ctx context.Context) error {
		requests, err := log.Next(func(e *auditv1.Event) bool { return e.User.Username == operator.ServiceAccountUser })
		ofKinds := []string{"statefulsets", "clonesets", "pods", "persistentvolumeclaims", "controllerrevisions", "storageclasses", "imagepulljobs", "podtemplates", "events"}
		for i := range requests {
			if ref := requests[i].ObjectRef; ref != nil && slices.Contains(ofKinds, ref.Resource) {
				err = errors.Join(err, fmt.Errorf("%s %s", requests[i].Verb, requests[i].RequestURI))
			}
		}
		return err
	})
	text, err := o.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"statefulset-controller"`) {
			t.Errorf("a disabled kind has a controller: %s", line)
			break
		}
	}
	without := atRest(t, o)
	t.Logf("measured: %.1f MiB resident at rest with 150 pods, %.1f MiB with the kind disabled", mib(with), mib(without))
	if with > 0 && without >= with {
		t.Errorf("%d bytes with the kind disabled, %d with it", without, with)
	}

	mustConfigure(t, s.Namespace, "{kinds: [StatefulSet]}")
	if entries := webhooks(t); len(entries) < 2 {
		t.Errorf("the webhook entries did not come back: %v", entries)
	}
	s.Done()
	delete(before, "web-3")
	after := s.Identities()
	delete(after, "web-3")
	scenario.CheckKept(t, before, after, 1)
	invalid := scenario.Set(1)
	invalid.Namespace, invalid.Name = s.Name(), "invalid"
	invalid.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	if err := s.Client.Create(t.Context(), invalid); err == nil || !strings.Contains(err.Error(), "admission webhook") {
		t.Errorf("an invalid set is not refused by the webhooks: %v", err)
	}
}

// webhooks lists the entries of the operator's webhook configurations.
func webhooks(t *testing.T) (names []string) {
	t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(
		env.Client.Get(t.Context(), client.ObjectKey{Name: "kruise-operator-mutating"}, mutating),
		env.Client.Get(t.Context(), client.ObjectKey{Name: "kruise-operator-validating"}, validating),
	); err != nil {
		t.Fatal(err)
	}
	for _, entry := range mutating.Webhooks {
		names = append(names, entry.Name)
	}
	for _, entry := range validating.Webhooks {
		names = append(names, entry.Name)
	}
	return names
}

// atRest returns what the operator holds in bytes when it has nothing to do: the least that is seen in ten seconds.
func atRest(t *testing.T, o *operator.Operator) int64 {
	t.Helper()
	least, looks := int64(0), 0
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		usage, err := o.Usage()
		if looks++; least == 0 || usage.RSS < least {
			least = usage.RSS
		}
		return looks > 20, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return least
}

// Managers that were replaced leave nothing behind: no memory, no goroutine.
func TestRestartsLeaveNothingBehind(t *testing.T) {
	const restarts = 20
	o := start(t, operator.Options{Name: "restarts"})
	s := scenario.Start(t, env, 100, limits.Rules{})
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
		mustConfigure(t, s.Namespace, fmt.Sprintf("{workers: %d}", 4+i%2))
		if i == 0 {
			firstBytes, firstCount = atRest(t, o), goroutines()
		}
	}
	lastBytes, lastCount := atRest(t, o), goroutines()
	if began := len(logged(t, o, `"msg":"Restarting"`)); began < restarts {
		t.Errorf("it restarted %d times, want %d", began, restarts)
	}
	t.Logf("measured: %.1f MiB resident at rest and %d goroutines after one restart, %.1f MiB and %d after %d", mib(firstBytes), firstCount, mib(lastBytes), lastCount, restarts)
	if lastBytes > firstBytes*13/10 {
		t.Errorf("%.1f MiB became %.1f MiB", mib(firstBytes), mib(lastBytes))
	}
	if lastCount > firstCount*12/10 {
		t.Errorf("%d goroutines became %d", firstCount, lastCount)
	}
	s.Done()
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Log levels change without a restart, for one controller alone.
func TestLogLevelChangesLive(t *testing.T) {
	o := start(t, operator.Options{Name: "levels"})
	s := scenario.Start(t, env, 2, limits.Rules{})
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
		mustConfigure(t, s.Namespace, tc.spec)
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

// What is wrong is refused where it is written, and reported where it got in all the same.
func TestWrongConfiguration(t *testing.T) {
	o := start(t, operator.Options{Name: "wrong"})
	n := env.Namespace(t)
	for spec, part := range map[string]string{
		"{featureGates: [{name: Nonsense, state: Enabled}]}": "unknown feature gate: know AdvancedDeployment, ",
		"{kinds: [Nonsense]}":                                `supported values: "` + strings.Join(kinds.Names(kinds.Switchable()), `", "`) + `"`,
		"{workers: 0}":                                       "greater than or equal to 1",
		"{logLevel: loud}":                                   `supported values: "Error", "Info", "Debug", "Trace"`,
		"{metrics: {bindAddress: nowhere}}":                  "must be an address with a port",
		"{nodeDaemon: {criSocketPath: run/x}}":               "must be an absolute path",
	} {
		if err := configure(t, spec); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", spec, err, part)
		}
	}
	other := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if err := env.Client.Create(t.Context(), other); err == nil || !strings.Contains(err.Error(), "its name is cluster") {
		t.Errorf("a second Kruise: %v", err)
	}

	// A CRD of another version may let names in that this operator does not know.
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	crd.SetName("kruises.operator.kruise.io")
	const at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/featureGates/items/properties/name/x-kubernetes-validations"
	if err := env.Client.Patch(t.Context(), crd, client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"`+at+`"}]`))); err != nil {
		t.Fatal(err)
	}
	const spec = "{featureGates: [{name: Nonsense, state: Enabled}, {name: StatefulSetStartOrdinal, state: Enabled}]}"
	n.Eventually("the API server lets the name in", func(context.Context) error { return configure(t, spec) })
	kruise := mustConfigure(t, n, spec)
	degraded := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != operatorv1alpha1.ReasonInvalidConfiguration ||
		!strings.Contains(degraded.Message, "spec.featureGates[Nonsense]: unknown feature gate: know AdvancedDeployment, ") {
		t.Errorf("the condition is %+v", degraded)
	}
	if !is(kruise, operatorv1alpha1.KruiseStalled, true) || !slices.Contains(kruise.Status.FeatureGates, "StatefulSetStartOrdinal") {
		t.Errorf("the rest is not in force: %+v", kruise.Status)
	}
	if err := o.Install(t.Context()); err != nil { // the CRD as it was
		t.Fatal(err)
	}
	if kruise = mustConfigure(t, n, "{logLevel: Info}"); !is(kruise, operatorv1alpha1.KruiseDegraded, false) {
		t.Errorf("the status is %+v", kruise.Status)
	}
}

// Of two replicas the standby restarts first; the leader waits for it and then gives the lease to it.
func TestStandbyFirst(t *testing.T) {
	first := start(t, operator.Options{Name: "first"})
	n := env.Namespace(t)
	mustConfigure(t, n, "{workers: 2}")
	second := start(t, operator.Options{Name: "second"})
	n.Eventually("both report", func(ctx context.Context) error { return reported(ctx, 2) })
	pids := [2]int{first.PID(), second.PID()}
	restarted := func(o *operator.Operator) int { return len(logged(t, o, `"msg":"Restarting"`)) }
	before := [2]int{restarted(first), restarted(second)}

	changes := map[string]time.Time{} // when a replica was first seen with the new configuration
	events, err := env.Client.Watch(t.Context(), &operatorv1alpha1.KruiseList{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var order []string
	kruise := &operatorv1alpha1.Kruise{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, kruise); err != nil {
		t.Fatal(err)
	}
	leader := ""
	for _, replica := range kruise.Status.Replicas {
		if replica.Role == operatorv1alpha1.ReplicaLeader {
			leader = replica.Name
		}
	}
	if err := configure(t, "{workers: 5}"); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(40 * time.Second)
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
	n.Eventually("one of them leads", func(ctx context.Context) error { return reported(ctx, 2) })
	if pids != [2]int{first.PID(), second.PID()} {
		t.Errorf("the processes are %d and %d, were %v", first.PID(), second.PID(), pids)
	}
	if after := [2]int{restarted(first), restarted(second)}; after != [2]int{before[0] + 1, before[1] + 1} {
		t.Errorf("they restarted %v times, before the change %v times", after, before)
	}
	t.Logf("measured: the leader had the new configuration %s after the standby", changes[order[1]].Sub(changes[order[0]]).Round(time.Millisecond))
}

// reported says whether that many replicas report, and one of them leads.
func reported(ctx context.Context, count int) error {
	kruise := &operatorv1alpha1.Kruise{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
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

// Inside of a cluster the operator deploys for itself what Prometheus needs, once its CRDs are there, and changes its own Deployment.
func TestOperands(t *testing.T) {
	n := env.Namespace(t)
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		plural := strings.ToLower(kind) + "s"
		create(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.monitoring.coreos.com},
			spec: {group: monitoring.coreos.com, scope: Namespaced, names: {plural: %[1]s, singular: %[2]s, kind: %[3]s, listKind: %[3]sList},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
			plural, strings.ToLower(kind), kind))
	}
	if err := start(t, operator.Options{Name: "installed"}).Stop(); err != nil { // for the namespace
		t.Fatal(err)
	}
	deployment := create(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: kruise-system, name: kruise-operator-manager},
		spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}},
		spec: {containers: [{name: manager, image: example/manager, resources: {limits: {memory: 512Mi}}}]}}}}`)
	start(t, operator.Options{Name: "deployed", Args: []string{"--deployment=kruise-operator-manager"}})
	limit := func(want string) {
		t.Helper()
		n.Eventually("the Deployment's limit is "+want, func(ctx context.Context) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
				return err
			}
			containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
			memory, _, _ := unstructured.NestedString(containers[0].(map[string]any), "resources", "limits", "memory")
			if memory != want {
				return fmt.Errorf("it is %q", memory)
			}
			return nil
		})
	}
	mustConfigure(t, n, "{logLevel: Info, manager: {resources: {limits: {memory: 1Gi}}}}")
	limit("1Gi")
	mustConfigure(t, n, "{logLevel: Info}")
	limit("512Mi")
	for _, id := range []string{"networking.k8s.io/v1 NetworkPolicy kruise-operator-metrics", "v1 Service kruise-operator-metrics",
		"monitoring.coreos.com/v1 ServiceMonitor kruise-operator-metrics", "monitoring.coreos.com/v1 PrometheusRule kruise-operator-alerts"} {
		words := strings.Fields(id)
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": words[0], "kind": words[1]}}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: words[2]}, object); err != nil {
			t.Error(err)
			continue
		}
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != deployment.GetUID() {
			t.Errorf("%s has the owners %v", id, owners)
		}
		if managers := object.GetManagedFields(); len(managers) == 0 || managers[0].Manager != "kruise-operator" || managers[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%s is managed by %v", id, managers)
		}
	}
	mustConfigure(t, n, "{metrics: {bindAddress: '0'}}")
	n.Eventually("nothing leads to metrics that are not served", func(ctx context.Context) error {
		policy := &networkingv1.NetworkPolicy{}
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-operator-metrics"}, policy)
		if err == nil {
			return errors.New("the NetworkPolicy exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// While its gate is on, the API server refuses to delete what is protected, whether the operator runs or not.
func TestDeletionProtection(t *testing.T) {
	const gate = "featureGates: [{name: ResourcesDeletionProtection, state: Enabled}]"
	n := env.Namespace(t)
	o := start(t, operator.Options{Name: "protection"})
	mustConfigure(t, n, "{"+gate+"}")
	protectedIn := func(namespace, apiVersion, kind, name, label string, replicas int) *unstructured.Unstructured {
		t.Helper()
		return create(t, fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s, labels: {policy.kruise.io/delete-protection: %q}},
			spec: {replicas: %d, selector: {matchLabels: {app: %[4]s}}, serviceName: web,
			template: {metadata: {labels: {app: %[4]s}}, spec: {containers: [{name: main, image: example/main}]}}}}`,
			apiVersion, kind, namespace, name, label, replicas))
	}
	protected := func(apiVersion, kind, name, label string, replicas int) *unstructured.Unstructured {
		t.Helper()
		return protectedIn(n.Name, apiVersion, kind, name, label, replicas)
	}
	exists := func(object *unstructured.Unstructured) bool {
		t.Helper()
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil && object.GetDeletionTimestamp() == nil
	}
	const forbidden = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection="
	refused := func(object *unstructured.Unstructured, why string, options ...client.DeleteOption) error {
		t.Helper()
		err := env.Client.Delete(t.Context(), object, options...)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), forbidden+why+": to delete it, ") || !strings.Contains(err.Error(), "take this label away first") {
			return errors.Join(fmt.Errorf("deleting %s %s is not forbidden with %q", object.GetKind(), object.GetName(), why), err)
		}
		if !exists(object) {
			return fmt.Errorf("%s %s is being deleted", object.GetKind(), object.GetName())
		}
		return nil
	}
	mustRefuse := func(object *unstructured.Unstructured, why string, options ...client.DeleteOption) {
		t.Helper()
		if err := refused(object, why, options...); err != nil {
			t.Error(err)
		}
	}
	mustDelete := func(object *unstructured.Unstructured) {
		t.Helper()
		if err := env.Client.Delete(t.Context(), object); err != nil {
			t.Errorf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	first := protected("apps.kruise.io/v1beta1", "CloneSet", "first", "Always", 0)
	n.Eventually("the API server has taken notice of the policy", func(context.Context) error { return refused(first, "Always", client.DryRunAll) })

	var kept []*unstructured.Unstructured
	for i, version := range []string{"v1beta1", "v1alpha1"} {
		for _, kind := range []string{"CloneSet", "StatefulSet"} {
			made := func(name, label string, replicas int) *unstructured.Unstructured {
				return protected("apps.kruise.io/"+version, kind, fmt.Sprintf("%s-%s-%d", name, strings.ToLower(kind), i), label, replicas)
			}
			always, cascading := made("always", "Always", 0), made("cascading", "Cascading", 3)
			for _, option := range []client.DeleteOption{
				client.DryRunAll, client.PropagationPolicy(metav1.DeletePropagationForeground), client.PropagationPolicy(metav1.DeletePropagationOrphan),
				client.PropagationPolicy(metav1.DeletePropagationBackground),
			} {
				mustRefuse(always, "Always", option)
				mustRefuse(cascading, "Cascading and replicas 3>0", option)
			}
			mustDelete(made("empty", "Cascading", 0))
			mustDelete(made("typo", "always", 1))
			kept = append(kept, always, cascading)
		}
	}
	// Deleting all deletes those that are not protected.
	bystander := protected("apps.kruise.io/v1beta1", "CloneSet", "bystander", "Cascading", 0)
	all := &unstructured.Unstructured{}
	all.SetGroupVersionKind(bystander.GroupVersionKind())
	for _, name := range []string{"bystander", "first"} {
		err := env.Client.DeleteAllOf(t.Context(), all, client.InNamespace(n.Name), client.MatchingFields{"metadata.name": name})
		if apierrors.IsForbidden(err) != (name == "first") {
			t.Errorf("deleting all named %s: %v", name, err)
		}
	}
	if exists(bystander) || !exists(first) {
		t.Error("deleting all deleted the wrong ones")
	}

	// What is being deleted already may be deleted again.
	leaving := protected("apps.kruise.io/v1beta1", "CloneSet", "leaving", "Cascading", 0)
	change := func(object *unstructured.Unstructured, patch string) {
		t.Helper()
		if err := env.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	change(leaving, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	mustDelete(leaving)
	change(leaving, `{"metadata":{"labels":{"policy.kruise.io/delete-protection":"Always"}}}`)
	mustDelete(leaving)
	change(leaving, `{"metadata":{"finalizers":null}}`)

	// Scaled down or without the label it may go.
	change(kept[1], `{"spec":{"replicas":0}}`)
	mustDelete(kept[1])
	change(kept[0], `{"metadata":{"labels":null}}`)
	mustDelete(kept[0])
	kept = kept[2:]

	// A namespace that is deleted takes protected sets along: refused in the middle, it would never go.
	namespace := create(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-inner}}", n.Name))
	protectedIn(namespace.GetName(), "apps.kruise.io/v1beta1", "CloneSet", "db", "Always", 0)
	protectedIn(namespace.GetName(), "apps/v1", "Deployment", "front", "Cascading", 0)
	mustDelete(namespace)
	n.Eventually("the namespace is gone", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})

	// A dead operator protects as well.
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	mustRefuse(first, "Always")
	mustRefuse(kept[0], "Always")

	// What belongs to a disabled kind is not protected; nor is anything, once the gate is off. The policy goes with the installation.
	start(t, operator.Options{Name: "protection-2"})
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	installed := &rbacv1.ClusterRoleBinding{}
	for name, object := range map[string]client.Object{
		"kruise-operator-deletion-protection": policy, "kruise-operator-manager": installed,
	} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), binding); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{policy, binding} {
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != installed.UID {
			t.Errorf("the policy belongs to %v", owners)
		}
	}
	mustConfigure(t, n, "{kinds: [CloneSet], "+gate+"}")
	n.Eventually("only the StatefulSet may be deleted", func(ctx context.Context) error {
		return errors.Join(refused(first, "Always", client.DryRunAll), env.Client.Delete(ctx, kept[0], client.DryRunAll))
	})
	mustConfigure(t, n, "{logLevel: Info}")
	n.Eventually("there is no policy", func(ctx context.Context) error {
		for _, object := range []client.Object{policy, binding} {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(policy), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it exists: %w", err)
			}
		}
		return nil
	})
	n.Eventually("all may be deleted", func(ctx context.Context) error {
		var failed []error
		for _, object := range append(kept, first) {
			failed = append(failed, client.IgnoreNotFound(env.Client.Delete(ctx, object)))
		}
		return errors.Join(failed...)
	})
}

// The sample is taken without a warning.
func TestSample(t *testing.T) {
	start(t, operator.Options{Name: "sample"})
	out, err := env.Namespace(t).Kubectl("apply", "--dry-run=server", "-f", "../../../config/samples/operator_v1alpha1_kruise.yaml")
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("kubectl apply: %v\n%s", err, out)
	}
}

// A CRD that is installed while the operator runs is noticed: that of the object, and that of a kind.
func TestCRDsThatComeLater(t *testing.T) {
	// With webhooks, a process outside of the cluster starts only where the kinds are that they are for.
	o := start(t, operator.Options{Name: "later", Args: []string{"--webhook-port=0"}})
	n := env.Namespace(t)
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kruises.operator.kruise.io", "clonesets.apps.kruise.io"} {
		crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		crd.SetName(name)
		if err := env.Client.Delete(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		n.Eventually(name+" is gone", func(ctx context.Context) error {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
			if err == nil {
				return errors.New("it exists")
			}
			return client.IgnoreNotFound(err)
		})
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := o.PID()
	began := time.Now()
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the API server takes the configuration", func(context.Context) error { return configure(t, "{workers: 4}") })
	kruise := mustConfigure(t, n, "{workers: 4}")
	t.Logf("measured: CRDs that were missing are taken up %s after they were installed", time.Since(began).Round(time.Millisecond))
	for _, kind := range kruise.Status.Kinds {
		if kind.Ready != metav1.ConditionTrue {
			t.Errorf("%s is not managed: %+v", kind.Kind, kind)
		}
	}
	if o.PID() != pid {
		t.Errorf("process %d was %d", o.PID(), pid)
	}
}

// While OpenKruise acts, a takeover is under way, and the operator should not be replaced by another version.
func TestTakeoverHoldsUpgradesUp(t *testing.T) {
	start(t, operator.Options{Name: "takeover"})
	n := env.Namespace(t)
	if kruise := mustConfigure(t, n, "{logLevel: Info}"); !is(kruise, operatorv1alpha1.KruiseUpgradeable, true) {
		t.Errorf("at rest, the status is %+v", kruise.Status)
	}
	upgradeable := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		n.Eventually("Upgradeable is "+string(status), func(ctx context.Context) error {
			kruise := &operatorv1alpha1.Kruise{}
			if err := env.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
				return err
			}
			c := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseUpgradeable)
			if c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
	}
	lease := create(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: kruise-system, name: kruise-manager},
		spec: {holderIdentity: openkruise, leaseDurationSeconds: 200}}`)
	upgradeable(metav1.ConditionFalse, operatorv1alpha1.ReasonTakingOver)
	if err := env.Client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	upgradeable(metav1.ConditionTrue, operatorv1alpha1.ReasonAsExpected)
}

// The scorecard test of this project that changes the operator passes, leaves no configuration behind, and fails where no kind can be
// switched off.
func TestScorecardOfDisabledKinds(t *testing.T) {
	const test, bundle = "disabled-kinds-cost-nothing", "../../../bundle"
	o := start(t, operator.Options{Name: "scorecard"})
	result, err := scorecard.Process(t.Context(), env.Cluster, test, bundle)
	if err != nil || result.State != "pass" {
		t.Errorf("%s: %v\n%s", result.State, err, result)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &operatorv1alpha1.Kruise{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Kruise is left: %v", err)
	}
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	o.SetArgs("--kinds=StatefulSet")
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := configure(t, "{logLevel: Info}"); err != nil {
		t.Fatal(err)
	}
	result, err = scorecard.Process(t.Context(), env.Cluster, test, bundle)
	if err != nil || result.State != "fail" || !strings.Contains(result.String(), "none can be switched off") {
		t.Errorf("%s: %v\n%s", result.State, err, result)
	}
	kruise := &operatorv1alpha1.Kruise{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, kruise); err != nil || kruise.Spec.Kinds != nil || kruise.Spec.LogLevel != "Info" {
		t.Errorf("the Kruise became %+v: %v", kruise.Spec, err)
	}
}

// TestRightsAreNeeded is the last of this file: the tests before it needed every right that the operator has for its own configuration, and no other.
func TestRightsAreNeeded(t *testing.T) {
	given, err := rights.Of("../../../config/rbac")
	if err != nil {
		t.Fatal(err)
	}
	own := rights.With("kruises", "kruises/status", "deployments", "networkpolicies", "services", "servicemonitors", "prometheusrules",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "clusterrolebindings")
	given = slices.DeleteFunc(given, func(r rights.Right) bool { return !own(r) })
	if len(given) < 15 {
		t.Fatalf("only %d rights were read", len(given))
	}
	if flag.Lookup("test.run").Value.String() != "" {
		t.Skip("only some tests ran: not checked that each right is needed")
	}
	events, err := audit.Begin(env.Cluster.AuditLog()).Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		t.Fatal(err)
	}
	err = rights.Check(given, events, "kruise-system", rights.Excuse{
		Why:    "informers list where the API server does not stream what is there at the beginning of a watch; this one does",
		Covers: func(r rights.Right) bool { return r.Verb == "list" && r.Resource == "kruises" },
	}, rights.Excuse{
		Why:    "the Deployment is watched where its certificate is mounted; tests/node/incluster mounts one",
		Covers: rights.To("list watch", "deployments"),
	}, rights.Excuse{
		Why:    "workloads of UnitedDeployments; tests/e2e/zones has some",
		Covers: func(r rights.Right) bool { return r.Resource == "deployments" && r.Name == "" },
	}, rights.Excuse{
		Why:    "launch priorities of all pods, which a gate turns on; tests/e2e/gates and tests/integration/injection have some",
		Covers: func(r rights.Right) bool { return r.Name == "kruise-operator-launch-priority" },
	}, rights.Excuse{
		Why:    "the Operator Lifecycle Manager makes this binding; tests/olm has it",
		Covers: func(r rights.Right) bool { return strings.HasSuffix(r.Name, ":auth-delegator") },
	})
	if err != nil {
		t.Error(err)
	}
}
