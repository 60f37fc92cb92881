// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// Differences names the fields in which two values differ, for a message: "containers[0].imagePullPolicy".
func Differences(was, is any) []string {
	before, err := json.Marshal(was)
	if err != nil {
		return []string{"fields that cannot be compared"}
	}
	after, err := json.Marshal(is)
	if err != nil {
		return []string{"fields that cannot be compared"}
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return []string{"fields that cannot be compared"}
	}
	var names []string
	for _, operation := range operations {
		var name strings.Builder
		for part := range strings.SplitSeq(strings.TrimPrefix(operation.Path, "/"), "/") {
			part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
			if _, err := strconv.Atoi(part); err == nil {
				name.WriteString("[" + part + "]")
				continue
			}
			if name.Len() > 0 {
				name.WriteString(".")
			}
			name.WriteString(part)
		}
		names = append(names, name.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
