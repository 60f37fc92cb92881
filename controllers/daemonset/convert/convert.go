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
		GroupKind: v1beta1.GroupVersion().WithKind("DaemonSet").GroupKind(), ToV1alpha1: toV1alpha1, FromV1alpha1: fromV1alpha1,
	}
}

const (
	scaleField         = "scaleStrategy"
	updateField        = "updateStrategy"
	rollingUpdateField = "rollingUpdate"
	statusHash         = "daemonSetHash"
	statusRevision     = "updateRevision"
	rollingTypeField   = "rollingUpdateType"
	maxSurgeField      = "maxSurge"
	maxUnavailable     = "maxUnavailable"
	partitionedField   = "partitionedScaling"
	progressiveCreate  = v1alpha1.AnnotationProgressiveCreatePod
)

func toV1alpha1(o *conversion.Object) error {
	partitioned := false
	if scale, isObject := conversion.MembersOf(o.Spec[scaleField]); isObject {
		partitioned = string(scale[partitionedField]) == "true"
	}
	delete(o.Spec, scaleField)
	if err := rename(o, conversion.StatusField, statusRevision, statusHash); err != nil {
		return err
	}
	switch {
	case partitioned:
		o.Annotate(progressiveCreate, "true")
	case o.Meta.Annotations[progressiveCreate] == "true":
		delete(o.Meta.Annotations, progressiveCreate)
	}
	return nil
}

func fromV1alpha1(o *conversion.Object) error {
	partitioned := o.Meta.Annotations[progressiveCreate] == "true"
	if partitioned {
		delete(o.Meta.Annotations, progressiveCreate)
	}
	delete(o.Spec, scaleField) // v1alpha1 has no such field
	if partitioned {
		if o.Spec == nil {
			o.Spec = conversion.Members{}
		}
		o.Spec[scaleField] = json.RawMessage(`{"` + partitionedField + `":true}`)
	}
	if err := raiseSurging(o); err != nil {
		return err
	}
	return rename(o, conversion.StatusField, statusHash, statusRevision)
}

// raiseSurging makes the type Surging the strategy that it stands for.
func raiseSurging(o *conversion.Object) error {
	strategy, isObject := conversion.MembersOf(o.Spec[updateField])
	if !isObject {
		return nil
	}
	rolling, isObject := conversion.MembersOf(strategy[rollingUpdateField])
	if !isObject || string(rolling[rollingTypeField]) != `"`+string(v1alpha1.DeprecatedSurgingRollingUpdateType)+`"` {
		return nil
	}
	rolling[rollingTypeField] = json.RawMessage(`"` + string(v1beta1.StandardRollingUpdateType) + `"`)
	for name, value := range map[string]string{maxSurgeField: "1", maxUnavailable: "0"} {
		if given, found := rolling[name]; !found || string(given) == "null" {
			rolling[name] = json.RawMessage(value)
		}
	}
	var err error
	if strategy[rollingUpdateField], err = json.Marshal(rolling); err != nil {
		return err
	}
	o.Spec[updateField], err = json.Marshal(strategy)
	return err
}

// rename gives a member of an object at the top another name. What is no object stays as it is.
func rename(o *conversion.Object, in, from, to string) error {
	inner, isObject := conversion.MembersOf(o.Top[in])
	if !isObject {
		return nil
	}
	value, found := inner[from]
	if !found {
		return nil
	}
	delete(inner, from)
	inner[to] = value
	var err error
	o.Top[in], err = json.Marshal(inner)
	return err
}
