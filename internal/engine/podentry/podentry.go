// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podentry has the parts of selectors common to all webhooks' entries and policies for new pods.
package podentry

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// BypassLabel with the value BypassValue, on a pod or on its namespace, keeps every pod webhook and policy of ours away.
	BypassLabel = shared.LabelAdmission
	// BypassValue is the value of BypassLabel.
	BypassValue = "bypass"
	// MirrorAnnotation is on the kubelets' mirrors of their own pods.
	MirrorAnnotation = "kubernetes.io/config.mirror"
)

// Requirement is one of a label selector.
type Requirement struct {
	Key string `json:"key"`
	// Op is In, NotIn, Exists or DoesNotExist.
	Op     string   `json:"op"`
	Values []string `json:"values"`
}

// String is for messages.
func (r Requirement) String() string { return fmt.Sprintf("%s %s %v", r.Key, r.Op, r.Values) }

// Holds says whether labels fulfill the requirement.
func (r Requirement) Holds(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch metav1.LabelSelectorOperator(r.Op) {
	case metav1.LabelSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpExists:
		return has
	case metav1.LabelSelectorOpDoesNotExist:
		return !has
	}
	return false
}

// Selector is the label selector with these requirements. Without any it is empty, and selects everything.
func Selector(requirements []Requirement) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for _, r := range requirements {
		e := metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Op), Values: slices.Clone(r.Values)}
		selector.MatchExpressions = append(selector.MatchExpressions, e)
	}
	return selector
}

// NamespaceExclusions keep every set away from namespaces independent of the operator.
func NamespaceExclusions(operator string) []Requirement {
	exempt := []string{metav1.NamespaceSystem}
	if operator != "" && operator != metav1.NamespaceSystem {
		exempt = append(exempt, operator)
	}
	slices.Sort(exempt)
	return []Requirement{{Key: corev1.LabelMetadataName, Op: string(metav1.LabelSelectorOpNotIn), Values: exempt}, Bypass()}
}

// Bypass requires that the break-glass label is not set.
func Bypass() Requirement {
	return Requirement{Key: BypassLabel, Op: string(metav1.LabelSelectorOpNotIn), Values: []string{BypassValue}}
}

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
