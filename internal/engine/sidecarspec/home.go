// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarspec

// openKruise is the namespace in which OpenKruise keeps the revisions of SidecarSets.
const openKruise = "kruise-system"

// HasRevisions says that the revisions of SidecarSets in a namespace are those of an operator whose own namespace is operator, or what OpenKruise left
// it. Elsewhere anybody may have written them, who could so decide what is injected into the pods of others.
func HasRevisions(namespace, operator string) bool {
	return namespace == operator || namespace == openKruise
}
