// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestKindsAreComplete(t *testing.T) {
	if err := checkKinds(os.DirFS("../../.."), controllers.Table(), exceptions()); err != nil {
		t.Error(err)
	}
}

// TestAMissingPartIsFound takes the parts of StatefulSet away, one at a time.
func TestAMissingPartIsFound(t *testing.T) {
	whole := load(t)
	cases := map[string]struct {
		remove, in, cut string
		want            string
	}{
		"a definition of another plural":          {in: "config/crd/bases/apps.kruise.io_statefulsets.yaml", cut: "plural: statefulsets", want: "StatefulSet: definition"},
		"a kind without types":                    {remove: "config/crd/bases/apps.kruise.io_statefulsets.yaml", want: "StatefulSet: definition"},
		"a version without a sample":              {remove: "config/samples/apps_v1alpha1_statefulset.yaml", want: "StatefulSet: minimal sample"},
		"no full sample":                          {remove: "config/samples/apps_v1beta1_statefulset_full.yaml", want: "StatefulSet: full sample"},
		"no page":                                 {remove: "docs/kinds/statefulset.md", want: "StatefulSet: docs/kinds page"},
		"a bundle that does not own it":           {in: "bundle/manifests/kruise-operator.clusterserviceversion.yaml", cut: "name: statefulsets.apps.kruise.io", want: "StatefulSet: descriptors"},
		"no webhook":                              {in: "config/webhook/manifests.yaml", cut: "- statefulsets", want: "StatefulSet: webhooks"},
		"a status that the operator cannot write": {in: "config/rbac/manager/role.yaml", cut: "- statefulsets/status", want: "StatefulSet: operator's rights"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			damaged := fstest.MapFS{}
			for file, content := range whole {
				if file == tc.remove {
					continue
				}
				text := string(content.Data)
				if file == tc.in {
					text = strings.ReplaceAll(text, tc.cut, "x")
					if text == string(content.Data) {
						t.Fatalf("%s does not hold %q", file, tc.cut)
					}
				}
				damaged[file] = &fstest.MapFile{Data: []byte(text)}
			}
			err := checkKinds(damaged, controllers.Table(), exceptions())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

func TestAnExceptionThatIsNotNeededIsFound(t *testing.T) {
	err := checkKinds(load(t), controllers.Table(), map[string]map[string]string{"StatefulSet": {partPage: "a reason"}})
	if err == nil || !strings.Contains(err.Error(), "does not need it") {
		t.Errorf("got %v", err)
	}
}

func TestTypesWithoutAnEntryInTheTableAreFound(t *testing.T) {
	table := slices.DeleteFunc(controllers.Table(), func(k kinds.Kind) bool { return k.Name == "StatefulSet" })
	err := checkKinds(load(t), table, exceptions())
	if err == nil || !strings.Contains(err.Error(), "statefulsets.yaml is of a kind that controllers.All does not have") {
		t.Errorf("got %v", err)
	}
}

// load reads the checked parts of the tree.
func load(t *testing.T) fstest.MapFS {
	t.Helper()
	root := "../../.."
	loaded := fstest.MapFS{}
	for _, folder := range []string{"config", "bundle", "docs/kinds"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, name)
			loaded[filepath.ToSlash(relative)] = &fstest.MapFile{Data: content}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return loaded
}
