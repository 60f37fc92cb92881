// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/config"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// deadline is when a waiting test gives up.
const deadline = time.Minute

// defaultWrites is the size of the pool without flags.
const defaultWrites = 32

type fixture struct {
	*Executor
	server  *testutil.Client
	metrics prometheus.Gatherer
	events  *events.FakeRecorder
	clock   *clocktesting.FakePassiveClock
	tracker *freshness.Tracker
	set     *appsv1beta1.StatefulSet
	state   State
}

func newFixture(t *testing.T, change func(*Options), objects ...client.Object) *fixture {
	t.Helper()
	kinds, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	f := &fixture{
		metrics: registry,
		server:  testutil.NewClient(kinds, []client.Object{&corev1.Pod{}}, objects...),
		events:  events.NewFakeRecorder(10000),
		clock:   clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
		set:     testutil.StatefulSet("web").UID("set").Obj(),
	}
	record := &freshness.Record{}
	f.tracker = freshness.New((&writer.Writer{Live: f.server}).Look, f.clock, func(freshness.Owner) *freshness.Record { return record })
	options := Options{
		Kind:   appsv1beta1.GroupVersion().WithKind("StatefulSet").GroupKind(),
		Writer: &writer.Writer{Client: f.server, Live: f.server, Tracker: f.tracker},
		Pool:   writer.NewPool(defaultWrites), Recorder: f.events, Metrics: m, Clock: f.clock, Slice: time.Minute,
	}
	if change != nil {
		change(&options)
	}
	f.Executor = New(options)
	return f
}

func (f *fixture) apply(t *testing.T, actions ...planning.Action) planning.Outcome {
	t.Helper()
	return f.Apply(t.Context(), &f.state, f.set, planning.Plan{Actions: actions})
}

func (f *fixture) names(t *testing.T) []string {
	t.Helper()
	var pods corev1.PodList
	if err := f.server.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}

func (f *fixture) emitted() []string {
	var all []string
	for {
		select {
		case e := <-f.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// going: the pod counts as deleted.
func (f *fixture) going(pod *corev1.Pod) bool {
	return f.tracker.Deleted(f.owner(), podset.KindPod(), slices.Values([]metav1.Object{pod})).Has(pod.UID)
}

func (f *fixture) owner() freshness.Owner { return freshness.OwnerOf(f.set) }

// count is the value of the metric for these actions.
func (f *fixture) count(t *testing.T, step planning.Step, v verdict) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if family.GetName() == "kruise_podset_actions_total" && labels["verb"] == string(step) && labels["result"] == string(v) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func create(set *appsv1beta1.StatefulSet, ordinal int, claims ...planning.Action) planning.Action {
	name := fmt.Sprintf("%s-%d", set.Name, ordinal)
	pod := testutil.Pod(name).Namespace(set.Namespace).ControlledBy(set).Gate(shared.GateInPlaceUpdateReady).Obj()
	action := podset.CreatePod(planning.Slot(fmt.Sprint(ordinal)), pod, claims, edit.Edit{Fresh: true, Conditions: []corev1.PodCondition{
		{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0)},
	}}, "ScaleOut")
	action.Success = planning.Event{Reason: "SuccessfulCreate", Message: "create Pod " + name + " in StatefulSet web successful"}
	action.Failure = planning.Event{Warning: true, Reason: "FailedCreate", Message: "create Pod " + name + " in StatefulSet web failed error:"}
	return action
}

// createClaim creates a claim before a pod.
func createClaim(name, pod string) planning.Action {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: name}}
	action := podset.CreateClaim("", claim, "ScaleOut")
	action.Success = planning.Event{Reason: "SuccessfulCreate", Message: "create Claim " + name + " Pod " + pod + " in StatefulSet web success"}
	action.Failure = planning.Event{Warning: true, Reason: "FailedCreate", Message: "create Claim " + name + " Pod " + pod + " in StatefulSet web failed error"}
	return action
}

func creates(set *appsv1beta1.StatefulSet, n int) []planning.Action {
	var all []planning.Action
	for i := range n {
		all = append(all, create(set, i))
	}
	return all
}

func remove(pod *corev1.Pod) planning.Action {
	action := podset.DeletePod(planning.Slot(pod.Name), pod, "ScaleIn")
	action.Success = planning.Event{Reason: "SuccessfulDelete", Message: "delete Pod " + pod.Name}
	action.Failure = planning.Event{Warning: true, Reason: "FailedDelete", Message: "delete Pod " + pod.Name}
	return action
}

func relabel(pod *corev1.Pod, value string) planning.Action {
	action := podset.EditPod(planning.Slot(pod.Name), pod, edit.Edit{
		Labels: map[string]*string{"revision": &value}, Images: map[string]string{"main": "registry.example/main:2"},
		Conditions: []corev1.PodCondition{{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionFalse}},
	}, "InPlaceUpdate")
	action.Success = planning.Event{Reason: "SuccessfulUpdatePodInPlace", Message: "update"}
	action.Failure = planning.Event{Warning: true, Reason: "FailedUpdatePodInPlace", Message: "update"}
	return action
}

func quotaError(write testutil.Write) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, write.Object.GetName(), errors.New("exceeded quota"))
}

func TestApplyCreatesPodsWithTheirFirstCondition(t *testing.T) {
	f := newFixture(t, nil)
	outcome := f.apply(t, creates(f.set, 100)...)
	if outcome.Done != 100 || len(outcome.Failures) > 0 || len(outcome.Left) > 0 || outcome.RecheckAfter > 0 {
		t.Errorf("outcome %+v, want 100 done and nothing else", outcome)
	}
	var pods corev1.PodList
	if err := f.server.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 100 {
		t.Errorf("%d pods, want 100", len(pods.Items))
	}
	for _, pod := range pods.Items {
		if len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Status != corev1.ConditionTrue {
			t.Errorf("pod %s has the conditions %v", pod.Name, pod.Status.Conditions)
		}
	}
	if got := len(f.server.Writes()); got != 200 {
		t.Errorf("%d writes, want two per pod", got)
	}
	if got := f.emitted(); len(got) != 100 || !strings.HasPrefix(got[0], "Normal SuccessfulCreate create Pod web-") {
		t.Errorf("events %d, first %q", len(got), got[0])
	}
}

func TestApplyStartsSmallAndInOrder(t *testing.T) {
	f := newFixture(t, nil)
	var mu sync.Mutex
	inFlight, most := 0, []int{}
	arrived := make(chan struct{}, 1000)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Verb != "create" {
			return forward()
		}
		mu.Lock()
		inFlight++
		most = append(most, inFlight)
		mu.Unlock()
		arrived <- struct{}{}
		defer func() { mu.Lock(); inFlight--; mu.Unlock() }()
		return forward()
	})
	f.apply(t, creates(f.set, 60)...)
	if most[0] != 1 || slices.Max(most) > defaultWrites {
		t.Errorf("in flight over time: %v, want a start with 1 and at most %d", most, defaultWrites)
	}
	var first []string
	for _, w := range f.server.Writes() {
		if w.Verb == "create" {
			first = append(first, w.Object.GetName())
		}
	}
	if first[0] != "web-0" {
		t.Errorf("the first write is for %s", first[0])
	}
}

