// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestEveryKindOfTheTableHasItsReconciler(t *testing.T) {
	if diff := cmp.Diff(kinds.Names(kinds.Switchable()), slices.Sorted(maps.Keys(reconcilers()))); diff != "" {
		t.Errorf("reconcilers (-the table +the list in controllers.go):\n%s", diff)
	}
}
