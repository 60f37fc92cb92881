// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// deadline is when a test that waits for something gives up.
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
}

func newFixture(t *testing.T, change func(*Options), objects ...client.Object) *fixture {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		metrics: registry,
		server:  testutil.NewClient(types, []client.Object{&corev1.Pod{}}, objects...),
		events:  events.NewFakeRecorder(10000),
		clock:   clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
		set:     testutil.StatefulSet("web").UID("set").Obj(),
	}
	f.tracker = freshness.New(freshness.Options{Live: f.server, Clock: f.clock})
	options := Options{
		Kind: "StatefulSet", Client: f.server, Live: f.server, Tracker: f.tracker, Pool: NewPool(defaultWrites, clock.RealClock{}),
		Recorder: f.events, Metrics: m, Clock: f.clock, Slice: time.Minute,
	}
	if change != nil {
		change(&options)
	}
	f.Executor = New(options)
	return f
}

func (f *fixture) apply(t *testing.T, actions ...podset.Action) podset.Outcome {
	t.Helper()
	return f.Apply(t.Context(), f.set, podset.Plan{Actions: actions})
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

func (f *fixture) owner() freshness.Owner { return freshness.OwnerOf(f.set) }

// count is the value of the metric for these actions.
func (f *fixture) count(t *testing.T, verb podset.Verb, v verdict) float64 {
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
			if family.GetName() == "kruise_podset_actions_total" && labels["verb"] == string(verb) && labels["result"] == string(v) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func create(set *appsv1beta1.StatefulSet, ordinal int) podset.Action {
	name := fmt.Sprintf("%s-%d", set.Name, ordinal)
	return podset.Action{
		Verb: podset.VerbCreate, Slot: podset.Slot(fmt.Sprint(ordinal)),
		Pod: testutil.Pod(name).Namespace(set.Namespace).ControlledBy(set).Gate(shared.GateInPlaceUpdateReady).Obj(),
		Edit: edit.Edit{Fresh: true, Conditions: []corev1.PodCondition{
			{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0)},
		}},
		Success: podset.Event{Reason: "SuccessfulCreate", Message: "create Pod " + name + " in StatefulSet web successful"},
		Failure: podset.Event{Warning: true, Reason: "FailedCreate", Message: "create Pod " + name + " in StatefulSet web failed error:"},
	}
}

func creates(set *appsv1beta1.StatefulSet, n int) []podset.Action {
	var all []podset.Action
	for i := range n {
		all = append(all, create(set, i))
	}
	return all
}

func remove(pod *corev1.Pod) podset.Action {
	return podset.Action{
		Verb: podset.VerbDelete, Slot: podset.Slot(pod.Name), Pod: pod,
		Success: podset.Event{Reason: "SuccessfulDelete", Message: "delete Pod " + pod.Name},
		Failure: podset.Event{Warning: true, Reason: "FailedDelete", Message: "delete Pod " + pod.Name},
	}
}

func relabel(pod *corev1.Pod, value string) podset.Action {
	return podset.Action{
		Verb: podset.VerbEdit, Slot: podset.Slot(pod.Name), Pod: pod,
		Edit: edit.Edit{
			Labels: map[string]*string{"revision": &value}, Images: map[string]string{"main": "registry.example/main:2"},
			Conditions: []corev1.PodCondition{{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionFalse}},
		},
		Success: podset.Event{Reason: "SuccessfulUpdatePodInPlace", Message: "update"},
		Failure: podset.Event{Warning: true, Reason: "FailedUpdatePodInPlace", Message: "update"},
	}
}

func quotaError(write testutil.Write) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, write.Object.GetName(), errors.New("exceeded quota"))
}

