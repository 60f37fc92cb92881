// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// WhyNone says why no node fits: how many nodes there are for each of the most frequent reasons, three reasons at most. reasons has one entry for
// each node; it completes "the node ...".
func WhyNone(reasons []string) string {
	if len(reasons) == 0 {
		return "the cluster has no node."
	}
	const most = 3
	count := map[string]int{}
	for _, reason := range reasons {
		count[reason]++
	}
	sorted := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, reason := range sorted[:min(len(sorted), most)] {
		texts = append(texts, fmt.Sprintf("%d of %d because the node %s", count[reason], len(reasons), reason))
	}
	return strings.Join(texts, "; ") + "."
}
