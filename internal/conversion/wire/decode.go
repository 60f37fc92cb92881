// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire works on objects as clients sent them: JSON that may hold fields our types do not know, and values our types
// cannot read. Admission and conversion read and edit them here so that nothing a client wrote is lost, and so that a value that cannot be
// read is refused with its path instead of reaching a cache that could not read it either.
package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Decode reads raw into a pointer to one of our types, by the rules of the API server (field names are case-sensitive).
//
// unknown are the paths of fields that the type does not have, and of fields that occur twice; they are left out of the result.
// Values of the wrong type are returned as errors that carry their path, their value and what is expected; they are left out of
// the result too.
func Decode(raw []byte, into any) (unknown []string, errs field.ErrorList) {
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, e := range strict {
		if f, ok := e.(kjson.FieldError); ok { //nolint:errorlint // the library returns these unwrapped
			unknown = append(unknown, f.FieldPath())
		}
	}
	if err == nil {
		return unknown, nil
	}

	// The decoder stops at the first value it cannot read and names its field without indexes. The walk below finds all of them.
	var value any
	if syntax := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value); syntax != nil {
		return nil, field.ErrorList{field.Invalid(nil, "", fmt.Sprintf("is not JSON: %v", syntax))}
	}
	errs, readable := mistyped(value, reflect.TypeOf(into), nil)
	if len(errs) == 0 {
		return unknown, field.ErrorList{field.Invalid(nil, "", err.Error())}
	}
	if readable {
		if err := reread(value, into); err != nil {
			return unknown, append(errs, field.Invalid(nil, "", err.Error()))
		}
	}
	return unknown, errs
}

// reread fills into with what is left of an object without its unreadable values.
func reread(value, into any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().SetZero()
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// mistyped returns every value that cannot be read as the Go type at its place, and takes it out of the object that holds it; in a
// list, null takes its place. It says whether the value itself can be read then.
func mistyped(value any, t reflect.Type, path *field.Path) (errs field.ErrorList, readable bool) {
	if value == nil {
		return nil, true // null leaves a field as it is
	}
	if t.Kind() == reflect.Pointer {
		return mistyped(value, t.Elem(), path)
	}
	if decodesItself(t) || !composite(t) {
		if readsAs(value, t) {
			return nil, true
		}
		return field.ErrorList{wrong(value, t, path)}, false
	}

	members, isObject := value.(map[string]any)
	items, isList := value.([]any)
	if wantsList := t.Kind() == reflect.Slice; wantsList && !isList || !wantsList && !isObject {
		return field.ErrorList{wrong(value, t, path)}, false
	}
	look := func(v any, t reflect.Type, path *field.Path) bool {
		found, ok := mistyped(v, t, path)
		errs = append(errs, found...)
		return ok
	}
	switch t.Kind() {
	case reflect.Struct:
		for name, member := range fieldsOf(t) {
			if v, found := members[name]; found && !look(v, member, child(path, name)) {
				delete(members, name)
			}
		}
	case reflect.Map:
		for key, v := range members {
			if !look(v, t.Elem(), path.Key(key)) {
				delete(members, key)
			}
		}
	case reflect.Slice:
		for i, v := range items {
			if !look(v, t.Elem(), path.Index(i)) {
				items[i] = nil
			}
		}
	}
	sortByField(errs)
	return errs, true
}

// readsAs says whether a value that has no parts can be read as a type.
func readsAs(value any, t reflect.Type) bool {
	text, err := json.Marshal(value)
	if err != nil {
		return false
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(t).Interface()) == nil
}

// composite tells types that are walked into from types that are read whole. A []byte is text in JSON.
func composite(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8
	default:
		return false
	}
}

func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldsOf returns the types of the JSON fields of a struct, those of embedded structs included.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			for n, ft := range fieldsOf(embedded) {
				fields[n] = ft
			}
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}

func wrong(value any, t reflect.Type, path *field.Path) *field.Error {
	return field.TypeInvalid(path, value, "must be "+expected(t))
}

// expected says in words what a type accepts.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "a quantity such as 500m, 2 or 1Gi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "a whole number of at most 32 bits, or a string"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time such as 2006-01-02T15:04:05Z"
	case reflect.TypeFor[metav1.Duration]():
		return "a duration such as 30s or 5m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string in base64"
		}
		return "a list"
	default:
		return "a " + t.String()
	}
}

// child names a field of an object; the root object has no path of its own.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}
