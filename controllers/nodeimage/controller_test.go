// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/nodeimage/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// lagging is a cache with given content.
type lagging struct {
	cache.Cache
	client.Reader
}

// Get implements client.Reader.
func (l lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return l.Reader.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (l lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return l.Reader.List(ctx, list, options...)
}

// A new leader's cache may be older than the NodeImage: it must not delete an existing node's NodeImage or an
// existing job's tag.
func TestALaggingCacheDeletesNothing(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}}}
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pull", UID: "job"}}
	reads := 0
	count := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, object, options...)
	}}
	live := fake.NewClientBuilder().WithScheme(types).WithObjects(node, job).WithInterceptorFuncs(count).Build()
	empty := fake.NewClientBuilder().WithScheme(types).Build()
	r := &Reconciler{gone: lru.New(maxGone), Base: workload.New(Name, plan.Kind(), workload.Dependencies{
		Client: live, Live: live, Cache: lagging{Reader: empty}, Clock: clock.RealClock{}, WriteTimeout: time.Minute,
	})}
	image := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	snapshot, err := r.observe(t.Context(), image)
	if err != nil || !snapshot.Node || snapshot.Labels["a"] != "b" {
		t.Errorf("the node that the server has: %v, %v, %v", snapshot.Node, snapshot.Labels, err)
	}
	of := corev1.ObjectReference{Kind: "ImagePullJob", Namespace: "ns", Name: "pull", UID: "job"}
	if snapshot.Gone(of) || !snapshot.Working(of) {
		t.Errorf("the job that the server has: gone %v, working %v", snapshot.Gone(of), snapshot.Working(of))
	}
	if _, known := snapshot.PullSecretsOf(of); known {
		t.Error("what it asks for is not known yet")
	}

	if err := live.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if snapshot, err := r.observe(t.Context(), image); err != nil || snapshot.Node {
		t.Errorf("the node that is gone: %v, %v", snapshot.Node, err)
	}
	of.UID, reads = "before", 0
	for range 500 { // a NodeImage each
		if !snapshot.Gone(of) {
			t.Fatal("the job of that UID is gone")
		}
	}
	if reads != 1 {
		t.Errorf("%d reads for one job that is gone, want 1", reads)
	}
}

// A given-up pull is told on the node's list, and on each job it fails.
func TestAPullThatIsGivenUpIsTold(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Base: &workload.Base{Dependencies: workload.Dependencies{Recorder: recorder}}}
	r.emitEvents(&appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, plan.GivenUp{
		Name: "nginx:1", Message: "no answer", Jobs: []corev1.ObjectReference{{Kind: "ImagePullJob", Name: "pull"}, {Kind: "CloneSet", Name: "web"}},
	})
	for _, want := range []string{"Warning PullImageFailed nginx:1: no answer", "Warning PullImageFailed node n1: nginx:1: no answer"} {
		select {
		case got := <-recorder.Events:
			if got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		default:
			t.Errorf("not told: %s", want)
		}
	}
	if len(recorder.Events) > 0 {
		t.Errorf("told another time: %s", <-recorder.Events)
	}
}

// A hand-written tag has the node daemon deployed until it ends.
func TestAListWrittenByHandHasTheNodeDaemonDeployed(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	image := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "list"}}
	image.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: []appsv1beta1.ImageTagSpec{{Tag: "1", CreatedAt: ptr.To(metav1.Now())}}}}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.NodeImage{}, Stored: []client.Object{node, image}})
	now := clocktesting.NewFakePassiveClock(time.Now())
	fake.Clock, fake.DaemonNeeds = now, workload.NewDaemonNeeds(now)
	r := &Reconciler{gone: lru.New(maxGone), Base: workload.New(Name, plan.Kind(), fake.Dependencies)}
	pass := func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(image)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := pass(); !fake.DaemonNeeds.Any() || result.RequeueAfter > time.Minute || result.RequeueAfter <= 0 {
		t.Errorf("needed: %t, said again after %s, want within a minute", fake.DaemonNeeds.Any(), result.RequeueAfter)
	}
	if err := fake.Server.Get(t.Context(), client.ObjectKeyFromObject(image), image); err != nil {
		t.Fatal(err)
	}
	image.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{
		{Tag: "1", Phase: appsv1beta1.ImagePhaseSucceeded, CompletionTime: ptr.To(metav1.Now())},
	}}}
	if err := fake.Server.Status().Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	now.SetTime(now.Now().Add(10 * time.Second))
	if pass(); fake.DaemonNeeds.Any() {
		t.Error("it is needed by a tag that has ended")
	}
}
