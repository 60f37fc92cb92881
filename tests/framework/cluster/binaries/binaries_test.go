// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

func TestVersionsComeFromTheToolModules(t *testing.T) {
	t.Setenv(VersionVariable, "")
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	version, err := DefaultVersion()
	if err != nil {
		t.Fatal(err)
	}
	if semver.Canonical(version) != version {
		t.Errorf("the default version %q is not a full version", version)
	}
	for _, query := range []string{"", version, strings.TrimPrefix(version, "v")} {
		from, err := kubernetesSource(t.Context(), root, t.TempDir(), query)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(root, "tools", "kubernetes"); from.dir != want || from.version != version {
			t.Errorf("version %q: built as %s from %s, want %s from %s", query, from.version, from.dir, version, want)
		}
	}
	if _, err := kubernetesSource(t.Context(), root, t.TempDir(), "latest"); err == nil {
		t.Error("latest is taken for a version")
	}
}

// Go compiles a library once for the programs and the suites if both have it in one version, and so everything above it.
func TestLibrariesAreThoseOfTheSuites(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	suites, err := readModule(filepath.Join(root, "tests", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := readModule(filepath.Join(root, "tools", "kubernetes", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, require := range programs.Require {
		has[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range programs.Replace {
		has[replace.Old.Path] = replace.New.Version
	}
	for _, require := range suites.Require {
		if version := has[require.Mod.Path]; version != "" && version != require.Mod.Version {
			t.Errorf("tools/kubernetes has %s: go -C tools/kubernetes get %s", version, require.Mod)
		}
	}
}

// The suites install the definitions of their version, and Traefik reads the objects with its own.
func TestTraefikHasTheGatewayAPIOfTheSuites(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	const module = "sigs.k8s.io/gateway-api"
	suites, err := pinnedSource(filepath.Join(root, "tests"), module)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := pinnedSource(filepath.Join(root, "tools", "traefik"), module)
	if err != nil || gateway.version != suites.version {
		t.Errorf("tools/traefik has %s, and tests %s: %v", gateway.version, suites.version, err)
	}
}

func TestGeneratedModulePinsWhatTheReleasePins(t *testing.T) {
	release := t.TempDir()
	if err := os.WriteFile(filepath.Join(release, "go.sum"), []byte("checksums\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kubernetes-v1.34.2")
	download := moduleDownload{Version: "v1.34.2", GoMod: filepath.Join("testdata", "release.mod"), Dir: release}
	if err := generateModule(download, dir); err != nil {
		t.Fatal(err)
	}
	for name, golden := range map[string]string{"go.mod": "testdata/generated.mod", "go.sum": filepath.Join(release, "go.sum")} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLinkerFlagsStampTheVersion(t *testing.T) {
	const want = "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.2" +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
	if got := (source{name: "kubernetes", version: "v1.34.2"}).linkerFlags(); got != want {
		t.Errorf("flags are %q, want %q", got, want)
	}
}

func TestEnsureBuildsOnce(t *testing.T) {
	from := newSource(t, "package main\n\nfunc main() { println(\"built\") }\n")
	cache := t.TempDir()
	const callers = 3
	var progress lockedBuffer
	var paths [callers]string
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			b := builder{cache: cache, progress: &progress}
			path, err := b.ensure(t.Context(), from, ".", "hello")
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if got := strings.Count(progress.String(), "building hello v1.0.0 ... "); got != 1 {
		t.Errorf("built %d times, want once:\n%s", got, progress.String())
	}
	for _, path := range paths[1:] {
		if path != paths[0] {
			t.Errorf("two paths for one program: %s and %s", paths[0], path)
		}
	}
	output, err := exec.Command(paths[0]).CombinedOutput()
	if err != nil || string(output) != "built\n" {
		t.Errorf("running the program: %q, %v", output, err)
	}

	var quiet bytes.Buffer
	if _, err := (builder{cache: cache, progress: &quiet}).ensure(t.Context(), from, ".", "hello"); err != nil {
		t.Fatal(err)
	}
	if quiet.Len() > 0 {
		t.Errorf("progress for a cached program: %q", quiet.String())
	}
}

func TestFailedBuildLeavesNothingInTheCache(t *testing.T) {
	from := newSource(t, "package main\n\nfunc main() { undefinedFunction() }\n")
	cache := t.TempDir()
	var progress bytes.Buffer
	_, err := (builder{cache: cache, progress: &progress}).ensure(t.Context(), from, ".", "hello")
	if err == nil || !strings.Contains(err.Error(), "undefinedFunction") {
		t.Errorf("want the compiler's words, got %v", err)
	}
	if !strings.Contains(progress.String(), "failed after") {
		t.Errorf("progress does not tell of the failure: %q", progress.String())
	}
	err = filepath.WalkDir(cache, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".lock" {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnsureTellsWhenItCannotBuild(t *testing.T) {
	// As without the go command.
	t.Setenv("PATH", t.TempDir())
	_, err := Ensure(t.Context(), Options{Cache: t.TempDir()}, Etcd)
	if !errors.Is(err, ErrBuild) {
		t.Errorf("want %v, got %v", ErrBuild, err)
	}
}

// newSource returns a module with one program.
func newSource(t *testing.T, program string) source {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.test/hello\n\ngo 1.24\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return source{name: "hello", dir: dir, version: "v1.0.0"}
}

// lockedBuffer is written to by several goroutines.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}
