// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Kinds is a table of workloads with these names, for layers that do not know the real one.
func Kinds(names ...string) kinds.Table {
	var table kinds.Table
	for _, name := range names {
		lower := strings.ToLower(name)
		table = append(table, kinds.Kind{
			Name: name, Plural: lower + "s", Group: "apps.kruise.io", Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: lower + "-workers", Protected: true,
		})
	}
	return table
}
