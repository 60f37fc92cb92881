// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"fmt"
	"os"
	"syscall"
)

// Replace runs the program from its start, in place of what runs now. It returns only when that is impossible. Files and connections
// that Go opened are closed by it.
func Replace() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own program: %w", err)
	}
	environment := os.Environ()
	if !Again() {
		environment = append(environment, again+"=1")
	}
	if err := syscall.Exec(program, os.Args, environment); err != nil {
		return fmt.Errorf("executing %s anew: %w", program, err)
	}
	return nil
}