func TestApplyCreatesPodsWithTheirFirstCondition(t *testing.T) {
	f := newFixture(t, nil)
	outcome := f.apply(t, creates(f.set, 100)...)
	if outcome.Done != 100 || len(outcome.Failures) > 0 || outcome.Left > 0 || outcome.RecheckAfter > 0 {
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
	window := func() int { return f.ramps.resume(f.owner().NamespacedName) }
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
	f.clock.SetTime(f.clock.Now().Add(cooling + time.Second))
	f.apply(t)
	if len(f.ramps.owners) != 0 {
		t.Errorf("at rest it still remembers %v", f.ramps.owners)
	}
}

func TestApplyTrustsANamespaceThatHasJustTakenWrites(t *testing.T) {
	f := newFixture(t, nil)
	another := types.NamespacedName{Namespace: f.set.Namespace, Name: "another"}
	elsewhere := types.NamespacedName{Namespace: "elsewhere", Name: "web"}
	begins := func(when string, here, there int) {
		t.Helper()
		if got := []int{f.ramps.resume(another), f.ramps.resume(elsewhere)}; got[0] != here || got[1] != there {
			t.Errorf("%s: another workload of the namespace begins with %d, one elsewhere with %d, want %d and %d", when, got[0], got[1], here, there)
		}
	}
	begins("at first", 1, 1)
	actions := creates(f.set, 61)
	f.apply(t, actions[:60]...)
	begins("after 60 successes", trusted, 1)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	f.apply(t, actions[60])
	begins("after a refusal", 1, 1)
	f.server.SetFault(nil)
	f.apply(t, creates(f.set, 70)[62:]...)
	begins("after some successes", 9, 1)
	f.clock.SetTime(f.clock.Now().Add(cooling + time.Second))
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
	if outcome.Done != 18 || outcome.Left != 0 {
		t.Errorf("outcome %+v, want 18 done", outcome)
	}
	want := []podset.Failure{{Verb: podset.VerbCreate, Slot: "0"}, {Verb: podset.VerbCreate, Slot: "7"}}
	if diff := cmp.Diff(want, outcome.Failures, cmpopts.IgnoreFields(podset.Failure{}, "Message")); diff != "" {
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
	if diff := cmp.Diff(first.Failures, again.Failures); diff != "" {
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
	if len(f.backoff.owners) != 0 {
		t.Errorf("still remembers %v", f.backoff.owners)
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
	if got := f.count(t, podset.VerbCreate, verdictRefused); got != enough {
		t.Errorf("%v creations tried, want %d", got, enough)
	}
	if outcome.Done != 1 || outcome.Left != 57 {
		t.Errorf("outcome %d done, %d left; want the deletion done and 57 creations left", outcome.Done, outcome.Left)
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
	if outcome.RecheckAfter > ordinary {
		t.Errorf("looks again after %v, want %v at most: the pods in the way are about to go", outcome.RecheckAfter, ordinary)
	}
	if emitted := f.emitted(); len(emitted) != 0 {
		t.Errorf("events %q", emitted)
	}
	if got := f.count(t, podset.VerbCreate, verdictConflict); got != 3 {
		t.Errorf("%v conflicts counted, want 3", got)
	}
}

func TestApplySurvivesLostAnswers(t *testing.T) {
	f := newFixture(t, nil)
	seen := &laggingStore{}
	f.tracker.WatchStore(kindPod(), seen)
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
	// The next pass asks again, on a view that lags: names chosen beforehand make it harmless.
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	if outcome := f.apply(t, create(f.set, 0), create(f.set, 1)); outcome.Done != 2 || len(outcome.Failures) != 0 {
		t.Errorf("outcome of the second try %+v, want both done", outcome)
	}
	if got := f.names(t); len(got) != 2 {
		t.Errorf("pods %v, want two", got)
	}
}

// laggingStore is a cache that has seen nothing yet.
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
	if len(outcome.Failures) != 0 || outcome.Done != 0 || outcome.RecheckAfter != ordinary {
		t.Errorf("outcome %+v, want nothing but another pass", outcome)
	}
	if got := f.emitted(); len(got) != 0 {
		t.Errorf("events %q, want none", got)
	}
	if c, g := f.count(t, podset.VerbEdit, verdictConflict), f.count(t, podset.VerbEdit, verdictGone); c != 1 || g != 1 {
		t.Errorf("counted %v conflicts and %v gone, want one of each", c, g)
	}
}

func TestApplyStopsAVerbThatMeetsOnlyConflicts(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, w.Object.GetName(), errors.New("quota"))
	})
	outcome := f.apply(t, creates(f.set, 50)...)
	if got := len(f.server.Writes()); got != manyConflicts || len(outcome.Failures) != 0 || outcome.RecheckAfter == 0 {
		t.Errorf("%d writes and outcome %+v, want %d writes and nothing but another pass", got, outcome, manyConflicts)
	}
	f.server.SetFault(nil)
	f.clock.SetTime(f.clock.Now().Add(outcome.RecheckAfter))
	if outcome := f.apply(t, creates(f.set, 50)...); outcome.Done != 50 {
		t.Errorf("outcome %+v after the conflicts, want 50 done", outcome)
	}
}

func TestApplyDeletesOnlyWhatWasSeen(t *testing.T) {
	f := newFixture(t, nil, testutil.Pod("web-0").UID("a").Obj(), testutil.Pod("web-1").UID("b").Obj())
	exact := remove(testutil.Pod("web-0").UID("a").Obj())
	exact.Pod.ResourceVersion = "7"
	exact.ExactVersion = true
	absent := remove(testutil.Pod("web-9").UID("z").Obj())
	outcome := f.apply(t, exact, remove(testutil.Pod("web-1").UID("b").Obj()), absent)
	if len(outcome.Failures) != 0 {
		t.Errorf("outcome %+v", outcome)
	}
	for _, w := range f.server.Writes() {
		p := w.DeleteOptions.Preconditions
		if p == nil || p.UID == nil || (p.ResourceVersion != nil) != (w.Object.GetName() == "web-0") {
			t.Errorf("deletion of %s with the preconditions %+v", w.Object.GetName(), p)
		}
	}
}

func TestApplyDeletesAClaimOnlyAsItWasSeen(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-a", UID: "c"}}
	f := newFixture(t, nil, claim)
	claim.ResourceVersion = "7"
	outcome := f.apply(t, podset.Action{Verb: podset.VerbDeleteClaim, Slot: "a", Claim: claim})
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
				duringRequest = f.tracker.Going(f.owner(), []*corev1.Pod{pod}).Has("a")
				return tc.err
			})
			f.apply(t, remove(pod))
			if !duringRequest {
				t.Error("the pod does not count as going while the request is under way")
			}
			if got := f.tracker.Going(f.owner(), []*corev1.Pod{pod}).Has("a"); got != tc.wantGoing {
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
	first, second := create(f.set, 0), create(f.set, 1)
	first.Claims = []*corev1.PersistentVolumeClaim{claim("data-web-0"), claim("logs-web-0")}
	second.Claims = []*corev1.PersistentVolumeClaim{claim("data-web-1")}
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

// A node that refuses every pod must not be sent a new one many times a second.
func TestApplySlowsDownTheReplacementOfFailingPods(t *testing.T) {
	f := newFixture(t, nil)
	f.set.Generation = 1
	fails := func() podset.Outcome {
		t.Helper()
		pod := testutil.Pod("web-0").UID("a").Obj()
		if err := f.server.Create(t.Context(), pod); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		if err := f.server.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		action := remove(pod)
		action.Slot, action.Reason = "0", podset.ReasonFinished
		return f.apply(t, action)
	}
	if outcome := fails(); outcome.Done != 1 {
		t.Fatalf("outcome %+v, want the first one replaced at once", outcome)
	}
	var delays []time.Duration
	for range 12 {
		outcome := fails()
		if outcome.Done != 0 || outcome.Left != 1 || len(outcome.Failures) != 0 {
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
	f.clock.SetTime(f.clock.Now().Add(longestDelay + steady + time.Second))
	fails()
	if outcome := fails(); outcome.RecheckAfter != time.Second {
		t.Errorf("waits %v after a steady time, want a second again", outcome.RecheckAfter)
	}
	f.set.Generation = 2
	if outcome := fails(); outcome.Done != 1 {
		t.Errorf("outcome %+v after the spec changed, want it replaced at once", outcome)
	}
	f.Forget(f.owner().NamespacedName)
	if len(f.churn.owners) != 0 {
		t.Errorf("still remembers %v", f.churn.owners)
	}
}

func TestApplyNamesTheRefusedClaim(t *testing.T) {
	f := newFixture(t, nil)
	f.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error { return quotaError(w) })
	action := create(f.set, 0)
	action.Claims = []*corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: "data-web-0"}}}
	if outcome := f.apply(t, action); len(outcome.Failures) != 1 {
		t.Errorf("outcome %+v, want a failure", outcome)
	}
	emitted := f.emitted()
	if len(emitted) != 1 || !strings.HasPrefix(emitted[0], "Warning FailedCreate create Claim data-web-0 Pod web-0 in StatefulSet web failed error: ") {
		t.Errorf("events %q", emitted)
	}
}

