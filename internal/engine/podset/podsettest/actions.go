// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// EditOf is the edit of an action; zero for nothing, and for other objects.
func EditOf(a planning.Action) edit.Edit {
	e, _ := a.Change.(edit.Edit)
	return e
}

// ClaimOf is the claim of an action; nil for other objects.
func ClaimOf(a planning.Action) *corev1.PersistentVolumeClaim {
	claim, _ := a.Object.(*corev1.PersistentVolumeClaim)
	return claim
}

// ClaimsOf are the claims of an action, alone or before its pod.
func ClaimsOf(a planning.Action) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, before := range a.Before {
		if claim := ClaimOf(before); claim != nil {
			claims = append(claims, claim)
		}
	}
	if a.Step == podset.StepCreateClaim {
		claims = append(claims, ClaimOf(a))
	}
	return claims
}
