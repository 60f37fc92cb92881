// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Merge brings to raw what changed from before to after, and nothing else: fields that our types do not know, nulls and zero
// values stay as the client wrote them. Lists are replaced as a whole.
func Merge(raw []byte, before, after any) ([]byte, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the object before the change: %w", err)
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the object after the change: %w", err)
	}
	change, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, fmt.Errorf("comparing the objects: %w", err)
	}
	merged, err := jsonpatch.MergePatch(raw, change)
	if err != nil {
		return nil, fmt.Errorf("merging the change: %w", err)
	}
	return merged, nil
}

// Restore copies the named fields of the spec from old to raw where raw leaves them out or has null. Fields that raw names,
// empty ones too, stay.
func Restore(raw, old []byte, names ...string) ([]byte, error) {
	kept, now, err := specs(old, raw)
	if err != nil {
		return nil, err
	}
	missing := map[string]any{}
	for _, name := range names {
		if now[name] == nil && kept[name] != nil {
			missing[name] = kept[name]
		}
	}
	if len(missing) == 0 {
		return raw, nil
	}
	change, err := json.Marshal(map[string]any{"spec": missing})
	if err != nil {
		return nil, fmt.Errorf("encoding the fields to restore: %w", err)
	}
	restored, err := jsonpatch.MergePatch(raw, change)
	if err != nil {
		return nil, fmt.Errorf("restoring fields: %w", err)
	}
	return restored, nil
}

// SameSpec says whether two objects have the same spec, byte order and white space aside.
func SameSpec(a, b []byte) bool {
	one, other, err := specs(a, b)
	return err == nil && reflect.DeepEqual(one, other)
}

func specs(a, b []byte) (one, other map[string]any, err error) {
	type object struct {
		Spec map[string]any `json:"spec"`
	}
	var x, y object
	if err := kjson.UnmarshalCaseSensitivePreserveInts(a, &x); err != nil {
		return nil, nil, fmt.Errorf("reading the spec: %w", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &y); err != nil {
		return nil, nil, fmt.Errorf("reading the spec: %w", err)
	}
	return x.Spec, y.Spec, nil
}

func sortByField(errs field.ErrorList) {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
}
