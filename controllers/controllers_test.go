// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestEveryKindThatCanBeSwitchedOffHasItsReconciler(t *testing.T) {
	for _, kind := range All() {
		if kind.Entry.Controller == kinds.Optional && (kind.Setup == nil || kind.Name == "") {
			t.Errorf("%s has no name or no reconciler", kind.Entry.Name)
		}
		if kind.Convert != nil && kind.Convert().GroupKind != kind.Entry.GroupKind() {
			t.Errorf("%s converts %s", kind.Entry.Name, kind.Convert().GroupKind)
		}
	}
}
