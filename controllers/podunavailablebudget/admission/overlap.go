// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// overlap is true if both selectors have the same keys, and for each key some value, or its absence, suits both.
// Selectors of other keys may overlap unseen, as in OpenKruise: the older budget protects such pods.
func overlap(a, b *metav1.LabelSelector) bool {
	first, second := byKey(a), byKey(b)
	if !maps.EqualFunc(first, second, func(labels.Requirements, labels.Requirements) bool { return true }) {
		return false
	}
	for key := range first {
		if !compatible(key, append(first[key], second[key]...)) {
			return false
		}
	}
	return true
}

func byKey(s *metav1.LabelSelector) map[string]labels.Requirements {
	keys := map[string]labels.Requirements{}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return keys
	}
	all, _ := selector.Requirements()
	for _, r := range all {
		keys[r.Key()] = append(keys[r.Key()], r)
	}
	return keys
}

// compatible tries a missing label, each value that is named, and one that nobody names.
func compatible(key string, all labels.Requirements) bool {
	values := sets.New("\x00")
	for _, r := range all {
		if r.Operator() == selection.In || r.Operator() == selection.NotIn || r.Operator() == selection.Equals {
			values = values.Union(sets.Set[string](r.Values()))
		}
	}
	tries := []labels.Set{{}}
	for value := range values {
		tries = append(tries, labels.Set{key: value})
	}
	for _, try := range tries {
		fits := true
		for i := range all {
			fits = fits && all[i].Matches(try)
		}
		if fits {
			return true
		}
	}
	return false
}
