// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxDifferences is how many fields Differences names.
const maxDifferences = 10

// Differences names the first fields in which two values differ, for a message:
// "containers[0].imagePullPolicy".
func Differences(was, is any) string {
	before, errBefore := asJSON(was)
	after, errAfter := asJSON(is)
	if errBefore != nil || errAfter != nil {
		return "fields that cannot be compared"
	}
	var found differences
	found.compare("", before, after)
	names := slices.Compact(found)
	if len(names) > maxDifferences {
		names[maxDifferences] = fmt.Sprintf("%d more fields", len(names)-maxDifferences)
		names = names[:maxDifferences+1]
	}
	return strings.Join(names, ", ")
}

func asJSON(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var result any
	err = json.Unmarshal(text, &result)
	return result, err
}

type differences []string

// compare adds the paths below path at which two values differ, sorted. Surplus members of
// the longer list are one difference.
func (d *differences) compare(path string, before, after any) {
	was, wasObject := before.(map[string]any)
	is, isObject := after.(map[string]any)
	if wasObject && isObject {
		both := maps.Clone(was)
		maps.Copy(both, is)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			at := name
			if path != "" {
				at = path + "." + name
			}
			_, had := was[name]
			_, has := is[name]
			if had != has {
				*d = append(*d, at)
				continue
			}
			d.compare(at, was[name], is[name])
		}
		return
	}
	wasItems, wasList := before.([]any)
	isItems, isList := after.([]any)
	if wasList && isList {
		common := min(len(wasItems), len(isItems))
		for i := range common {
			d.compare(fmt.Sprintf("%s[%d]", path, i), wasItems[i], isItems[i])
		}
		if len(wasItems) != len(isItems) {
			*d = append(*d, fmt.Sprintf("%s[%d]", path, common))
		}
		return
	}
	if !reflect.DeepEqual(before, after) {
		*d = append(*d, path)
	}
}
