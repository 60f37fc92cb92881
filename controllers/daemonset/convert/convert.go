// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts DaemonSets of apps.kruise.io between their versions.
package convert

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts DaemonSets. Everything passes through as it is but for three things:
//
//   - scaleStrategy.partitionedScaling is the annotation daemonset.kruise.io/progressive-create-pod with the value "true" in v1alpha1. Each
//     version shows its own form alone, so that either can switch it off. Other values mean nothing, and stay as they are.
//   - rollingUpdateType Surging of v1alpha1 is Standard with maxSurge 1 and maxUnavailable 0 where these are omitted. It stays Standard.
//   - the hash of the update revision has another name in the status.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind:  v1beta1.GroupVersion().WithKind("DaemonSet").GroupKind(),
		Renamed:    []conversion.Renamed{{Path: "status", Name: "updateRevision", InV1alpha1: "daemonSetHash"}},
		ToV1alpha1: toV1alpha1, FromV1alpha1: fromV1alpha1,
	}
}

const (
	scaleField        = "scaleStrategy"
	rollingTypeField  = "rollingUpdateType"
	partitionedField  = "partitionedScaling"
	progressiveCreate = v1alpha1.AnnotationProgressiveCreatePod
)

func toV1alpha1(o *conversion.Object) error {
	scale, _ := conversion.MembersOf(o.Spec[scaleField])
	delete(o.Spec, scaleField)
	if string(scale[partitionedField]) == "true" {
		o.Annotate(progressiveCreate, "true")
	} else if o.Meta.Annotations[progressiveCreate] == "true" {
		delete(o.Meta.Annotations, progressiveCreate)
	}
	return nil
}

func fromV1alpha1(o *conversion.Object) error {
	delete(o.Spec, scaleField) // v1alpha1 has no such field
	if o.Meta.Annotations[progressiveCreate] == "true" {
		delete(o.Meta.Annotations, progressiveCreate)
		o.SetSpec(scaleField, json.RawMessage(`{"`+partitionedField+`":true}`))
	}
	o.Each("spec.updateStrategy.rollingUpdate", raiseSurging)
	return nil
}

// raiseSurging makes the type Surging the strategy that it stands for.
func raiseSurging(rolling conversion.Members) {
	var kind v1alpha1.RollingUpdateType
	if !conversion.DecodeShort(rolling[rollingTypeField], &kind) || kind != v1alpha1.DeprecatedSurgingRollingUpdateType {
		return
	}
	rolling[rollingTypeField] = json.RawMessage(`"` + v1beta1.StandardRollingUpdateType + `"`)
	for name, value := range map[string]string{"maxSurge": "1", "maxUnavailable": "0"} {
		if given := string(rolling[name]); given == "" || given == "null" {
			rolling[name] = json.RawMessage(value)
		}
	}
}
