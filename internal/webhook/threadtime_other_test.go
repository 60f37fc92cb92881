// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package webhook_test

import "time"

// threadTime is the time of the wall: what else runs on the machine counts, too.
func threadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
