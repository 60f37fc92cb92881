// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarspec

import "slices"

// openKruise is the namespace in which OpenKruise keeps the revisions of SidecarSets.
const openKruise = "kruise-system"

// RevisionNamespaces are the namespaces whose revisions of SidecarSets count: that of the operator, and the one in which OpenKruise may have left some.
// In any other namespace its users may have written them, any number of them, and could so decide what is injected into the pods of others.
func RevisionNamespaces(operator string) []string {
	if operator == openKruise {
		return []string{operator}
	}
	return []string{operator, openKruise}
}

// HasRevisions says that the revisions of SidecarSets in a namespace count for an operator whose own namespace is operator: see RevisionNamespaces.
func HasRevisions(namespace, operator string) bool {
	return slices.Contains(RevisionNamespaces(operator), namespace)
}
