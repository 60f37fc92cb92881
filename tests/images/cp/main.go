// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The Operator Lifecycle Manager's use of cp to unpack a bundle or a catalog: copying a
// program to another file.
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
	if len(args) > 0 && args[0] == "-Rv" {
		args = args[1:]
	}
	if len(args) != 2 {
		return fmt.Errorf("know only [-Rv] <file> <file>, not %q", args)
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("'%s' -> '%s'\n", args[0], args[1])
	return os.WriteFile(args[1], content, 0o755)
}
