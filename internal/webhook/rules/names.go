// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import "fmt"

// longestName is the longest name whose pods can be created for sure: they carry the label controller-revision-hash with the value
// <name>-<hash>, a hash has at most 10 characters, and a label value at most 63.
const longestName = 52

// LongName warns of the name of a new workload with which pods may not be created.
func LongName(name string) []string {
	if len(name) <= longestName {
		return nil
	}
	return []string{fmt.Sprintf(
		"metadata.name: has %d characters; with more than %d the label controller-revision-hash can become too long for pods to be created",
		len(name), longestName)}
}

// Ignored warns of a field that has no effect because a feature gate is off.
func Ignored(path, gate string) string {
	return fmt.Sprintf("%s: ignored, because the feature gate %s is off", path, gate)
}
