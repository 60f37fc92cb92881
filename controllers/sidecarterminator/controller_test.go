// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarterminator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarterminator/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// done is a pod with an ended main container and a running sidecar.
func done() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job-1", UID: "uid"}}
	pod.Spec.RestartPolicy, pod.Spec.NodeName, pod.Status.Phase = corev1.RestartPolicyNever, "n1", corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{
		{Name: "main", Image: "main:1"}, {Name: "side", Image: "side:1", Env: []corev1.EnvVar{{Name: jobsidecar.EnvTerminate, Value: "true"}}},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "main", ContainerID: "containerd://main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "side", ContainerID: "containerd://side", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	return pod
}

// The pod's events tell of its sidecars' end.
func TestWhatBecomesOfSidecarsIsTold(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "containerrecreaterequests"}, "", nil)
	foreign := &appsv1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: plan.RequestName(done())}}
	ignored := done()
	ignored.Spec.Containers[1].Env[0].Value = "TRUE"
	ignored.Spec.Containers[1].Env = append(ignored.Spec.Containers[1].Env, corev1.EnvVar{Name: jobsidecar.EnvIgnoreExitCode, Value: "true"})
	ignored.Status.Phase = corev1.PodFailed
	ignored.Status.ContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		objects []client.Object
		refuses error
		want    string
	}{
		"they are stopped":                   {done(), nil, nil, "Normal SidecarTerminator Stopping sidecars by ContainerRecreateRequest " + foreign.Name + ": side"},
		"the pod ends without them":          {ignored, nil, nil, "Normal SidecarTerminator The main containers are done, and the pod is Succeeded"},
		"somebody else has the request name": {done(), []client.Object{foreign}, nil, "Warning SidecarTerminator Sidecars cannot be stopped: ContainerRecreateRequest " + foreign.Name},
		"the request is refused":             {done(), nil, forbidden, "Warning SidecarTerminator Sidecars cannot be stopped: " + forbidden.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			stored := append([]client.Object{tc.pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, tc.objects...)
			f := reconcilertest.New(t, reconcilertest.Options{
				Object: &appsv1beta1.ContainerRecreateRequest{}, Stored: stored,
			})
			f.Server.SetFault(func(_ context.Context, write testutil.Write, forward func() error) error {
				if write.Verb == "create" && tc.refuses != nil {
					return tc.refuses
				}
				return forward()
			})
			r := newReconciler(f.Dependencies)
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(tc.pod)})
			if (err != nil) != (tc.refuses != nil) {
				t.Errorf("the pass ends with %v", err)
			}
			select {
			case got := <-f.Events.Events:
				if !strings.HasPrefix(got, tc.want) {
					t.Errorf("told %q, want %q", got, tc.want)
				}
			default:
				t.Errorf("not told, after %v", err)
			}
		})
	}
}

// A webhook chooses its denial's code. With the API server's code for an existing object it was taken for no
// denial: the request was sent again ten times a second.
func TestAWebhookThatDeniesARequestIsToldWhateverItsCode(t *testing.T) {
	for _, code := range []int32{http.StatusNotFound, http.StatusConflict} {
		f := reconcilertest.New(t, reconcilertest.Options{
			Object: &appsv1beta1.ContainerRecreateRequest{},
			Stored: []client.Object{done(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}},
		})
		f.Server.SetFault(func(_ context.Context, write testutil.Write, forward func() error) error {
			if write.Verb != "create" {
				return forward()
			}
			reason := map[int32]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonAlreadyExists}[code]
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "w.example.com" denied the request: no restarts`}}
		})
		result, err := newReconciler(f.Dependencies).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(done())})
		if err == nil || result.RequeueAfter > 0 {
			t.Errorf("%d: the pass ends with %v, and comes back after %s", code, err, result.RequeueAfter)
		}
		select {
		case got := <-f.Events.Events:
			if want := "Warning SidecarTerminator Sidecars cannot be stopped: admission webhook "; !strings.HasPrefix(got, want) {
				t.Errorf("%d: told %q, want %q", code, got, want)
			}
		default:
			t.Errorf("%d: not told", code)
		}
	}
}

func TestWritesAreCountedByWhatBecameOfThem(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	for want, err := range map[string]error{
		"ok": nil, "conflict": apierrors.NewConflict(resource, "a", nil), "gone": apierrors.NewNotFound(resource, "a"),
		"refused": apierrors.NewForbidden(resource, "a", nil), "doubt": context.DeadlineExceeded,
	} {
		f := reconcilertest.New(t, reconcilertest.Options{Object: &appsv1beta1.ContainerRecreateRequest{}})
		var measured dto.Metric
		if got := newReconciler(f.Dependencies).count("phase", err); !errors.Is(got, err) {
			t.Errorf("%s: the error is %v", want, got)
		}
		if err := f.Metrics.SidecarStops.WithLabelValues("phase", want).Write(&measured); err != nil || measured.GetCounter().GetValue() != 1 {
			t.Errorf("%s: counted %v times, %v", want, measured.GetCounter().GetValue(), err)
		}
	}
}
