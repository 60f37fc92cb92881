// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// leftToday are the tests of a suite that another day has. A test runs on one of so many days as the suite has turns; those that it names run daily.
func leftToday(s suite) ([]string, error) {
	if s.turns < 2 || sample.All() {
		return nil, nil
	}
	names, err := testsOf(s.packages)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(s.daily, name) || sample.Has(turnOf(name), s.turns)
	}), nil
}

// turnOf spreads tests over days by their names, so that a new test moves no other.
func turnOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	return int(hash.Sum32() >> 8)
}

// testsOf are the names of the tests below folders, in order.
func testsOf(folders []string) ([]string, error) {
	var names []string
	for _, folder := range folders {
		root := strings.TrimSuffix(folder, "/...")
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && path != root && root == folder {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, found := range testFunction.FindAllSubmatch(text, -1) {
				names = append(names, string(found[1]))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// skipping is the argument that leaves tests out.
func skipping(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{"-skip=^(" + strings.Join(names, "|") + ")$"}
}
