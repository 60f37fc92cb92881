// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// TestATagReleasesEverything does the release workflow's work before signing, and its
// catalog, with a registry on loopback. The images hold a small program instead of the
// operator's.
func TestATagReleasesEverything(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := images.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })
	registry := listener.Addr().String()
	repo, root, layouts, bundles := registry+"/team/kruise-operator", withSmallPrograms(t), t.TempDir(), t.TempDir()

	made, err := Release{
		Root: root, Version: Version{Version: "v0.5.0", Commit: "HEAD", Channels: Channels(), Replaces: "v0.4.0"}, Repository: repo,
		Bundle: filepath.Join(bundles, "v0.5.0"), Layouts: layouts, Push: true, Progress: os.Stderr,
	}.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := PackChart(t.Context(), root, "v0.5.0", repo, layouts, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := PushChart(t.Context(), archive, registry+"/charts", os.Stderr); err != nil {
		t.Fatal(err)
	}
	digests := strings.Fields(read(t, filepath.Join(layouts, DigestsFile)))
	if len(digests) != 4 || digests[0] != made.Image || digests[1] != made.BundleImage {
		t.Errorf("%s lists %v", DigestsFile, digests)
	}
	for _, reference := range digests {
		if err := images.Find(t.Context(), reference); err != nil {
			t.Error(err)
		}
	}
	_, digest, _ := strings.Cut(made.Image, "@sha256:")
	for file, want := range map[string]string{InstallFile: made.Image, Package + ".cdx.json": digest} {
		if !strings.Contains(read(t, filepath.Join(layouts, file)), want) {
			t.Errorf("%s does not name the image %s", file, want)
		}
	}
	pulled := t.TempDir()
	if _, err := helm(t.Context(), nil, "pull", "oci://"+registry+"/charts/"+Package, "--version=0.5.0", "--plain-http", "--untar", "--untardir="+pulled); err != nil {
		t.Fatal(err)
	}
	if values := read(t, filepath.Join(pulled, Package, "values.yaml")); !strings.Contains(values, "repository: "+repo+"\n") {
		t.Error("the chart pulls the image from elsewhere")
	}

	catalog := Catalog{Output: filepath.Join(t.TempDir(), "catalog"), Progress: os.Stderr, Bundle: func(version string) string { return filepath.Join(bundles, version) }}
	catalog.Versions = []Version{{Version: "v0.4.0", Channels: closed(), BundleImage: "registry.example.com/kruise-operator-bundle@sha256:" + digest}, made}
	if err := catalog.Publish(t.Context(), t.TempDir(), repo); err != nil {
		t.Fatal(err)
	}
	offered := contents(t, repo+"-catalog:latest")
	if !strings.Contains(offered, "image: "+made.BundleImage) || strings.Contains(offered, "registry.example.com") {
		t.Error("the catalog does not offer what was pushed, and that alone")
	}
	catalog.Versions[1].BundleImage = repo + "-bundle@sha256:" + strings.Repeat("0", 64)
	if err := catalog.Publish(t.Context(), t.TempDir(), repo); err == nil || !strings.Contains(err.Error(), "offering v0.5.0: looking for "+repo) {
		t.Errorf("a catalog was pushed whose bundle is nowhere: %v", err)
	}
}

// withSmallPrograms is a clone of this repository with one small program in every image.
func withSmallPrograms(t *testing.T) string {
	t.Helper()
	from, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "clone")
	if err := run(t.Context(), ".", nil, "git", "clone", "--quiet", from, root); err != nil {
		t.Fatal(err)
	}
	builder := filepath.Join(root, "tests", "cmd", "images", "main.go")
	programs := regexp.MustCompile(`Programs: +(images\.Operator\(version\)|\[\]images\.Program\{images\.Scorecard\(\)\})`)
	text := read(t, builder)
	if len(programs.FindAllString(text, -1)) != 2 {
		t.Fatal("the builder of images does not have two images")
	}
	text = programs.ReplaceAllString(text, `Programs: []images.Program{images.Guestbook(version)}`)
	if err := os.WriteFile(builder, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), root, nil, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-am", "small"); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// contents are the files of a pushed image, one after the other.
func contents(t *testing.T, reference string) string {
	t.Helper()
	target, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(target, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	extracted := mutate.Extract(image)
	defer func() { _ = extracted.Close() }()
	reader := tar.NewReader(extracted)
	for {
		if _, err := reader.Next(); errors.Is(err, io.EOF) {
			return all.String()
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, reader); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- next\n\n## v0.2.0 (2026-01-02), a candidate\n\n### Added\n\n- two\n\n## v0.1.0 (2026-01-01)\n"
	for version, want := range map[string]string{
		"v0.2.0": "### Added\n\n- two\n", "v0.3.0-rc.1": "- next\n", "v0.1.0": "", "v0.3.0": "",
	} {
		if got, err := Notes(changelog, version); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
}

// TestWorkflowsRunTargetsThatExist and publish in order: nothing is offered before it is there.
func TestWorkflowsRunTargetsThatExist(t *testing.T) {
	makefile := read(t, "../../../Makefile")
	files, err := filepath.Glob("../../../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, line := range regexp.MustCompile(`(?m)(?:run: |^ +)make ([a-z -]+)`).FindAllStringSubmatch(read(t, file), -1) {
			for _, target := range strings.Fields(line[1]) {
				if !strings.Contains(makefile, "\n"+target+": ") {
					t.Errorf("%s runs make %s, which there is not", filepath.Base(file), target)
				}
			}
		}
	}
	release, at := read(t, "../../../.github/workflows/release.yaml"), 0
	for _, step := range []string{"make notes", "make release COMMIT", "make release-chart", "cosign sign", "make catalog", "gh release create"} {
		next := strings.Index(release[at:], step)
		if next < 0 {
			t.Fatalf("the release does not run %q, or too early", step)
		}
		at += next
	}
}