func TestApplyStartsSmallOncePerRollout(t *testing.T) {
	f := newFixture(t, nil)
	window := func() int { return f.windowFor(f.set.Namespace) }
	actions := creates(f.set, 60)
	f.apply(t, actions[:7]...)
	if got := window(); got != 8 {
		t.Errorf("the second pass begins with %d at once, want 8", got)
	}
	f.apply(t)
	f.apply(t, actions[7:]...)
	if got := window(); got != defaultWrites {
		t.Errorf("after 60 successes %d at once, want %d", got, defaultWrites)
	}
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	f.apply(t, create(f.set, 99))
	if got := window(); got != 1 {
		t.Errorf("after a refusal %d at once, want 1", got)
	}
	f.server.SetFault(nil)
	f.clock.SetTime(f.clock.Now().Add(windowLasts + time.Second))
	f.apply(t)
	if got := window(); got != 1 {
		t.Errorf("after a rest %d at once, want 1", got)
	}
}

func TestApplyTrustsANamespaceThatHasJustTakenWrites(t *testing.T) {
	f := newFixture(t, nil)
	begins := func(when string, here, there int) {
		t.Helper()
		if got := []int{f.windowFor(f.set.Namespace), f.windowFor("elsewhere")}; got[0] != here || got[1] != there {
			t.Errorf("%s: another workload of the namespace begins with %d, one elsewhere with %d, want %d and %d", when, got[0], got[1], here, there)
		}
	}
	begins("at first", 1, 1)
	actions := creates(f.set, 61)
	f.apply(t, actions[:60]...)
	begins("after 60 successes", defaultWrites, 1)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	f.apply(t, actions[60])
	begins("after a refusal", 1, 1)
	f.server.SetFault(nil)
	f.apply(t, creates(f.set, 70)[62:]...)
	begins("after some successes", 9, 1)
	f.clock.SetTime(f.clock.Now().Add(windowLasts + time.Second))
	begins("much later", 1, 1)
}

func TestApplyTreatsSlotsIndependently(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "web-0" || w.Object.GetName() == "web-7" {
			return quotaError(w)
		}
		return forward()
	})
	outcome := f.apply(t, creates(f.set, 20)...)
	if outcome.Done != 18 || len(outcome.Left) != 0 {
		t.Errorf("outcome %+v, want 18 done", outcome)
	}
	want := []planning.Failure{{Step: podset.StepCreate, Slot: "0", Refused: true}, {Step: podset.StepCreate, Slot: "7", Refused: true}}
	if diff := cmp.Diff(want, outcome.Failures, cmpopts.IgnoreFields(planning.Failure{}, "Message", "Since")); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if outcome.RecheckAfter != firstDelay {
		t.Errorf("recheck after %v, want %v", outcome.RecheckAfter, firstDelay)
	}
	failed := slices.DeleteFunc(f.emitted(), func(e string) bool { return !strings.HasPrefix(e, "Warning FailedCreate") })
	if len(failed) != 2 || !strings.Contains(failed[0], "exceeded quota") || strings.Contains(failed[0], "::") {
		t.Errorf("events of failures: %q", failed)
	}
}

func TestApplyBacksOffPerSlot(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "web-0" {
			return quotaError(w)
		}
		return forward()
	})
	first := f.apply(t, create(f.set, 0), create(f.set, 1))
	tries := func() int {
		n := 0
		for _, w := range f.server.Writes() {
			if w.Verb == "create" && w.Object.GetName() == "web-0" {
				n++
			}
		}
		return n
	}
	again := f.apply(t, create(f.set, 0))
	if tries() != 1 {
		t.Errorf("tried %d times within the delay", tries())
	}
	if !first.Failures[0].Refused || again.Failures[0].Refused {
		t.Errorf("refused now: %v at first, %v while the slot waits", first.Failures[0].Refused, again.Failures[0].Refused)
	}
	if diff := cmp.Diff(first.Failures, again.Failures, cmpopts.IgnoreFields(planning.Failure{}, "Refused")); diff != "" {
		t.Errorf("the failure changes while its slot waits (-first +again):\n%s", diff)
	}
	var delays []time.Duration
	for range 12 {
		outcome := f.apply(t, create(f.set, 0))
		delays = append(delays, outcome.RecheckAfter)
		f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
		f.apply(t, create(f.set, 0))
	}
	if delays[0] != time.Second || delays[1] != 2*time.Second || delays[11] != longestDelay {
		t.Errorf("delays %v, want 1s doubling to %v", delays, longestDelay)
	}
	f.server.SetFault(nil)
	f.clock.SetTime(f.clock.Now().Add(longestDelay))
	if outcome := f.apply(t, create(f.set, 0)); outcome.Done != 1 {
		t.Errorf("outcome %+v after the delay, want it done", outcome)
	}
	if len(f.state.refused) != 0 {
		t.Errorf("still remembers %v", f.state.refused)
	}
}

// A limit lets one pod be created at a time, until it is there. Where the server refused the same one for ever, the others never got their turn.
func TestARefusedActionLeavesItsPlaceToOthers(t *testing.T) {
	for name, bad := range map[string]int{"one": 1, "as many as make the step pause": refusalsToPause, "as many as may": maxYielding} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			tries := 0
			f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
				for i := range bad {
					if w.Verb == "create" && w.Object.GetName() == fmt.Sprint("web-", i) {
						tries++
						return quotaError(w)
					}
				}
				return forward()
			})
			const pods = 20
			begun := f.clock.Now()
			for f.clock.Since(begun) < 5*time.Minute {
				retries := f.state.Retries(f.set.Generation, f.clock.Now())
				there := f.names(t)
				missing := slices.DeleteFunc(creates(f.set, pods), func(a planning.Action) bool { return slices.Contains(there, a.Object.GetName()) })
				outcome := f.Apply(t.Context(), &f.state, f.set, oneAtATime(missing, retries))
				if outcome.Done > 1 {
					t.Fatalf("%d pods are created at a time", outcome.Done)
				}
				wait := outcome.RecheckAfter
				if outcome.Done > 0 {
					wait = time.Second // the event about the new pod
				}
				f.clock.SetTime(f.clock.Now().Add(wait))
				if len(f.names(t)) == pods-bad {
					return
				}
			}
			t.Errorf("after five minutes and %d refusals there are %v", tries, f.names(t))
		})
	}
}

// A limit lets one pod be created at a time. The request for it was lost on its way, and another one was sent for the next pod. Then both arrived.
func TestAnActionInDoubtKeepsItsPlace(t *testing.T) {
	for name, lost := range map[string]error{
		"no answer":                   context.DeadlineExceeded,
		"the connection broke":        io.ErrUnexpectedEOF,
		"the server was out of time":  apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1),
		"it failed inside the server": apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			var late func() error
			f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
				if w.Object.GetName() == "web-0" && w.Verb == "create" {
					late = forward
					return lost
				}
				return forward()
			})
			for range 5 {
				outcome := f.Apply(t.Context(), &f.state, f.set, oneAtATime(creates(f.set, 3), f.state.Retries(f.set.Generation, f.clock.Now())))
				f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
			}
			if err := late(); err != nil {
				t.Fatal(err)
			}
			if got := f.names(t); len(got) != 1 {
				t.Errorf("one pod may be created at a time, and there are %v", got)
			}
		})
	}
}

