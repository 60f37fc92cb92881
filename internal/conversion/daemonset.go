// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// DaemonSet converts a stored DaemonSet to the version apiVersion ("apps.kruise.io/v1alpha1").
//
// Everything passes through as it is but for three things:
//
//   - scaleStrategy.partitionedScaling is the annotation daemonset.kruise.io/progressive-create-pod with the value "true" in v1alpha1. Each
//     version shows its own form alone, so that either can switch it off. Other values mean nothing, and stay as they are.
//   - rollingUpdateType Surging of v1alpha1 is Standard with maxSurge 1 and maxUnavailable 0 where these are omitted. It stays Standard.
//   - the hash of the update revision has another name in the status.
func DaemonSet(_ context.Context, raw []byte, apiVersion string) ([]byte, error) {
	return whole(raw, apiVersion, "DaemonSet", (*opened).daemonSetToV1alpha1, (*opened).daemonSetFromV1alpha1)
}

const (
	statusField       = "status"
	statusHash        = "daemonSetHash"
	statusRevision    = "updateRevision"
	rollingTypeField  = "rollingUpdateType"
	maxSurgeField     = "maxSurge"
	maxUnavailable    = "maxUnavailable"
	partitionedField  = "partitionedScaling"
	progressiveCreate = v1alpha1.AnnotationProgressiveCreatePod
)

func (o *opened) daemonSetToV1alpha1() error {
	partitioned := false
	if scale, isObject := membersOf(o.spec[scaleField]); isObject {
		partitioned = string(scale[partitionedField]) == "true"
	}
	delete(o.spec, scaleField)
	if err := o.rename(statusField, statusRevision, statusHash); err != nil {
		return err
	}
	annotations, err := o.annotationsBut("")
	if err != nil {
		return err
	}
	switch {
	case partitioned:
		annotations[progressiveCreate] = json.RawMessage(`"true"`)
	case switchesOn(annotations):
		delete(annotations, progressiveCreate)
	}
	return o.setAnnotations(annotations)
}

func (o *opened) daemonSetFromV1alpha1() error {
	partitioned := false
	if annotations, isObject := membersOf(o.metadata[annotationsField]); isObject {
		partitioned = switchesOn(annotations)
	}
	if partitioned {
		annotations, err := o.annotationsBut(progressiveCreate)
		if err != nil {
			return err
		}
		if err := o.setAnnotations(annotations); err != nil {
			return err
		}
	}
	delete(o.spec, scaleField) // v1alpha1 has no such field
	if partitioned {
		if o.spec == nil {
			o.spec = members{}
		}
		o.spec[scaleField] = json.RawMessage(`{"` + partitionedField + `":true}`)
	}
	if err := o.raiseSurging(); err != nil {
		return err
	}
	return o.rename(statusField, statusHash, statusRevision)
}

// switchesOn says that the annotations have the one that stands for partitionedScaling.
func switchesOn(annotations members) bool { return string(annotations[progressiveCreate]) == `"true"` }

// raiseSurging makes the type Surging the strategy that it stands for.
func (o *opened) raiseSurging() error {
	strategy, isObject := membersOf(o.spec[updateField])
	if !isObject {
		return nil
	}
	rolling, isObject := membersOf(strategy[rollingUpdateField])
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
	o.spec[updateField], err = json.Marshal(strategy)
	return err
}

// rename gives a member of an object at the top another name. What is no object stays as it is.
func (o *opened) rename(in, from, to string) error {
	inner, isObject := membersOf(o.top[in])
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
	o.top[in], err = json.Marshal(inner)
	return err
}

// annotationsBut are the annotations without one.
func (o *opened) annotationsBut(key string) (members, error) {
	all := members{}
	if text, found := o.metadata[annotationsField]; found {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}
	if all == nil {
		all = members{}
	}
	delete(all, key)
	return all, nil
}

func (o *opened) setAnnotations(all members) error {
	if len(all) == 0 {
		delete(o.metadata, annotationsField)
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if o.metadata == nil {
		o.metadata = members{}
	}
	o.metadata[annotationsField] = text
	return nil
}

// whole converts an object between the two versions by functions that change it as a whole.
func whole(raw []byte, apiVersion, kind string, toV1alpha1, fromV1alpha1 func(*opened) error) ([]byte, error) {
	source, err := open(raw)
	if err != nil {
		return nil, fmt.Errorf("converting a %s: %w", kind, err)
	}
	hub, spoke := v1beta1.GroupVersion().String(), v1alpha1.GroupVersion().String()
	switch {
	case source.apiVersion == apiVersion:
		return raw, nil
	case source.apiVersion == hub && apiVersion == spoke:
		err = toV1alpha1(source)
	case source.apiVersion == spoke && apiVersion == hub:
		err = fromV1alpha1(source)
	default:
		err = fmt.Errorf("%s cannot become %s", source.apiVersion, apiVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("converting a %s: %w", kind, err)
	}
	return source.whole(apiVersion)
}

// whole puts the object together again.
func (o *opened) whole(apiVersion string) ([]byte, error) {
	result := map[string]any{}
	for name, value := range o.top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	if o.metadata != nil {
		result[metadataField] = o.metadata
	}
	if o.spec != nil {
		result[specField] = o.spec
	}
	return json.Marshal(result)
}
