// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// toys answers the calls of hooks as kinds to come will, and counts them by path.
type toys struct {
	mutex sync.Mutex
	calls map[string]int
}

func (y *toys) at(path string, answer ctrladmission.Response) (string, http.Handler) {
	return path, &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(func(context.Context, ctrladmission.Request) ctrladmission.Response {
		y.mutex.Lock()
		defer y.mutex.Unlock()
		y.calls[path]++
		return answer
	})}
}

func (y *toys) called() int {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	all := 0
	for _, n := range y.calls {
		all += n
	}
	return all
}

// disrupted is the answer of the API server itself when a PodDisruptionBudget is used up.
func disrupted() ctrladmission.Response {
	return ctrladmission.Response{AdmissionResponse: admissionapi.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "the budget is used up",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "it needs 3 pods"}}},
	}}}
}

func toyHooks(namespace string) []*hooks.Hook {
	pods, deployments := corev1.SchemeGroupVersion.WithResource("pods"), appsv1.SchemeGroupVersion.WithResource("deployments")
	guarded := &metav1.LabelSelector{MatchLabels: map[string]string{"toy": "guarded"}}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	verbs := func(v ...admissionv1.OperationType) []admissionv1.OperationType { return v }
	return []*hooks.Hook{
		{Name: "delete.toy.operator.kruise.io", Resource: pods, Verbs: verbs(admissionv1.Delete), ObjectSelector: guarded, Path: "/toy-delete"},
		{Name: "evict.toy.operator.kruise.io", Resource: pods, Subresource: "eviction", Verbs: verbs(admissionv1.Create), NamespaceSelector: only, Path: "/toy-evict"},
		{Name: "update.toy.operator.kruise.io", Resource: pods, Verbs: verbs(admissionv1.Update), ObjectSelector: guarded, Path: "/toy-update"},
		{Name: "resize.toy.operator.kruise.io", Resource: pods, Subresource: "resize", Verbs: verbs(admissionv1.Update), ObjectSelector: guarded, Path: "/toy-resize"},
		{Name: "create.toy.operator.kruise.io", Mutates: true, Resource: pods, Verbs: verbs(admissionv1.Create), ObjectSelector: guarded, Path: "/toy-create"},
		{Name: "rollout.toy.operator.kruise.io", Resource: deployments, Verbs: verbs(admissionv1.Update), ObjectSelector: guarded, Path: "/toy-rollout"},
	}
}

const (
	toyPod = `
metadata: {name: NAME, labels: {toy: NAME}}
spec: {containers: [{name: main, image: example/main, resources: {requests: {cpu: 10m}}}]}
`
	toyDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAMESPACE, labels: {toy: NAME}}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: example/main}]}}}
