// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/convert"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Value is the kind BatchRelease for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its workloads and pods are those of others, read past the cache.
		Entry: kinds.Kind{
			Name: plan.Kind().Kind, Plural: "batchreleases", Group: plan.Kind().Group,
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "batchrelease-workers", Workers: 10, Users: kinds.Edit,
		},
		Name:    Name,
		Setup:   Setup,
		Convert: convert.Converter,
	}
}
