// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The one use that the Operator Lifecycle Manager makes of cp when it unpacks a bundle: copying a program to another file.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cp:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 || args[0] != "-Rv" {
		return fmt.Errorf("know only -Rv <file> <file>, not %q", args)
	}
	content, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	fmt.Printf("'%s' -> '%s'\n", args[1], args[2])
	return os.WriteFile(args[2], content, 0o755)
}
