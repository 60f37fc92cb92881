// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// Check says what is wrong with a share for any provider; path is that of the step.
func Check(share Share, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if w := share.Weight; w != nil && (*w < 0 || *w > 100) {
		errs = append(errs, field.Invalid(path.Child("traffic"), *w, "must be from 0% to 100%"))
	}
	for i, match := range share.Matches {
		at := path.Child("matches").Index(i)
		if match.Path == nil && len(match.Headers)+len(match.QueryParams) == 0 {
			errs = append(errs, field.Required(at, "a path, a header or a query parameter"))
		}
		errs = append(errs, checkPath(match.Path, at.Child("path"))...)
		errs = append(errs, checkNamed(match.Headers, at.Child("headers"), strings.ToLower)...)
		errs = append(errs, checkNamed(match.QueryParams, at.Child("queryParams"), func(name string) string { return name })...)
	}
	return append(errs, checkHeaders(share.Headers, path.Child("requestHeaderModifier"))...)
}

func checkType(kind *string, path *field.Path, allowed ...string) field.ErrorList {
	if kind == nil || *kind == "" || slices.Contains(allowed, *kind) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path.Child("type"), *kind, allowed)}
}

func checkPath(path *v1beta1.HTTPMatch, at *field.Path) field.ErrorList {
	if path == nil {
		return nil
	}
	errs := checkType(path.Type, at, "Exact", "PathPrefix", "RegularExpression")
	if path.Value != nil && !strings.HasPrefix(*path.Value, "/") && (path.Type == nil || *path.Type != "RegularExpression") {
		errs = append(errs, field.Invalid(at.Child("value"), *path.Value, "must begin with /"))
	}
	return errs
}

// checkNamed: each name stands once in a match.
func checkNamed(all []v1beta1.HTTPNamedMatch, at *field.Path, fold func(string) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, m := range all {
		errs = append(errs, checkType(m.Type, at.Index(i), "Exact", "RegularExpression")...)
		switch name := fold(m.Name); {
		case name == "":
			errs = append(errs, field.Required(at.Index(i).Child("name"), "what is compared"))
		case seen[name]:
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), m.Name))
		default:
			seen[name] = true
		}
	}
	return errs
}

func checkHeaders(filter *v1beta1.HTTPHeaderFilter, at *field.Path) field.ErrorList {
	if filter == nil {
		return nil
	}
	var errs field.ErrorList
	name := func(name string, at *field.Path) {
		for _, fault := range validation.IsHTTPHeaderName(name) {
			errs = append(errs, field.Invalid(at, name, fault))
		}
	}
	for i, h := range filter.Set {
		name(h.Name, at.Child("set").Index(i).Child("name"))
	}
	for i, h := range filter.Add {
		name(h.Name, at.Child("add").Index(i).Child("name"))
	}
	for i, h := range filter.Remove {
		name(h, at.Child("remove").Index(i))
	}
	if len(filter.Set)+len(filter.Add)+len(filter.Remove) == 0 {
		errs = append(errs, field.Required(at, "headers to set, add or remove"))
	}
	return errs
}
