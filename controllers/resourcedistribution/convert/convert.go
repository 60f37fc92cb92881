// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts ResourceDistributions between their versions.
package convert

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts ResourceDistributions. Two fields have other names in v1alpha1; everything else passes through as it is.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("ResourceDistribution").GroupKind(),
		ToV1alpha1: func(o *conversion.Object) error {
			return rename(o, selectorV1beta1, selectorV1alpha1, failedV1beta1, failedV1alpha1)
		},
		FromV1alpha1: func(o *conversion.Object) error {
			return rename(o, selectorV1alpha1, selectorV1beta1, failedV1alpha1, failedV1beta1)
		},
	}
}

const (
	targetsField     = "targets"
	conditionsField  = "conditions"
	selectorV1alpha1 = "namespaceLabelSelector"
	selectorV1beta1  = "namespaceSelector"
	failedV1alpha1   = "failedNamespace"
	failedV1beta1    = "failedNamespaces"
)

// rename renames the selector of the targets, and the namespaces of the conditions.
func rename(o *conversion.Object, selectorFrom, selectorTo, failedFrom, failedTo string) error {
	if targets, isObject := conversion.MembersOf(o.Spec[targetsField]); isObject && move(targets, selectorFrom, selectorTo) {
		if err := put(o.Spec, targetsField, targets); err != nil {
			return err
		}
	}
	status, isObject := conversion.MembersOf(o.Top[conversion.StatusField])
	var list []json.RawMessage
	if !isObject || json.Unmarshal(status[conditionsField], &list) != nil {
		return nil
	}
	changed := false
	for i := range list {
		if condition, isObject := conversion.MembersOf(list[i]); isObject && move(condition, failedFrom, failedTo) {
			text, err := json.Marshal(condition)
			if err != nil {
				return err
			}
			list[i], changed = text, true
		}
	}
	if !changed {
		return nil
	}
	if err := put(status, conditionsField, list); err != nil {
		return err
	}
	return put(o.Top, conversion.StatusField, status)
}

// move renames a member, if there is one. A member of the new name is a stranger's, and goes.
func move(members conversion.Members, from, to string) (changed bool) {
	value, found := members[from]
	_, stranger := members[to]
	delete(members, from)
	delete(members, to)
	if found {
		members[to] = value
	}
	return found || stranger
}

func put(members conversion.Members, name string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		members[name] = text
	}
	return err
}
