// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package packaging

import (
	"context"
	"errors"
	"io"
)

// Scorecard needs Linux.
func Scorecard(context.Context, string, io.Writer) error {
	return errors.New("the scorecard's tests expect the bundle at the top of the file system, which needs a user namespace of Linux")
}
