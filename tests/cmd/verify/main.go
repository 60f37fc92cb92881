// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command verify regenerates everything generated in a scratch copy of the tree and fails when a file differs, is missing or
// is new, or when a kind lacks one of its parts. The tree itself is not touched.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

// run verifies, or with the argument reference writes the pages of the reference.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return verify(ctx)
	}
	if !slices.Equal(args, []string{"reference"}) {
		return fmt.Errorf("unknown arguments %q: know only reference", args)
	}
	return errors.Join(repository.EnterRoot(), writeReference("."))
}

// steps are the make targets for generated files, in order.
func steps() []string {
	return []string{"generate", "manifests", "chart", "dashboard", "bundle", "catalog", "reference"}
}

// modules are the folders of our own code's modules. Those under tools/ only pin programs.
func modules() []string { return []string{".", "tests", "tests/conformance"} }

func verify(ctx context.Context) error {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := checkKinds(os.DirFS(root), controllers.Table(), exceptions()); err != nil {
		return fmt.Errorf("kinds are incomplete; CONTRIBUTING.md says what each needs:\n%w", err)
	}
	scratch, err := os.MkdirTemp("", "kruise-operator-verify-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := copyTree(ctx, root, scratch); err != nil {
		return err
	}
	// The copy becomes its own repository: git then shows the generators' changes, new
	// files included.
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		if _, err := output(ctx, scratch, "git", args...); err != nil {
			return err
		}
	}
	for _, target := range steps() {
		if _, err := output(ctx, scratch, "make", target); err != nil {
			return err
		}
	}
	for _, module := range modules() {
		if _, err := output(ctx, filepath.Join(scratch, module), "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	if _, err := output(ctx, scratch, "git", "add", "-A", "-N"); err != nil {
		return err
	}
	diff, err := output(ctx, scratch, "git", "--no-pager", "diff", "--stat", "--patch")
	if err != nil {
		return err
	}
	if diff != "" {
		fmt.Println(diff)
		return errors.New("generated files are not current: run `make generate manifests chart dashboard bundle catalog reference tidy`, and commit what they change")
	}
	return nil
}

// copyTree copies files git tracks or would track from the working tree.
func copyTree(ctx context.Context, from, to string) error {
	list, err := output(ctx, from, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.Trim(list, "\x00"), "\x00") {
		source := filepath.Join(from, name)
		info, err := os.Lstat(source)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted in the working tree, not yet committed
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// ignoredVariables change the make targets' output; committed files are written without
// them.
func ignoredVariables() []string {
	return []string{"IMAGE_REPO", "VERSION", "MAKEFLAGS", "MAKEOVERRIDES"}
}

// hookVariables name a repository. A git hook has them in its environment; git must look for the repository of its folder.
func hookVariables() []string {
	return []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(hookVariables(), name) || slices.Contains(ignoredVariables(), name)
	})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}
