// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Introduced returns the errs not in known. An error is known if its text is at the same
// place, or at another place of a list whose items may have moved.
func Introduced(errs, known field.ErrorList) field.ErrorList {
	return introduced(errs, known, func(e *field.Error) fault { return fault{e.Field, e.ErrorBody()} })
}

// IntroducedBy returns the faults of o by a check, without those of old. Old is nil for a new object.
func IntroducedBy[T any](check func(*T) field.ErrorList, o, old *T) field.ErrorList {
	errs := check(o)
	if len(errs) > 0 && old != nil {
		errs = Introduced(errs, check(old))
	}
	return errs
}

// fault is a field and the fault in words.
type fault struct{ field, text string }

// introduced is Introduced for any type. of identifies a fault.
func introduced[S ~[]E, E any](found, known S, of func(E) fault) S {
	if len(found) == 0 || len(known) == 0 {
		return found
	}
	stored := make(map[fault]bool, len(known))
	for _, one := range known {
		stored[of(one)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(found), func(one E) bool { return stored[of(one)] })
	if len(rest) == 0 || len(known) > maxMoved {
		return rest
	}
	moved := make(map[fault]int, len(known))
	for _, one := range known {
		moved[of(one).anywhere()]++
	}
	for _, one := range found {
		if stored[of(one)] {
			moved[of(one).anywhere()]--
		}
	}
	return slices.DeleteFunc(rest, func(one E) bool {
		there := of(one).anywhere()
		moved[there]--
		return moved[there] >= 0
	})
}

// anywhere is the fault wherever in lists its field is.
func (f fault) anywhere() fault {
	var path strings.Builder
	for i, part := range strings.Split(f.field, "[") {
		index, rest, found := strings.Cut(part, "]")
		if _, err := strconv.Atoi(index); i > 0 && found && err == nil {
			part = "]" + rest
		}
		path.WriteString(part)
		path.WriteByte('[')
	}
	return fault{path.String(), f.text}
}
