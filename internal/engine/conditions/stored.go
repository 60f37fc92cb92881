// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import "reflect"

// From translates the conditions of a status. Their type has the fields of a Condition, or some of them, by the same names.
func From[T any](stored []T) []Condition {
	all := make([]Condition, len(stored))
	for i := range stored {
		move(reflect.ValueOf(&all[i]).Elem(), reflect.ValueOf(&stored[i]).Elem())
	}
	return all
}

// To is the list in the type of a status.
func To[T any](l *List) []T {
	var all []T
	for i := range l.after {
		var one T
		move(reflect.ValueOf(&one).Elem(), reflect.ValueOf(&l.after[i]).Elem())
		all = append(all, one)
	}
	return all
}

// move fills in the common fields.
func move(to, from reflect.Value) {
	for i := range to.NumField() {
		if field := from.FieldByName(to.Type().Field(i).Name); field.IsValid() {
			to.Field(i).Set(field.Convert(to.Field(i).Type()))
		}
	}
}
