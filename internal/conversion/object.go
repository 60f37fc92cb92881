// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion is the frame in which kinds convert their objects between the version that the code works with, the hub, and older versions, the
// spokes. It promises for every kind:
//
//   - an object that is converted and converted back is the same object, in both directions, but for defaults that only one version needs;
//   - what a client writes in one version reads back as written, and leaves alone what only the other version can say.
//
// Some values of one version cannot be expressed in the other. They are kept in one annotation, shared.AnnotationConversionData. Converting back
// is a three-way merge of the original, what the client was shown, and what it wrote. An object that loses nothing carries no annotation.
//
// It works on JSON, because templates have no schema: one may hold fields that our types do not know. An object whose conversion fails can be neither
// read nor corrected nor deleted.
package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// Converter changes the objects of one kind from one version to the other, in place. It is pure.
type Converter struct {
	schema.GroupKind
	ToV1alpha1, FromV1alpha1 func(*Object) error
}

// Convert converts a stored object to the version apiVersion ("apps.kruise.io/v1alpha1").
func (c Converter) Convert(ctx context.Context, raw []byte, apiVersion string) ([]byte, error) {
	converted, err := c.convert(ctx, raw, apiVersion)
	if err != nil {
		return nil, fmt.Errorf("converting a %s: %w", c.Kind, err)
	}
	return converted, nil
}

func (c Converter) convert(ctx context.Context, raw []byte, apiVersion string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object, err := open(raw)
	if err != nil {
		return nil, err
	}
	hub, spoke := v1beta1.GroupVersion().String(), v1alpha1.GroupVersion().String()
	switch {
	case object.apiVersion == apiVersion:
		return raw, nil
	case object.apiVersion == hub && apiVersion == spoke:
		err = c.ToV1alpha1(object)
	case object.apiVersion == spoke && apiVersion == hub:
		err = c.FromV1alpha1(object)
	default:
		err = fmt.Errorf("%s cannot become %s", object.apiVersion, apiVersion)
	}
	if err != nil {
		return nil, err
	}
	return object.encode(apiVersion)
}

// Members are the fields of a JSON object.
type Members map[string]json.RawMessage

// Object is an object whose parts are changed where they are. What no Converter touches passes through.
type Object struct {
	apiVersion string
	// Top has all fields; of metadata and spec it has them as they were.
	Top, Metadata, Spec Members
}

// Fields of every object.
const (
	MetadataField    = "metadata"
	AnnotationsField = "annotations"
	LabelsField      = "labels"
	SpecField        = "spec"
	StatusField      = "status"
)

// MaxDecoded is the longest part of an object that is decoded where it decides the memory of a conversion, in bytes: two bytes can be a list's item of
// hundreds.
const MaxDecoded = 64 << 10

func open(raw []byte) (*Object, error) {
	// Stored objects are far below: the API server limits annotations and labels, and drops what is not in the schema.
	for _, large := range wire.Oversized(raw) {
		known := slices.Contains([]string{"", MetadataField, SpecField}, large.Path)
		listed := large.Path == "metadata.annotations" || large.Path == "metadata.labels"
		if large.IsList() && (known || listed && large.Has > wire.MaxValues) {
			return nil, fmt.Errorf("%q has %d members, which is too many", large.Path, large.Has)
		}
	}
	o := &Object{}
	if err := json.Unmarshal(raw, &o.Top); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(o.Top["apiVersion"], &o.apiVersion); err != nil {
		return nil, fmt.Errorf("apiVersion: %w", err)
	}
	if text, found := o.Top[MetadataField]; found {
		if err := json.Unmarshal(text, &o.Metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	if text, found := o.Top[SpecField]; found {
		if err := json.Unmarshal(text, &o.Spec); err != nil {
			return nil, fmt.Errorf("spec: %w", err)
		}
	}
	return o, nil
}

// encode puts the object together again.
func (o *Object) encode(apiVersion string) ([]byte, error) {
	result := map[string]any{}
	for name, value := range o.Top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	if o.Metadata != nil {
		result[MetadataField] = o.Metadata
	}
	if o.Spec != nil {
		result[SpecField] = o.Spec
	}
	return json.Marshal(result)
}

// Annotations are those of the object; none is an empty map.
func (o *Object) Annotations() (Members, error) {
	all := Members{}
	if text, found := o.Metadata[AnnotationsField]; found {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}
	if all == nil {
		all = Members{}
	}
	return all, nil
}

// SetAnnotations makes these the annotations of the object.
func (o *Object) SetAnnotations(all Members) error {
	if len(all) == 0 {
		delete(o.Metadata, AnnotationsField)
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if o.Metadata == nil {
		o.Metadata = Members{}
	}
	o.Metadata[AnnotationsField] = text
	return nil
}

// MembersOf are the members of an object; false if the text is none, or has more members than any of ours.
func MembersOf(text json.RawMessage) (Members, bool) {
	if tooMany(wire.Oversized(text), "") {
		return nil, false
	}
	var inner Members
	err := json.Unmarshal(text, &inner)
	return inner, err == nil && inner != nil
}

// tooMany says whether the list or object at path is among those that have too many members.
func tooMany(found []wire.Oversize, path string) bool {
	return slices.ContainsFunc(found, func(o wire.Oversize) bool { return o.Path == path && o.IsList() })
}

// DecodeShort decodes a value that is not too long for it, and says whether it could.
func DecodeShort(text json.RawMessage, into any) bool {
	return len(text) <= MaxDecoded && json.Unmarshal(text, into) == nil
}
