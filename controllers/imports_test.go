// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A kind imports nothing of other kinds. Its own subfolders import the pure planner alone: no reconciler, and no
// other folder. The linter cannot check this: all share one prefix.
func TestKindsDoNotImportEachOther(t *testing.T) {
	const all = "github.com/kruise-operator/kruise-operator/controllers/"
	seen := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		kind, _, nested := strings.Cut(filepath.ToSlash(path), "/")
		if err != nil || entry.IsDir() || !nested || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			other, found := strings.CutPrefix(name, all)
			if !found {
				continue
			}
			seen++
			folder := filepath.ToSlash(filepath.Dir(path))
			own := folder == kind && strings.HasPrefix(other, kind+"/") || other == folder || strings.HasPrefix(other, folder+"/")
			if !own && other != kind+"/plan" && !strings.HasPrefix(other, kind+"/plan/") {
				t.Errorf("%s imports %s", path, name)
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("%d imports seen: %v", seen, err)
	}
}
