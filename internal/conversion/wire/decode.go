// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire decodes and edits objects as clients sent them: JSON with fields and values
// our types may not know. So admission and conversion lose nothing a client wrote, and
// refuse an undecodable value with its path before it reaches a cache.
package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Decode reads raw into a pointer to one of our types, by the rules of the API server (field names are case-sensitive).
//
// unknown are the paths of unknown and repeated fields, left out of the result. Values of
// the wrong type are errors with path, value and expectation, the first MaxErrors of them;
// there is no result then.
func Decode(raw []byte, into any) (unknown []string, errs field.ErrorList) {
	unknown, errs, _ = decode(raw, into)
	return unknown, errs
}

// DecodeRest is Decode for stored objects: besides the errors it returns all it could
// decode.
func DecodeRest(raw []byte, into any) field.ErrorList {
	_, errs, rest := decode(raw, into)
	if rest == nil {
		return errs
	}
	reflect.ValueOf(into).Elem().SetZero()
	text, _ := json.Marshal(rest) // it was decoded
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, into); err != nil {
		return append(errs, field.Invalid(nil, "", err.Error()))
	}
	return errs
}

// decode returns the object without its values of wrong types, too, if there are any and something is left.
func decode(raw []byte, into any) (unknown []string, errs field.ErrorList, rest any) {
	var err error
	if !quantity.Suspect(raw) {
		if unknown, err = strictly(raw, into); err == nil {
			return unknown, nil, nil
		}
	}

	// The decoder stops at the first value of a wrong type and names it without indexes.
	// The walk below finds all, and does not stop at quantities that take minutes to read.
	var value any
	if syntax := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value); syntax != nil {
		return nil, field.ErrorList{field.Invalid(nil, "", fmt.Sprintf("is not JSON: %v", syntax))}, nil
	}
	w := walk{}
	decodable := w.mistyped(value, reflect.TypeOf(into), nil)
	if len(w.errs) == 0 && err == nil {
		// No quantity is costly after all. Of members with one name the walk saw only the
		// last, so decode only that.
		seen, _ := json.Marshal(value)
		if unknown, err = strictly(seen, into); err == nil {
			return unknown, nil, nil
		}
	}
	if len(w.errs) == 0 {
		return unknown, field.ErrorList{field.Invalid(nil, "", err.Error())}, nil
	}
	slices.SortStableFunc(w.errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	if decodable {
		rest = value
	}
	return unknown, w.errs, rest
}

// strictly decodes only text cleared by quantity.Suspect or by the walk.
func strictly(raw []byte, into any) (unknown []string, err error) {
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, e := range strict {
		if f, ok := e.(kjson.FieldError); ok { //nolint:errorlint // the library returns these unwrapped
			unknown = append(unknown, f.FieldPath())
		}
	}
	return unknown, err
}

// MaxErrors is how many errors are returned about one object. More would not help anybody, and a client could ask for any number.
const MaxErrors = 50

// walk goes through an object and looks for values of wrong types.
type walk struct{ errs field.ErrorList }

// mistyped removes each value that does not fit its Go type from its object; in a list,
// null replaces it. It is true if the value itself can then be decoded.
func (w *walk) mistyped(value any, t reflect.Type, path *field.Path) bool {
	if value == nil {
		return true // null leaves a field as it is
	}
	if t.Kind() == reflect.Pointer {
		return w.mistyped(value, t.Elem(), path)
	}
	if decodesItself(t) || !composite(t) {
		return readsAs(value, t) || w.wrong(value, t, path)
	}

	members, isObject := value.(map[string]any)
	items, isList := value.([]any)
	if wantsList := t.Kind() == reflect.Slice; wantsList && !isList || !wantsList && !isObject {
		return w.wrong(value, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if v, found := members[name]; found && !w.mistyped(v, fields[name], child(path, name)) {
				delete(members, name)
			}
		}
	case reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(members)) {
			if !w.mistyped(members[key], t.Elem(), path.Key(key)) {
				delete(members, key)
			}
		}
	case reflect.Slice:
		for i, v := range items {
			if !w.mistyped(v, t.Elem(), path.Index(i)) {
				items[i] = nil
			}
		}
	}
	return true
}

// wrong notes a value of a wrong type. It returns false.
func (w *walk) wrong(value any, t reflect.Type, path *field.Path) bool {
	if len(w.errs) < MaxErrors {
		w.errs = append(w.errs, field.TypeInvalid(path, value, "must be "+expected(t)))
	}
	return false
}

// readsAs is true if a value without parts decodes as the type.
func readsAs(value any, t reflect.Type) bool {
	given, isText := value.(string)
	switch {
	case isText && t.Kind() == reflect.String && !decodesItself(t):
		return true
	case isText && t == reflect.TypeFor[resource.Quantity]() && quantity.Costly(given):
		return false
	}
	text, _ := json.Marshal(value) // it was decoded
	return kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(t).Interface()) == nil
}

// composite types are walked into; others are decoded whole. A []byte is text in JSON.
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

// fieldsOf returns the types of a struct's JSON fields, embedded structs included.
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

// expected says in words how a type is written.
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
