// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podguard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

var errDown = errors.New("the server is down")

func podLinkedTo(budget string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{v1beta1.AnnotationRelatedBudget: budget},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:v1"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// handler has one budget, without room, and counts what it denies.
func handler(t *testing.T, pod *corev1.Pod, down bool) (*Handler, *events.FakeRecorder, map[string]int) {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 1}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(0))
	budget.Status = disruption.Status{ObservedGeneration: 1, CurrentAvailable: 1, DesiredAvailable: 1, TotalReplicas: 1}
	builder := fake.NewClientBuilder().WithScheme(known).WithObjects(budget).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if down {
				return errDown
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	if pod != nil {
		builder.WithObjects(pod)
	}
	c, recorder, denied := builder.Build(), events.NewFakeRecorder(10), map[string]int{}
	return &Handler{
		Reader: c, Ledger: &budgets.Ledger{Live: c, Client: c, Clock: clock.RealClock{}}, Gates: disruption.Gates{Delete: true, Update: true},
		Recorder: recorder, Denied: func(operation string) { denied[operation]++ },
	}, recorder, denied
}

func about(t *testing.T, operation admissionv1.Operation, before, after any) ctrladmission.Request {
	t.Helper()
	raw := func(object any) runtime.RawExtension {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: text}
	}
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Namespace: "shop", Name: "web-0", OldObject: raw(before), Object: raw(after)}}
	if operation == admissionv1.Create {
		request.SubResource = "eviction"
	}
	return request
}

func TestHandle(t *testing.T) {
	changed := podLinkedTo("web")
	changed.Spec.Containers[0].Image = "web:v2"
	for name, tc := range map[string]struct {
		pod, after *corev1.Pod
		operation  admissionv1.Operation
		down       bool
		ignores    bool
		off        bool
		code       int32 // 0: it is allowed
		says       string
	}{
		"a deletion":                          {pod: podLinkedTo("web"), operation: admissionv1.Delete, code: http.StatusForbidden, says: "PodUnavailableBudget web allows no more"},
		"an eviction":                         {pod: podLinkedTo("web"), operation: admissionv1.Create, code: http.StatusTooManyRequests, says: "PodUnavailableBudget web allows no more"},
		"an eviction of a pod that is gone":   {operation: admissionv1.Create},
		"an update":                           {pod: podLinkedTo("web"), after: changed, operation: admissionv1.Update, code: http.StatusForbidden, says: "allows no more"},
		"an update of nothing that counts":    {pod: podLinkedTo("web"), after: podLinkedTo("other"), operation: admissionv1.Update},
		"a link to a budget that is gone":     {pod: podLinkedTo("earlier"), operation: admissionv1.Delete, code: http.StatusForbidden, says: "PodUnavailableBudget web allows no more"},
		"the kind is off":                     {pod: podLinkedTo("web"), operation: admissionv1.Delete, off: true},
		"the budget cannot be read":           {pod: podLinkedTo("web"), operation: admissionv1.Delete, down: true, code: http.StatusForbidden, says: "kubectl label pod web-0 --namespace shop operator.kruise.io/admission=bypass"},
		"the evicted pod cannot be read":      {pod: podLinkedTo("web"), operation: admissionv1.Create, down: true, code: http.StatusTooManyRequests, says: "try again"},
		"it cannot be read, and this is well": {pod: podLinkedTo("web"), operation: admissionv1.Delete, down: true, ignores: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, recorder, denied := handler(t, tc.pod, tc.down)
			h.Ignores = tc.ignores
			h.On = func() bool { return !tc.off }
			var after any = tc.after
			if tc.operation == admissionv1.Create {
				after = &policyv1.Eviction{}
			}
			got := h.Handle(t.Context(), about(t, tc.operation, tc.pod, after))
			if got.Allowed != (tc.code == 0) {
				t.Fatalf("got %+v", got)
			}
			if got.Allowed {
				return
			}
			result := got.Result
			if result.Code != tc.code || !strings.Contains(result.Message, tc.says) {
				t.Errorf("got %+v", result)
			}
			if evicts := tc.operation == admissionv1.Create; evicts && (result.Details.RetryAfterSeconds != 0 || result.Details.Causes[0].Type != policyv1.DisruptionBudgetCause) {
				t.Errorf("the details are %+v", result.Details)
			}
			if tc.down {
				return
			}
			if event := <-recorder.Events; !strings.Contains(event, "PubPreventPodDeletion") || len(denied) != 1 {
				t.Errorf("the event is %q, counted are %v", event, denied)
			}
		})
	}
}
