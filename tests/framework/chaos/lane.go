// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

const (
	// staleFor is how long a view stays old after a crash.
	staleFor = 1500 * time.Millisecond
	// missedFor is how long a watch is cut off before the compaction, and compactedFor how
	// long lists come in pages of one afterwards.
	missedFor, compactedFor = 500 * time.Millisecond, 3 * time.Second
	// settleTimeout is for one step, restarts of the operator included.
	settleTimeout = time.Minute
	// shown is how many writes a failure prints.
	shown = 80
)

// Scenario is a user's work with one kind.
type Scenario struct {
	// Kind is in the table of kinds, Name is the action.
	Kind, Name string
	// Kinds are the kinds to reconcile; Kind when empty.
	Kinds []string
	// Args are further arguments of the operator.
	Args []string
	// RandomNames: the names of pods mean nothing.
	RandomNames bool
	// Observe begins to judge every change in the API server, until the test ends. It is called before the first step.
	Observe func(*World)
	// Steps are done one after the other, each when the one before has settled.
	Steps []Step
	// Everywhere: writes outside of the namespace count, too. Nothing else may run beside.
	Everywhere bool
	// OwnNodes: the operator sees only nodes with the label chaos=<lane>, their NodeImages,
	// and the NodePodProbe of faultproxy.OwnNode.
	OwnNodes bool
	// AnyRound: the round a node pulls in depends on the order of events: a job's
	// replacement may come before it is gone.
	AnyRound bool
	// Made are resources the steps make in the namespace besides Kind, such as pods.
	Made []string
	// Trailing is how long after the last change the operator still cleans up. It counts as at rest only then.
	Trailing time.Duration
	// Leftovers are resources that may outlive the object, such as claims.
	Leftovers []string
}

// Step is one action of the user.
type Step struct {
	Do func(*World)
	// Settled returns nil once all consequences have happened.
	Settled func(context.Context, *World) error
}

// World is a step's namespace and perturbation.
type World struct {
	*environment.Namespace
	T    *testing.T
	Lane *Lane
	Plan Perturbation
	// Tidy is called once the scenario's objects are gone, before the run ends.
	Tidy []func()
	// clearing: the scenario is over, and its objects are being deleted.
	clearing atomic.Bool
	// Foreign takes the UIDs of pods deleted by others. Observe may set it.
	Foreign func(...types.UID)
}

// Result is how a run ended.
type Result struct {
	// Final is the state at rest, without parts that vary by run. Lenient also omits the
	// pods' past.
	Final, Lenient string
	// Writes is how many there were, Created how many objects of each resource were.
	Writes  int
	Created map[string]int
	// Resources are the ones the operator watches.
	Resources []string
	// Fired: the perturbation happened.
	Fired bool
}

// Lane is a namespace with an operator of its own.
type Lane struct {
	// T is the test of all runs of the lane.
	T           *testing.T
	Environment *environment.Environment
	Kinds, Args []string
	Name        string
	namespace   *environment.Namespace
	proxy       *faultproxy.Proxy
	interceptor *interceptor
	operator    *operator.Operator
	running     bool
	everywhere  bool
	// ownNodes: only nodes with the label chaos=Name are seen.
	ownNodes bool
}

