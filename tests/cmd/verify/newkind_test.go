// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// toys are made-up kinds, in testdata: one owns pods, one hooks their deletion, one acts on
// others' workloads and converts.
func toys() []toy {
	return []toy{
		{kind: kinds.Kind{Name: "Baton", Plural: "batons", Versions: []string{"v1alpha1", "v1beta1"}, Converted: true}, behind: "batchrelease"},
		{kind: kinds.Kind{Name: "Flock", Plural: "flocks", Versions: []string{"v1beta1"}}, behind: "ephemeraljob"},
		{kind: kinds.Kind{Name: "Ward", Plural: "wards", Versions: []string{"v1beta1"}}, behind: "uniteddeployment"},
	}
}

// toy is one of them, with the folder of the kind before it in the list.
type toy struct {
	kind   kinds.Kind
	behind string
}

// own is true for files of one kind alone: in its folder, or its types, samples and page.
func (toy toy) own(file string) bool {
	lower := toy.kind.Lower()
	for _, version := range toy.kind.Versions {
		if file == "api/apps/"+version+"/"+lower+"_types.go" || file == "config/samples/apps_"+version+"_"+lower+".yaml" {
			return true
		}
	}
	return strings.HasPrefix(file, "controllers/"+lower+"/") || file == "config/samples/apps_v1beta1_"+lower+"_full.yaml" || file == "docs/kinds/"+lower+".md"
}

// add copies the files of the kind into a tree, and writes its line into the list, with the import.
func (toy toy) add(t *testing.T, tree string) {
	t.Helper()
	lower := toy.kind.Lower()
	files := os.DirFS("testdata/" + lower)
	if err := os.CopyFS(tree, files); err != nil { // fails when a file of its own exists already
		t.Fatal(err)
	}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !toy.own(name) {
			t.Errorf("%s needs %s, which is not its own", toy.kind.Name, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(tree, "controllers/controllers.go")
	insert(t, list, "import (\n", "\t\""+repository.Module+"/controllers/"+lower+"\"\n")
	insert(t, list, "\t\t"+toy.behind+".Value(),\n", "\t\t"+lower+".Value(),\n")
}

// TestAddingAKind adds kinds to a copy of the tree as CONTRIBUTING.md says: each its own folder and a line in the list, beside
// types, samples and page. The rest has to follow.
func TestAddingAKind(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the generators and builds the product")
	}
	if !sample.Has(0, 3) {
		t.Skip("left to another day: it runs the generators and builds the product")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	// One folder for each working copy, always the same: the build cache knows packages by theirs.
	scratch := filepath.Join(os.TempDir(), fmt.Sprintf("kruise-operator-newkind-%08x", crc32.ChecksumIEEE([]byte(root))))
	lock, err := os.Create(scratch + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o700)); err != nil { // a run that was killed has left it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(scratch); err != nil {
			t.Error(err)
		}
	})
	if err := copyTree(t.Context(), root, scratch); err != nil {
		t.Fatal(err)
	}
	inScratch := func(name string, args ...string) string {
		t.Helper()
		start := time.Now()
		text, err := output(t.Context(), scratch, name, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %v: %v", name, args, time.Since(start).Round(100*time.Millisecond))
		return text
	}
	inScratch("git", "init", "-q")
	inScratch("git", "add", "-A")

	for _, toy := range toys() {
		toy.add(t, scratch)
	}
	shared := strings.Fields(inScratch("git", "diff", "--name-only"))
	if want := []string{"controllers/controllers.go"}; !slices.Equal(shared, want) {
		t.Errorf("kinds need changes by hand in %v, want %v", shared, want)
	}

	inScratch("make", "generate", "manifests")
	// The last package holds the whole product. A second's run is not worth optimizing.
	inScratch("go", "test", "-vet=off", "-gcflags="+repository.Module+"/...=-N -l -dwarf=false", "-run=^Test(EveryKind|EveryEntry|EveryHandler|TheTable|Generated)",
		"./internal/kinds/...", "./controllers", "./internal/webhook", ".")

	table, without := controllers.Table(), exceptions()
	for _, toy := range toys() {
		kind := toy.kind
		kind.Group, kind.Scope, kind.Storage, kind.Controller, kind.Admission = "apps.kruise.io", kinds.Namespaced, "v1beta1", kinds.Optional, true
		table = append(table, kind)
		without[kind.Name] = map[string]string{
			partDescriptors: "operator-sdk makes the bundle, which is not run here",
			partExample:     "the same",
		}
		checkGenerated(t, scratch, kind)
	}
	if err := checkKinds(os.DirFS(scratch), table, without); err != nil {
		t.Error(err)
	}
}

// checkGenerated looks for the consequences of a kind's value.
func checkGenerated(t *testing.T, tree string, kind kinds.Kind) {
	t.Helper()
	generated := map[string]string{
		"PROJECT": "kind: " + kind.Name,
		"api/apps/v1beta1/zz_generated.register.go":        "&" + kind.Name + "{}, &" + kind.Name + "List{}",
		"api/operator/v1alpha1/zz_generated.kinds.go":      ";" + kind.Name,
		"config/crd/kustomization.yaml":                    "apps.kruise.io_" + kind.Plural + ".yaml",
		"config/crd/bases/operator.kruise.io_kruises.yaml": "- " + kind.Name,
		"config/rbac/manager/role.yaml":                    "- " + kind.Plural + "/status",
		"config/rbac/users/" + kind.Plural + ".yaml":       "kruise-operator-" + kind.Plural + "-view",
		"config/samples/kustomization.yaml":                "apps_v1beta1_" + kind.Lower() + "_full.yaml",
		"config/webhook/manifests.yaml":                    "default." + kind.Plural + ".apps.kruise.io",
	}
	if kind.Converted {
		generated["internal/kinds/zz_generated.rights.go"] = kind.Definition() + ";"
	}
	missing := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(generated)) {
		if content, err := os.ReadFile(filepath.Join(tree, file)); err != nil || !strings.Contains(string(content), generated[file]) {
			missing[file] = generated[file]
		}
	}
	if diff := cmp.Diff(map[string]string{}, missing); diff != "" {
		t.Errorf("what should have followed (-nothing +missing):\n%s", diff)
	}
}

// insert puts text behind a line of a file.
func insert(t *testing.T, file, behind, text string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), behind, behind+text, 1)
	if changed == string(content) {
		t.Fatalf("%s has no line %q", file, behind)
	}
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}
