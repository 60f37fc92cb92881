// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts ContainerRecreateRequests between their versions.
package convert

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts requests.
//
// Both versions have the same fields. v1alpha1 clients expect two parts of the
// status in annotations: the container statuses, and the start of holding the pod
// unready. On the way back, equal annotations are dropped, and unreadable ones kept.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("ContainerRecreateRequest").GroupKind(), ToV1alpha1: toV1alpha1, FromV1alpha1: fromV1alpha1,
	}
}

const (
	snapshotField   = "containerStatusSnapshot"
	conditionsField = "conditions"
)

type statuses = []v1beta1.ContainerRecreateRequestSyncContainerStatus

// said returns the status's two parts.
func said(o *conversion.Object) (status conversion.Members, snapshot statuses, conditions []metav1.Condition, held *metav1.Condition) {
	status, isObject := conversion.MembersOf(o.Top[conversion.StatusField])
	if !isObject {
		return conversion.Members{}, nil, nil, nil
	}
	// Undecodable or oversized values stay and count as absent.
	_ = conversion.DecodeShort(status[snapshotField], &snapshot)
	if !conversion.DecodeShort(status[conditionsField], &conditions) {
		conditions = nil
	}
	for i := range conditions {
		if c := &conditions[i]; c.Type == v1beta1.RecreatePreRecreateGrace && c.Status == metav1.ConditionTrue {
			held = c
		}
	}
	return status, snapshot, conditions, held
}

func toV1alpha1(o *conversion.Object) error {
	_, snapshot, _, held := said(o)
	if len(snapshot) > 0 {
		text, _ := json.Marshal(snapshot) // it was decoded
		o.Annotate(v1alpha1.AnnotationSyncContainerStatuses, string(text))
	}
	if held != nil {
		o.Annotate(v1alpha1.AnnotationUnreadyAcquired, held.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	return nil
}

func fromV1alpha1(o *conversion.Object) error {
	annotations := o.Meta.Annotations
	status, snapshot, conditions, held := said(o)
	changed := false
	var written statuses
	key := v1alpha1.AnnotationSyncContainerStatuses
	if conversion.DecodeShort([]byte(annotations[key]), &written) && len(written) > 0 {
		switch {
		case len(status[snapshotField]) > conversion.MaxDecoded: // it was not read, and wins
		case equality.Semantic.DeepEqual(written, snapshot):
			delete(annotations, key)
		case len(snapshot) == 0:
			changed = true
			status[snapshotField], _ = json.Marshal(written) // it was decoded
		}
	}
	key = v1alpha1.AnnotationUnreadyAcquired
	if text, found := annotations[key]; found {
		at, err := time.Parse(time.RFC3339, text)
		switch {
		case err != nil || len(status[conditionsField]) > conversion.MaxDecoded:
		case held != nil && held.LastTransitionTime.Time.Equal(at):
			delete(annotations, key)
		case held == nil:
			changed = true
			status[conditionsField], _ = json.Marshal(append(conditions, metav1.Condition{
				Type: v1beta1.RecreatePreRecreateGrace, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonRecreateGrace,
				LastTransitionTime: metav1.NewTime(at), Message: "The pod was taken out of service by a manager that speaks v1alpha1.",
			}))
		}
	}
	if changed {
		o.Top[conversion.StatusField], _ = json.Marshal(status)
	}
	return nil
}
