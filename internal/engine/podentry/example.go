// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podentry

import (
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requirements returns a selector's requirements, sorted by key. The caller handles an empty selector.
func Requirements(selector *metav1.LabelSelector) ([]Requirement, error) {
	requirements := []Requirement{}
	if selector == nil {
		return requirements, nil
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		requirements = append(requirements, Requirement{Key: key, Op: string(metav1.LabelSelectorOpIn), Values: []string{selector.MatchLabels[key]}})
	}
	for _, e := range selector.MatchExpressions {
		requirements = append(requirements, Requirement{Key: e.Key, Op: string(e.Operator), Values: append([]string{}, e.Values...)})
	}
	return requirements, nil
}

// Hold is true if labels fulfill all requirements.
func Hold(requirements []Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r Requirement) bool { return !r.Holds(labels) })
}

// Example invents labels for the requirements, if possible.
func Example(requirements []Requirement) (map[string]string, bool) {
	byKey := map[string][]Requirement{}
	for _, r := range requirements {
		byKey[r.Key] = append(byKey[r.Key], r)
	}
	labels := map[string]string{}
	for key, about := range byKey {
		for _, value := range candidates(about) {
			if Hold(about, map[string]string{key: value}) {
				labels[key] = value
				break
			}
		}
	}
	return labels, Hold(requirements, labels)
}

// candidates are enough values to try for a label; none if it need not exist.
func candidates(about []Requirement) []string {
	is := func(op metav1.LabelSelectorOperator) func(Requirement) bool {
		return func(r Requirement) bool { return r.Op == string(op) }
	}
	if i := slices.IndexFunc(about, is(metav1.LabelSelectorOpIn)); i >= 0 {
		return about[i].Values
	}
	var invented []string
	if slices.ContainsFunc(about, is(metav1.LabelSelectorOpExists)) {
		for _, r := range about {
			for range len(r.Values) + 1 {
				invented = append(invented, "proof-"+strconv.Itoa(len(invented)))
			}
		}
	}
	return invented
}
