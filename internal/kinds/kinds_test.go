// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"slices"
	"testing"
)

func TestTheTableIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(All(), func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Errorf("sort the table by name: %v", Names(All()))
	}
}

func TestEveryEntryIsWhole(t *testing.T) {
	for _, k := range All() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Name == "" || k.Plural == "" || k.Group == "" || k.Scope == "" || k.Controller == "" || k.Users == "" {
				t.Errorf("something is empty: %+v", k)
			}
			if !slices.Contains(k.Versions, k.Storage) {
				t.Errorf("%s is stored, and served are %v", k.Storage, k.Versions)
			}
			if k.Converted && len(k.Versions) < 2 {
				t.Errorf("there is only %v, and nothing to convert", k.Versions)
			}
			if (k.WorkersFlag != "") != (k.Controller == Optional) {
				t.Errorf("controller %s, flag of workers %q", k.Controller, k.WorkersFlag)
			}
			if got, ok := Of(k.Name); !ok || got.Definition() != k.Definition() {
				t.Errorf("Of finds %+v", got)
			}
		})
	}
	if _, ok := Of("Deployment"); ok {
		t.Error("Of finds a kind that is not ours")
	}
}
