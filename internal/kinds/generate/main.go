// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command generate writes every file derived from the kinds: the schemes' types, the Kruise object's kind names,
// PROJECT, kustomizations, users' roles. `make generate` runs it at the top of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/kruise-operator/kruise-operator/controllers"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	made, err := files(os.DirFS(root), controllers.Table())
	if err != nil {
		return err
	}
	tree, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }()
	for name, content := range made {
		if err := tree.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
