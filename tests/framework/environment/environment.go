// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package environment gives a suite one cluster with the operator, shared by its tests, and each test a namespace of its own
// with the few verbs tests need: apply, change, wait until something holds, look at the pods.
package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	rolloutsv1alpha1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// Options choose the parts of a suite's environment.
type Options struct {
	Cluster  cluster.Options
	Operator operator.Options
	// Nodes are the simulated nodes. Nil: none.
	Nodes *simnode.Options
	// NoOperator leaves the operator to the tests.
	NoOperator bool
	// After is called when all tests have passed, before everything ends. Its error fails the suite. Nil: nothing is.
	After func(context.Context, *Environment) error
}

// Environment is a running cluster with an operator.
type Environment struct {
	Cluster  *cluster.Cluster
	Operator *operator.Operator
	Nodes    *simnode.Nodes
	Client   client.WithWatch
}

// Scheme knows Kubernetes' own types and ours in every version.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, operatorv1alpha1.AddToScheme, policyv1beta1.AddToScheme, rolloutsv1beta1.AddToScheme, rolloutsv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two types of one name: the program is wrong
		}
	}
	return s
}

// Start brings an environment up. Stop it.
func Start(ctx context.Context, options Options) (*Environment, error) {
	if options.Cluster.Progress == nil {
		options.Cluster.Progress = os.Stderr
	}
	c, err := cluster.Start(ctx, options.Cluster)
	if err != nil {
		return nil, err
	}
	e := &Environment{Cluster: c}
	if err := e.start(ctx, options); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context, options Options) error {
	config := e.Cluster.Config()
	config.WarningHandlerWithContext = rest.NoWarnings{} // a test that is about a warning asks for it itself
	var err error
	if e.Client, err = client.NewWithWatch(config, client.Options{Scheme: Scheme()}); err != nil {
		return err
	}
	if options.Nodes != nil {
		if e.Nodes, err = simnode.Start(ctx, e.Cluster.Config(), *options.Nodes); err != nil {
			return err
		}
	}
	if options.NoOperator {
		return nil
	}
	e.Operator, err = operator.Start(ctx, e.Cluster, options.Operator)
	return err
}

// Stop ends everything.
func (e *Environment) Stop() {
	if e.Nodes != nil {
		e.Nodes.Stop()
	}
	if err := e.Cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
	}
}

// Main is a suite's TestMain: it starts the environment, calls use with it, runs the tests and stops it.
func Main(m *testing.M, options Options, use func(*Environment)) {
	after := func(ctx context.Context, all []*Environment) error {
		if options.After == nil {
			return nil
		}
		return options.After(ctx, all[0])
	}
	MainOfSeveral(m, 1, options, func(all []*Environment) { use(all[0]) }, after)
}

// MainOfSeveral is Main for a suite with n equal environments. after replaces
// Options.After.
func MainOfSeveral(m *testing.M, n int, options Options, use func([]*Environment), after func(context.Context, []*Environment) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	all, err := startSeveral(ctx, n, options)
	if err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "starting the environment:", err)
		os.Exit(1)
	}
	use(all)
	code := m.Run()
	if code == 0 {
		if err := after(ctx, all); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	for _, e := range all {
		e.Stop()
	}
	cancel()
	os.Exit(code)
}

// startSeveral starts n environments side by side, or none.
func startSeveral(ctx context.Context, n int, options Options) ([]*Environment, error) {
	all, failed := make([]*Environment, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { all[i], failed[i] = Start(ctx, options) })
	}
	starting.Wait()
	err := errors.Join(failed...)
	if err == nil {
		return all, nil
	}
	for _, e := range all {
		if e != nil {
			e.Stop()
		}
	}
	return nil, err
}

// Namespace is a test's own namespace.
type Namespace struct {
	*Environment
	Name string
	t    testing.TB
}

