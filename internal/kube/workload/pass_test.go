// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/testutil/cputime"
)

// An object stored without admission kept a worker busy for minutes in each pass, and took
// gigabytes.
func TestAStoredQuantityThatTakesMinutesToReadIsAFaultOfItsObject(t *testing.T) {
	stored := &unstructured.Unstructured{}
	const text = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[` +
		`{"name":"main","env":[{"name":"A","value":"1e-30000000"}],"resources":{"limits":{"cpu":"1e-30000000"}}}]}}}}`
	if err := stored.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	began := cputime.Thread()
	_, err := decode[appsv1beta1.CloneSet](stored)
	if spent := cputime.Thread() - began; spent > time.Second {
		t.Errorf("it took %v", spent)
	}
	const want = `spec.template.spec.containers[0].resources.limits.cpu: quantity "1e-30000000" has too many digits`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	unstructured.RemoveNestedField(stored.Object, "spec", "template", "spec", "containers")
	if _, err := decode[appsv1beta1.CloneSet](stored); err != nil {
		t.Errorf("without it: %v", err)
	}
}

// A revision nobody could delete made an update in place wait a minute for a grace period
// of a second.
func TestAnErrorBesideThePlanDoesNotHoldUpItsTimers(t *testing.T) {
	const soon, late = 20 * time.Millisecond, time.Hour
	stored := &unstructured.Unstructured{}
	stored.SetNamespace("shop")
	stored.SetName("web")
	b := &Base{Dependencies: Dependencies{Clock: clock.RealClock{}}, Tracker: freshness.New(nil, clock.RealClock{}, func(freshness.Owner) *freshness.Record { return &freshness.Record{} })}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](late, late)
	var q queue = priorityqueue.New("test", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
	defer q.ShutDown()
	b.queue.Store(&q)
	pass := &Pass{Base: b, Stored: stored, Memory: &Memory{}}

	result, err := pass.Finish(errors.New("a revision cannot be deleted"), 0, 3*soon, soon)
	if err == nil || result.RequeueAfter != 0 {
		t.Errorf("the pass ends with %+v, %v", result, err)
	}
	request := reconcile.Request{}
	request.Namespace, request.Name = "shop", "web"
	q.AddRateLimited(request) // as the controller does for the error
	came := make(chan reconcile.Request)
	go func() { next, _ := q.Get(); came <- next }()
	select {
	case next := <-came:
		if next != request {
			t.Errorf("%v comes back, want %v", next, request)
		}
	case <-time.After(10 * time.Second):
		t.Error("the object does not come back for its timer")
	}

	if result, err := pass.Finish(nil, 0, 3*soon, soon); err != nil || result.RequeueAfter != soon {
		t.Errorf("without an error the pass ends with %+v, %v", result, err)
	}
}

type storeAt string

func (s storeAt) LastStoreSyncResourceVersion() string { return string(s) }

// A pod deleted during an interrupted watch, before the cache had ever shown it, was never
// made again: no event came.
func TestWhatIsDeletedUnseenIsMissed(t *testing.T) {
	pods, sets := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"}
	for name, tc := range map[string]struct {
		wrote schema.GroupVersionKind
		store storeAt
		want  time.Duration
	}{
		"a pod that the cache does not hold yet": {wrote: pods, store: "8", want: lookAfterWrites},
		"a pod that the cache holds":             {wrote: pods, store: "9"},
		"the set itself, as with its status":     {wrote: sets, store: "8"},
	} {
		t.Run(name, func(t *testing.T) {
			record := &freshness.Record{}
			tracker := freshness.New(nil, clock.RealClock{}, func(freshness.Owner) *freshness.Record { return record })
			tracker.Watch(pods, tc.store)
			tracker.Watch(sets, tc.store)
			stored := &unstructured.Unstructured{}
			stored.SetName("web")
			tracker.Wrote(freshness.OwnerOf(stored), tc.wrote, "9")
			pass := &Pass{Base: &Base{Kind: sets, Dependencies: Dependencies{Clock: clock.RealClock{}}, Tracker: tracker}, Stored: stored, Memory: &Memory{}}
			if result, err := pass.Finish(nil); err != nil || result.RequeueAfter != tc.want {
				t.Errorf("the pass ends with %+v, %v, want it to come back after %s", result, err, tc.want)
			}
		})
	}
}

// An object with nothing to do kept its worker: the next in line of a busy namespace waited
// for two seconds.
func TestAnObjectThatDoesNothingLeavesItsWorkerToTheNext(t *testing.T) {
	for name, change := range map[string]func(*Base, *unstructured.Unstructured){
		"it is paused meanwhile": func(_ *Base, object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{shared.AnnotationPaused: "true"})
			var conditions []any
			for _, c := range pausedProgress().Conditions() {
				conditions = append(conditions, map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message})
			}
			object.Object["status"] = map[string]any{"conditions": conditions}
		},
		"it was planned a moment ago": func(b *Base, object *unstructured.Unstructured) {
			b.Remembered(object).Pace.Passed(b.Clock.Now(), object.GetGeneration(), time.Second, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
			b := &Base{Name: "sets", Dependencies: Dependencies{Clock: c, Pool: writer.NewPool(8), Workers: 2}}
			enter := func(name string, enqueue func()) func() {
				leave, _ := b.Pool.Enter(b.Name, b.Workers, types.NamespacedName{Namespace: "shop", Name: name}, enqueue)
				return leave
			}
			first := &unstructured.Unstructured{Object: map[string]any{}}
			first.SetNamespace("shop")
			first.SetName("first")
			first.SetUID("first")
			leave, enqueued := enter("busy", nil), false
			if pass, wait := b.begin(t.Context(), first); pass != nil || wait != waitForWorker {
				t.Fatalf("the first begins while there is no worker for it, or comes back after %s", wait)
			}
			enter("second", func() { enqueued = true })
			change(b, first)
			leave()
			if pass, _ := b.begin(t.Context(), first); pass != nil {
				t.Fatal("the first begins")
			}
			if !enqueued {
				t.Error("the second waits on")
			}
		})
	}
}