// oneAtATime is a plan with room for one action, beside yielding ones.
func oneAtATime(actions []planning.Action, retries planning.Retries) planning.Plan {
	var plan planning.Plan
	room := 1
	for _, action := range actions {
		switch {
		case plan.SetAside(retries, action.RetryKey(), room > 0):
			plan.Actions = append(plan.Actions, action)
		case room > 0:
			room--
			plan.Actions = append(plan.Actions, action)
		default:
			plan.Held = []planning.Note{{Reason: "Limit"}}
		}
	}
	return plan
}

// Once an action, or all of its step, has failed for long, nothing waits for it.
func TestRetriesSayForHowLongActionsHaveFailed(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	actions := creates(f.set, refusalsToPause)
	begun := f.clock.Now()
	for f.clock.Since(begun) < 30*time.Second {
		outcome := f.Apply(t.Context(), &f.state, f.set, planning.Plan{Actions: actions})
		f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
	}
	retries := f.state.Retries(f.set.Generation, f.clock.Now())
	key := actions[0].RetryKey()
	step, other := key, key
	step.Name, other.Name = "", "another"
	for _, asked := range []planning.RetryKey{key, step} {
		if retry, failed := retries(asked); !failed || retry.Failing != f.clock.Since(begun) {
			t.Errorf("%v: failed %v for %v, want %v", asked, failed, retry.Failing, f.clock.Since(begun))
		}
	}
	if retry, failed := retries(other); failed || retry != (planning.Retry{}) {
		t.Errorf("an action that was not tried has failed: %+v", retry)
	}
}

// Where everything is refused, as by a quota, no more is tried than before.
func TestRefusedActionsOfAWholeStepAreNotAllTried(t *testing.T) {
	f := newFixture(t, nil)
	tries := 0
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error {
		tries++
		return quotaError(w)
	})
	begun := f.clock.Now()
	for f.clock.Since(begun) < time.Hour {
		retries := f.state.Retries(f.set.Generation, f.clock.Now())
		outcome := f.Apply(t.Context(), &f.state, f.set, oneAtATime(creates(f.set, 100), retries))
		f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
	}
	if tries < refusalsToPause || tries > 300 {
		t.Errorf("%d tries in an hour", tries)
	}
}

func TestApplyTriesAtOnceWhenTheSpecChanged(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	f.apply(t, creates(f.set, 4)...)
	f.server.SetFault(nil)
	if outcome := f.apply(t, creates(f.set, 4)...); outcome.Done != 0 || outcome.RecheckAfter == 0 {
		t.Fatalf("outcome %+v: refused steps are not held back", outcome)
	}
	f.set.Generation++
	if outcome := f.apply(t, creates(f.set, 4)...); outcome.Done != 4 {
		t.Errorf("outcome %+v with a new spec, want 4 done", outcome)
	}
}

func TestApplyIsSoonBackAfterTroubleOfTheServer(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, _ testutil.Write, _ func() error) error {
		return apierrors.NewInternalError(errors.New("etcd is away"))
	})
	// Two steps: three failures in a row would make the verb pause.
	for range 10 {
		f.apply(t, creates(f.set, 2)...)
		f.clock.SetTime(f.clock.Now().Add(longestPause))
	}
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "web-0" {
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return forward()
	})
	if outcome := f.apply(t, creates(f.set, 2)...); outcome.Done != 1 || outcome.RecheckAfter > longestDoubt {
		t.Errorf("outcome %+v, want the failed step tried again within %v", outcome, longestDoubt)
	}
}

// A busy server, or one that does not recognize the operator for a while, says nothing
// about the request.
func TestApplyIsSoonBackAfterAnswersThatSayNothingAboutTheRequest(t *testing.T) {
	for name, answer := range map[string]error{
		"too many requests": apierrors.NewTooManyRequestsError("the server has received too many requests"),
		"unauthorized":      apierrors.NewUnauthorized("the token cannot be checked"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.server.SetFault(func(context.Context, testutil.Write, func() error) error { return answer })
			for range 12 {
				outcome := f.apply(t, create(f.set, 0))
				if outcome.RecheckAfter > longestDoubt {
					t.Fatalf("tried again after %s, want %s at most", outcome.RecheckAfter, longestDoubt)
				}
				f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
			}
		})
	}
}

func TestApplyStopsAVerbThatIsAlwaysRefused(t *testing.T) {
	victim := testutil.Pod("web-99").UID("victim").Obj()
	f := newFixture(t, nil, victim)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Verb == "create" {
			return quotaError(w)
		}
		return forward()
	})
	actions := append(creates(f.set, 60), remove(victim))
	outcome := f.apply(t, actions...)
	if got := f.count(t, podset.StepCreate, verdictRefused); got != refusalsToPause {
		t.Errorf("%v creations tried, want %d", got, refusalsToPause)
	}
	if outcome.Done != 1 || len(outcome.Left) != 57 || len(outcome.Steps) != 1 || outcome.Steps[podset.StepDelete] != 1 {
		t.Errorf("outcome %d done, %d left; want the deletion done and 57 creations left", outcome.Done, len(outcome.Left))
	}
	f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
	f.server.SetFault(nil)
	if outcome := f.apply(t, creates(f.set, 60)...); outcome.Done != 60 {
		t.Errorf("%d done after the quota was raised, want 60", outcome.Done)
	}
}

func TestApplyTakesAPodThatIsItsOwnForASuccess(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	stranger := testutil.StatefulSet("other").UID("stranger").Obj()
	f := newFixture(t, nil,
		testutil.Pod("web-0").UID("a").ControlledBy(set).Obj(),
		testutil.Pod("web-1").UID("b").ControlledBy(set).Deleting(time.Unix(1e9, 0)).Obj(),
		testutil.Pod("web-2").UID("c").ControlledBy(stranger).Obj(),
		testutil.Pod("web-3").UID("d").ControlledBy(stranger).Deleting(time.Unix(1e9, 0)).Obj(),
		testutil.Pod("web-4").UID("e").ControlledBy(testutil.StatefulSet("web").UID("earlier").Obj()).Obj(),
	)
	outcome := f.apply(t, creates(f.set, 5)...)
	if outcome.Done != 1 || len(outcome.Failures) != 1 || outcome.Failures[0].Slot != "2" {
		t.Errorf("outcome %+v; want web-0 done, web-2 refused, the others ordinary", outcome)
	}
	if outcome.RecheckAfter > recheckConflict {
		t.Errorf("looks again after %v, want %v at most: the pods in the way are about to go", outcome.RecheckAfter, recheckConflict)
	}
	if emitted := f.emitted(); len(emitted) != 1 || !strings.Contains(emitted[0], "controlled by StatefulSet other") {
		t.Errorf("events %q, want one, of web-2, which says who has it", emitted)
	}
	if got := f.count(t, podset.StepCreate, verdictConflict); got != 3 {
		t.Errorf("%v conflicts counted, want 3", got)
	}
}

