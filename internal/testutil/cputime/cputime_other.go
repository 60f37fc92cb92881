// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cputime

import "time"

// Thread is the time on the wall: other systems do not count that of a thread, so what else runs on the machine counts, too.
func Thread() time.Duration { return time.Duration(time.Now().UnixNano()) }
