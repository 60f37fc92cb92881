// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// deniedRecheck is when to look again for missing permissions.
const deniedRecheck = 2 * time.Second

// EmitEvents emits events no action has. action is the operator's activity in one word.
func (b *Base) EmitEvents(object client.Object, action string, events []planning.Event) {
	for _, event := range events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		b.Recorder.Eventf(object, nil, kind, event.Reason, action, "%s", event.Message)
	}
}

// NotObserved handles a failed observation. Most causes pass by themselves. If the server
// refuses the revision of the template, needed for planning, the condition in failed
// reports it.
func (b *Base) NotObserved(ctx context.Context, stored *unstructured.Unstructured, cause error, failed string) (ctrl.Result, error) {
	switch {
	case errors.Is(cause, ErrViewChanged), errors.Is(cause, ErrNotSynced):
		return ctrl.Result{RequeueAfter: Busy}, nil
	case errors.Is(cause, ErrDenied):
		return b.reportDenied(ctx, stored, cause, failed)
	case apierrors.HasStatusCause(cause, corev1.NamespaceTerminatingCause):
		return ctrl.Result{RequeueAfter: time.Second}, nil // It goes with its namespace.
	}
	return ctrl.Result{}, errors.Join(fmt.Errorf("observing: %w", cause), b.ReportRefused(ctx, stored, cause, failed))
}

// reportDenied reports once that missing permissions stop the workload, and requeues.
func (b *Base) reportDenied(ctx context.Context, stored *unstructured.Unstructured, cause error, failed string) (ctrl.Result, error) {
	progress := podset.Stalled(appsv1beta1.ReasonRightsMissing, cause.Error())
	all := append(progress.Conditions(), conditions.New(failed, true, progress.Reason, progress.Message))
	written, wait, err := b.AddConditions(ctx, stored, all...)
	if written {
		b.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, progress.Reason, "Observe", "%s", progress.Message)
	}
	return ctrl.Result{RequeueAfter: max(wait, deniedRecheck)}, err
}

// ReportUndecodable reports once that an undecodable object is left alone, also by False
// conditions of the types in alsoFalse.
func (b *Base) ReportUndecodable(ctx context.Context, stored *unstructured.Unstructured, cause error, alsoFalse ...string) (ctrl.Result, error) {
	progress := podset.Stalled(appsv1beta1.ReasonUndecodable, fmt.Sprintf("the stored object cannot be decoded, so nothing is done for it: %v", cause))
	var all []conditions.Condition
	for _, kind := range alsoFalse {
		all = append(all, conditions.New(kind, false, progress.Reason, progress.Message))
	}
	written, wait, err := b.AddConditions(ctx, stored, append(all, progress.Conditions()...)...)
	if written {
		ctrl.LoggerFrom(ctx).Info("Set cannot be decoded", "err", cause.Error())
		b.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, progress.Reason, "Decode", "%s", progress.Message)
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// ReportRefused reports once, by the condition in failed, a refusal that keeps the workload
// from being planned, and stalls its progress if it lasts. Temporary causes are not
// reported.
func (b *Base) ReportRefused(ctx context.Context, stored *unstructured.Unstructured, cause error, failed string) error {
	if !lasts(cause) {
		return nil
	}
	condition := conditions.New(failed, true, appsv1beta1.ReasonRequestFailed, cause.Error())
	var failure planning.Failure
	before, found := conditions.True(stored.Object, failed)
	if found && before.Reason == condition.Reason {
		failure.Since = transitionOf(stored, failed)
	}
	all := []conditions.Condition{condition}
	progress := podset.Refused(failure, condition.Message, b.Clock.Now()).Conditions()
	if !slices.ContainsFunc(progress, func(c conditions.Condition) bool { return c.Type == failed }) {
		all = append(all, progress...) // Otherwise it says already that the object is stalled.
	}
	written, _, err := b.AddConditions(ctx, stored, all...)
	if written && before.Message != condition.Message {
		b.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s", condition.Message)
	}
	return err
}

// lasts is true if a refusal does not pass by itself.
func lasts(cause error) bool {
	return cause != nil && freshness.Judge(cause) == freshness.Refused && !apierrors.IsConflict(cause) && !apierrors.IsNotFound(cause) &&
		!apierrors.HasStatusCause(cause, corev1.NamespaceTerminatingCause)
}

// transitionOf is when a stored object's condition got its present status; zero if unknown.
func transitionOf(stored *unstructured.Unstructured, kind string) time.Time {
	list, _, _ := unstructured.NestedSlice(stored.Object, "status", "conditions")
	at := indexOf(list, kind)
	if at < 0 {
		return time.Time{}
	}
	text, _, _ := unstructured.NestedString(list[at].(map[string]any), "lastTransitionTime")
	since, _ := time.Parse(time.RFC3339, text)
	return since
}

// indexOf is where a stored list has the condition of a type; -1 when it has none.
func indexOf(list []any, kind string) int {
	return slices.IndexFunc(list, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		return condition["type"] == kind
	})
}

