// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

// weight is about how many bytes it takes to copy a JSON value and to write it as text. Long lists weigh more: patching one compares its items with each other.
func weight(value any) int {
	const item, object = 64, 320
	switch value := value.(type) {
	case string:
		return len(value)
	case []any:
		total := item*len(value) + len(value)*len(value)
		for _, inner := range value {
			total += weight(inner)
		}
		return total
	case map[string]any:
		total := object + item*len(value)
		for key, inner := range value {
			total += len(key) + weight(inner)
		}
		return total
	}
	return 0
}