`
)

// TestHooksOfKindsToCome registers future kinds' hooks: each request about selected objects
// is answered, and the operator never hears of others.
func TestHooksOfKindsToCome(t *testing.T) {
	w, y := shared, &toys{calls: map[string]int{}}
	handlers := map[string]http.Handler{}
	for path, answer := range map[string]ctrladmission.Response{
		"/toy-delete": ctrladmission.Denied("kept by a toy"), "/toy-evict": disrupted(), "/toy-update": ctrladmission.Denied("fixed by a toy"),
		"/toy-resize": ctrladmission.Denied("sized by a toy"), "/toy-rollout": ctrladmission.Denied("braked by a toy"),
		"/toy-create": ctrladmission.PatchResponseFromRaw([]byte(`{"metadata":{}}`), []byte(`{"metadata":{"annotations":{"toy":"spread"}}}`)),
	} {
		at, handler := y.at(path, answer)
		handlers[at] = handler
	}
	w.stop()
	w.more = handlers
	w.serve(t.Context())
	namespace, other := w.namespace(t, nil), w.namespace(t, nil)
	r := hooks.New(hooks.Options{Client: w.client, Live: w.client, Namespace: install.Namespace, Call: w.serving.Call, Clock: clock.RealClock{}})
	owner := r.Owner("toys", nil)
	want := func(all ...*hooks.Hook) {
		t.Helper()
		owner.Want(all...)
		if _, err := r.Reconcile(context.WithoutCancel(t.Context()), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(namespace, name string) *corev1.Pod {
		t.Helper()
		made, err := w.keep(t, namespace, strings.ReplaceAll(toyPod, "NAME", name))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	free, elsewhere := pod(namespace, "free"), pod(other, "free")
	deployments := map[string]client.Object{}
	for _, name := range []string{"guarded", "free"} {
		deployments[name] = w.apply(t, strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(toyDeployment))
	}
	t.Cleanup(func() { want() })
	want(toyHooks(namespace)...)
	for _, h := range toyHooks(namespace) {
		if state := owner.State(h.Name); state.Reason != hooks.InForce || !state.ByCall {
			t.Fatalf("%s: %+v", h.Name, state)
		}
	}
	w.eventually(t, "created pods are changed", func(ctx context.Context) error {
		made, err := w.pod(t, namespace, strings.ReplaceAll(toyPod, "NAME", "guarded"))
		if err == nil && made.Annotations["toy"] != "spread" {
			err = errors.New("the pod is as it was")
		}
		return err
	})
	guarded := pod(namespace, "guarded")
	resize := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"20m"}}}]}}`))
	annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`))
	evict := func(ctx context.Context, of *corev1.Pod) error {
		return w.client.SubResource("eviction").Create(ctx, of, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}, client.DryRunAll)
	}
	for name, tc := range map[string]struct {
		does    func(ctx context.Context, pod *corev1.Pod, deployment client.Object) error
		refusal string
	}{
		"deletion": {func(ctx context.Context, p *corev1.Pod, _ client.Object) error {
			return w.client.Delete(ctx, p.DeepCopy(), client.DryRunAll)
		}, "kept by a toy"},
		"update": {func(ctx context.Context, p *corev1.Pod, _ client.Object) error {
			return w.client.Patch(ctx, p.DeepCopy(), annotate, client.DryRunAll)
		}, "fixed by a toy"},
		"resize": {func(ctx context.Context, p *corev1.Pod, _ client.Object) error {
			return w.client.SubResource("resize").Patch(ctx, p.DeepCopy(), resize, client.DryRunAll)
		}, "sized by a toy"},
		"update of a Deployment": {func(ctx context.Context, _ *corev1.Pod, d client.Object) error {
			return w.client.Patch(ctx, d.DeepCopyObject().(client.Object), annotate, client.DryRunAll)
		}, "braked by a toy"},
	} {
		t.Run(name, func(t *testing.T) {
			w.eventually(t, "it is refused", func(ctx context.Context) error {
				err := tc.does(ctx, guarded, deployments["guarded"])
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refusal) {
					return errors.Join(errors.New("the answer is another one"), err)
				}
				return nil
			})
			before := y.called()
			if err := tc.does(t.Context(), free, deployments["free"]); err != nil || y.called() != before {
				t.Errorf("not selected: %v, %d calls", err, y.called()-before)
			}
		})
	}
	t.Run("eviction", func(t *testing.T) {
		var status apierrors.APIStatus
		w.eventually(t, "it is refused", func(ctx context.Context) error {
			if err := evict(ctx, free); !errors.As(err, &status) || status.Status().Code != http.StatusTooManyRequests {
				return errors.Join(errors.New("the answer is another one"), err)
			}
			return nil
		})
		details := status.Status().Details
		if details == nil || details.RetryAfterSeconds != 0 || len(details.Causes) != 1 || details.Causes[0].Type != policyv1.DisruptionBudgetCause {
			t.Errorf("got %+v", status.Status())
		}
		before := y.called()
		if err := evict(t.Context(), elsewhere); err != nil || y.called() != before {
			t.Errorf("in another namespace: %v, %d calls", err, y.called()-before)
		}
	})
	w.restoresHooks(t, r)
}

// restoresHooks has somebody mix up the entries. The API server keeps the earlier order.
func (w *fixture) restoresHooks(t *testing.T, r *hooks.Registrar) {
	t.Helper()
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	get := func() []string {
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: hooks.ValidatingConfiguration}, configuration); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range configuration.Webhooks {
			names = append(names, configuration.Webhooks[i].Name)
		}
		return names
	}
	before := strings.Join(get(), " ")
	foreign := *configuration.Webhooks[0].DeepCopy()
	foreign.Name = "foreign.example.com"
	configuration.Webhooks = append([]admissionv1.ValidatingWebhook{foreign, configuration.Webhooks[4]}, configuration.Webhooks[:4]...)
	if err := w.client.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if after := strings.Join(get(), " "); after != before {
		t.Errorf("it is\n%s, and was\n%s", after, before)
	}
	version := configuration.ResourceVersion
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if get(); configuration.ResourceVersion != version {
		t.Error("it is written at rest")
	}
}