// A user moves from the native StatefulSet to ours under the same name and leaves the pods with the native one.
func TestApplySaysThatANativeStatefulSetOfTheSameNameHasThePods(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").ControlledBy(testutil.StatefulSet("web").UID("native").Obj()).Obj()
	pod.OwnerReferences[0].APIVersion = "apps/v1"
	earlier := testutil.Pod("web-1").UID("b").ControlledBy(testutil.StatefulSet("web").UID("earlier").Obj()).Obj()
	earlier.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	f := newFixture(t, nil, pod, earlier)
	outcome := f.apply(t, creates(f.set, 2)...)
	if len(outcome.Failures) != 1 || outcome.Failures[0].Slot != "0" {
		t.Errorf("outcome %+v, want web-0 refused, and web-1, which goes with an earlier set of ours, ordinary", outcome)
	}
	const want = "a pod with this name exists and is controlled by StatefulSet web of apps/v1"
	if emitted := f.emitted(); len(emitted) != 1 || !strings.HasPrefix(emitted[0], "Warning FailedCreate ") || !strings.Contains(emitted[0], want) {
		t.Errorf("events %q, want %q", emitted, want)
	}
}

// A webhook set the label app of all pods to their team. The set released each new pod, and
// created another.
func TestAPodWhoseLabelsAWebhookChangesIsNotCreatedAgainAndAgain(t *testing.T) {
	relabel := func(_ context.Context, write testutil.Write, forward func() error) error {
		if write.Verb == "create" {
			write.Object.SetLabels(map[string]string{"app": "team-a", "more": "1"})
		}
		return forward()
	}
	selecting := func(app string, actions []planning.Action) []planning.Action {
		for i := range actions {
			actions[i].Object.SetLabels(map[string]string{"app": "web"})
			actions[i].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		}
		return actions
	}
	f := newFixture(t, nil)
	f.server.SetFault(relabel)
	outcome := f.apply(t, selecting("web", creates(f.set, 1))...)
	const why = "a webhook changed the labels of the pod, and the selector app=web does not match them any more, so it was deleted again"
	if len(outcome.Failures) != 1 || !outcome.Failures[0].Refused || !strings.Contains(outcome.Failures[0].Message, why) {
		t.Errorf("outcome %+v, want a refusal that says %q", outcome, why)
	}
	if emitted := f.emitted(); len(emitted) != 1 || !strings.HasPrefix(emitted[0], "Warning FailedCreate ") || !strings.Contains(emitted[0], why) {
		t.Errorf("events %q", emitted)
	}
	if names := f.names(t); len(names) > 0 {
		t.Errorf("pods %v are left", names)
	}
	writes := len(f.server.Writes())
	if outcome = f.apply(t, selecting("web", creates(f.set, 1))...); outcome.RecheckAfter == 0 || len(f.server.Writes()) != writes {
		t.Errorf("it is tried again at once: %+v", outcome)
	}

	// A mismatch of template and selector is not the webhook's fault, and matching labels
	// are fine.
	for _, app := range []string{"db", "team-a"} {
		f = newFixture(t, nil)
		f.server.SetFault(relabel)
		if outcome = f.apply(t, selecting(app, creates(f.set, 1))...); outcome.Done != 1 || len(f.names(t)) != 1 {
			t.Errorf("a selector of app=%s: %+v", app, outcome)
		}
	}
	f = newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, write testutil.Write, forward func() error) error {
		if write.Verb == "create" {
			write.Object.SetLabels(map[string]string{"app": "web", "team": "a"})
		}
		return forward()
	})
	if outcome = f.apply(t, selecting("web", creates(f.set, 1))...); outcome.Done != 1 || len(f.names(t)) != 1 {
		t.Errorf("a pod with another label: %+v", outcome)
	}

	// A pod undeletable again is reported.
	f = newFixture(t, nil)
	f.server.SetFault(func(ctx context.Context, write testutil.Write, forward func() error) error {
		if write.Verb == "delete" {
			return quotaError(write)
		}
		return relabel(ctx, write, forward)
	})
	if outcome = f.apply(t, selecting("web", creates(f.set, 1))...); len(outcome.Failures) != 1 || !strings.Contains(outcome.Failures[0].Message, "and it could not be deleted again: ") {
		t.Errorf("outcome %+v", outcome)
	}
}

func TestApplySurvivesLostAnswers(t *testing.T) {
	f := newFixture(t, nil)
	seen := &laggingStore{}
	f.tracker.Watch(podset.KindPod(), seen)
	lost := map[string]bool{}
	var mu sync.Mutex
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		err := forward()
		mu.Lock()
		defer mu.Unlock()
		if w.Verb == "create" && !lost[w.Object.GetName()] {
			lost[w.Object.GetName()] = true
			return io.ErrUnexpectedEOF
		}
		return err
	})
	outcome := f.apply(t, create(f.set, 0), create(f.set, 1))
	if outcome.Done != 0 || len(outcome.Failures) != 2 {
		t.Fatalf("outcome %+v, want both in doubt", outcome)
	}
	if wait, _ := f.tracker.Ready(t.Context(), f.owner()); wait == 0 {
		t.Error("planned before the cache shows the pods that were created")
	}
	if got := f.names(t); len(got) != 2 {
		t.Fatalf("pods %v", got)
	}
	// The next pass asks again on a stale view: names chosen beforehand make it harmless.
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	if outcome := f.apply(t, create(f.set, 0), create(f.set, 1)); outcome.Done != 2 || len(outcome.Failures) != 0 {
		t.Errorf("outcome of the second try %+v, want both done", outcome)
	}
	if got := f.names(t); len(got) != 2 {
		t.Errorf("pods %v, want two", got)
	}
}

// laggingStore is an empty cache.
type laggingStore struct{}

func (*laggingStore) LastStoreSyncResourceVersion() string { return "" }

func TestApplyEditsInOrderWithTheLatestResourceVersion(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").Gate(shared.GateInPlaceUpdateReady).Obj()
	f := newFixture(t, nil, pod)
	live := &corev1.Pod{}
	if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
		t.Fatal(err)
	}
	if outcome := f.apply(t, relabel(live, "new")); outcome.Done != 1 {
		t.Fatalf("outcome %+v", outcome)
	}
	writes := f.server.Writes()
	if len(writes) != 2 || writes[0].Subresource != "status" || writes[1].Subresource != "" {
		t.Fatalf("writes %+v, want the status first", writes)
	}
	if !strings.Contains(writes[0].Patch, fmt.Sprintf(`"resourceVersion":%q`, live.ResourceVersion)) {
		t.Errorf("the first patch %s is not tied to what was observed", writes[0].Patch)
	}
	got := &corev1.Pod{}
	if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(pod), got); err != nil {
		t.Fatal(err)
	}
	if got.Labels["revision"] != "new" || got.Spec.Containers[0].Image != "registry.example/main:2" {
		t.Errorf("pod has labels %v and image %s", got.Labels, got.Spec.Containers[0].Image)
	}
}

