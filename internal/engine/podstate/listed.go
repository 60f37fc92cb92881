// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import "strings"

// maxListed is how many names are read of the list of SidecarSets on a pod: far more than sets inject into one. Who may create a pod may list a hundred thousand,
// each of which would be looked up with every event of the pod, and take several hundred bytes of an index.
const maxListed = 200

// Listed are the names of SidecarSets that the annotation of a pod lists, in its order.
func Listed(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
		if len(names) == maxListed {
			break
		}
	}
	return names
}
