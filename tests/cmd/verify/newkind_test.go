// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"hash/crc32"
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
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// edit is a change by hand of a file that kinds share: text is put behind a line.
type edit struct{ file, behind, text string }

func edits() []edit {
	const module = "github.com/kruise-operator/kruise-operator"
	return []edit{
		{"controllers/controllers.go", "import (\n", "\t\"" + module + "/controllers/abacus\"\n"},
		{"controllers/controllers.go", "	return []controller.Kind{\n", "		abacus.Value(),\n"},
	}
}

// TestAddingAKind adds a kind to a copy of the tree as CONTRIBUTING.md says: its own folder and a line in the list, beside
// types, samples and page. The rest has to follow.
func TestAddingAKind(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the generators and builds the product")
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

	if err := os.CopyFS(scratch, os.DirFS("testdata/abacus")); err != nil { // fails when a file of its own exists already
		t.Fatal(err)
	}
	for _, e := range edits() {
		change(t, filepath.Join(scratch, e.file), e)
	}
	shared := strings.Fields(inScratch("git", "diff", "--name-only"))
	if want := []string{"controllers/controllers.go"}; !slices.Equal(shared, want) {
		t.Errorf("a kind needs changes by hand in %v, want %v", shared, want)
	}

	inScratch("make", "generate", "manifests")
	// The last package holds the whole product. What runs for a second is not worth optimizing.
	inScratch("go", "test", "-vet=off", "-gcflags="+repository.Module+"/...=-N -l -dwarf=false", "-run=^Test(EveryKind|EveryEntry|EveryHandler|TheTable|Generated)",
		"./internal/kinds/...", "./controllers", "./internal/webhook", ".")

	table := append([]kinds.Kind{{
		Name: "Abacus", Plural: "abaci", Group: "apps.kruise.io", Scope: kinds.Cluster, Versions: []string{"v1beta1"}, Storage: "v1beta1",
		Controller: kinds.Optional, WorkersFlag: "abacus-workers", Admission: true, Users: kinds.View,
	}}, controllers.Table()...)
	without := exceptions()
	without["Abacus"] = map[string]string{
		partDescriptors: "operator-sdk makes the bundle, which is not run here",
		partExample:     "the same",
	}
	if err := checkKinds(os.DirFS(scratch), table, without); err != nil {
		t.Error(err)
	}

	generated := map[string]string{
		"PROJECT": "kind: Abacus",
		"api/apps/v1beta1/zz_generated.register.go":        "&Abacus{}, &AbacusList{}",
		"api/operator/v1alpha1/zz_generated.kinds.go":      "Enum=Abacus;",
		"config/crd/kustomization.yaml":                    "apps.kruise.io_abaci.yaml",
		"config/crd/bases/operator.kruise.io_kruises.yaml": "- Abacus",
		"config/rbac/manager/role.yaml":                    "- abaci/status",
		"config/rbac/users/abaci.yaml":                     "kruise-operator-abaci-view",
		"config/samples/kustomization.yaml":                "apps_v1beta1_abacus_full.yaml",
		"config/webhook/manifests.yaml":                    "default.abaci.apps.kruise.io",
	}
	missing := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(generated)) {
		if content, err := os.ReadFile(filepath.Join(scratch, file)); err != nil || !strings.Contains(string(content), generated[file]) {
			missing[file] = generated[file]
		}
	}
	if diff := cmp.Diff(map[string]string{}, missing); diff != "" {
		t.Errorf("what should have followed (-nothing +missing):\n%s", diff)
	}
}

func change(t *testing.T, file string, e edit) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), e.behind, e.behind+e.text, 1)
	if changed == string(content) {
		t.Fatalf("%s has no line %q", e.file, e.behind)
	}
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}