func TestApplyTakesConflictsForOrdinary(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").Gate(shared.GateInPlaceUpdateReady).Obj()
	f := newFixture(t, nil, pod)
	stale := pod.DeepCopy()
	stale.ResourceVersion = "1"
	gone := testutil.Pod("web-1").UID("b").Obj()
	gone.ResourceVersion = "1"
	outcome := f.apply(t, relabel(stale, "new"), relabel(gone, "new"))
	if len(outcome.Failures) != 0 || outcome.Done != 0 || outcome.RecheckAfter != recheckConflict {
		t.Errorf("outcome %+v, want nothing but another pass", outcome)
	}
	if got := f.emitted(); len(got) != 0 {
		t.Errorf("events %q, want none", got)
	}
	if c, g := f.count(t, podset.StepEdit, verdictConflict), f.count(t, podset.StepEdit, verdictGone); c != 1 || g != 1 {
		t.Errorf("counted %v conflicts and %v gone, want one of each", c, g)
	}
}

func TestApplyStopsAVerbThatMeetsOnlyConflicts(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, w.Object.GetName(), errors.New("quota"))
	})
	outcome := f.apply(t, creates(f.set, 50)...)
	if got := len(f.server.Writes()); got != conflictsToPause || len(outcome.Failures) != 0 || outcome.RecheckAfter == 0 {
		t.Errorf("%d writes and outcome %+v, want %d writes and nothing but another pass", got, outcome, conflictsToPause)
	}
	f.server.SetFault(nil)
	f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
	if outcome := f.apply(t, creates(f.set, 50)...); outcome.Done != 50 {
		t.Errorf("outcome %+v after the conflicts, want 50 done", outcome)
	}
}

func TestApplyDeletesOnlyWhatWasSeen(t *testing.T) {
	f := newFixture(t, nil, testutil.Pod("web-0").UID("a").Obj(), testutil.Pod("web-1").UID("b").Obj())
	observed := testutil.Pod("web-0").UID("a").Obj()
	observed.ResourceVersion = "7"
	exact := remove(observed)
	exact.ExactVersion = true
	absent := remove(testutil.Pod("web-9").UID("z").Obj())
	outcome := f.apply(t, exact, remove(testutil.Pod("web-1").UID("b").Obj()), absent)
	if len(outcome.Failures) != 0 {
		t.Errorf("outcome %+v", outcome)
	}
	deleted := map[string]bool{}
	for _, w := range f.server.Writes() {
		deleted[w.Object.GetName()] = w.Verb == "delete"
		p := w.DeleteOptions.Preconditions
		if p == nil || p.UID == nil || (p.ResourceVersion != nil) != (w.Object.GetName() == "web-0") {
			t.Errorf("deletion of %s with the preconditions %+v", w.Object.GetName(), p)
		}
	}
	if want := map[string]bool{"web-0": true, "web-1": true, "web-9": true}; !maps.Equal(deleted, want) {
		t.Errorf("deletions %v, want %v", deleted, want)
	}
}

func TestApplyDeletesAClaimOnlyAsItWasSeen(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-a", UID: "c"}}
	f := newFixture(t, nil, claim)
	claim.ResourceVersion = "7"
	outcome := f.apply(t, podset.DeleteClaim("a", claim, "ClaimUnused"))
	if len(outcome.Failures) != 0 {
		t.Errorf("outcome %+v", outcome)
	}
	writes := f.server.Writes()
	if len(writes) != 1 {
		t.Fatalf("%d writes", len(writes))
	}
	p := writes[0].DeleteOptions.Preconditions
	if p == nil || p.UID == nil || *p.UID != "c" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
		t.Errorf("deleted with the preconditions %+v", p)
	}
}

// A new leader with a stale cache deleted the claim of a pod it did not see yet.
func TestApplyDeletesNoClaimWhosePodExists(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: "data-web-0", UID: "claim"}}
	pod := testutil.Pod("web-0").UID("pod").Obj()
	deletion := podset.DeleteClaim("0", claim, "")
	deletion.IfAbsent = &planning.Reference{Kind: podset.KindPod(), Namespace: testutil.Namespace, Name: pod.Name}
	for name, tc := range map[string]struct {
		objects []client.Object
		deleted bool
	}{
		"the pod exists":   {[]client.Object{claim.DeepCopy(), pod}, false},
		"there is no such": {[]client.Object{claim.DeepCopy()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, tc.objects...)
			action := deletion
			stored := &corev1.PersistentVolumeClaim{}
			if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(claim), stored); err != nil {
				t.Fatal(err)
			}
			action.Object = stored
			outcome := f.apply(t, action)
			if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(claim), stored); apierrors.IsNotFound(err) != tc.deleted {
				t.Errorf("the claim after the deletion: %v; deleted should be %v", err, tc.deleted)
			}
			if len(outcome.Failures) > 0 || outcome.RecheckAfter > 0 == tc.deleted {
				t.Errorf("outcome is %+v", outcome)
			}
		})
	}
}

func TestApplyTracksDeletions(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").Obj()
	cases := map[string]struct {
		err       error
		wantGoing bool
	}{
		"done":     {nil, true},
		"in doubt": {io.ErrUnexpectedEOF, true},
		"refused":  {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("precondition")), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, pod.DeepCopy())
			duringRequest := false
			f.server.SetFault(func(context.Context, testutil.Write, func() error) error {
				duringRequest = f.going(pod)
				return tc.err
			})
			f.apply(t, remove(pod))
			if !duringRequest {
				t.Error("the pod does not count as going while the request is under way")
			}
			if got := f.going(pod); got != tc.wantGoing {
				t.Errorf("going afterwards: %v, want %v", got, tc.wantGoing)
			}
		})
	}
}

