// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts WorkloadSpreads between their versions.
package convert

import (
	"encoding/json"
	"fmt"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// maxStored is more than an etcd takes of an object, in bytes.
const maxStored = 3 << 19

// Converter converts WorkloadSpreads. Two fields of subsets have other names in v1alpha1, and an empty reason of a subset's
// condition there is Unknown in v1beta1.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("WorkloadSpread").GroupKind(),
		ToV1alpha1: func(o *conversion.Object) error {
			return renamed(o, map[string]string{"requiredNodeSelector": "requiredNodeSelectorTerm", "preferredNodeSelector": "preferredNodeSelectorTerms"})
		},
		FromV1alpha1: func(o *conversion.Object) error {
			if err := withReasons(o); err != nil {
				return err
			}
			return renamed(o, map[string]string{"requiredNodeSelectorTerm": "requiredNodeSelector", "preferredNodeSelectorTerms": "preferredNodeSelector"})
		},
	}
}

// renamed renames fields of subsets.
func renamed(o *conversion.Object, names map[string]string) error {
	subsets, found, err := tree(o.Spec, "spec", "subsets")
	if err != nil || !found {
		return err
	}
	list, _ := subsets.([]any)
	for _, entry := range list {
		subset, _ := entry.(map[string]any)
		for from, to := range names {
			if value, has := subset[from]; has {
				delete(subset, from)
				subset[to] = value
			}
		}
	}
	return put(o.Spec, "subsets", subsets)
}

// withReasons fills in missing reasons.
func withReasons(o *conversion.Object) error {
	value, found, err := tree(o.Top, "", conversion.StatusField)
	if err != nil || !found {
		return err
	}
	status, _ := value.(map[string]any)
	fillReasons(status["subsetStatuses"])
	versions, _ := status["versionedSubsetStatuses"].(map[string]any)
	for _, subsets := range versions {
		fillReasons(subsets)
	}
	return put(o.Top, conversion.StatusField, value)
}

func fillReasons(subsets any) {
	list, _ := subsets.([]any)
	for _, entry := range list {
		subset, _ := entry.(map[string]any)
		conditions, _ := subset["conditions"].([]any)
		for _, c := range conditions {
			condition, isObject := c.(map[string]any)
			if !isObject {
				continue
			}
			if reason, isText := condition["reason"].(string); condition["reason"] == nil || isText && reason == "" {
				condition["reason"] = "Unknown"
			}
		}
	}
}

// tree is a member as JSON.
func tree(in conversion.Members, path, name string) (value any, found bool, err error) {
	text, found := in[name]
	if !found {
		return nil, false, nil
	}
	if len(text) > maxStored {
		return nil, false, fmt.Errorf("%s.%s has %d bytes, at most %d can be stored", path, name, len(text), maxStored)
	}
	if value, err = conversion.Tree(text); err != nil {
		return nil, false, fmt.Errorf("%s.%s: %w", path, name, err)
	}
	return value, true, nil
}

func put(in conversion.Members, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	in[name] = text
	return nil
}
