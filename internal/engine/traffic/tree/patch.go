// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

// Patch is the merge patch from one state of an object to another; empty: they are the same.
func Patch(before, after map[string]any) map[string]any {
	changes := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			changes[key] = nil
		}
	}
	for key, now := range after {
		was, had := before[key]
		oldMap, wasMap := was.(map[string]any)
		newMap, isMap := now.(map[string]any)
		switch {
		case had && Same(was, now):
		case wasMap && isMap:
			changes[key] = Patch(oldMap, newMap)
		default:
			changes[key] = now
		}
	}
	return changes
}
