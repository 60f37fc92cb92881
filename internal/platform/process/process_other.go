// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

import "errors"

// Replace fails here: whoever started the process has to start it again.
func Replace() error {
	return errors.New("this platform cannot execute a program in place; start it again")
}
