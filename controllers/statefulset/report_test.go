// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// began is what the clock of these tests says.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// newReconciler is one whose server has the objects, and which is called by its parts.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, *testutil.Client, *events.FakeRecorder) {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server := testutil.NewClient(types, []client.Object{&appsv1beta1.StatefulSet{}}, objects...)
	recorder := events.NewFakeRecorder(100)
	return New(workload.Dependencies{
		Client: server, Live: server, Recorder: recorder, Clock: clocktesting.NewFakePassiveClock(began()), WriteTimeout: time.Minute,
	}, plan.Options{}), server, recorder
}

func stored(t *testing.T, server client.Client, set *appsv1beta1.StatefulSet) (*unstructured.Unstructured, *appsv1beta1.StatefulSet) {
	t.Helper()
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(plan.Kind())
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(set), raw); err != nil {
		t.Fatal(err)
	}
	typed := &appsv1beta1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, typed); err != nil {
		t.Fatal(err)
	}
	return raw, typed
}

// A quota on revisions stops a set before it is planned: its status is the only place where its user would look.
func TestRefusedObservationIsReportedOnce(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	set.Status.ReadyReplicas = 2
	set.Status.Conditions = []appsv1.StatefulSetCondition{{Type: appsv1beta1.StatefulSetAvailable, Status: corev1.ConditionTrue}}
	r, server, recorder := newReconciler(t, set)
	cause := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "web-1", context.DeadlineExceeded)
	for range 2 {
		raw, _ := stored(t, server, set)
		if err := r.ReportRefused(t.Context(), raw, cause, string(appsv1beta1.StatefulSetFailedCreatePod)); err != nil {
			t.Fatal(err)
		}
	}
	_, after := stored(t, server, set)
	want := []string{"Available=True/", "FailedCreatePod=True/RequestFailed", "Reconciling=True/RequestFailed", "Stalled=False/NotStalled"}
	if diff := cmp.Diff(want, brief(after.Status.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if after.Status.ReadyReplicas != 2 {
		t.Errorf("the counters changed: %+v", after.Status)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events, want 1", len(recorder.Events))
	}
	raw, _ := stored(t, server, set)
	if err := r.ReportRefused(t.Context(), raw, apierrors.NewConflict(schema.GroupResource{}, "web-1", nil), string(appsv1beta1.StatefulSetFailedCreatePod)); err != nil {
		t.Fatal(err)
	}
	if len(recorder.Events) != 1 {
		t.Error("a conflict is reported")
	}
	// Stalled used to say that nothing needs the user for as long as the server refused the revision.
	r.Clock.(*clocktesting.FakePassiveClock).SetTime(began().Add(31 * time.Second))
	raw, _ = stored(t, server, set)
	if err := r.ReportRefused(t.Context(), raw, cause, string(appsv1beta1.StatefulSetFailedCreatePod)); err != nil {
		t.Fatal(err)
	}
	_, after = stored(t, server, set)
	want = []string{"Available=True/", "FailedCreatePod=True/RequestFailed", "Reconciling=False/RequestFailed", "Stalled=True/RequestFailed"}
	if diff := cmp.Diff(want, brief(after.Status.Conditions)); diff != "" {
		t.Errorf("conditions after 31 s (-want +got):\n%s", diff)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events, want 1: the answer is the same", len(recorder.Events))
	}
}

// The text of an error may be another one at each try. Since when creating fails is what users and alerts go by.
func TestAnotherErrorTextKeepsTheTransitionTime(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	since := metav1.NewTime(began().Add(-time.Hour))
	set.Status.Conditions = []appsv1.StatefulSetCondition{{
		Type: appsv1beta1.StatefulSetFailedCreatePod, Status: corev1.ConditionTrue, Reason: appsv1beta1.ReasonRequestFailed, Message: "try 1", LastTransitionTime: since,
	}}
	r, server, _ := newReconciler(t, set)
	raw, _ := stored(t, server, set)
	cause := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "web-1", errors.New("try 2"))
	if err := r.ReportRefused(t.Context(), raw, cause, string(appsv1beta1.StatefulSetFailedCreatePod)); err != nil {
		t.Fatal(err)
	}
	_, after := stored(t, server, set)
	got := after.Status.Conditions[0]
	if !strings.Contains(got.Message, "try 2") || !got.LastTransitionTime.Equal(&since) {
		t.Errorf("got %+v, want the new message and the time %v", got, since)
	}
}

