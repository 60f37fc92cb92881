// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// counting counts reads of Secrets.
type counting struct {
	client.Reader
	reads *int
}

// Get implements client.Reader.
func (c counting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, is := object.(*corev1.Secret); is {
		*c.reads++
	}
	return c.Reader.Get(ctx, key, object, options...)
}

// shell is a reconciler of one job with a pull secret, of a cluster with one node, and its clock.
type shell struct {
	reconcilertest.Fake
	*Reconciler
	t     *testing.T
	now   *clocktesting.FakePassiveClock
	job   *appsv1beta1.ImagePullJob
	reads int
}

func newShell(t *testing.T) *shell {
	t.Helper()
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pull", UID: "uid", Finalizers: []string{plan.Finalizer}}}
	job.Spec.Image, job.Spec.PullSecrets = "nginx:1", []string{"registry"}
	job.Spec.CompletionPolicy = appsv1beta1.CompletionPolicy{Type: appsv1beta1.CompleteAlways, ActiveDeadlineSeconds: ptr.To(int64(700))}
	s := &shell{t: t, job: job, now: clocktesting.NewFakePassiveClock(time.Now())}
	s.Fake = reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.ImagePullJob{}, Stored: installed(
		job, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "registry"}},
	)})
	with := s.Dependencies
	with.Clock, with.Live = s.now, counting{with.Live, &s.reads}
	s.Reconciler = New(with)
	s.follow = func(context.Context) error { return nil }
	return s
}

// pass is a pass after some time. It returns when the next one is due, and the job as it is stored then.
func (s *shell) pass(after time.Duration) (time.Duration, *appsv1beta1.ImagePullJob) {
	s.t.Helper()
	s.now.SetTime(s.now.Now().Add(after))
	result, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.job)})
	if err != nil {
		s.t.Fatal(err)
	}
	stored := &appsv1beta1.ImagePullJob{}
	if err := s.Server.Get(s.t.Context(), client.ObjectKeyFromObject(s.job), stored); err != nil {
		s.t.Fatal(err)
	}
	return result.RequeueAfter, stored
}

// A job's memory lasts from pass to pass: pull secrets are not read each time, and nodes' answers are measured.
func TestWhatIsRememberedOfAJobWithPullSecrets(t *testing.T) {
	s := newShell(t)
	s.pass(0)
	if s.reads == 0 {
		t.Fatal("the pull secret was not read")
	}
	s.reads = 0
	s.pass(10 * time.Second)
	image := &appsv1beta1.NodeImage{}
	if err := s.Server.Get(t.Context(), client.ObjectKey{Name: "n1"}, image); err != nil {
		t.Fatal(err)
	}
	image.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{{
		Tag: "1", Phase: appsv1beta1.ImagePhaseSucceeded, CompletionTime: ptr.To(metav1.NewTime(s.now.Now())),
	}}}}
	if err := s.Server.Update(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if _, stored := s.pass(10 * time.Second); stored.Status.Succeeded != 1 {
		t.Fatalf("the answer does not count: %+v", stored.Status)
	}
	if s.reads > 0 {
		t.Errorf("Secrets were read %d times within a minute", s.reads)
	}
	var measured dto.Metric
	if err := s.Reconciler.Metrics.ImagePullAnswers.WithLabelValues("succeeded").Write(&measured); err != nil || measured.GetCounter().GetValue() != 1 {
		t.Errorf("%v answers were measured, want 1: %v", measured.GetCounter().GetValue(), err)
	}
}

// A pull secret applied after its job serves most of the pulls.
func TestAMissingPullSecretIsLookedForSoon(t *testing.T) {
	s := newShell(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "registry"}}
	if err := s.Server.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	again, _ := s.pass(0)
	if err := s.Server.Create(t.Context(), &corev1.Secret{ObjectMeta: secret.ObjectMeta}); err != nil {
		t.Fatal(err)
	}
	if again <= 0 || again > 10*time.Second {
		t.Errorf("looked for again after %s", again)
	}
	s.pass(10 * time.Second)
	image := &appsv1beta1.NodeImage{}
	if err := s.Server.Get(t.Context(), client.ObjectKey{Name: "n1"}, image); err != nil || len(image.Spec.Images["nginx"].PullSecrets) != 1 {
		t.Errorf("the node has %+v: %v", image.Spec.Images, err)
	}
}

// The server refuses a pull secret's copy: the job still begins, tries again, explains itself, and ends by its deadline.
func TestARefusedCopyDoesNotStopTheDeadline(t *testing.T) {
	s := newShell(t)
	copied := 0
	s.Server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if _, is := w.Object.(*corev1.Secret); is && w.Verb == "create" {
			copied++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, w.Object.GetName(), errors.New("a policy denies it"))
		}
		return forward()
	})
	again, stored := s.pass(0)
	if stored.Status.StartTime == nil || stored.Status.Desired != 1 || again <= 0 || again > time.Second {
		t.Errorf("it has not begun: %+v, looked at again after %s", stored.Status, again)
	}
	c := meta.FindStatusCondition(stored.Status.Conditions, appsv1beta1.ImagePullJobFailedCreate)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "copying the Secret registry to ") || !strings.Contains(c.Message, "a policy denies it") {
		t.Errorf("it says %+v", c)
	}
	for range 8 {
		again, stored = s.pass(again)
	}
	if copied < 6 || again != retryLatest {
		t.Errorf("tried %d times, and again after %s", copied, again)
	}
	if c := meta.FindStatusCondition(stored.Status.Conditions, "Stalled"); c == nil || c.Status != metav1.ConditionTrue || c.Reason != appsv1beta1.ReasonRequestFailed {
		t.Errorf("after a while it says %+v", c)
	}
	if _, stored = s.pass(700 * time.Second); stored.Status.CompletionTime == nil || stored.Status.Failed != 1 {
		t.Errorf("the deadline does not end it: %+v", stored.Status)
	}
}

// The server refuses to have a node asked. The next one is asked at once, and the job is not looked at each second meanwhile.
func TestANodeThatIsRefusedIsTriedAgainWhenItIsDue(t *testing.T) {
	s := newShell(t)
	if err := s.Server.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}); err != nil {
		t.Fatal(err)
	}
	tried := 0
	s.Server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if _, is := w.Object.(*appsv1beta1.NodeImage); is && w.Object.GetName() == "n1" {
			tried++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodeimages"}, "n1", errors.New("a policy denies it"))
		}
		return forward()
	})
	wait, _ := s.pass(0)
	if wait >= time.Second {
		t.Errorf("the others get its place after %s", wait)
	}
	s.pass(wait)
	if err := s.Server.Get(t.Context(), client.ObjectKey{Name: "n2"}, &appsv1beta1.NodeImage{}); err != nil {
		t.Errorf("the next node is not asked: %v", err)
	}
	for range 2 {
		wait, _ = s.pass(10 * time.Second)
	}
	if wait < 5*time.Second || tried > 3 {
		t.Errorf("after %d tries it is looked at again after %s", tried, wait)
	}
}
