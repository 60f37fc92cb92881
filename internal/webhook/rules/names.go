// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import "fmt"

// longestName is the longest name whose pods can surely be created: the label
// controller-revision-hash is <name>-<hash>, a hash has at most 10 characters, a label
// value 63.
const longestName = 52

// LongName warns of a new workload's name too long for its pods.
func LongName(name string) []string {
	if len(name) <= longestName {
		return nil
	}
	return []string{fmt.Sprintf(
		"metadata.name: has %d characters; with more than %d the label controller-revision-hash can become too long for pods to be created",
		len(name), longestName)}
}

// Ignored warns of a field without effect because a feature gate is off.
func Ignored(path, gate string) string {
	return fmt.Sprintf("%s: ignored, because the feature gate %s is off", path, gate)
}
