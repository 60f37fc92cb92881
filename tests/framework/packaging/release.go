// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// Release says how a version is made from a commit.
type Release struct {
	// Root is a working copy of this repository with the commit.
	Root string
	// Version has the facts known before: version, commit, channels and predecessors.
	Version Version
	// Repository is where the manager's image is pulled from; the others have its name with a suffix.
	Repository string
	// Bundle is the rendered bundle's folder, and Layouts the one of images and
	// install.yaml.
	Bundle, Layouts string
	// Push pushes the images to Repository, too.
	Push bool
	// Progress receives lines on the progress. It may be nil.
	Progress io.Writer
}

// Make checks the commit out, builds its images with its own builder, and renders its
// bundle with their digests. It returns the completed version.
func (r Release) Make(ctx context.Context) (Version, error) {
	v := r.Version
	scratch, err := os.MkdirTemp("", "kruise-operator-release-")
	if err != nil {
		return v, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	tree := filepath.Join(scratch, "tree")
	if err := run(ctx, r.Root, nil, "git", "worktree", "add", "--quiet", "--detach", tree, v.Commit); err != nil {
		return v, err
	}
	defer func() {
		// The scratch folder goes anyway; git has to be told.
		_ = run(context.WithoutCancel(ctx), r.Root, nil, "git", "worktree", "remove", "--force", tree)
	}()
	if err := r.addMetadata(tree); err != nil {
		return v, err
	}
	commit, err := gitLine(ctx, tree, "rev-parse", "HEAD")
	if err != nil {
		return v, err
	}
	v.Commit = commit
	when, err := gitLine(ctx, tree, "show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return v, err
	}
	committed, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return v, fmt.Errorf("reading when %s was committed: %w", v.Commit, err)
	}
	v.Created = committed.UTC().Format(time.RFC3339)

	digests, err := r.images(ctx, tree)
	if err != nil {
		return v, err
	}
	manager, found := digests[""]
	if !found {
		return v, fmt.Errorf("%s builds no image of the manager", v.Commit)
	}
	v.Image = r.Repository + "@" + manager
	if err := WriteInstaller(tree, v.Image, filepath.Join(r.Layouts, InstallFile)); err != nil {
		return v, err
	}
	b := Bundle{
		Root: tree, Output: r.Bundle, Version: v.Version, Image: v.Image, Created: v.Created,
		Replaces: v.Replaces, Skips: v.Skips, SkipRange: v.SkipRange, Progress: r.Progress,
	}
	if scorecard, found := digests["-scorecard"]; found {
		b.ScorecardImage = r.Repository + "-scorecard@" + scorecard
	}
	if err := b.Write(ctx); err != nil {
		return v, err
	}
	if err := Validate(ctx, b.Output, nil); err != nil {
		return v, err
	}
	bundleImage, err := BundleImage(b.Output)
	if err != nil {
		return v, err
	}
	digest, err := Deliver(ctx, bundleImage, filepath.Join(r.Layouts, Package+"-bundle"), r.Repository+"-bundle:"+v.Version, r.Push)
	if err != nil {
		return v, err
	}
	v.BundleImage = r.Repository + "-bundle@" + digest
	pushed := []string{v.Image, v.BundleImage}
	if b.ScorecardImage != "" {
		pushed = append(pushed, b.ScorecardImage)
	}
	return v, errors.Join(os.RemoveAll(filepath.Join(r.Layouts, DigestsFile)), note(r.Layouts, pushed...))
}

// addMetadata gives a commit from before there was a bundle the metadata of this working copy: the texts around its own manifests and
// types. Its programs are not touched.
func (r Release) addMetadata(tree string) error {
	for _, folder := range []string{"config/manifests", "config/scorecard"} {
		if _, err := os.Stat(filepath.Join(tree, folder)); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.CopyFS(filepath.Join(tree, folder), os.DirFS(filepath.Join(r.Root, folder))); err != nil {
			return fmt.Errorf("adding %s: %w", folder, err)
		}
		if r.Progress != nil {
			fmt.Fprintf(r.Progress, "%s has no %s: taken from this working copy\n", r.Version.Version, folder)
		}
	}
	return nil
}

