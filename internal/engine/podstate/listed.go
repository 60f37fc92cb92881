// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import "strings"

// maxListed is the number of names to read from a pod's list of SidecarSets: far more than sets
// inject into one. The creator of a pod may list a hundred thousand. Each would be looked up with
// every event of the pod, and take several hundred bytes of an index.
const maxListed = 200

// Listed are the names in a pod's annotation of SidecarSets, in its order.
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