// emptyStatus is the kind's empty status: the counters its schema demands are 0. Without
// them the server refuses a status of conditions alone.
func (b *Base) emptyStatus() map[string]any {
	status := map[string]any{}
	if object, err := b.Client.Scheme().New(b.Kind); err == nil {
		fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(object) // types of the scheme always convert
		zero, _, _ := unstructured.NestedMap(fields, "status")
		maps.Copy(status, zero)
	}
	maps.DeleteFunc(status, func(_ string, value any) bool { return value == nil })
	return status
}

// AddConditions writes conditions and leaves the rest of the stored status as it is. Written is false when they were there already and
// when the write has to be tried again after wait. A condition keeps its transition time while its status stays.
func (b *Base) AddConditions(ctx context.Context, stored *unstructured.Unstructured, added ...conditions.Condition) (written bool, wait time.Duration, err error) {
	status, _, _ := unstructured.NestedMap(stored.Object, "status")
	if status == nil {
		status = b.emptyStatus()
	}
	list, _ := status["conditions"].([]any)
	known := 0
	for _, condition := range added {
		at := indexOf(list, condition.Type)
		entry := map[string]any{
			"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
			"lastTransitionTime": b.Clock.Now().UTC().Truncate(time.Second).Format(time.RFC3339),
		}
		if at < 0 {
			list = append(list, entry)
			continue
		}
		old, _ := list[at].(map[string]any)
		if old["status"] == entry["status"] && old["reason"] == entry["reason"] && old["message"] == entry["message"] {
			known++
			continue
		}
		if old["status"] == entry["status"] && old["lastTransitionTime"] != nil {
			entry["lastTransitionTime"] = old["lastTransitionTime"]
		}
		list[at] = entry
	}
	if known == len(added) {
		return false, 0, nil
	}
	status["conditions"] = list
	wait, err = b.Status.Write(ctx, &b.Remembered(stored).status, stored, status, true)
	return wait == 0 && err == nil, wait, err
}

// notReported is when an unwritten condition is written again.
const notReported = 5 * time.Second

// Paused is true if the user wants nothing done for an object. Each pass asks, not a
// predicate of its watch: pods, revisions and the clock trigger passes, too.
func Paused(object client.Object) bool {
	yes, err := strconv.ParseBool(object.GetAnnotations()[shared.AnnotationPaused])
	return err == nil && yes
}

func pausedProgress() podset.Progress {
	return podset.Stalled(appsv1beta1.ReasonReconciliationPaused, "Nothing is done for this object while its annotation "+shared.AnnotationPaused+" is true.")
}

// reportPaused reports the pause once. The next pass without it replaces the conditions. It
// returns when to try again.
func (b *Base) reportPaused(ctx context.Context, stored *unstructured.Unstructured) time.Duration {
	written, wait, err := b.AddConditions(ctx, stored, pausedProgress().Conditions()...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Pause not reported", "err", err.Error())
		return notReported
	}
	if written {
		ctrl.LoggerFrom(ctx).Info("Paused by annotation")
	}
	return wait
}
