// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "fmt"

// LongestName is the longest name whose pods can be created for sure: they carry the label controller-revision-hash with the value
// <name>-<hash>, a hash has at most 10 characters, and a label value at most 63.
const LongestName = 52

// LongName warns of a name longer than LongestName.
func LongName(name string) string {
	return fmt.Sprintf(
		"metadata.name: has %d characters; with more than %d the label controller-revision-hash can become too long for pods to be created",
		len(name), LongestName)
}
