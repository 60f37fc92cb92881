// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// Kept is the annotation's value: the same fields of one object in both versions.
type Kept[F, Shown any] struct {
	// APIVersion is the version of Fields.
	APIVersion string `json:"apiVersion"`
	// Fields are the original.
	Fields F `json:"fields"`
	// Shown is their converted form. A difference from the object now was written by a
	// client.
	Shown Shown `json:"shown"`
}

// Keep writes the fields of another version to an object.
func Keep[F, Shown any](o *Object, version schema.GroupVersion, fields F, shown Shown) error {
	text, err := json.Marshal(Kept[F, Shown]{APIVersion: version.String(), Fields: fields, Shown: shown})
	if err != nil {
		return fmt.Errorf("keeping fields of %s: %w", version, err)
	}
	o.Annotate(shared.AnnotationConversionData, string(text))
	return nil
}

// maxConversionData is the longest annotation to decode, in bytes: the API server's own
// limit.
const maxConversionData = 256 << 10

// Take removes the annotation and returns the fields of the other version, or nil. An
// annotation that does not decode, or names a wrong version, is foreign and gives nil.
func Take[F, Shown any](o *Object, version schema.GroupVersion) *Kept[F, Shown] {
	text, found := o.Meta.Annotations[shared.AnnotationConversionData]
	delete(o.Meta.Annotations, shared.AnnotationConversionData)
	if !found || len(text) > maxConversionData {
		return nil
	}
	kept := &Kept[F, Shown]{}
	if err := decode([]byte(text), kept); err != nil || kept.APIVersion != version.String() {
		return nil
	}
	return kept
}

// Rebase applies the change from shown to written to original. It replaces lists as a
// whole.
func Rebase[F any](original, shown, written F) (F, error) {
	if equality.Semantic.DeepEqual(shown, written) {
		return original, nil
	}
	var rebased F
	text, _ := json.Marshal(original) // it was decoded
	merged, err := wire.Merge(text, shown, written)
	if err != nil {
		return rebased, err
	}
	if err := decode(merged, &rebased); err != nil {
		return rebased, fmt.Errorf("decoding merged fields: %w", err)
	}
	return rebased, nil
}
