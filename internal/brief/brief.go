// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package brief shortens texts for people.
package brief

import "strings"

// Text is the beginning of a text, so that it has at most so many bytes, with a mark for the rest.
func Text(text string, most int) string {
	const rest = "..."
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(rest)], "") + rest
}
