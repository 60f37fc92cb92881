// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// apiField is a field of spec or status. Types of Kubernetes are one field.
type apiField struct {
	path string // such as spec.updateStrategy.rollingUpdate.partition
	kind string
	text string
}

// api is the page on all fields of all kinds, in the stored version.
func (r *reference) api() string {
	known, err := scheme.New()
	r.errs = append(r.errs, err)
	page := &strings.Builder{}
	page.WriteString("<!-- Written by `make reference` from the types in api/. -->\n# API\n\nThe fields of every kind, in the version that is stored. " +
		"Types of Kubernetes, such as `PodTemplateSpec`, are one field here.\n`kubectl explain` shows the same, in both versions.\n")
	for _, kind := range controllers.Table() {
		crd, fields, err := apiFields(r.root, known, kind)
		r.errs = append(r.errs, err)
		fmt.Fprintf(page, "\n## %s\n\n`%s/%s`, %s. Served: %s.", kind.Name, kind.Group, kind.Storage, strings.ToLower(string(kind.Scope)), strings.Join(kind.Versions, ", "))
		if short := crd.Spec.Names.ShortNames; len(short) > 0 {
			fmt.Fprintf(page, " Short: `%s`.", strings.Join(short, "`, `"))
		}
		page.WriteString("\n\n| Field | Type | Meaning |\n|---|---|---|\n")
		for _, field := range fields {
			fmt.Fprintf(page, "| `%s` | %s | %s |\n", field.path, field.kind, cell(field.text))
		}
	}
	return page.String()
}

// apiFields reads a kind's structure from its Go type, and its fields' meanings from its
// definition.
func apiFields(root string, known *runtime.Scheme, kind kinds.Kind) (crd *apiextensionsv1.CustomResourceDefinition, fields []apiField, err error) {
	text, err := os.ReadFile(filepath.Join(root, definitionFile(kind)))
	crd = &apiextensionsv1.CustomResourceDefinition{}
	if err != nil {
		return crd, nil, err
	}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return crd, nil, err
	}
	object := known.AllKnownTypes()[schema.GroupVersionKind{Group: kind.Group, Version: kind.Storage, Kind: kind.Name}]
	for _, version := range crd.Spec.Versions {
		if version.Name != kind.Storage {
			continue
		}
		for _, part := range []string{"Spec", "Status"} {
			member, found := object.FieldByName(part)
			if !found {
				return crd, nil, fmt.Errorf("%s has no %s", kind.Name, part)
			}
			name := strings.ToLower(part)
			fields = append(fields, within(member.Type, version.Schema.OpenAPIV3Schema.Properties[name], name)...)
		}
	}
	return crd, fields, nil
}

// within are the fields below a path, depth first.
func within(t reflect.Type, s apiextensionsv1.JSONSchemaProps, path string) (fields []apiField) {
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		inner, suffix := elementOf(member.Type)
		if name == "" && strings.Contains(options, "inline") {
			if isOwn(inner) {
				fields = append(fields, within(inner, s, path)...)
			} else {
				fields = append(fields, apiField{path + ".*", inner.Name(), "All fields of a " + inner.Name() + "."})
			}
			continue
		}
		of := s.Properties[name]
		fields = append(fields, apiField{path + "." + name + suffix, typeName(inner, of), meaning(of)})
		if isOwn(inner) {
			fields = append(fields, within(inner, element(of), path+"."+name+suffix)...)
		}
	}
	return fields
}

// elementOf removes pointers, lists and maps from a type; the suffix names them.
func elementOf(t reflect.Type) (inner reflect.Type, suffix string) {
	for {
		switch t.Kind() {
		case reflect.Pointer:
			t = t.Elem()
		case reflect.Slice:
			t, suffix = t.Elem(), suffix+"[]"
		case reflect.Map:
			t, suffix = t.Elem(), suffix+"[key]"
		default:
			return t, suffix
		}
	}
}

func element(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return element(*s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return element(*s.AdditionalProperties.Schema)
	}
	return s
}

// isOwn is true for structs of our API.
func isOwn(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), repository.Module+"/api/")
}

func typeName(t reflect.Type, s apiextensionsv1.JSONSchemaProps) string {
	inner := element(s)
	if len(inner.Enum) > 0 {
		var values []string
		for _, value := range inner.Enum {
			if text := strings.Trim(string(value.Raw), `"`); text != "" {
				values = append(values, "`"+text+"`")
			}
		}
		return strings.Join(values, ", ")
	}
	switch {
	case t.Name() == "IntOrString":
		return "number or text"
	case t.Kind() == reflect.Struct && isOwn(t):
		return "object"
	case t.Kind() == reflect.Struct:
		return t.Name()
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "number"
}

func meaning(s apiextensionsv1.JSONSchemaProps) string {
	text, _, _ := strings.Cut(s.Description, "\n\n")
	if s.Default != nil {
		text += fmt.Sprintf(" Default: `%s`.", s.Default.Raw)
	}
	return text
}
