// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A revision that could not be deleted made an update in place wait a minute for the end of its grace period of a second.
func TestAnErrorBesideThePlanDoesNotHoldUpItsTimers(t *testing.T) {
	const soon, late = 20 * time.Millisecond, time.Hour
	stored := &unstructured.Unstructured{}
	stored.SetNamespace("shop")
	stored.SetName("web")
	b := &Base{Dependencies: Dependencies{Clock: clock.RealClock{}}}
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
