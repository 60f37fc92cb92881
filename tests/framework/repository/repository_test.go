// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

func TestEnterRootLeadsFromTheTestsModuleToTheProduct(t *testing.T) {
	t.Chdir(".") // restores the working directory
	if err := repository.EnterRoot(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PROJECT", "main.go", "tests/go.mod"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestRootIsNotFoundElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if root, err := repository.Root(); err == nil {
		t.Errorf("found %s", root)
	}
}

func TestSplitPackage(t *testing.T) {
	for folder, want := range map[string][2]string{
		".":                  {".", "./."},
		"controllers/...":    {".", "./controllers/..."},
		"tests/images/pause": {"tests", "./images/pause"},
		"tests/e2e/...":      {"tests", "./e2e/..."},
	} {
		module, pkg := repository.SplitPackage(folder)
		if module != want[0] || filepath.Clean(pkg) != filepath.Clean(want[1]) {
			t.Errorf("%s is %s in %s, want %s in %s", folder, pkg, module, want[1], want[0])
		}
	}
}