// Namespace creates a namespace for the test. It is emptied when the test has passed, and
// kept for a look when it has failed.
func (e *Environment) Namespace(t testing.TB) *Namespace {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	name = strings.Trim(name[:min(len(name), 52)], "-")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	n := &Namespace{Environment: e, Name: namespace.Name, t: t}
	if !e.hasController() {
		return n
	}
	n.Eventually("the default service account exists", func(ctx context.Context) error {
		return e.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() {
		if !t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			e.empty(ctx, n.Name)
		}
	})
	return n
}

// empty deletes workloads and pods of a namespace. The namespace stays: deleting one is 300 requests.
func (e *Environment) empty(ctx context.Context, namespace string) {
	all := []schema.GroupVersionKind{batchv1.SchemeGroupVersion.WithKind("Job")}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		all = append(all, appsv1.SchemeGroupVersion.WithKind(kind))
	}
	for _, kind := range controllers.Table() {
		if kind.Scope == kinds.Namespaced {
			all = append(all, kind.Stored())
		}
	}
	for _, kind := range append(all, corev1.SchemeGroupVersion.WithKind("Pod")) {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		_ = e.Client.DeleteAllOf(ctx, object, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

// For is the same namespace for another test, such as one of several in sequence.
func (n *Namespace) For(t testing.TB) *Namespace {
	return &Namespace{Environment: n.Environment, Name: n.Name, t: t}
}

// hasController is true if the cluster has a controller manager.
func (e *Environment) hasController() bool {
	_, err := os.Stat(e.Cluster.Logs(cluster.ControllerManager))
	return err == nil
}

const (
	// timeout is how long Eventually waits.
	timeout = 60 * time.Second
	// often is the pause between checks in the first second, seldom later: at 25 ms a quarter of all requests were checks.
	often, seldom = 25 * time.Millisecond, 100 * time.Millisecond
)

// Eventually calls check until it returns nil, for a minute at most. Then it fails the test with the last error.
func (n *Namespace) Eventually(what string, check func(context.Context) error) {
	n.t.Helper()
	n.EventuallyWithin(timeout, what, check)
}

// EventuallyWithin is Eventually with a limit of its own.
func (n *Namespace) EventuallyWithin(limit time.Duration, what string, check func(context.Context) error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(often)
	defer tick.Stop()
	var last error
	for began := time.Now(); ; {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil { // an answer that the deadline cut off tells less than the one before
			last = err
		}
		if time.Since(began) > time.Second {
			tick.Reset(seldom)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			n.t.Fatalf("not within %s: %s: %v", limit, what, last)
		}
	}
}

// Consistently calls check until period is over, and fails the test at the first error.
func (n *Namespace) Consistently(period time.Duration, what string, check func(context.Context) error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), period+timeout) // for a check that hangs
	defer cancel()
	end := time.After(period)
	tick := time.NewTicker(seldom)
	defer tick.Stop()
	for {
		if err := check(ctx); err != nil {
			n.t.Fatalf("not all the time: %s: %v", what, err)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// Apply creates or updates the objects of a manifest with server-side apply, in this namespace.
func (n *Namespace) Apply(manifest string) {
	n.t.Helper()
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			n.t.Fatalf("parsing a manifest: %v\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(n.Name)
		err := n.Client.Apply(n.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			n.t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// StatefulSet reads a set.
func (n *Namespace) StatefulSet(name string) *v1beta1.StatefulSet {
	n.t.Helper()
	return read(n, name, &v1beta1.StatefulSet{})
}

// CloneSet reads a set.
func (n *Namespace) CloneSet(name string) *v1beta1.CloneSet {
	n.t.Helper()
	return read(n, name, &v1beta1.CloneSet{})
}

func read[T client.Object](n *Namespace, name string, set T) T {
	n.t.Helper()
	if err := n.Client.Get(n.t.Context(), n.key(name), set); err != nil {
		n.t.Fatalf("reading %T %s: %v", set, name, err)
	}
	return set
}

// Change reads a set, changes it and writes it back, again after a conflict.
func (n *Namespace) Change(name string, change func(*v1beta1.StatefulSet)) {
	n.t.Helper()
	write(n, n.StatefulSet, name, change)
}

// ChangeCloneSet reads a set, changes it and writes it back, again after a conflict.
func (n *Namespace) ChangeCloneSet(name string, change func(*v1beta1.CloneSet)) {
	n.t.Helper()
	write(n, n.CloneSet, name, change)
}

func write[T client.Object](n *Namespace, read func(string) T, name string, change func(T)) {
	n.t.Helper()
	for {
		set := read(name)
		change(set)
		err := n.Client.Update(n.t.Context(), set)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			n.t.Fatalf("updating %T %s: %v", set, name, err)
		}
	}
}

// SetImage changes the image of the template's first container.
func (n *Namespace) SetImage(name, image string) {
	n.t.Helper()
	n.Change(name, func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image })
}

// Settled waits until every pod of the set is available at the update revision and the set's status says so.
func (n *Namespace) Settled(name string) *v1beta1.StatefulSet {
	n.t.Helper()
	var set *v1beta1.StatefulSet
	n.EventuallyWithin(3*time.Minute, "StatefulSet "+name+" is settled", func(ctx context.Context) error {
		set = &v1beta1.StatefulSet{}
		if err := n.Client.Get(ctx, n.key(name), set); err != nil {
			return err
		}
		s := set.Status
		if s.ObservedGeneration != set.Generation || s.Replicas != *set.Spec.Replicas || s.UpdatedAvailableReplicas != *set.Spec.Replicas {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	return set
}

// SettledCloneSet waits until all pods of the set are available at the update revision, no more exist, and the set's status says so.
func (n *Namespace) SettledCloneSet(name string) *v1beta1.CloneSet {
	n.t.Helper()
	var set *v1beta1.CloneSet
	n.EventuallyWithin(3*time.Minute, "CloneSet "+name+" is settled", func(ctx context.Context) error {
		set = &v1beta1.CloneSet{}
		if err := n.Client.Get(ctx, n.key(name), set); err != nil {
			return err
		}
		s, replicas := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration != set.Generation || s.Replicas != replicas || s.UpdatedAvailableReplicas != replicas || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	return set
}

// Pods reads the pods with the labels, by ordinal. Without labels: all of the namespace.
func (n *Namespace) Pods(labels ...string) []corev1.Pod {
	n.t.Helper()
	pods, err := n.ListPods(n.t.Context(), labels...)
	if err != nil {
		n.t.Fatal(err)
	}
	return pods
}

// ListPods is Pods for use in checks: labels are "key=value".
func (n *Namespace) ListPods(ctx context.Context, labels ...string) ([]corev1.Pod, error) {
	match := client.MatchingLabels{}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		match[key] = value
	}
	list := &corev1.PodList{}
	if err := n.Client.List(ctx, list, client.InNamespace(n.Name), match); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Pod reads a pod; nil when there is none.
func (n *Namespace) Pod(name string) *corev1.Pod {
	n.t.Helper()
	pod := &corev1.Pod{}
	err := n.Client.Get(n.t.Context(), n.key(name), pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		n.t.Fatalf("reading pod %s: %v", name, err)
	}
	return pod
}

// PatchPod sends a strategic merge patch to a pod.
func (n *Namespace) PatchPod(name, patch string) {
	n.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name}}
	if err := n.Client.Patch(n.t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		n.t.Fatalf("patching pod %s: %v", name, err)
	}
}

// Kubectl runs kubectl in this namespace and returns both streams.
func (n *Namespace) Kubectl(args ...string) (string, error) {
	n.t.Helper()
	out, err := n.Cluster.Kubectl(n.t.Context(), append([]string{"--namespace=" + n.Name}, args...)...).CombinedOutput()
	return string(out), err
}

// Names returns the names of pods.
func Names(pods []corev1.Pod) []string {
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names
}

// IsReady is true if the pod's Ready condition is True.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (n *Namespace) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: n.Name, Name: name}
}
