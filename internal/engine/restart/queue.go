// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"cmp"
	"slices"
	"strings"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Over is a request with nothing left to do: completed, or being deleted.
func Over(r *appsv1beta1.ContainerRecreateRequest) bool {
	switch r.Status.Phase {
	case appsv1beta1.RecreateCompleted, appsv1beta1.RecreateSucceeded, appsv1beta1.RecreateFailed:
		return true
	}
	return r.DeletionTimestamp != nil
}

// Queue returns the open requests for one pod in their order: the running one, then waiting ones,
// then new ones; each by age, and then by name.
func Queue(all []*appsv1beta1.ContainerRecreateRequest) []*appsv1beta1.ContainerRecreateRequest {
	waiting := slices.DeleteFunc(slices.Clone(all), Over)
	slices.SortFunc(waiting, func(a, b *appsv1beta1.ContainerRecreateRequest) int {
		return cmp.Or(
			rank(b.Status.Phase)-rank(a.Status.Phase),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
	return waiting
}

// rank orders phases: the higher one goes first.
func rank(phase appsv1beta1.ContainerRecreateRequestPhase) int {
	return slices.Index([]appsv1beta1.ContainerRecreateRequestPhase{appsv1beta1.RecreatePending, appsv1beta1.RecreateRecreating}, phase)
}