func TestApplyLeavesWhatTheSliceHasNoTimeFor(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Slice = 500 * time.Millisecond; o.Pool = NewPool(2, clock.RealClock{}) })
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
	if outcome.Done == 0 || outcome.Left == 0 || outcome.Done+outcome.Left != 100 {
		t.Errorf("%d done and %d left, want some of each and 100 together", outcome.Done, outcome.Left)
	}
	if outcome.RecheckAfter != soon {
		t.Errorf("recheck after %v, want %v", outcome.RecheckAfter, soon)
	}
	if got := len(f.names(t)); got != outcome.Done {
		t.Errorf("%d pods, but %d done: something was begun and not waited for", got, outcome.Done)
	}
}

func TestApplyEndsARequestAtItsDeadline(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.WriteTimeout = 20 * time.Millisecond })
	f.server.SetFault(func(ctx context.Context, _ testutil.Write, _ func() error) error {
		<-ctx.Done()
		return ctx.Err()
	})
	outcome := f.apply(t, create(f.set, 0))
	if len(outcome.Failures) != 1 || f.count(t, podset.VerbCreate, verdictDoubt) != 1 {
		t.Errorf("outcome %+v, want the creation in doubt", outcome)
	}
}

func TestHangingNamespaceDoesNotDelayAnother(t *testing.T) {
	// The pool's clock stands still: nothing that hangs ever counts as slow, so what others get is theirs from the start.
	still := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	f := newFixture(t, func(o *Options) {
		o.Pool, o.Slice, o.WriteTimeout = NewPool(32, still), 2*deadline, 2*deadline
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
		set := testutil.StatefulSet(fmt.Sprintf("a%d", i)).Namespace("hanging").Obj()
		wg.Go(func() { f.Apply(t.Context(), set, podset.Plan{Actions: creates(set, 5)}) })
	}
	for range defaultWrites * 3 / 4 {
		select {
		case <-hung:
		case <-time.After(deadline):
			t.Fatal("the hanging namespace does not get its share")
		}
	}
	done := make(chan podset.Outcome, 1)
	set := testutil.StatefulSet("b").Namespace("healthy").Obj()
	wg.Go(func() { done <- f.Apply(t.Context(), set, podset.Plan{Actions: creates(set, 10)}) })
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
