// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Kept is the value of the annotation: the same fields of one object in the version that it is about, and in the version of the
// object that carries it.
type Kept[F, Shown any] struct {
	// APIVersion is the version of Fields.
	APIVersion string `json:"apiVersion"`
	// Fields are the original.
	Fields F `json:"fields"`
	// Shown is what the conversion made of them. Where the object differs from it now, a client changed it.
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

// maxConversionData is the longest annotation that is decoded, in bytes. The API server stores no longer ones.
const maxConversionData = 256 << 10

// Take removes the annotation from an object and returns the fields of another version in it, or nil. An annotation that cannot be
// decoded, or is about a version that it should not be about, comes from somebody else: there are no fields then.
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

// Rebase brings to original what changed from shown to written. Lists are replaced as a whole.
func Rebase[F any](original, shown, written F) (F, error) {
	if equality.Semantic.DeepEqual(shown, written) {
		return original, nil
	}
	var rebased F
	texts := make([][]byte, 3)
	for i, fields := range []F{original, shown, written} {
		text, err := json.Marshal(fields)
		if err != nil {
			return rebased, fmt.Errorf("encoding fields: %w", err)
		}
		texts[i] = text
	}
	change, err := jsonpatch.CreateMergePatch(texts[1], texts[2])
	if err != nil {
		return rebased, fmt.Errorf("comparing fields: %w", err)
	}
	merged, err := jsonpatch.MergePatch(texts[0], change)
	if err != nil {
		return rebased, fmt.Errorf("merging fields: %w", err)
	}
	if err := decode(merged, &rebased); err != nil {
		return rebased, fmt.Errorf("decoding merged fields: %w", err)
	}
	return rebased, nil
}