func TestApplyCreatesClaimsFirst(t *testing.T) {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: name}}
	}
	dying := claim("data-web-1")
	dying.Finalizers = []string{"example.io/hold"}
	dying.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
	f := newFixture(t, nil, dying, claim("logs-web-0"))
	first := create(f.set, 0, createClaim("data-web-0", "web-0"), createClaim("logs-web-0", "web-0"))
	second := create(f.set, 1, createClaim("data-web-1", "web-1"))
	outcome := f.apply(t, first, second)
	if outcome.Done != 1 || len(outcome.Failures) != 0 {
		t.Errorf("outcome %+v, want the first done and the second to wait for its claim", outcome)
	}
	if diff := cmp.Diff([]string{"web-0"}, f.names(t)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	wantEvents := []string{
		"Normal SuccessfulCreate create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate create Pod web-0 in StatefulSet web successful",
	}
	if diff := cmp.Diff(wantEvents, f.emitted()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := f.server.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 3 {
		t.Errorf("%d claims, want 3", len(claims.Items))
	}
	if w := f.server.Writes()[0].Object.GetName(); w != "data-web-0" {
		t.Errorf("the first write is for %s", w)
	}
}

// A node refusing every pod must not get a new one many times a second.
func TestApplySlowsDownTheReplacementOfFailingPods(t *testing.T) {
	f := newFixture(t, nil)
	f.set.Generation = 1
	template := "web-1"
	fails := func() planning.Outcome {
		t.Helper()
		pod := testutil.Pod("web-0").UID("a").Obj()
		if err := f.server.Create(t.Context(), pod); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		action := podset.DeletePod("0", pod, podset.ReasonFinished)
		action.MadeFrom = template
		return f.apply(t, action)
	}
	if outcome := fails(); outcome.Done != 1 {
		t.Fatalf("outcome %+v, want the first one replaced at once", outcome)
	} else if len(outcome.Failing) > 0 {
		t.Errorf("one failure is no pattern: %v", outcome.Failing)
	}
	var delays []time.Duration
	for range 12 {
		outcome := fails()
		if outcome.Done != 0 || len(outcome.Left) != 1 || len(outcome.Failures) != 0 {
			t.Fatalf("outcome %+v, want it left", outcome)
		}
		delays = append(delays, outcome.RecheckAfter)
		f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
		if outcome := fails(); outcome.Done != 1 {
			t.Fatalf("outcome %+v after the delay, want it replaced", outcome)
		}
	}
	if delays[0] != time.Second || delays[1] != 2*time.Second || delays[11] != longestDelay {
		t.Errorf("delays %v, want 1s doubling to %v", delays, longestDelay)
	}
	if outcome := f.apply(t); !slices.Equal(outcome.Failing, []planning.FailingSlot{{Slot: "0", MadeFrom: template}}) {
		t.Errorf("failing are %v after many failures", outcome.Failing)
	}
	f.clock.SetTime(f.clock.Now().Add(longestDelay + steady + time.Second))
	if outcome := f.apply(t); len(outcome.Failing) > 0 {
		t.Errorf("failing are %v after a steady time", outcome.Failing)
	}
	fails()
	if outcome := fails(); outcome.RecheckAfter != time.Second {
		t.Errorf("waits %v after a steady time, want a second again", outcome.RecheckAfter)
	}
	// An autoscaler changed replicas, and failing pods were made again at once, each time.
	f.set.Generation = 2
	if outcome := fails(); outcome.Done != 0 {
		t.Errorf("outcome %+v after another part of the spec changed, want it left", outcome)
	}
	template = "web-2"
	if outcome := fails(); outcome.Done != 1 {
		t.Errorf("outcome %+v after the template changed, want it replaced at once", outcome)
	}
	if outcome := fails(); outcome.RecheckAfter != time.Second {
		t.Errorf("waits %v at another template, want a second again", outcome.RecheckAfter)
	}
}

func TestApplyNamesTheRefusedClaim(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	action := create(f.set, 0, createClaim("data-web-0", "web-0"))
	if outcome := f.apply(t, action); len(outcome.Failures) != 1 {
		t.Errorf("outcome %+v, want a failure", outcome)
	}
	emitted := f.emitted()
	if len(emitted) != 1 || !strings.HasPrefix(emitted[0], "Warning FailedCreate create Claim data-web-0 Pod web-0 in StatefulSet web failed error: ") {
		t.Errorf("events %q", emitted)
	}
}

func TestApplyLeavesWhatTheSliceHasNoTimeFor(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Slice = 500 * time.Millisecond; o.Pool = writer.NewPool(2) })
	f.server.SetFault(func(ctx context.Context, _ testutil.Write, forward func() error) error {
		timer := time.NewTimer(20 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return forward()
	})
	outcome := f.apply(t, creates(f.set, 100)...)
	if outcome.Done == 0 || len(outcome.Left) == 0 || outcome.Done+len(outcome.Left) != 100 {
		t.Errorf("%d done and %d left, want some of each and 100 together", outcome.Done, len(outcome.Left))
	}
	if outcome.RecheckAfter != recheckLeft {
		t.Errorf("recheck after %v, want %v", outcome.RecheckAfter, recheckLeft)
	}
	if got := len(f.names(t)); got != outcome.Done {
		t.Errorf("%d pods, but %d done: something was begun and not waited for", got, outcome.Done)
	}
}

// During thousands of creations or updates a refused pod was not retried before all others,
// and nothing told of it.
func TestApplyTriesAndTellsOfARefusedActionWhileOthersTakeLong(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Slice = 100 * time.Millisecond; o.Pool = writer.NewPool(2) })
	var tries atomic.Int32
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if ordinal := strings.TrimPrefix(w.Object.GetName(), "web-"); len(ordinal) == 1 { // web-0 to web-9
			tries.Add(1)
			return quotaError(w)
		}
		time.Sleep(20 * time.Millisecond)
		return forward()
	})
	for i := range 5 {
		f.apply(t, create(f.set, i)) // one at a time, so that the step does not pause
		f.apply(t, create(f.set, 100+i))
	}
	tries.Store(0)
	waiting := f.apply(t, creates(f.set, 5)...)
	if tries.Load() != 0 || len(waiting.Failures) != 5 {
		t.Fatalf("%d tries within the delay, %d failures", tries.Load(), len(waiting.Failures))
	}
	f.clock.SetTime(f.clock.Now().Add(waiting.RecheckAfter))
	var all []planning.Action
	all = append(all, creates(f.set, 5)...)
	for i := range 100 {
		all = append(all, create(f.set, 200+i))
	}
	long := f.apply(t, all...)
	if long.Done == 0 || len(long.Left) == 0 || long.Done+len(long.Left) != 100 {
		t.Errorf("%d done and %d left, want some of each and 100 together", long.Done, len(long.Left))
	}
	if n := tries.Load(); n != refusalsToPause-1 {
		t.Errorf("%d of the refused are tried again first, want %d", n, refusalsToPause-1)
	}
	if diff := cmp.Diff(waiting.Failures, long.Failures, cmpopts.IgnoreFields(planning.Failure{}, "Refused")); diff != "" {
		t.Errorf("the failures change when there is no time for them (-waiting +long):\n%s", diff)
	}
	if long.RecheckAfter != recheckLeft {
		t.Errorf("recheck after %v, want %v", long.RecheckAfter, recheckLeft)
	}
}

func TestApplyEndsARequestAtItsDeadline(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Writer.Timeout = 20 * time.Millisecond })
	f.server.SetFault(func(ctx context.Context, _ testutil.Write, _ func() error) error {
		<-ctx.Done()
		return ctx.Err()
	})
	outcome := f.apply(t, create(f.set, 0))
	if len(outcome.Failures) != 1 || f.count(t, podset.StepCreate, verdictDoubt) != 1 {
		t.Errorf("outcome %+v, want the creation in doubt", outcome)
	}
}

