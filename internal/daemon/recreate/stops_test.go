// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

// slowly makes a named container stop only when the returned function is called.
func (b *bench) slowly(name string) (end func()) {
	b.t.Helper()
	gate := make(chan struct{})
	b.runtime.OnStop = func(ctx context.Context, container cri.Container, _ time.Duration) error {
		if container.Name != name {
			return nil
		}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return func() { close(gate) }
}

// update changes a request as the operator would.
func (b *bench) update(name string, change func(*v1beta1.ContainerRecreateRequest)) {
	b.t.Helper()
	r := &v1beta1.ContainerRecreateRequest{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, r); err != nil {
		b.t.Fatal(err)
	}
	change(r)
	if err := b.client.Status().Update(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) looks(pod string, times int) {
	b.t.Helper()
	for range times {
		if _, err := b.look(pod); err != nil {
			b.t.Fatal(err)
		}
	}
}

// A container may take hours to stop; later requests must not wait.
func TestARequestThatIsOverMakesRoomAlthoughItsContainerIsStillStopping(t *testing.T) {
	first, second := request("first", "app"), request("second", "log")
	first.UID, second.UID = "first", "second"
	second.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
	b := newBench(t, first, second)
	end := b.slowly("app")
	b.looks("web-0", 4)
	if got := b.status("second").Phase; got != v1beta1.RecreatePending {
		t.Fatalf("the second is %q", got)
	}
	b.update("first", func(r *v1beta1.ContainerRecreateRequest) { r.Status.Phase = v1beta1.RecreateCompleted }) // its deadline
	b.looks("web-0", 3)
	b.stops.mutex.Lock()
	_, stopping := b.stops.all[Attempt{"first", "ns", "containerd://app"}]
	b.stops.mutex.Unlock()
	// How far it has come depends on how fast its own container has stopped.
	if got := b.status("second"); got.Phase == v1beta1.RecreatePending || !stopping {
		t.Errorf("the second is %+v; the first container still stopping: %v", got, stopping)
	}
	end()
	b.settle("second")
	if got := b.killed(); !slices.Contains(got, "app") || !slices.Contains(got, "log") {
		t.Errorf("stopped %v", got)
	}
}

func TestAContainerThatTakesLongIsStoppedOnce(t *testing.T) {
	b := newBench(t, request("restart", "app", "log"))
	end := b.slowly("app")
	b.looks("web-0", 10)
	if got := b.killed(); len(got) > 1 {
		t.Errorf("stopped %v, and app has not ended", got)
	}
	end()
	b.settle("restart")
	if got := b.killed(); !slices.Equal(got, []string{"app", "log"}) {
		t.Errorf("stopped %v", got)
	}
}

// A request nobody takes up for a minute is over. One tenant's long grace periods must not
// cause it for another.
func TestManySlowContainersDoNotKeepARequestFromBeingTakenUp(t *testing.T) {
	var requests []*v1beta1.ContainerRecreateRequest
	for i := range maxStops {
		r := request(fmt.Sprintf("slow-%d", i), "app")
		r.Spec.PodName, r.UID = fmt.Sprintf("slow-%d", i), types.UID(fmt.Sprintf("slow-%d", i))
		r.Labels[v1beta1.LabelRequestPodUID] = r.Spec.PodName
		r.Spec.Containers[0].StatusContext.ContainerID = "containerd://" + r.Spec.PodName
		r.Spec.Strategy.TerminationGracePeriodSeconds = ptr.To[int64](86400)
		requests = append(requests, r)
	}
	b := newBench(t, append(requests, request("restart", "log"))...)
	clock := testingclock.NewFakeClock(time.Now())
	b.Clock = clock
	for i := range maxStops {
		name := fmt.Sprintf("slow-%d", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		pod.Spec.Containers = []corev1.Container{{Name: "app"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://" + name}}
		if err := b.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		b.runtime.AddPod(critest.Pod{Namespace: "ns", Name: name, UID: name}, cri.ContainerStatus{Container: cri.Container{ID: name, Name: "app"}})
	}
	end := b.slowly("app")
	for i := range maxStops {
		b.looks(fmt.Sprintf("slow-%d", i), 3)
	}
	b.looks("web-0", 3)
	if got := b.status("restart").Phase; got != v1beta1.RecreateRecreating {
		t.Errorf("the request behind %d slow containers of other pods is %q", maxStops, got)
	}
	if got := b.killed(); slices.Contains(got, "log") {
		t.Errorf("stopped %v: more than %d at once", got, maxStops)
	}
	clock.Step(mayTake)
	b.looks("web-0", 1)
	for deadline := time.Now().Add(10 * time.Second); !slices.Contains(b.killed(), "log"); {
		if time.Now().After(deadline) {
			t.Fatal("after half a minute it still has to wait for them")
		}
		runtime.Gosched()
	}
	end()
	b.stops.Wait()
	b.settle("restart")
}

// One namespace's requests for many pods kept all others' waiting.
func TestManyStopsOfOneNamespaceHoldUpNobodyElse(t *testing.T) {
	now := time.Now()
	s := Stops{all: map[Attempt]*stop{}}
	begins := func(namespace string, i int) bool {
		if !s.room(namespace, now) {
			return false
		}
		s.all[Attempt{types.UID(namespace), namespace, fmt.Sprint(i)}] = &stop{begun: now}
		return true
	}
	for i := range maxStops {
		begins("greedy", i)
	}
	if begins("greedy", maxStops) {
		t.Error("the next one of the same namespace begins")
	}
	for i := range ownStops {
		if !begins("other", i) {
			t.Errorf("%d of another namespace waits", i)
		}
	}
	if begins("other", ownStops) {
		t.Error("there are more of another namespace than it has for itself")
	}
}

func TestARequestThatCannotBeToldToWaitKeepsNobodyWaiting(t *testing.T) {
	second := request("second", "log")
	second.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
	b := newBench(t, request("first", "app"), second)
	refused := errors.New("its status is refused")
	var asked atomic.Int32
	b.client = refusing{b.client, func(name string) error {
		if name == "second" {
			asked.Add(1)
			return refused
		}
		return nil
	}}
	for range 10 {
		if _, err := b.pass(); err != nil && !errors.Is(err, refused) {
			t.Fatal(err)
		}
	}
	if got := b.status("first").Phase; got != v1beta1.RecreateCompleted || asked.Load() == 0 {
		t.Errorf("the first is %q, after %d refusals", got, asked.Load())
	}
}

func TestManyRequestsThatWaitDoNotKeepTheFirstFromBeginning(t *testing.T) {
	var requests []*v1beta1.ContainerRecreateRequest
	for i := range 3 * maxTold {
		r := request(fmt.Sprintf("later-%02d", i), "log")
		r.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
		requests = append(requests, r)
	}
	b := newBench(t, append(requests, request("first", "app"))...)
	result, err := b.pass()
	if err != nil || b.status("first").Phase != v1beta1.RecreateRecreating || b.writes > maxTold+1 || result.RequeueAfter > after {
		t.Errorf("the first is %q after %d writes, looks again after %s: %v", b.status("first").Phase, b.writes, result.RequeueAfter, err)
	}
	b.settle("first")
	for _, r := range requests[1:] {
		if got := b.status(r.Name).Phase; got != v1beta1.RecreatePending {
			t.Errorf("%s is %q", r.Name, got)
		}
	}
}

// refusing refuses to write statuses of requests.
type refusing struct {
	client.Client
	refuse func(name string) error
}

func (r refusing) Status() client.SubResourceWriter {
	return refusingStatus{r.Client.Status(), r.refuse}
}

type refusingStatus struct {
	client.SubResourceWriter
	refuse func(name string) error
}

func (r refusingStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := r.refuse(object.GetName()); err != nil {
		return err
	}
	return r.SubResourceWriter.Patch(ctx, object, patch, options...)
}
