// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts PodUnavailableBudgets between their versions.
package convert

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// ignoredAnnotation is spec.ignoredPodSelector in v1alpha1, as JSON.
const ignoredAnnotation = "operator.kruise.io/ignored-pod-selector"

const (
	operationsField = "protectOperations"
	totalField      = "protectTotalReplicas"
	ignoredField    = "ignoredPodSelector"
)

// Converter converts budgets: three fields of v1beta1 are annotations in v1alpha1. Annotations that cannot be read stay, and mean
// nothing: a stored budget can always be read. Those without a field stay, too: they are honored in both versions.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("PodUnavailableBudget").GroupKind(), ToV1alpha1: toV1alpha1, FromV1alpha1: fromV1alpha1,
	}
}

func toV1alpha1(o *conversion.Object) error {
	var operations []v1beta1.PubOperation
	if conversion.DecodeShort(o.Spec[operationsField], &operations) && len(operations) > 0 {
		if known, _ := v1beta1.ParseOperations(o.Meta.Annotations[v1beta1.AnnotationProtectOperations]); !slices.Equal(known, operations) {
			words := make([]string, len(operations))
			for i, op := range operations {
				words[i] = string(op)
			}
			o.Annotate(v1beta1.AnnotationProtectOperations, strings.Join(words, ","))
		}
	}
	var total int32
	if conversion.DecodeShort(o.Spec[totalField], &total) && total > 0 {
		o.Annotate(v1beta1.AnnotationProtectTotalReplicas, strconv.Itoa(int(total)))
	}
	if text := o.Spec[ignoredField]; len(text) > 0 && string(text) != "null" && len(text) <= conversion.MaxDecoded {
		o.Annotate(ignoredAnnotation, string(text))
	}
	for _, name := range []string{operationsField, totalField, ignoredField} {
		delete(o.Spec, name)
	}
	return nil
}

func fromV1alpha1(o *conversion.Object) error {
	annotations := o.Meta.Annotations
	if known, _ := v1beta1.ParseOperations(annotations[v1beta1.AnnotationProtectOperations]); len(known) > 0 {
		text, _ := json.Marshal(known) // texts can be encoded
		o.SetSpec(operationsField, text)
	}
	if total, err := strconv.ParseInt(annotations[v1beta1.AnnotationProtectTotalReplicas], 10, 32); err == nil && total > 0 {
		o.SetSpec(totalField, json.RawMessage(strconv.FormatInt(total, 10)))
	}
	var ignored map[string]json.RawMessage
	if text, found := annotations[ignoredAnnotation]; found && conversion.DecodeShort([]byte(text), &ignored) && ignored != nil {
		delete(annotations, ignoredAnnotation)
		o.SetSpec(ignoredField, json.RawMessage(text))
	}
	return nil
}
