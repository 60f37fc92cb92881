// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package repository finds this working copy and the Go modules in it: the product's at the top, and the one of the tests below it.
package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	// Module is the path of the product's module.
	Module = "github.com/kruise-operator/kruise-operator"
	// Tests is the folder of the tests' module, relative to the top of the repository.
	Tests = "tests"
)

// Root returns the top of this repository: the nearest folder at or above the working
// directory with the product's go.mod.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("finding the repository: %w", err)
		}
		if modfile.ModulePath(content) == Module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in a working copy of %s", start, Module)
		}
	}
}

// EnterRoot makes the top of the repository the working directory. Commands call it first:
// `go -C tests run ./cmd/x` starts them in tests, while paths in arguments and defaults are
// relative to the top.
func EnterRoot() error {
	root, err := Root()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("changing to the top of the repository: %w", err)
	}
	return os.Setenv("PWD", root)
}

// SplitPackage returns, for the folder of a package relative to the top, the folder of its module relative to the top and the package
// as the go command names it there: tests/images/pause is ./images/pause in tests.
func SplitPackage(folder string) (module, pkg string) {
	if rest, found := strings.CutPrefix(folder, Tests+"/"); found {
		return Tests, "./" + rest
	}
	return ".", "./" + strings.TrimPrefix(folder, "./")
}
