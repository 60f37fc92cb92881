// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarspec

import "slices"

// openKruise is OpenKruise's namespace for revisions of SidecarSets.
const openKruise = "kruise-system"

// RevisionNamespaces may hold revisions of SidecarSets: the operator's, and OpenKruise's
// with old ones. Users may write any number elsewhere, and would decide over others' pods.
func RevisionNamespaces(operator string) []string {
	if operator == openKruise {
		return []string{operator}
	}
	return []string{operator, openKruise}
}

// HasRevisions reports whether revisions of SidecarSets in the namespace count: see RevisionNamespaces.
func HasRevisions(namespace, operator string) bool {
	return slices.Contains(RevisionNamespaces(operator), namespace)
}
