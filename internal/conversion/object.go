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

// CloneSet converts a stored CloneSet to the version apiVersion ("apps.kruise.io/v1alpha1").
//
// It works on JSON because templates have no schema: one may hold fields that our types do not know, or values that they cannot read.
// Everything but annotations, scaleStrategy and updateStrategy is therefore as it is in the source, and so are values in the two
// strategies that cannot be read. An object whose conversion fails can neither be read nor mended nor deleted.
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
		converted, err = convert(ctx, source.convertible, CloneSetToV1alpha1, inV1alpha1)
	case source.apiVersion == spoke && apiVersion == hub:
		converted, err = convert(ctx, source.convertible, CloneSetFromV1alpha1, inV1beta1)
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

func convert[From, To any](
	ctx context.Context, raw []byte, by func(context.Context, *From, *To) error, elsewhere counterpart,
) ([]byte, error) {
	from, to := new(From), new(To)
	values, err := decode(raw, from, elsewhere)
	if err != nil {
		return nil, err
	}
	if err := by(ctx, from, to); err != nil {
		return nil, err
	}
	return encode(to, values)
}

// members are the fields of a JSON object.
type members map[string]json.RawMessage

// opened is an object in two parts: what conversion is about, and what passes through.
type opened struct {
	apiVersion          string
	convertible         []byte
	top, metadata, spec members
}

// converting are the fields of the spec that differ between versions. All others pass through.
func converting() []string { return []string{"scaleStrategy", "updateStrategy"} }

func open(raw []byte) (*opened, error) {
	o := &opened{}
	if err := json.Unmarshal(raw, &o.top); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(o.top["apiVersion"], &o.apiVersion); err != nil {
		return nil, fmt.Errorf("apiVersion: %w", err)
	}
	if text, found := o.top["metadata"]; found {
		if err := json.Unmarshal(text, &o.metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	if text, found := o.top["spec"]; found {
		if err := json.Unmarshal(text, &o.spec); err != nil {
			return nil, fmt.Errorf("spec: %w", err)
		}
	}
	spec := members{}
	for _, name := range converting() {
		if value, found := o.spec[name]; found {
			spec[name] = value
		}
	}
	var err error
	o.convertible, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": o.metadata["annotations"], "labels": o.metadata["labels"]},
		"spec":     spec,
	})
	return o, err
}

// restore puts the parts together again.
func (o *opened) restore(converted []byte, apiVersion string) ([]byte, error) {
	var is struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec members `json:"spec"`
	}
	if err := json.Unmarshal(converted, &is); err != nil {
		return nil, err
	}
	result := map[string]any{}
	for name, value := range o.top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	if o.metadata != nil || len(is.Metadata.Annotations) > 0 {
		metadata := map[string]any{}
		for name, value := range o.metadata {
			metadata[name] = value
		}
		delete(metadata, "annotations")
		if len(is.Metadata.Annotations) > 0 {
			metadata["annotations"] = is.Metadata.Annotations
		}
		result["metadata"] = metadata
	}
	if o.spec != nil {
		for _, name := range converting() {
			delete(o.spec, name)
			if value, found := is.Spec[name]; found {
				o.spec[name] = value
			}
		}
		result["spec"] = o.spec
	}
	return json.Marshal(result)
}
