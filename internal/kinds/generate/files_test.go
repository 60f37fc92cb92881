// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/controllers"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	tree := os.DirFS("../../..")
	made, err := files(tree, controllers.Table())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		have, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(have), want); diff != "" {
			t.Errorf("run `make generate`: %s (-have +want):\n%s", name, diff)
		}
	}
}