func TestUndecodableSetIsStalledAndNotReconciling(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	set.Status.Conditions = []appsv1.StatefulSetCondition{
		{Type: appsv1beta1.StatefulSetReconciling, Status: corev1.ConditionTrue, Reason: "RollingOut"},
		{Type: appsv1beta1.StatefulSetAvailable, Status: corev1.ConditionTrue},
	}
	r, server, recorder := newReconciler(t, set)
	for range 2 {
		raw, _ := stored(t, server, set)
		if result, err := r.ReportUndecodable(t.Context(), raw, errors.New("spec.replicas: is a string"), string(appsv1beta1.StatefulSetProgressing)); err != nil || !result.IsZero() {
			t.Fatalf("result %+v, %v", result, err)
		}
	}
	_, after := stored(t, server, set)
	want := []string{"Reconciling=False/Undecodable", "Available=True/", "Progressing=False/Undecodable", "Stalled=True/Undecodable"}
	if diff := cmp.Diff(want, brief(after.Status.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events, want 1", len(recorder.Events))
	}
}

func TestTemplateIsCheckedOncePerChange(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	set.Generation = 1
	r, server, _ := newReconciler(t, set)
	clock := clocktesting.NewFakePassiveClock(began())
	r.Clock = clock
	pass := &workload.Pass{Base: r.Base, Memory: &workload.Memory{}, Stored: &unstructured.Unstructured{}}
	asked := 0
	var answer error
	unanswered := apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "x", nil)
	server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error {
		if w.Verb != "create" {
			t.Errorf("%s of %T", w.Verb, w.Object)
		}
		asked++
		return answer
	})
	check := func(step string, wantAsked int, want string) (wait time.Duration) {
		t.Helper()
		asked = 0
		var err error
		if pass.Stored.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(set); err != nil {
			t.Fatal(err)
		}
		got, wait := pass.TemplateFault(t.Context(), set, "web-1", &set.Spec.Template, nil)
		if got != want {
			t.Errorf("%s: fault %q, want %q", step, got, want)
		}
		if asked != wantAsked {
			t.Errorf("%s: asked %d times, want %d", step, asked, wantAsked)
		}
		if isOpen := errors.Is(answer, unanswered); isOpen != (wait > 0) {
			t.Errorf("%s: asks again after %s", step, wait)
		}
		clock.SetTime(clock.Now().Add(wait))
		return wait
	}
	faulty := apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{
		field.Required(field.NewPath("template", "spec", "containers"), ""),
	})

	const fault = "spec.template.spec.containers: Required value"

	// Whoever was not answered in the first pass was told of no fault, and that stayed so: the status was about the template then.
	answer = unanswered
	first := check("no answer", 1, "")
	set.Status.UpdateRevision = "web-1"
	if again := check("no answer again", 1, ""); again != 2*first {
		t.Errorf("it asks again after %s, and then after %s", first, again)
	}
	answer = faulty
	check("a faulty template", 1, fault)
	check("the next pass", 0, fault)

	set.Status.Conditions = []appsv1.StatefulSetCondition{{Type: appsv1beta1.StatefulSetTemplateInvalid, Status: corev1.ConditionTrue, Message: fault}}
	pass.Memory = &workload.Memory{}
	check("after a restart", 1, fault)
	answer = unanswered
	set.Generation = 2
	check("it is scaled, and there is no answer", 1, fault)
	pass.Memory = &workload.Memory{}
	check("no answer after a restart", 1, fault)
	answer = nil
	check("a claim template repairs it", 1, "")
	check("nothing has changed", 0, "")
	set.Status.Conditions = nil
	check("at rest", 0, "")
	pass.Memory = &workload.Memory{}
	check("a restart at rest", 0, "")

	set.Status.UpdateRevision = "web-0"
	answer = unanswered
	check("another template", 1, "")
	clock.SetTime(clock.Now().Add(-time.Second))
	set.Generation = 3
	check("another template, and the spec changes", 1, "")
}

// brief is the conditions as type=status/reason.
func brief(conditions []appsv1.StatefulSetCondition) []string {
	out := make([]string, len(conditions))
	for i, c := range conditions {
		out[i] = fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason)
	}
	return out
}
