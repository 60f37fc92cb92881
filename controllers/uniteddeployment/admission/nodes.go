// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// validateNodes requires a term for a pod's node affinity. matchFields are refused: they have never
// had an effect.
func validateNodes(term *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	errs := rules.NodeSelectorTerm(&corev1.NodeSelectorTerm{MatchExpressions: term.MatchExpressions}, path)
	if len(term.MatchFields) > 0 {
		errs = append(errs, field.Forbidden(path.Child("matchFields"), "has no effect; use matchExpressions"))
	}
	return errs
}

// compares: a toleration compares numbers. API servers take these behind a feature gate, so only
// they can tell.
func compares(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
}
