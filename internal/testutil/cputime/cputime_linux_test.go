// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cputime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/testutil/cputime"
)

func TestOnlyWorkTakesProcessorTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cputime.Thread()
	time.Sleep(50 * time.Millisecond)
	if got := cputime.Thread() - began; got > 25*time.Millisecond {
		t.Errorf("sleeping took %v", got)
	}
	began = cputime.Thread()
	deadline := time.Now().Add(time.Minute)
	for cputime.Thread()-began < 20*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatal("work takes no processor time")
		}
	}
}
