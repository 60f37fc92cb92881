// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podreadiness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "podreadiness-controller"

const (
	// workers is how many pods are looked at at the same time.
	workers = 3
	// lookAtRequests is the wait between looks at requests holding pods: no event tells their end.
	lookAtRequests = 30 * time.Second
	// group is our workloads'.
	group = "apps.kruise.io"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=list

// NeedsWholePod reports if the pod has the gate, and no workload of ours controls it.
func NeedsWholePod(pod *corev1.Pod) bool {
	return podstate.HasGate(pod, shared.GateKruisePodReady) && !ours(pod)
}

// ours: a workload of ours with readiness gates controls the pod.
func ours(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && strings.HasPrefix(owner.APIVersion, group+"/") && slices.Contains([]string{"CloneSet", "StatefulSet", "DaemonSet"}, owner.Kind)
}

type reconciler struct {
	workload.Dependencies
	writer *writer.Writer
}

func newReconciler(d workload.Dependencies) *reconciler {
	return &reconciler{d, &writer.Writer{Client: d.Client, Live: d.Live, Timeout: d.WriteTimeout}}
}

// Setup makes the manager run the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := newReconciler(d)
	if err := d.Cache.IndexField(ctx, &corev1.Pod{}, byHolder, holders); err != nil {
		return fmt.Errorf("indexing pods that are held: %w", err)
	}
	d.Metrics.PodsHeld.Add(r.countHeld)
	d.Metrics.PodsHeldSince.Add(r.countSince)
	_, err := workload.NewPodController(mgr, d, Name, workers, r, due())
	return err
}

// due passes pods that may need work. A gone pod needs none.
func due() predicate.Predicate {
	due := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && NeedsPass(pod)
	})
	due.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return due
}

// NeedsPass reports if the condition of the pod's gate is missing, or a request holds the pod.
func NeedsPass(pod *corev1.Pod) bool {
	return NeedsWholePod(pod) && pod.DeletionTimestamp == nil && !podstate.Finished(pod) &&
		(podstate.Condition(pod, shared.GateKruisePodReady) == nil || len(requests(pod)) > 0)
}

// requests are the ContainerRecreateRequests in its namespace holding a pod.
func requests(pod *corev1.Pod) []shared.ReadinessHolder {
	return slices.DeleteFunc(podstate.Holders(pod), func(h shared.ReadinessHolder) bool { return !workload.IsRequest(h, pod.Namespace) })
}

// Reconcile gives a pod its gate's condition, or releases it from finished requests.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Cache.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !NeedsPass(pod) {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	now := r.Clock.Now()
	change, again := Initial(pod, now), time.Duration(0)
	if change.IsZero() {
		over, err := workload.RequestsOver(ctx, r.Live, requests(pod))
		if err != nil && len(over) == 0 {
			return ctrl.Result{}, err
		}
		change, again = podstate.Release(pod, now, over...), lookAtRequests
	}
	if change.IsZero() {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	err := r.write(ctx, pod, change)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: workload.Busy}, nil // the view is out of date
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// Initial is the condition the pod's gate lacks; zero: none.
func Initial(pod *corev1.Pod, now time.Time) edit.Edit {
	var e edit.Edit
	for _, condition := range podstate.InitialConditions(pod, now) {
		if condition.Type == shared.GateKruisePodReady {
			e.SetCondition(condition)
		}
	}
	return e
}

// write writes conditions, tied to the pod as it was read: who holds it is read, and written again as a whole.
func (r *reconciler) write(ctx context.Context, pod *corev1.Pod, change edit.Edit) error {
	content := map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": change.Conditions},
	}
	ref := freshness.RefOf(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
	patch := writer.Patch{Subresource: "status", Type: types.StrategicMergePatchType, Content: content}
	if _, err := r.writer.Patch(ctx, freshness.Owner{}, ref, patch); err != nil {
		return fmt.Errorf("writing the condition %s: %w", shared.GateKruisePodReady, err)
	}
	return nil
}