func TestHangingNamespaceDoesNotDelayAnother(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Pool, o.Slice, o.Writer.Timeout = writer.NewPool(32), 2*deadline, 2*deadline
	})
	hung := make(chan struct{}, 10000)
	release := make(chan struct{})
	f.server.SetFault(func(ctx context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetNamespace() != "hanging" {
			return forward()
		}
		hung <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return io.ErrUnexpectedEOF
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(release)
	// Each set begins with one creation at a time: more sets than the pool has room for.
	for i := range 2 * defaultWrites {
		set := testutil.StatefulSet(fmt.Sprintf("a%d", i)).UID(types.UID(fmt.Sprint(i))).Namespace("hanging").Obj()
		wg.Go(func() { f.Apply(t.Context(), &State{}, set, planning.Plan{Actions: creates(set, 5)}) })
	}
	for range defaultWrites * 3 / 4 {
		select {
		case <-hung:
		case <-time.After(deadline):
			t.Fatal("the hanging namespace does not get its share")
		}
	}
	done := make(chan planning.Outcome, 1)
	set := testutil.StatefulSet("b").Namespace("healthy").Obj()
	wg.Go(func() { done <- f.Apply(t.Context(), &State{}, set, planning.Plan{Actions: creates(set, 10)}) })
	select {
	case outcome := <-done:
		if outcome.Done != 10 {
			t.Errorf("outcome %+v, want 10 pods", outcome)
		}
	case <-time.After(deadline):
		t.Fatal("a namespace waits for another one's hanging writes")
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\n b\t c", 100); got != "a b c" {
		t.Errorf("got %q", got)
	}
	if got := oneLine(strings.Repeat("ä", 100), 20); got != strings.Repeat("ä", 8)+"..." {
		t.Errorf("got %q", got)
	}
}

// clusterOwner is a cluster-scoped owner.
func clusterOwner() client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sidecars", UID: "sidecars"}}
}

func podsOf(namespace string, n int) []client.Object {
	var pods []client.Object
	for i := range n {
		name := fmt.Sprintf("%s-%d", namespace, i)
		pods = append(pods, testutil.Pod(name).Namespace(namespace).UID(types.UID(name)).Gate(shared.GateInPlaceUpdateReady).Obj())
	}
	return pods
}

// relabelAll are the edits of pods read from the server.
func (f *fixture) relabelAll(t *testing.T, pods []client.Object, value string) []planning.Action {
	t.Helper()
	var actions []planning.Action
	for _, pod := range pods {
		live := &corev1.Pod{}
		if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
			t.Fatal(err)
		}
		actions = append(actions, relabel(live, value))
	}
	return actions
}

// A cluster-scoped owner writes in two namespaces; in one of them the API server does not answer.
func TestHangingNamespaceDoesNotStopAClusterScopedOwner(t *testing.T) {
	hanging, healthy := podsOf("hanging", 20), podsOf("healthy", 60)
	f := newFixture(t, func(o *Options) {
		o.Slice, o.Writer.Timeout = 200*time.Millisecond, 2*deadline
	}, append(slices.Clone(hanging), healthy...)...)
	f.server.SetFault(func(ctx context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetNamespace() != "hanging" {
			return forward()
		}
		<-ctx.Done()
		return ctx.Err()
	})
	owner := clusterOwner()
	moved := func() int {
		var list corev1.PodList
		if err := f.server.List(t.Context(), &list, client.InNamespace("healthy"), client.MatchingLabels{"revision": "new"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	began := time.Now()
	for range 10 {
		// Hanging writes come first in the plan.
		actions := slices.Concat(f.relabelAll(t, hanging, "new"), f.relabelAll(t, healthy[moved():], "new"))
		outcome := f.Apply(t.Context(), &f.state, owner, planning.Plan{Actions: actions})
		if outcome.RecheckAfter == 0 {
			t.Errorf("outcome %+v: nobody looks again at what hangs", outcome)
		}
		if moved() == len(healthy) {
			break
		}
	}
	if got := moved(); got != len(healthy) {
		t.Errorf("%d of %d pods of the healthy namespace are changed", got, len(healthy))
	}
	if spent := time.Since(began); spent > deadline {
		t.Errorf("it took %v: the healthy namespace waited for the deadlines of the other one", spent)
	}
	// Nothing of a hanging namespace left alone keeps the owner.
	outcome := f.Apply(t.Context(), &f.state, owner, planning.Plan{Actions: slices.Concat(f.relabelAll(t, hanging, "newer"), f.relabelAll(t, healthy, "newer"))})
	if outcome.Done == 0 || len(outcome.Left)+len(outcome.Failures) < len(hanging) {
		t.Errorf("outcome %+v, want the healthy pods begun and the others left", outcome)
	}
}

func TestRefusalsOfOneNamespaceDoNotPauseAnother(t *testing.T) {
	full, room := podsOf("full", 10), podsOf("room", 10)
	f := newFixture(t, nil, append(slices.Clone(full), room...)...)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetNamespace() == "full" {
			return quotaError(w)
		}
		return forward()
	})
	outcome := f.Apply(t.Context(), &f.state, clusterOwner(), planning.Plan{Actions: slices.Concat(f.relabelAll(t, full, "new"), f.relabelAll(t, room, "new"))})
	if outcome.Done != len(room) || len(outcome.Failures) != refusalsToPause || len(outcome.Left) != len(full)-refusalsToPause {
		t.Errorf("outcome %+v, want %d done, %d refused and the others of their namespace left", outcome, len(room), refusalsToPause)
	}
}

// During a surge a node has two pods of a DaemonSet, so two pods of one slot.
func TestApplyKeepsTwoPodsOfOneSlotApart(t *testing.T) {
	pods := podsOf(testutil.Namespace, 2)
	f := newFixture(t, nil, pods...)
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == pods[0].GetName() {
			return quotaError(w)
		}
		return forward()
	})
	actions := f.relabelAll(t, pods, "new")
	actions[0].Slot, actions[1].Slot = "node", "node"
	outcome := f.apply(t, actions[0])
	if len(outcome.Failures) != 1 {
		t.Fatalf("outcome %+v, want one failure", outcome)
	}
	if outcome := f.apply(t, actions...); outcome.Done != 1 || len(outcome.Failures) != 1 {
		t.Errorf("outcome %+v; want one pod refused, and the other one of its slot done", outcome)
	}
	if len(f.state.refused) != 1 {
		t.Errorf("remembers %v; want the refusal to outlast the success of the other pod", f.state.refused)
	}
}

