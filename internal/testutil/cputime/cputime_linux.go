// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cputime measures the work of a goroutine by the processor time that it takes, which does not depend on what else the machine does.
package cputime

import (
	"syscall"
	"time"
)

// Thread is the processor time that the thread of the caller has used. Between two calls that are compared the goroutine must be locked to its
// thread: see [runtime.LockOSThread].
func Thread() time.Duration {
	const thisThread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		return 0 // Not possible for a thread that exists.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
