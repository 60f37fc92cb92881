// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// CloneSet converts a stored CloneSet to the version apiVersion ("apps.kruise.io/v1alpha1").
//
// It works on JSON because templates have no schema: one may hold fields that our types do not know, or values that they cannot decode.
// Everything but annotations, scaleStrategy and updateStrategy is therefore as it is in the source, and so are values in the two
// strategies that cannot be decoded. An object whose conversion fails can be neither read nor corrected nor deleted.
func CloneSet(ctx context.Context, raw []byte, apiVersion string) ([]byte, error) {
	source, err := open(raw)
	if err != nil {
		return nil, fmt.Errorf("converting a CloneSet: %w", err)
	}
	hub, spoke := v1beta1.GroupVersion().String(), v1alpha1.GroupVersion().String()
	var converted []byte
	switch {
	case source.apiVersion == apiVersion:
		return raw, nil
	case source.apiVersion == hub && apiVersion == spoke:
		converted, err = convert(ctx, source, CloneSetToV1alpha1, inV1alpha1)
	case source.apiVersion == spoke && apiVersion == hub:
		converted, err = convert(ctx, source, CloneSetFromV1alpha1, inV1beta1)
	default:
		err = fmt.Errorf("%s cannot become %s", source.apiVersion, apiVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("converting a CloneSet: %w", err)
	}
	result, err := source.restore(converted, apiVersion)
	if err != nil {
		return nil, fmt.Errorf("converting a CloneSet: %w", err)
	}
	return result, nil
}

// convert returns the converted parts of the source, and keeps in it what is converted by its place.
func convert[From, To any](
	ctx context.Context, source *opened, by func(context.Context, *From, *To) error, elsewhere counterpart,
) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from, err := decode[From](source, elsewhere)
	if err != nil {
		return nil, err
	}
	to := new(To)
	if err := by(ctx, from, to); err != nil {
		return nil, err
	}
	return json.Marshal(to)
}

// members are the fields of a JSON object.
type members map[string]json.RawMessage

// opened is an object in two parts: what conversion is about, and what passes through.
type opened struct {
	apiVersion          string
	top, metadata, spec members
	// byPlace is what is converted by its place alone, with its place in the result.
	byPlace []placed
}

// converting are the fields of the spec that differ between versions. All others pass through.
func converting() []string { return []string{scaleField, updateField} }

func open(raw []byte) (*opened, error) {
	// Stored objects are far below: the API server limits annotations and labels, and drops what is not in the schema.
	for _, large := range wire.Oversized(raw) {
		known := slices.Contains([]string{"", metadataField, specField}, large.Path)
		listed := large.Path == "metadata.annotations" || large.Path == "metadata.labels"
		if large.IsList() && (known || listed && large.Has > wire.MaxValues) {
			return nil, fmt.Errorf("%q has %d members, which is too many", large.Path, large.Has)
		}
	}
	o := &opened{}
	if err := json.Unmarshal(raw, &o.top); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(o.top["apiVersion"], &o.apiVersion); err != nil {
		return nil, fmt.Errorf("apiVersion: %w", err)
	}
	if text, found := o.top[metadataField]; found {
		if err := json.Unmarshal(text, &o.metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	if text, found := o.top[specField]; found {
		if err := json.Unmarshal(text, &o.spec); err != nil {
			return nil, fmt.Errorf("spec: %w", err)
		}
	}
	return o, nil
}

// decode reads the part of the object that conversion is about. What stands in the way in the two strategies is converted by its place.
func decode[From any](o *opened, elsewhere counterpart) (*From, error) {
	spec := members{}
	length := 0
	for _, name := range converting() {
		if value, found := o.spec[name]; found {
			if len(value) > maxStored {
				return nil, fmt.Errorf("spec.%s has %d bytes, at most %d can be stored", name, len(value), maxStored)
			}
			spec[name] = value
			length += len(value)
		}
	}
	if length <= maxDecoded {
		if from, err := decodeParts[From](o, spec); err == nil {
			return from, nil
		}
	}
	var err error
	if o.byPlace, err = takeUndecodable[From](spec, elsewhere); err != nil {
		return nil, err
	}
	return decodeParts[From](o, spec)
}

func decodeParts[From any](o *opened, spec members) (*From, error) {
	convertible, err := o.convertible(spec)
	if err != nil {
		return nil, err
	}
	from := new(From)
	if _, errs := wire.Decode(convertible, from); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return from, nil
}

func (o *opened) convertible(spec members) ([]byte, error) {
	return json.Marshal(map[string]any{
		metadataField: map[string]any{
			annotationsField: only(o.metadata[annotationsField], convertingAnnotations()),
			"labels":         only(o.metadata["labels"], []string{v1alpha1.LabelExcludePreparingDelete}),
		},
		specField: spec,
	})
}

// convertingAnnotations are the annotations that conversion is about. All others pass through.
func convertingAnnotations() []string {
	return append(preDownloadKeys(), shared.AnnotationConversionData)
}

// only are the named members of an object. Values that are not objects stay as they are: decoding reports them.
func only(text json.RawMessage, names []string) any {
	var all members
	if json.Unmarshal(text, &all) != nil {
		return text
	}
	some := members{}
	for _, name := range names {
		if value, found := all[name]; found {
			some[name] = value
		}
	}
	return some
}

// annotations are those of the source, with the converted ones in place of those that conversion is about. None: nil.
func (o *opened) annotations(converted members) (members, error) {
	all := members{}
	if text, found := o.metadata[annotationsField]; found {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}
	for _, name := range convertingAnnotations() {
		delete(all, name)
	}
	if len(all)+len(converted) == 0 {
		return nil, nil
	}
	if all == nil {
		all = members{}
	}
	maps.Copy(all, converted)
	return all, nil
}

// restore puts the parts together again.
func (o *opened) restore(converted []byte, apiVersion string) ([]byte, error) {
	var is struct {
		Metadata struct {
			Annotations members `json:"annotations"`
		} `json:"metadata"`
		Spec members `json:"spec"`
	}
	if err := json.Unmarshal(converted, &is); err != nil {
		return nil, err
	}
	if len(o.byPlace) > 0 {
		if is.Spec == nil {
			is.Spec = members{}
		}
		for _, value := range o.byPlace {
			if err := (placed{path: value.path[1:], value: value.value}).put(is.Spec); err != nil {
				return nil, err
			}
		}
	}
	result := map[string]any{}
	for name, value := range o.top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	annotations, err := o.annotations(is.Metadata.Annotations)
	if err != nil {
		return nil, err
	}
	if o.metadata != nil || annotations != nil {
		metadata := map[string]any{}
		for name, value := range o.metadata {
			metadata[name] = value
		}
		delete(metadata, annotationsField)
		if annotations != nil {
			metadata[annotationsField] = annotations
		}
		result[metadataField] = metadata
	}
	if o.spec != nil {
		for _, name := range converting() {
			delete(o.spec, name)
			if value, found := is.Spec[name]; found {
				o.spec[name] = value
			}
		}
		result[specField] = o.spec
	}
	return json.Marshal(result)
}