// Other children than pods are ordinary actions.
func TestApplyWritesObjectsOfAnyKind(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backup-1", UID: "job"}}
	f := newFixture(t, nil, job)
	kindJob, kindSecret := batchv1.SchemeGroupVersion.WithKind("Job"), corev1.SchemeGroupVersion.WithKind("Secret")
	child := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "default", "name": "web-a", "labels": map[string]any{"subset": "a"}},
	}}
	next := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backup-2"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "pull"}}
	outcome := f.apply(t,
		planning.Action{Verb: planning.VerbApply, Step: "ApplyChild", Kind: child.GroupVersionKind(), Object: child, FieldManager: "subsets", Force: true},
		planning.Action{Verb: planning.VerbCreate, Step: "CreateJob", Kind: kindJob, Object: next},
		planning.Action{Verb: planning.VerbCreate, Step: "CopySecret", Kind: kindSecret, Object: secret, KeepExisting: true},
		planning.Action{Verb: planning.VerbCreate, Step: "CopySecret", Kind: kindSecret, Object: secret.DeepCopy(), KeepExisting: true},
		planning.Action{Verb: planning.VerbDelete, Step: "DeleteJob", Kind: kindJob, Object: job, Propagation: metav1.DeletePropagationBackground},
	)
	if outcome.Done != 5 || len(outcome.Failures) != 0 {
		t.Fatalf("outcome %+v, want all done", outcome)
	}
	applied := &appsv1.Deployment{}
	if err := f.server.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "web-a"}, applied); err != nil || applied.Labels["subset"] != "a" {
		t.Errorf("applied %v, error %v", applied.Labels, err)
	}
	for _, w := range f.server.Writes() {
		if p := w.DeleteOptions.PropagationPolicy; w.Verb == "delete" && (p == nil || *p != metav1.DeletePropagationBackground) {
			t.Errorf("deleted with propagation %v", p)
		}
		if o := w.ApplyOptions; w.Verb == "apply" && (o.FieldManager != "subsets" || o.Force == nil || !*o.Force) {
			t.Errorf("applied with %+v", o)
		}
	}
	if child.GetResourceVersion() != "" || next.ResourceVersion != "" {
		t.Error("an object of the plan was written to")
	}
}

// An owner of a child of an unserved kind reported its creation for ever.
func TestApplySaysThatAKindIsNotServed(t *testing.T) {
	f := newFixture(t, nil)
	served := false
	f.server.SetFault(func(_ context.Context, _ testutil.Write, forward func() error) error {
		if served {
			return forward()
		}
		return apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{Resource: "deployments"}, "web-a", "404 page not found", 0, true)
	})
	child := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "default", "name": "web-a"},
	}}
	apply := planning.Action{Verb: planning.VerbApply, Step: "ApplyChild", Kind: child.GroupVersionKind(), Object: child, FieldManager: "subsets", Force: true}
	for range 10 {
		outcome := f.apply(t, apply)
		if len(outcome.Failures) != 1 || !strings.Contains(outcome.Failures[0].Message, "the API server does not serve Deployment.apps") {
			t.Fatalf("outcome %+v, want a failure that names the kind", outcome)
		}
		if outcome.RecheckAfter > longestDoubt {
			t.Fatalf("tried again after %s, want %s at most: nobody tells when the kind is served", outcome.RecheckAfter, longestDoubt)
		}
		f.clock.SetTime(f.clock.Now().Add(longestPause))
	}
	served = true
	if outcome := f.apply(t, apply); outcome.Done != 1 {
		t.Errorf("outcome %+v when the kind is served again", outcome)
	}
}

// A long-refused write is tried once in 15 minutes. An alert on a shorter time would never
// fire.
func TestTheAlertAboutRefusedWritesOutlastsTheBackOff(t *testing.T) {
	text, err := config.Files.ReadFile("operands/prometheus/prometheus_rule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type alert struct {
		Alert string          `json:"alert"`
		Expr  string          `json:"expr"`
		For   metav1.Duration `json:"for"`
	}
	var file struct {
		Spec struct {
			Groups []struct {
				Rules []alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	rules := file.Spec.Groups[0].Rules
	at := slices.IndexFunc(rules, func(a alert) bool { return a.Alert == "KruiseWritesRefused" })
	if at < 0 {
		t.Fatal("there is no such alert")
	}
	rule := rules[at]
	windows := regexp.MustCompile(`\[(\d+)m\](?: offset (\d+)m)?`).FindAllStringSubmatch(rule.Expr, -1)
	if len(windows) == 0 {
		t.Fatalf("no windows in %s", rule.Expr)
	}
	// fires says for how long the alert fires in a day, beginning when, if a write is refused at these times.
	fires := func(refused []time.Duration) (first, all time.Duration) {
		pending := time.Duration(0)
		for now := time.Duration(0); now < 24*time.Hour; now += time.Minute {
			is := true
			for _, w := range windows {
				length, _ := strconv.Atoi(w[1])
				offset, _ := strconv.Atoi(w[2])
				end := now - time.Duration(offset)*time.Minute
				begin := end - time.Duration(length)*time.Minute
				is = is && slices.ContainsFunc(refused, func(at time.Duration) bool { return at > begin && at <= end })
			}
			if !is {
				pending = 0
				continue
			}
			if pending += time.Minute; pending <= rule.For.Duration {
				continue
			}
			if all == 0 {
				first = now
			}
			all += time.Minute
		}
		return first, all
	}
	var always []time.Duration
	for at, failures := time.Duration(0), 1; at < 24*time.Hour; failures++ {
		always = append(always, at)
		at += delay(failures, longestDelay)
	}
	if first, all := fires(always); all == 0 || first > 30*time.Minute || all != 24*time.Hour-first {
		t.Errorf("a write that is always refused: the alert fires after %s, for %s of a day", first, all)
	}
	if _, all := fires([]time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}); all > 0 {
		t.Errorf("a write that was refused for seconds: the alert fires for %s", all)
	}
}

// A copy must not take over an object of somebody else, and must take over its own.
func TestApplyOnlyNewMeetsNoObjectOfSomebodyElse(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "hub", UID: "theirs"}, Data: map[string]string{"k": "theirs"}}
	ours := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "hub", UID: "ours"}, Data: map[string]string{"k": "old"}}
	f := newFixture(t, nil, theirs)
	ours.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.set, appsv1beta1.GroupVersion().WithKind("StatefulSet"))}
	if err := f.server.Create(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	taken := true
	f.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Verb != "apply" {
			return forward()
		}
		if taken && w.Object.GetResourceVersion() == absentVersion {
			return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "hub", errors.New("it exists"))
		}
		return nil
	})
	var actions []planning.Action
	for _, namespace := range []string{"a", "b"} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "hub"}, "data": map[string]any{"k": "new"},
		}}
		actions = append(actions, planning.Action{Verb: planning.VerbApply, Step: "Copy", Kind: kind, Object: object, Slot: planning.Slot(namespace), Force: true, OnlyNew: true})
	}
	for range 2 { // at once, and while it waits for the next try
		outcome := f.apply(t, actions[0])
		if len(outcome.Failures) != 1 || !outcome.Failures[0].Taken || !strings.Contains(outcome.Failures[0].Message, "exists and is controlled by nobody") {
			t.Fatalf("outcome %+v", outcome)
		}
	}
	if outcome := f.apply(t, actions[1]); outcome.Done != 1 {
		t.Fatalf("outcome %+v", outcome)
	}
	applies := 0
	for _, w := range f.server.Writes() {
		if w.Verb != "apply" {
			continue
		}
		applies++
		if uid := w.Object.GetUID(); w.Object.GetResourceVersion() != absentVersion && uid != "ours" {
			t.Errorf("applied to %q", uid)
		}
	}
	if applies != 3 {
		t.Errorf("%d applies, want one that meets theirs, and two for ours", applies)
	}
	for range 20 {
		f.clock.SetTime(f.clock.Now().Add(longestTaken))
		if outcome := f.apply(t, actions[0]); outcome.RecheckAfter > longestTaken {
			t.Fatalf("tried again after %s: nothing tells when theirs goes", outcome.RecheckAfter)
		}
	}
}
