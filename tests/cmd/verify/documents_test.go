// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/mod/semver"

	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

// longestLine of a document, in characters. Longer ones cannot be read in a diff, nor in a terminal.
const longestLine = 160

// TestLinesOfDocumentsAreShort leaves out tables, quoted output and drawings, whose lines cannot be broken, and generated documents.
func TestLinesOfDocumentsAreShort(t *testing.T) {
	t.Parallel()
	generated := []string{"docs/operations/versions.md", "docs/operations/messages.md"}
	root := filepath.Join("..", "..", "..")
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d documents were found", len(files))
	}
	for _, path := range files {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(generated, filepath.ToSlash(name)) {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines, fenced := bufio.NewScanner(file), false
		for number := 1; lines.Scan(); number++ {
			line := lines.Text()
			switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
			case fence:
				fenced = !fenced
			case fenced, strings.HasPrefix(strings.TrimSpace(line), "|"):
			case utf8.RuneCountInString(line) > longestLine:
				t.Errorf("%s:%d has %d characters, at most are allowed %d", name, number, utf8.RuneCountInString(line), longestLine)
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = file.Close()
	}
}

// The page about installing names the newest release that is no candidate, and has its commit checked out.
func TestTheNewestReleaseIsInstalled(t *testing.T) {
	releases, err := packaging.ReadReleases(filepath.Join(sourceTree, "catalog", "versions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	newest, commit := "", ""
	for _, version := range releases.Versions {
		if semver.Prerelease(version.Version) == "" {
			newest, commit = version.Version, version.Commit
		}
	}
	page, err := os.ReadFile(filepath.Join(sourceTree, "docs", "operations", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+`).FindAllString(string(page), -1)
	if len(named) == 0 {
		t.Error("it names no version")
	}
	for _, version := range named {
		if version != newest {
			t.Errorf("it names %s, and the newest is %s", version, newest)
		}
	}
	checkedOut := regexp.MustCompile(`git checkout ([0-9a-f]{12})\n`).FindStringSubmatch(string(page))
	if checkedOut == nil || !strings.HasPrefix(commit, checkedOut[1]) {
		t.Errorf("it checks out %q, and the commit of %s is %s", checkedOut, newest, commit)
	}
}
