// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"
)

// First joins the first few parts of a message and says how many there are beside them, if any: "a, b and 3 more" with the separator ", ", and
// "a; b; and 3 more" with "; ". Messages are read by people, and lists in them have a limit.
func First(parts []string, most int, separator string) string {
	if len(parts) <= most {
		return strings.Join(parts, separator)
	}
	return fmt.Sprintf("%s%s and %d more", strings.Join(parts[:most], separator), strings.TrimRight(separator, ", "), len(parts)-most)
}
