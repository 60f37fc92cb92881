// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts objects between the hub, the version of the code, and older
// versions, the spokes. For every kind:
//
//   - an object converted there and back is the same, in both directions, but for defaults
//     only one version needs;
//   - a client's write in one version reads back as written, and leaves alone the fields
//     only the other version has.
//
// Values of one version without a form in the other are kept in one annotation,
// shared.AnnotationConversionData. Converting back merges the original, the form shown to
// the client, and its write. An object that loses nothing carries no annotation.
//
// It works on JSON: templates have no schema and may hold fields our types do not know. An
// object that fails to convert can be neither read, corrected nor deleted.
package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// Converter changes the objects of one kind from one version to the other, in place. It is pure.
type Converter struct {
	schema.GroupKind
	// Renamed members differ in their names alone.
	Renamed []Renamed
	// ToV1alpha1 and FromV1alpha1 change the rest; nil: there is none.
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
		return nil, fmt.Errorf("nobody waits: %w", err)
	}
	object, err := open(raw)
	if err != nil {
		return nil, err
	}
	hub, spoke := schema.GroupVersion{Group: c.Group, Version: "v1beta1"}.String(), schema.GroupVersion{Group: c.Group, Version: "v1alpha1"}.String()
	change := c.FromV1alpha1
	switch {
	case object.apiVersion == apiVersion:
		return raw, nil
	case object.apiVersion == hub && apiVersion == spoke:
		change = c.ToV1alpha1
		for _, member := range c.Renamed {
			object.rename(member.Path, member.Name, member.InV1alpha1)
		}
	case object.apiVersion == spoke && apiVersion == hub:
		for _, member := range c.Renamed {
			object.rename(member.Path, member.InV1alpha1, member.Name)
		}
	default:
		return nil, fmt.Errorf("%s cannot become %s", object.apiVersion, apiVersion)
	}
	if change != nil {
		if err := change(object); err != nil {
			return nil, err
		}
	}
	return object.encode(apiVersion)
}

// Members are the fields of a JSON object.
type Members map[string]json.RawMessage

// Object is edited in place. Parts no Converter touches pass through.
type Object struct {
	apiVersion string
	// Top has all fields; of metadata and spec it has them as they were.
	Top, Spec Members
	// Meta has the annotations and labels, and nothing else.
	Meta     metav1.ObjectMeta
	metadata Members
}

// Fields of every object.
const (
	metadataField = "metadata"
	specField     = "spec"
	StatusField   = "status"
)

// MaxDecoded is the longest part decoded where it decides the memory of a conversion, in
// bytes: two bytes can become a list item of hundreds.
const MaxDecoded = 64 << 10

func open(raw []byte) (*Object, error) {
	// Stored objects are far below: the API server limits metadata and drops fields not in
	// the schema.
	for _, large := range wire.Oversized(raw) {
		known := slices.Contains([]string{"", metadataField, specField}, large.Path)
		listed := large.Path == "metadata.annotations" || large.Path == "metadata.labels"
		if large.IsList() && (known || listed && large.Has > wire.MaxValues) {
			return nil, fmt.Errorf("%q has %d members, which is too many", large.Path, large.Has)
		}
	}
	o := &Object{}
	if err := json.Unmarshal(raw, &o.Top); err != nil {
		return nil, err
	}
	for name, into := range map[string]any{"apiVersion": &o.apiVersion, metadataField: &o.metadata, specField: &o.Spec} {
		if text, found := o.Top[name]; found || name == "apiVersion" {
			if err := json.Unmarshal(text, into); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for name, into := range o.listed() {
		if text, found := o.metadata[name]; found {
			if err := json.Unmarshal(text, into); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return o, nil
}

// listed are the decoded parts of the metadata.
func (o *Object) listed() map[string]*map[string]string {
	return map[string]*map[string]string{"annotations": &o.Meta.Annotations, "labels": &o.Meta.Labels}
}

// encode puts the object together again.
func (o *Object) encode(apiVersion string) ([]byte, error) {
	result := map[string]any{}
	for name, value := range o.Top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	for name, values := range o.listed() {
		delete(o.metadata, name)
		if len(*values) == 0 {
			continue
		}
		if o.metadata == nil {
			o.metadata = Members{}
		}
		o.metadata[name], _ = json.Marshal(*values) // texts can be encoded
	}
	if o.metadata != nil {
		result[metadataField] = o.metadata
	}
	if o.Spec != nil {
		result[specField] = o.Spec
	}
	return json.Marshal(result)
}

// Annotate sets an annotation.
func (o *Object) Annotate(key, value string) { metav1.SetMetaDataAnnotation(&o.Meta, key, value) }

// SetSpec sets a field of the spec.
func (o *Object) SetSpec(name string, value json.RawMessage) {
	if o.Spec == nil {
		o.Spec = Members{}
	}
	o.Spec[name] = value
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

// every is the star in the paths of Each.
const every = "*"

// Each changes the objects at a path from the top: spec.subsets.*. A star is every item of a list, or every member of an object. What has another
// shape, or too many members, stays as it is.
func (o *Object) Each(path string, change func(object Members)) {
	in, names := o.Top, strings.Split(path, ".")
	if names[0] == specField {
		in, names = o.Spec, names[1:]
	}
	in.each(names, change)
}

func (m Members) each(path []string, change func(object Members)) {
	switch {
	case len(path) == 0:
		change(m)
	case path[0] == every:
		for name, text := range m {
			m[name] = eachIn(text, path[1:], change)
		}
	case m[path[0]] != nil:
		m[path[0]] = eachIn(m[path[0]], path[1:], change)
	}
}

func eachIn(text json.RawMessage, path []string, change func(object Members)) json.RawMessage {
	if members, isObject := MembersOf(text); isObject {
		members.each(path, change)
		changed, _ := json.Marshal(members) // what was decoded can be encoded
		return changed
	}
	var items []json.RawMessage
	if len(path) == 0 || path[0] != every || tooMany(wire.Oversized(text), "") || json.Unmarshal(text, &items) != nil {
		return text
	}
	for i := range items {
		items[i] = eachIn(items[i], path[1:], change)
	}
	changed, _ := json.Marshal(items)
	return changed
}

// Renamed is a member with another name in v1alpha1, of the objects at a path.
type Renamed struct{ Path, Name, InV1alpha1 string }

func (o *Object) rename(path, from, to string) {
	o.Each(path, func(in Members) {
		if value, found := in[from]; found {
			delete(in, from)
			in[to] = value
		}
	})
}

// tooMany is true if the list or object at path has too many members.
func tooMany(found []wire.Oversize, path string) bool {
	return slices.ContainsFunc(found, func(o wire.Oversize) bool { return o.Path == path && o.IsList() })
}

// DecodeShort decodes a value within the length limit. It is false if it could not.
func DecodeShort(text json.RawMessage, into any) bool {
	return len(text) <= MaxDecoded && json.Unmarshal(text, into) == nil
}

// Tree decodes a value as JSON, nothing as nil. Numbers stay as written. Too many members
// anywhere are an error.
func Tree(text json.RawMessage) (value any, err error) {
	for _, large := range wire.Oversized(text) {
		if large.Path == wire.WholeObject || large.IsList() {
			return nil, fmt.Errorf("%q has %d members, which is too many", large.Path, large.Has)
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	err = decode(text, &value)
	return value, err
}

func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}
