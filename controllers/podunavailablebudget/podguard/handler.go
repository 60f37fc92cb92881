// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podguard answers the API server's questions about pods with a PodUnavailableBudget: may one be deleted, evicted or updated now?
package podguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// FailPath is where the API server asks about pods to be denied while nobody can check, IgnorePath about the others.
const (
	FailPath   = "/guard-pods/fail"
	IgnorePath = "/guard-pods/ignore"
)

const (
	// maxBudgets is how many budgets of a namespace are looked at.
	maxBudgets = 2000
	// largestPod bounds the memory for one answer, in bytes of a pod.
	largestPod = 1 << 20
)

var errTooLarge = errors.New("the pod is too large")

// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets,verbs=get;list
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets/status,verbs=patch

// Handler answers the API server.
type Handler struct {
	// Reader asks the API server directly.
	Reader client.Reader
	Ledger *budgets.Ledger
	Gates  disruption.Gates
	// Ignores allows what cannot be checked.
	Ignores bool
	// Recorder takes events about denials, Denied counts them by operation; nil: nobody does.
	Recorder events.EventRecorder
	Denied   func(operation string)
	// On: the kind is served.
	On func() bool
}

// asked is a question.
type asked struct {
	pod    *corev1.Pod
	op     v1beta1.PubOperation
	dryRun bool
}

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if h.On != nil && !h.On() {
		return ctrladmission.Allowed("")
	}
	q, response := h.question(ctx, req)
	if q == nil {
		return response
	}
	answer, err := h.ask(ctx, q)
	switch {
	case err != nil:
		return h.unknown(q, err)
	case answer.Denied == "":
		return ctrladmission.Allowed("")
	}
	ctrl.LoggerFrom(ctx).Info("Denied by a PodUnavailableBudget", "operation", q.op, "namespace", req.Namespace, "pod", q.pod.Name, "user", req.UserInfo.Username)
	if h.Denied != nil {
		h.Denied(string(q.op))
	}
	if h.Recorder != nil && !q.dryRun {
		h.Recorder.Eventf(q.pod, nil, corev1.EventTypeWarning, "PubPreventPodDeletion", string(q.op), "%s is denied: %s", q.op, answer.Denied)
	}
	return deny(q.op, answer.Denied)
}

// question reads a request; nil: the response is final.
func (h *Handler) question(ctx context.Context, req ctrladmission.Request) (*asked, ctrladmission.Response) {
	q := &asked{pod: &corev1.Pod{}, dryRun: ptr.Deref(req.DryRun, false)}
	if req.SubResource == "eviction" {
		eviction := &policyv1.Eviction{}
		if err := quantity.Unmarshal(req.Object.Raw, eviction); err != nil {
			return nil, ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the eviction: %w", err))
		}
		q.op = v1beta1.PubEvictOperation
		q.dryRun = q.dryRun || eviction.DeleteOptions != nil && slices.Contains(eviction.DeleteOptions.DryRun, metav1.DryRunAll)
		err := h.Reader.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, q.pod)
		if apierrors.IsNotFound(err) {
			return nil, ctrladmission.Allowed("") // The API server says so itself.
		}
		if err != nil {
			q.pod.Namespace, q.pod.Name = req.Namespace, req.Name
			return nil, h.unknown(q, fmt.Errorf("reading the pod: %w", err))
		}
		return q, ctrladmission.Response{}
	}
	var err error
	q.op = v1beta1.PubDeleteOperation
	if req.Operation == admissionv1.Update {
		q.op = v1beta1.PubUpdateOperation
	}
	if q.pod, err = podOf(req.OldObject.Raw); err != nil {
		q.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
		return nil, h.unknown(q, err)
	}
	q.pod.Namespace = req.Namespace
	if req.Operation == admissionv1.Delete {
		return q, ctrladmission.Response{}
	}
	after, err := podOf(req.Object.Raw)
	if err != nil {
		return nil, h.unknown(q, err)
	}
	if q.op = disruption.UpdateOf(q.pod, after); q.op == "" {
		return nil, ctrladmission.Allowed("")
	}
	return q, ctrladmission.Response{}
}

// podOf decodes a pod, unless that takes too much memory.
func podOf(raw []byte) (*corev1.Pod, error) {
	if len(raw) > largestPod || len(wire.TooLarge(raw, nil)) > 0 {
		return nil, errTooLarge
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(raw, pod); err != nil {
		return nil, fmt.Errorf("decoding the pod: %w", err)
	}
	return pod, nil
}

// ask asks the budget the pod names; if that is not its own, it is looked for.
func (h *Handler) ask(ctx context.Context, q *asked) (disruption.Answer, error) {
	if disruption.Bypasses(q.pod) || !disruption.Available(q.pod, h.Ledger.Clock.Now()) {
		return disruption.Answer{}, nil
	}
	of := func(budget string) (disruption.Answer, error) {
		name := types.NamespacedName{Namespace: q.pod.Namespace, Name: budget}
		answers, err := h.Ledger.Ask(ctx, name, q.dryRun, disruption.Ask{Pod: q.pod, Operation: q.op, Gates: h.Gates})
		if err != nil {
			return disruption.Answer{}, err
		}
		return answers[0], nil
	}
	if linked := disruption.Linked(q.pod); linked != "" {
		if answer, err := of(linked); err != nil || !answer.Elsewhere {
			return answer, err
		}
	}
	list := &v1beta1.PodUnavailableBudgetList{}
	if err := h.Reader.List(ctx, list, client.InNamespace(q.pod.Namespace), client.Limit(maxBudgets)); err != nil {
		return disruption.Answer{}, fmt.Errorf("reading the budgets of the namespace: %w", err)
	}
	var all []*disruption.Budget
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			all = append(all, disruption.Parse(&list.Items[i]))
		}
	}
	if budget := disruption.Of(all, q.pod); budget != nil {
		return of(budget.Name)
	}
	return disruption.Answer{}, nil
}

// unknown answers what cannot be checked, as the user has chosen.
func (h *Handler) unknown(q *asked, err error) ctrladmission.Response {
	if h.Ignores {
		return ctrladmission.Allowed("").WithWarnings("not checked against its PodUnavailableBudget: " + err.Error())
	}
	return deny(q.op, fmt.Sprintf("not checked against its PodUnavailableBudget: %v: try again, or go on without its budget: kubectl label pod %s --namespace %s %s=%s",
		err, cmp.Or(q.pod.Name, "<pod>"), cmp.Or(q.pod.Namespace, "<namespace>"), podentry.BypassLabel, podentry.BypassValue))
}

// deny denies an operation. Evictions get the answer a PodDisruptionBudget gives, so that drains wait and try again.
func deny(op v1beta1.PubOperation, why string) ctrladmission.Response {
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: why}
	if op == v1beta1.PubEvictOperation {
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: why}}}
	}
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: status}}
}
