// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts CloneSets between their versions.
package convert

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

const (
	scaleField   = "scaleStrategy"
	updateField  = "updateStrategy"
	excludeField = "excludePreparingDelete"
	enableReuse  = "enablePVCReuse"
	disableReuse = "disablePVCReuse"
)

// maxStored is more than an etcd takes of an object, in bytes, unless somebody allowed it more. What is longer comes from a client and may be refused.
const maxStored = 3 << 19

// Converter converts CloneSets. The versions differ in the two strategies, a label, and the annotations about pulling images ahead. Values are moved as they
// are, of a wrong type too: conversion comes before the schema, which refuses them by the name that the client knows.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("CloneSet").GroupKind(), ToV1alpha1: toV1alpha1, FromV1alpha1: fromV1alpha1,
	}
}

func toV1alpha1(o *conversion.Object) error {
	kept := conversion.Take[fields, fields](o, v1alpha1.GroupVersion())
	is, scale, err := read(o)
	if err != nil {
		return err
	}
	members, _ := scale.(map[string]any)
	is.ExcludePreparingDelete, _ = members[excludeField].(bool)
	will := lower(is)
	if kept != nil {
		rebased, err := conversion.Rebase(kept.Fields.withType(), lower(kept.Shown), will)
		if err != nil {
			return err
		}
		if kept.Fields.onDelete() != will.onDelete() {
			rebased.UpdateStrategy = will.UpdateStrategy // the kept fields are about a strategy that is gone
		}
		will = rebased
	}
	delete(members, excludeField)
	write(o, opposite(scale, enableReuse, disableReuse), will)
	if equality.Semantic.DeepEqual(raise(will), is) {
		return nil
	}
	return conversion.Keep(o, v1beta1.GroupVersion(), is, will)
}

func fromV1alpha1(o *conversion.Object) error {
	kept := conversion.Take[fields, fields](o, v1beta1.GroupVersion())
	is, scale, err := read(o)
	if err != nil {
		return err
	}
	is = is.withType()
	will := raise(is)
	if kept != nil {
		original, shown := kept.Fields, kept.Shown
		rebased, err := conversion.Rebase(original, raiseWhole(shown), raiseWhole(is))
		if err != nil {
			return err
		}
		if !original.sharesStrategyWith(is) {
			rebased.UpdateStrategy = will.UpdateStrategy
		}
		rebased.ExcludeLabel, rebased.ExcludePreparingDelete = is.ExcludeLabel, original.ExcludePreparingDelete
		if is.ExcludeLabel != shown.ExcludeLabel {
			rebased.ExcludePreparingDelete = will.ExcludePreparingDelete
		}
		will = rebased
	}
	scale = opposite(scale, disableReuse, enableReuse)
	if members, isObject := scale.(map[string]any); isObject {
		delete(members, excludeField)
		if will.ExcludePreparingDelete {
			members[excludeField] = true
		}
	}
	write(o, scale, will)
	if equality.Semantic.DeepEqual(lower(will), is) {
		return nil
	}
	return conversion.Keep(o, v1alpha1.GroupVersion(), is, will)
}

// read returns what the versions say otherwise, and scaleStrategy, as JSON.
func read(o *conversion.Object) (is fields, scale any, err error) {
	is = fields{ExcludeLabel: o.Meta.Labels[v1alpha1.LabelExcludePreparingDelete]}
	for _, key := range preDownload() {
		if value, found := o.Meta.Annotations[key.annotation]; found {
			is.annotate(key.annotation, value)
		}
	}
	for name, into := range map[string]*any{scaleField: &scale, updateField: &is.UpdateStrategy} {
		if len(o.Spec[name]) > maxStored {
			return is, nil, fmt.Errorf("spec.%s has %d bytes, at most %d can be stored", name, len(o.Spec[name]), maxStored)
		}
		if *into, err = conversion.Tree(o.Spec[name]); err != nil {
			return is, nil, fmt.Errorf("spec.%s: %w", name, err)
		}
	}
	if scale == nil {
		scale = map[string]any{}
	}
	return is, scale, nil
}

// opposite renames a choice whose name says the opposite in the other version. What is neither true nor false has no opposite.
func opposite(scale any, from, to string) any {
	members, isObject := scale.(map[string]any)
	if !isObject {
		return scale
	}
	value := members[from]
	delete(members, from)
	switch value {
	case nil, false:
		members[to] = true
	case true:
	default:
		members[to] = value
	}
	return members
}

// write makes the strategies and annotations of the object the given ones.
func write(o *conversion.Object, scale any, will fields) {
	for _, key := range preDownload() {
		delete(o.Meta.Annotations, key.annotation)
	}
	for key, value := range will.Annotations {
		o.Annotate(key, value)
	}
	if o.Spec == nil {
		return
	}
	for name, value := range map[string]any{scaleField: scale, updateField: will.UpdateStrategy} {
		if value == nil {
			delete(o.Spec, name)
		} else {
			o.Spec[name], _ = json.Marshal(value) // it was decoded
		}
	}
}
