// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// overlap reports whether some pod may match both sets. A set without a selector matches none.
func overlap(a, b *appsv1beta1.SidecarSetSpec) bool {
	return a.Selector != nil && b.Selector != nil && together(a.Selector, b.Selector) && together(a.NamespaceSelector, b.NamespaceSelector)
}

// together reports whether some labels match both selectors. nil matches all.
func together(a, b *metav1.LabelSelector) bool {
	byKey := map[string]*values{}
	for _, selector := range []*metav1.LabelSelector{a, b} {
		if selector == nil {
			continue
		}
		for key, value := range selector.MatchLabels {
			valuesOf(byKey, key).in([]string{value})
		}
		for _, r := range selector.MatchExpressions {
			valuesOf(byKey, r.Key).require(r)
		}
	}
	for _, v := range byKey {
		if !v.possible() {
			return false
		}
	}
	return true
}

// values are the label values left by some requirements.
type values struct {
	// must and mustNot: the label has to be present, or absent.
	must, mustNot bool
	// limited: only the values in among are left. without are excluded.
	limited        bool
	among, without []string
}

func valuesOf(all map[string]*values, key string) *values {
	if all[key] == nil {
		all[key] = &values{}
	}
	return all[key]
}

func (v *values) require(r metav1.LabelSelectorRequirement) {
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		v.in(r.Values)
	case metav1.LabelSelectorOpNotIn:
		v.without = append(v.without, r.Values...)
	case metav1.LabelSelectorOpExists:
		v.must = true
	case metav1.LabelSelectorOpDoesNotExist:
		v.mustNot = true
	}
}

func (v *values) in(among []string) {
	v.must = true
	if !v.limited {
		v.limited, v.among = true, slices.Clone(among)
		return
	}
	allowed := sets.New(among...)
	v.among = slices.DeleteFunc(v.among, func(value string) bool { return !allowed.Has(value) })
}

// possible reports whether some label fits. Unlimited values never run out.
func (v *values) possible() bool {
	if v.mustNot {
		return !v.must
	}
	if !v.limited {
		return true
	}
	without := sets.New(v.without...)
	return slices.ContainsFunc(v.among, func(value string) bool { return !without.Has(value) })
}
