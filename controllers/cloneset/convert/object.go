// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts CloneSets between their versions.
package convert

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// Converter converts CloneSets. Everything but annotations, scaleStrategy and updateStrategy is as it is in the source, and so are values in the two
// strategies that cannot be decoded.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind:    v1beta1.GroupVersion().WithKind("CloneSet").GroupKind(),
		ToV1alpha1:   func(o *conversion.Object) error { return convert(o, ToV1alpha1, inV1alpha1) },
		FromV1alpha1: func(o *conversion.Object) error { return convert(o, FromV1alpha1, inV1beta1) },
	}
}

// convert changes the parts that the versions do not share.
func convert[From, To any](o *conversion.Object, by func(*From, *To) error, elsewhere counterpart) error {
	from, byPlace, err := decode[From](o, elsewhere)
	if err != nil {
		return err
	}
	to := new(To)
	if err := by(from, to); err != nil {
		return err
	}
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	return restore(o, text, byPlace)
}

// converting are the fields of the spec that differ between versions. All others pass through.
func converting() []string { return []string{scaleField, updateField} }

// decode reads the part of the object that conversion is about. What stands in the way in the two strategies is converted by its place.
func decode[From any](o *conversion.Object, elsewhere counterpart) (*From, []placed, error) {
	spec := conversion.Members{}
	length := 0
	for _, name := range converting() {
		if value, found := o.Spec[name]; found {
			if len(value) > maxStored {
				return nil, nil, fmt.Errorf("spec.%s has %d bytes, at most %d can be stored", name, len(value), maxStored)
			}
			spec[name] = value
			length += len(value)
		}
	}
	if length <= conversion.MaxDecoded {
		if from, err := decodeParts[From](o, spec); err == nil {
			return from, nil, nil
		}
	}
	byPlace, err := takeUndecodable[From](spec, elsewhere)
	if err != nil {
		return nil, nil, err
	}
	from, err := decodeParts[From](o, spec)
	return from, byPlace, err
}

func decodeParts[From any](o *conversion.Object, spec conversion.Members) (*From, error) {
	text, err := convertible(o, spec)
	if err != nil {
		return nil, err
	}
	from := new(From)
	if _, errs := wire.Decode(text, from); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return from, nil
}

func convertible(o *conversion.Object, spec conversion.Members) ([]byte, error) {
	return json.Marshal(map[string]any{
		conversion.MetadataField: map[string]any{
			conversion.AnnotationsField: only(o.Metadata[conversion.AnnotationsField], convertingAnnotations()),
			"labels":                    only(o.Metadata["labels"], []string{v1alpha1.LabelExcludePreparingDelete}),
		},
		conversion.SpecField: spec,
	})
}

// convertingAnnotations are the annotations that conversion is about. All others pass through.
func convertingAnnotations() []string {
	return append(preDownloadKeys(), shared.AnnotationConversionData)
}

// only are the named members of an object. Values that are not objects stay as they are: decoding reports them.
func only(text json.RawMessage, names []string) any {
	var all conversion.Members
	if json.Unmarshal(text, &all) != nil {
		return text
	}
	some := conversion.Members{}
	for _, name := range names {
		if value, found := all[name]; found {
			some[name] = value
		}
	}
	return some
}

// restore puts the converted parts into the object.
func restore(o *conversion.Object, converted []byte, byPlace []placed) error {
	var is struct {
		Metadata struct {
			Annotations conversion.Members `json:"annotations"`
		} `json:"metadata"`
		Spec conversion.Members `json:"spec"`
	}
	if err := json.Unmarshal(converted, &is); err != nil {
		return err
	}
	if len(byPlace) > 0 && is.Spec == nil {
		is.Spec = conversion.Members{}
	}
	for _, value := range byPlace {
		if err := (placed{path: value.path[1:], value: value.value}).put(is.Spec); err != nil {
			return err
		}
	}
	annotations, err := o.Annotations()
	if err != nil {
		return err
	}
	for _, name := range convertingAnnotations() {
		delete(annotations, name)
	}
	maps.Copy(annotations, is.Metadata.Annotations)
	if o.Spec != nil {
		for _, name := range converting() {
			delete(o.Spec, name)
			if value, found := is.Spec[name]; found {
				o.Spec[name] = value
			}
		}
	}
	return o.SetAnnotations(annotations)
}
