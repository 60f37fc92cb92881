// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// SafeUpgrade finds the reasons for OLM v1 to refuse an upgrade between bundles, and for
// valid objects to become invalid: a missing kind or stored version, another scope, and in
// the schemas a field removed, newly required, of another type or default, or with less
// allowed. Other changes of a field, such as of a validation rule, are beyond OLM v1, which
// refuses them all.
func SafeUpgrade(from, to string) error {
	before, err := definitions(from)
	if err != nil {
		return err
	}
	after, err := definitions(to)
	if err != nil {
		return err
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, found := after[name]
		if !found {
			faults = append(faults, fmt.Errorf("%s is gone", name))
			continue
		}
		faults = append(faults, compareDefinitions(before[name], now)...)
	}
	return errors.Join(faults...)
}

// definitions reads the CRDs of a bundle, by name.
func definitions(bundle string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%d manifests in %s: %w", len(files), bundle, err)
	}
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if definition.Kind == "CustomResourceDefinition" {
			found[definition.Name] = definition
		}
	}
	return found, nil
}

func compareDefinitions(before, after *apiextensionsv1.CustomResourceDefinition) []error {
	var faults []error
	if before.Spec.Scope != after.Spec.Scope {
		faults = append(faults, fmt.Errorf("%s: the scope was %s and is %s", before.Name, before.Spec.Scope, after.Spec.Scope))
	}
	for _, version := range before.Spec.Versions {
		i := slices.IndexFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
		switch {
		case i < 0 || version.Served && !after.Spec.Versions[i].Served:
			faults = append(faults, fmt.Errorf("%s: version %s is not served any more", before.Name, version.Name))
		case version.Schema != nil && after.Spec.Versions[i].Schema != nil:
			compareSchemas(before.Name+" "+version.Name, version.Schema.OpenAPIV3Schema, after.Spec.Versions[i].Schema.OpenAPIV3Schema,
				func(fault error) { faults = append(faults, fault) })
		}
	}
	return faults
}

// compareSchemas walks down both schemas and notes where the later one accepts less or means something else.
func compareSchemas(at string, before, after *apiextensionsv1.JSONSchemaProps, note func(error)) {
	if before.Type != after.Type {
		note(fmt.Errorf("%s: the type was %q and is %q", at, before.Type, after.Type))
		return
	}
	if was, is := text(before.Default), text(after.Default); was != is {
		note(fmt.Errorf("%s: the default was %q and is %q", at, was, is))
	}
	for _, name := range after.Required {
		if !slices.Contains(before.Required, name) {
			note(fmt.Errorf("%s.%s has become required", at, name))
		}
	}
	if len(after.Enum) > 0 {
		var allowed []string
		for i := range after.Enum {
			allowed = append(allowed, text(&after.Enum[i]))
		}
		if len(before.Enum) == 0 {
			note(fmt.Errorf("%s allows only %v now", at, allowed))
		}
		for i := range before.Enum {
			if value := text(&before.Enum[i]); !slices.Contains(allowed, value) {
				note(fmt.Errorf("%s does not allow %s any more", at, value))
			}
		}
	}
	for _, limit := range []struct {
		name          string
		before, after *float64
		lower         bool
	}{
		{"minimum", before.Minimum, after.Minimum, true},
		{"maximum", before.Maximum, after.Maximum, false},
		{"minLength", number(before.MinLength), number(after.MinLength), true},
		{"maxLength", number(before.MaxLength), number(after.MaxLength), false},
		{"minItems", number(before.MinItems), number(after.MinItems), true},
		{"maxItems", number(before.MaxItems), number(after.MaxItems), false},
		{"minProperties", number(before.MinProperties), number(after.MinProperties), true},
		{"maxProperties", number(before.MaxProperties), number(after.MaxProperties), false},
	} {
		if limit.after != nil && (limit.before == nil || limit.lower && *limit.after > *limit.before || !limit.lower && *limit.after < *limit.before) {
			note(fmt.Errorf("%s: %s has become tighter", at, limit.name))
		}
	}
	for _, name := range otherChanges(before, after) {
		note(fmt.Errorf("%s: %s has changed", at, name))
	}
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		was, is := before.Properties[name], after.Properties[name]
		if _, found := after.Properties[name]; !found {
			note(fmt.Errorf("%s.%s is gone", at, name))
			continue
		}
		compareSchemas(at+"."+name, &was, &is, note)
	}
	if before.Items != nil && before.Items.Schema != nil && after.Items != nil && after.Items.Schema != nil {
		compareSchemas(at+"[]", before.Items.Schema, after.Items.Schema, note)
	}
	if before.AdditionalProperties != nil && before.AdditionalProperties.Schema != nil && after.AdditionalProperties != nil && after.AdditionalProperties.Schema != nil {
		compareSchemas(at+"{}", before.AdditionalProperties.Schema, after.AdditionalProperties.Schema, note)
	}
}

// otherChanges names a field's differences beyond compareSchemas. Text for people may
// change, but not inside additionalProperties: OLM v1 compares these as a whole.
func otherChanges(before, after *apiextensionsv1.JSONSchemaProps) []string {
	was, is := otherParts(before), otherParts(after)
	var changed []string
	for name := range was {
		if !reflect.DeepEqual(was[name], is[name]) {
			changed = append(changed, name)
		}
	}
	for name := range is {
		if _, found := was[name]; !found {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

func otherParts(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	parts, err := runtime.DefaultUnstructuredConverter.ToUnstructured(schema)
	if err != nil { // a schema that was read from YAML is always an object
		panic(err)
	}
	for _, name := range []string{
		"description", "type", "default", "required", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
		"minProperties", "maxProperties", "properties", "items",
	} {
		delete(parts, name)
	}
	return parts
}

func text(value *apiextensionsv1.JSON) string {
	if value == nil {
		return ""
	}
	return string(value.Raw)
}

func number(value *int64) *float64 {
	if value == nil {
		return nil
	}
	converted := float64(*value)
	return &converted
}