// NewLane makes one for scenarios like this one. The operator starts with the first run and ends with the test.
func NewLane(t *testing.T, e *environment.Environment, name string, s Scenario) *Lane {
	t.Helper()
	kinds := s.Kinds
	if len(kinds) == 0 {
		kinds = []string{s.Kind}
	}
	l := &Lane{T: t, Environment: e, Kinds: kinds, Args: s.Args, Name: name, everywhere: s.Everywhere, ownNodes: s.OwnNodes}
	l.interceptor = &interceptor{version: l.version}
	l.interceptor.arm("", Perturbation{Kind: None}, false)
	var err error
	if l.proxy, err = faultproxy.Start(e.Cluster, 1); err != nil {
		t.Fatal(err)
	}
	l.operator, err = operator.New(t.Context(), e.Cluster, operator.Options{
		Name: "operator-" + name, Kubeconfig: l.proxy.Kubeconfig(), NoWebhooks: true, Args: l.args(),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Renew(t)
	t.Cleanup(func() {
		if l.running {
			_ = l.operator.Kill()
		}
	})
	return l
}

// args are for each operator of the lane.
func (l *Lane) args() []string {
	return append([]string{"--kinds=" + strings.Join(l.Kinds, ","), "--resync-period=10s", "--metrics-bind-address=0"}, l.Args...)
}

// confine shows the operators behind a proxy only the lane's objects.
func (l *Lane) confine(p *faultproxy.Proxy) {
	p.Confine(l.namespace.Name)
	if l.ownNodes {
		p.ConfineNodes("chaos=" + l.Name)
	}
}

// Renew gives the lane a new namespace and, with the next run, a new operator, away from a
// failed run's leftovers.
func (l *Lane) Renew(t *testing.T) {
	t.Helper()
	if l.running {
		_ = l.operator.Kill()
		l.running = false
	}
	l.namespace = l.Environment.Namespace(t)
	if l.everywhere {
		if err := l.Environment.Client.DeleteAllOf(t.Context(), &v1beta1.SidecarSet{}); err != nil {
			t.Fatal(err)
		}
	} else {
		l.confine(l.proxy)
	}
	l.proxy.Intercept(l.interceptor)
}

// version is the present resource version of the API server.
func (l *Lane) version(ctx context.Context) (string, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := l.Environment.Client.List(ctx, pods, client.InNamespace("default"), client.Limit(1))
	return pods.ResourceVersion, err
}

// Base runs a scenario undisturbed. When it is at rest, waits is called, and then nothing may be written for a while.
func (l *Lane) Base(t *testing.T, s Scenario, quiet time.Duration, waits func()) *Result {
	t.Helper()
	return l.run(t, s, Perturbation{Kind: None}, nil, func(w *World) {
		waits()
		if quiet > s.Trailing { // a replay does not look at this
			l.idle(w, s.Trailing)
		}
		l.quiet(w, quiet)
	})
}

// Run runs a scenario with a perturbation. It must end like the undisturbed run.
func (l *Lane) Run(t *testing.T, s Scenario, plan Perturbation, want *Result) *Result {
	t.Helper()
	return l.run(t, s, plan, want, nil)
}

func (l *Lane) run(t *testing.T, s Scenario, plan Perturbation, want *Result, rested func(*World)) *Result {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			l.explain(t, s, plan)
		}
	})
	l.interceptor.arm(l.namespace.Name, plan, s.Everywhere)
	var replicas *pair
	if plan.Kind == Failover {
		replicas = l.startPair(t)
	} else if !l.running {
		if err := l.operator.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.running = true
	}
	w := &World{Namespace: l.namespace.For(t), T: t, Lane: l, Plan: plan, Foreign: func(...types.UID) {}}
	if s.Observe != nil && plan.Kind != Stolen { // a pod of somebody else counts for no limit
		s.Observe(w)
	}
	done, over := make(chan error, 1), make(chan struct{})
	go func() { done <- l.perturb(t.Context(), w, replicas, over) }()
	for i, step := range s.Steps {
		step.Do(w)
		w.EventuallyWithin(settleTimeout, fmt.Sprintf("step %d has settled", i+1), func(ctx context.Context) error { return step.Settled(ctx, w) })
	}
	result := &Result{}
	if want == nil {
		result.Final = l.rest(w, s)
		var err error
		if result.Lenient, err = stateOf(t.Context(), w, s, true); err != nil {
			t.Fatal(err)
		}
		rested(w)
	} else {
		l.same(w, s, plan, want)
	}
	l.clear(w, s)
	l.tidy(w)
	close(over)
	if err := <-done; err != nil {
		t.Errorf("perturbing: %v", err)
	}
	l.interceptor.mutex.Lock()
	defer l.interceptor.mutex.Unlock()
	result.Writes, result.Created, result.Fired = l.interceptor.writes, l.interceptor.created, l.interceptor.hasFired()
	for resource := range l.interceptor.seen {
		if !slices.Contains(ignored(), resource) {
			result.Resources = append(result.Resources, resource)
		}
	}
	slices.Sort(result.Resources)
	if want != nil {
		// A restart may repeat reads and writes, and a refused write is retried.
		if limit := 2*want.Writes + 20; result.Writes > limit {
			t.Errorf("%d writes, undisturbed there were %d: want at most %d", result.Writes, want.Writes, limit)
		}
	}
	return result
}

