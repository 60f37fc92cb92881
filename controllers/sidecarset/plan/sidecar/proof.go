// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// ProofLabel is on pods that are created for a dry run only, to see whether they are injected. Its value is the way that is to be proven,
// and keeps the other one away.
const (
	ProofLabel   = "operator.kruise.io/injection-proof"
	ProofPolicy  = "policy"
	ProofWebhook = "webhook"
)

// ProvesOnly is the requirement that a pod is not there to prove the other way.
func ProvesOnly(other string) podentry.Requirement {
	return podentry.Requirement{Key: ProofLabel, Op: string(metav1.LabelSelectorOpNotIn), Values: []string{other}}
}

// ExampleLabels are labels that fulfill the requirements, if some can be made up.
func ExampleLabels(requirements []podentry.Requirement) (map[string]string, bool) {
	labels := map[string]string{}
	for _, r := range requirements {
		var candidates []string
		switch metav1.LabelSelectorOperator(r.Op) {
		case metav1.LabelSelectorOpIn:
			candidates = r.Values
		case metav1.LabelSelectorOpExists:
			candidates = []string{"proof", "other"}
		default:
			continue
		}
		if _, has := labels[r.Key]; has {
			continue
		}
		for _, value := range candidates {
			about := slices.DeleteFunc(slices.Clone(requirements), func(o podentry.Requirement) bool { return o.Key != r.Key })
			if hold(about, map[string]string{r.Key: value}) {
				labels[r.Key] = value
				break
			}
		}
	}
	return labels, hold(requirements, labels)
}

// maxExamples is how many labels Examples are at most.
const maxExamples = 20

// Examples are sets of labels that fulfill the requirements; none when no such labels can be made up. The further ones have other values that a requirement
// lists: a canary may take the pods with one of them.
func Examples(requirements []podentry.Requirement) []map[string]string {
	first, possible := ExampleLabels(requirements)
	if !possible {
		return nil
	}
	all := []map[string]string{first}
	for _, r := range requirements {
		if metav1.LabelSelectorOperator(r.Op) != metav1.LabelSelectorOpIn {
			continue
		}
		for _, value := range r.Values {
			labels := maps.Clone(first)
			labels[r.Key] = value
			if value != first[r.Key] && len(all) < maxExamples && hold(requirements, labels) {
				all = append(all, labels)
			}
		}
	}
	return all
}

// Missing compares a pod with what it should have been given, and returns paths, empty when there is none. lacks is something that is not there: then
// nothing injected, or not all of it. changed is a value that is another one: only the mark of the revision proves who wrote it, so others that change
// pods after us, for instance to use a mirror of the registry, are no reason to doubt the injection. More is allowed everywhere: other sets, and what
// the API server fills in. Of the metadata only the entry of this set in the hash annotation is compared.
func (i Injection) Missing(want, have map[string]any) (lacks, changed string) {
	of := func(pod map[string]any) map[string]string { return stringsAt(pod, "metadata", "annotations") }
	for at := range i.Variants {
		if v := &i.Variants[at]; v.marked(of(want)) && !v.marked(of(have)) {
			return "metadata.annotations[" + HashAnnotation + "]", ""
		}
	}
	return missing(want["spec"], have["spec"], "spec")
}

func missing(want, have any, path string) (lacks, changed string) {
	switch want := want.(type) {
	case nil:
		return "", ""
	case map[string]any:
		fields, is := have.(map[string]any)
		if !is {
			if len(want) == 0 && have == nil {
				return "", ""
			}
			return path, ""
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			lack, other := missing(want[key], fields[key], path+"."+key)
			if lack != "" {
				return lack, ""
			}
			changed = cmp.Or(changed, other)
		}
		return "", changed
	case []any:
		list, _ := have.([]any)
		return missingItems(want, list, path)
	}
	switch {
	case have == nil:
		return path, ""
	case fmt.Sprint(want) == fmt.Sprint(have) || quantity.Same(want, have):
		return "", ""
	}
	return "", path
}

// missingItems says which item of want is not among have, where the order must be the same. Items of one name may differ in their values.
func missingItems(want, have []any, path string) (lacks, changed string) {
	at := 0
	for n, item := range want {
		within := path + "[" + strconv.Itoa(n) + "]"
		found, lack, other := -1, within, ""
		for k := at; k < len(have); k++ {
			if nameOf(item) != nameOf(have[k]) {
				continue
			}
			lacking, differing := missing(item, have[k], within)
			if lacking == "" && differing == "" {
				found, other = k, ""
				break
			}
			if lacking == "" && found < 0 {
				found, other = k, differing
			}
			if lacking != "" {
				lack = lacking
			}
		}
		if found < 0 {
			return lack, ""
		}
		at, changed = found+1, cmp.Or(changed, other)
	}
	return "", changed
}
