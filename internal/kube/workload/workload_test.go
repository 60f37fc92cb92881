// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"
)

func TestEarliest(t *testing.T) {
	if got := Earliest(0, 3*time.Second, 0, time.Second); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
	if got := Earliest(0, 0); got != 0 {
		t.Errorf("got %v, want 0", got)
	}
}
