// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"slices"
	"strings"
)

// ParseOperations reads the annotation kruise.io/pub-protect-operations: the known operations in it, and the other words.
func ParseOperations(text string) (known []PubOperation, unknown []string) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
		case slices.Contains(Operations(), PubOperation(word)):
			known = append(known, PubOperation(word))
		default:
			unknown = append(unknown, word)
		}
	}
	return known, unknown
}

// Operations are all that a budget can protect.
func Operations() []PubOperation {
	return []PubOperation{PubDeleteOperation, PubUpdateOperation, PubEvictOperation, PubResizeOperation}
}