// ignored are watched resources without a part in a scenario.
func ignored() []string {
	return []string{
		"customresourcedefinitions.apiextensions.k8s.io", "kruises.operator.kruise.io", "secrets", "leases.coordination.k8s.io",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
		"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	}
}

// perturb waits until the perturbation has begun and does the rest.
func (l *Lane) perturb(ctx context.Context, w *World, replicas *pair, over <-chan struct{}) error {
	select {
	case <-l.interceptor.fired:
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	switch w.Plan.Kind {
	case Crash, Stale:
		if err := l.operator.Kill(); err != nil {
			return err
		}
		l.interceptor.revive()
		if err := l.operator.Run(ctx); err != nil {
			return err
		}
		if w.Plan.Kind == Stale {
			<-time.After(staleFor)
			l.interceptor.let()
		}
	case Failover:
		return l.failOver(ctx, replicas, over)
	case Missed:
		defer l.interceptor.let()
		return l.deleteCreated(ctx, w)
	case Compacted:
		return l.compact(ctx)
	case Stolen:
		return l.steal(ctx, w)
	}
	return nil
}

// compact makes the resource's watch miss a moment, and then forgets all older versions.
func (l *Lane) compact(ctx context.Context) error {
	<-time.After(missedFor)
	version, err := l.version(ctx)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(version, 10, 64)
	l.interceptor.compact(number)
	<-time.After(compactedFor)
	l.interceptor.let()
	return err
}

// steal gives the created pod another owner. After a moment for requests under way the
// operator must not write to it. Then it goes, so the run can end.
func (l *Lane) steal(ctx context.Context, w *World) error {
	thief := &corev1.ConfigMap{} // each namespace has this one
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: l.namespace.Name, Name: "kube-root-ca.crt"}, thief); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace.Name, Name: l.interceptor.target}}
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q,"controller":true}]}}`, thief.Name, thief.UID)
	if err := w.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return client.IgnoreNotFound(err)
	}
	<-time.After(missedFor)
	trespasses := l.interceptor.guard("/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name)
	<-time.After(staleFor)
	if writes := trespasses(); len(writes) > 0 {
		return fmt.Errorf("the operator wrote to a pod that another one owns: %v", writes)
	}
	return l.deleteCreated(ctx, w)
}

// deleteCreated deletes the created object, and returns when it is gone.
func (l *Lane) deleteCreated(ctx context.Context, w *World) error {
	name := l.interceptor.target
	if name == "" {
		return errors.New("the name of what was created is not known")
	}
	kind, known := kindOf(w.Plan.Resource)
	if !known {
		return fmt.Errorf("the kind of %s is not known", w.Plan.Resource)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	key := client.ObjectKey{Namespace: l.namespace.Name, Name: name}
	if slices.Contains(ofNodes(), w.Plan.Resource) {
		key.Namespace = ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.Client.Get(ctx, key, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	uid := object.GetUID()
	w.Foreign(uid)
	err := w.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	for {
		err := w.Client.Get(ctx, key, object)
		if apierrors.IsNotFound(err) || err == nil && object.GetUID() != uid {
			return nil
		}
		if err == nil && len(object.GetFinalizers()) > 0 { // a hook of the scenario, or a claim that is protected
			object.SetFinalizers(nil)
			err = w.Client.Update(ctx, object)
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s is gone: %w", name, ctx.Err())
		}
	}
}

// rest waits until nothing is written and nothing changes, and returns the state.
func (l *Lane) rest(w *World, s Scenario) string {
	w.T.Helper()
	state, since := "", time.Now()
	w.EventuallyWithin(settleTimeout, "the scenario is at rest", func(ctx context.Context) error {
		now, err := stateOf(ctx, w, s, false)
		if err != nil {
			return err
		}
		if now != state {
			state, since = now, time.Now()
		}
		if still := time.Since(since); still < time.Second {
			return fmt.Errorf("the last change is %s old", still)
		}
		return nil
	})
	return state
}

// same waits until the state is as in the undisturbed run.
func (l *Lane) same(w *World, s Scenario, plan Perturbation, base *Result) {
	w.T.Helper()
	want, lenient := base.Final, plan.Disturbs()
	if lenient {
		want = base.Lenient
	}
	w.EventuallyWithin(settleTimeout, "the end is that of the undisturbed run", func(ctx context.Context) error {
		got, err := stateOf(ctx, w, s, lenient)
		if err == nil && got != want {
			err = errors.New("it differs:\n" + difference(want, got))
		}
		return err
	})
}

// clear deletes the scenario's objects and waits for their end.
func (l *Lane) clear(w *World, s Scenario) {
	w.T.Helper()
	w.clearing.Store(true)
	for _, resource := range resources() {
		kind, _ := kindOf(resource)
		if kind.Group != "apps.kruise.io" || kind.Kind != s.Kind {
			if !slices.Contains(s.Made, resource) {
				continue
			}
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		options := append(within(w, resource), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err := w.Client.DeleteAllOf(w.T.Context(), object, deleting(options)...); err != nil {
			w.T.Fatalf("deleting the %s: %v", resource, err)
		}
	}
	w.EventuallyWithin(settleTimeout, "everything is gone", func(ctx context.Context) error {
		for _, resource := range resources() {
			if slices.Contains(ofNodes(), resource) { // they go with their nodes
				continue
			}
			all, err := list(ctx, w, resource)
			if err != nil {
				return err
			}
			if len(all) > 0 && slices.Contains(s.Leftovers, resource) {
				for i := range all {
					if err := w.Client.Delete(ctx, &all[i]); client.IgnoreNotFound(err) != nil {
						return err
					}
				}
			}
			for i := range all {
				if resource != "pods" || len(all[i].GetFinalizers()) == 0 {
					continue
				}
				all[i].SetFinalizers(nil) // who keeps the hook of the scenario is gone
				if err := w.Client.Update(ctx, &all[i]); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			if len(all) > 0 {
				return fmt.Errorf("of the %s there is %s, deleted at %s with finalizers %v", resource, all[0].GetName(), ptr.Deref(all[0].GetDeletionTimestamp(), metav1.Time{}), all[0].GetFinalizers())
			}
		}
		if s.Kind == "SidecarSet" {
			return historyGone(ctx, w)
		}
		return nil
	})
}

// historyGone is true once the revisions of SidecarSets, in the operator's namespace, are
// collected. A set coming back before finds its names taken, and uses others.
func historyGone(ctx context.Context, w *World) error {
	left := &metav1.PartialObjectMetadataList{}
	left.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	if err := w.Client.List(ctx, left, client.InNamespace(install.Namespace), client.HasLabels{"kruise.io/sidecarset-name"}); err != nil {
		return err
	}
	if len(left.Items) > 0 {
		return fmt.Errorf("there is revision %s", left.Items[0].Name)
	}
	return nil
}

// tidy finishes, and waits for the end of the operator's objects for the lane's nodes.
func (l *Lane) tidy(w *World) {
	w.T.Helper()
	for _, do := range w.Tidy {
		do()
	}
	w.EventuallyWithin(settleTimeout, "what was asked of the nodes is gone", func(ctx context.Context) error {
		for _, resource := range ofNodes() {
			left, err := list(ctx, w, resource)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("of the %s there is %s", resource, left[0].GetName())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// deleting turns options of a list into options of a deletion.
func deleting(options []any) []client.DeleteAllOfOption {
	var all []client.DeleteAllOfOption
	for _, option := range options {
		if o, is := option.(client.DeleteAllOfOption); is {
			all = append(all, o)
		}
	}
	return all
}

// explain explains a failed run and how to repeat it. Its leftovers are out of the next
// one's way.
func (l *Lane) explain(t *testing.T, s Scenario, plan Perturbation) {
	l.interceptor.mutex.Lock()
	trace := slices.Clone(l.interceptor.trace)
	l.interceptor.mutex.Unlock()
	var lines []string
	for _, write := range trace[max(0, len(trace)-shown):] {
		lines = append(lines, write.String())
	}
	t.Logf("the last writes of the operator, whose log is %s:\n%s", l.operator.Log(), strings.Join(lines, "\n"))
	t.Logf("to replay it: CHAOS_REPLAY='%s/%s/%s' go -C tests test ./chaos -count=1 -v -run '^TestChaos$'", s.Kind, s.Name, plan)
}

// quiet fails the test when the operator writes anything, events included, while everything is at rest.
func (l *Lane) quiet(w *World, period time.Duration) {
	w.T.Helper()
	before := l.traced()
	w.Consistently(period, "nothing is written at rest", func(context.Context) error {
		if now := l.traced(); len(now) > len(before) {
			return fmt.Errorf("the operator writes: %s", now[len(before)])
		}
		return nil
	})
}

// idle waits until nothing has been written for a while.
func (l *Lane) idle(w *World, period time.Duration) {
	w.T.Helper()
	writes, since := len(l.traced()), time.Now()
	w.EventuallyWithin(settleTimeout, "the operator is idle", func(context.Context) error {
		if now := len(l.traced()); now != writes {
			writes, since = now, time.Now()
		}
		if still := time.Since(since); still < period {
			return fmt.Errorf("the last write is %s old", still)
		}
		return nil
	})
}

func (l *Lane) traced() []Write {
	l.interceptor.mutex.Lock()
	defer l.interceptor.mutex.Unlock()
	return l.interceptor.trace
}