// images builds the images of a working copy by its own command and returns their digests by suffix.
func (r Release) images(ctx context.Context, tree string) (map[string]string, error) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "building the images of %s\n", r.Version.Version)
	}
	layouts, err := filepath.Abs(r.Layouts)
	if err != nil {
		return nil, err
	}
	target := ""
	if r.Push {
		target = r.Repository
	}
	// In older versions the tests were part of the product's module.
	dir, program := filepath.Join(tree, repository.Tests), "./cmd/images"
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		dir, program = tree, "./tests/cmd/images"
	}
	cmd := exec.CommandContext(ctx, "go", "run", program, "--version="+r.Version.Version, "--output="+layouts, "--repository="+target)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir)
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("building the images of %s: %w\n%s", r.Version.Version, err, problems.String())
	}
	digests := map[string]string{}
	line := regexp.MustCompile(`(?m)^` + Package + `(\S*?):\S+@(sha256:[0-9a-f]{64}) in `)
	for _, match := range line.FindAllStringSubmatch(string(output), -1) {
		digests[match[1]] = match[2]
	}
	return digests, nil
}

// BundleImage is a bundle folder's image: its files, and the labels OLM and opm find them
// by.
func BundleImage(bundle string) (images.Image, error) {
	metadata := struct {
		Annotations map[string]string `json:"annotations"`
	}{}
	content, err := os.ReadFile(filepath.Join(bundle, "metadata", "annotations.yaml"))
	if err != nil {
		return images.Image{}, fmt.Errorf("reading the bundle's metadata: %w", err)
	}
	if err := yaml.Unmarshal(content, &metadata); err != nil {
		return images.Image{}, fmt.Errorf("reading the bundle's metadata: %w", err)
	}
	image := images.Image{Labels: metadata.Annotations}
	for _, folder := range []string{"manifests", "metadata"} {
		if err := image.AddFolder(folder, os.DirFS(filepath.Join(bundle, folder))); err != nil {
			return images.Image{}, fmt.Errorf("packing the bundle: %w", err)
		}
	}
	tests := filepath.Join(bundle, "tests")
	if _, err := os.Stat(tests); err == nil {
		if err := image.AddFolder("tests", os.DirFS(tests)); err != nil {
			return images.Image{}, fmt.Errorf("packing the bundle: %w", err)
		}
	}
	return image, nil
}

// CatalogImage is a catalog's image: its files, and the label OLM v1 finds them by. It
// holds no program, so it is the same for every platform: OLM v0 serves it with its own opm
// if the CatalogSource has grpcPodConfig.extractContent.
func CatalogImage(catalog string) (images.Image, error) {
	image := images.Image{Labels: map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}}
	if err := image.AddFolder("configs", os.DirFS(catalog)); err != nil {
		return images.Image{}, fmt.Errorf("packing the catalog: %w", err)
	}
	return image, nil
}

// Deliver writes an image for all platforms to a folder, as an OCI layout, pushes it if asked to, and returns its digest. The
// reference has a tag.
func Deliver(ctx context.Context, image images.Image, layout, reference string, push bool) (string, error) {
	index, err := image.Index(ctx, images.Platforms()...)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of %s: %w", reference, err)
	}
	_, tag, _ := strings.Cut(reference[strings.LastIndex(reference, "/")+1:], ":")
	if err := images.WriteLayout(layout, tag, index); err != nil {
		return "", err
	}
	if push {
		if err := images.Publish(ctx, reference, index); err != nil {
			return "", err
		}
	}
	return digest.String(), nil
}

func gitLine(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(output)), nil
}

// WriteReleases writes a list of versions, keeping the comment at its head.
func WriteReleases(name string, releases Releases) error {
	if err := releases.check(); err != nil {
		return err
	}
	before, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var text bytes.Buffer
	for line := range strings.Lines(string(before)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		text.WriteString(line)
	}
	content, err := yaml.Marshal(releases)
	if err != nil {
		return err
	}
	text.Write(content)
	return os.WriteFile(name, text.Bytes(), 0o644)
}
