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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// Version is a released version, as catalog/versions.yaml lists them.
type Version struct {
	// Version is the version, such as v0.1.0.
	Version string `json:"version"`
	// Commit is the version's commit of this repository.
	Commit string `json:"commit"`
	// Created is when it was released, as RFC 3339.
	Created string `json:"created"`
	// Image is the manager's image by digest, and BundleImage the bundle's.
	Image       string `json:"image"`
	BundleImage string `json:"bundleImage,omitempty"`
	// Channels are the ones offering it.
	Channels []string `json:"channels"`
	// Replaces is the version before it.
	Replaces string `json:"replaces,omitempty"`
	// Skips are versions to lead nobody through any more.
	Skips []string `json:"skips,omitempty"`
	// SkipRange may go straight to this version.
	SkipRange string `json:"skipRange,omitempty"`
	// Why is a line on the version's purpose, or the reason for a skip.
	Why string `json:"why,omitempty"`
}

// Releases is the content of catalog/versions.yaml, oldest version first.
type Releases struct {
	Versions []Version `json:"versions"`
}

// ReadReleases reads and checks a list of versions.
func ReadReleases(name string) (Releases, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return Releases{}, fmt.Errorf("reading the list of versions: %w", err)
	}
	releases := Releases{}
	if err := yaml.UnmarshalStrict(content, &releases); err != nil {
		return Releases{}, fmt.Errorf("reading the list of versions: %w", err)
	}
	return releases, releases.check()
}

// check finds mistakes unknown to opm: an invalid version, or one after a version not in
// the list.
func (r Releases) check() error {
	var known []string
	var errs []error
	for _, v := range r.Versions {
		if semver.Canonical(v.Version) != v.Version {
			errs = append(errs, fmt.Errorf("%q is not a full version", v.Version))
		}
		if len(known) > 0 && semver.Compare(known[len(known)-1], v.Version) >= 0 {
			errs = append(errs, fmt.Errorf("%s is listed after %s", v.Version, known[len(known)-1]))
		}
		for _, earlier := range append([]string{v.Replaces}, v.Skips...) {
			if earlier != "" && !slices.Contains(known, earlier) {
				errs = append(errs, fmt.Errorf("%s follows %s, which is not listed before it", v.Version, earlier))
			}
		}
		if v.Replaces != "" && slices.Contains(v.Skips, v.Replaces) {
			errs = append(errs, fmt.Errorf("%s both replaces and skips %s: whoever comes before that would be stranded", v.Version, v.Replaces))
		}
		for _, channel := range v.Channels {
			switch {
			case slices.Contains(Channels(), channel):
			case !slices.Contains(closed(), channel):
				errs = append(errs, fmt.Errorf("%s is in the unknown channel %q", v.Version, channel))
			case semver.Compare(v.Version, lastStable) > 0:
				errs = append(errs, fmt.Errorf("%s is in the channel %q, which ends with %s", v.Version, channel, lastStable))
			}
		}
		known = append(known, v.Version)
	}
	return errors.Join(errs...)
}

// Catalog says how a file-based catalog is made.
type Catalog struct {
	Releases
	// Bundle returns the folder with the rendered bundle of a version.
	Bundle func(version string) string
	// Output is the catalog's folder.
	Output string
	// Icon is a picture in SVG.
	Icon []byte
	// Inline omits the bundles' images: OLM installs from the catalog's content and needs
	// no registry.
	Inline bool
	// Progress receives a line for each program to build. It may be nil.
	Progress io.Writer
}

// Write makes the catalog and checks it. A catalog without versions is none.
func (c Catalog) Write(ctx context.Context) error {
	if len(c.Versions) == 0 {
		return errors.New("no version has been released")
	}
	opm, err := program(ctx, binaries.OPM, c.Progress)
	if err != nil {
		return err
	}
	var catalog bytes.Buffer
	for _, blob := range c.graph() {
		text, err := yaml.Marshal(blob)
		if err != nil {
			return err
		}
		catalog.WriteString("---\n")
		catalog.Write(text)
	}
	for _, v := range c.Versions {
		rendered, err := c.render(ctx, opm, v)
		if err != nil {
			return err
		}
		catalog.WriteString("---\n")
		catalog.Write(rendered)
	}
	dir := filepath.Join(c.Output, Package)
	if err := errors.Join(os.RemoveAll(c.Output), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), catalog.Bytes(), 0o644); err != nil {
		return err
	}
	return run(ctx, ".", nil, opm, "validate", c.Output)
}

// Publish packs the catalog into a layout and, if a repository is named, pushes it, too. A
// pushed catalog offers only versions of this repository with images in the registry: OLM
// could not unpack others.
func (c Catalog) Publish(ctx context.Context, layout, repository string) error {
	if repository != "" {
		c.Versions = slices.DeleteFunc(slices.Clone(c.Versions), func(v Version) bool { return !strings.HasPrefix(v.BundleImage, repository+"-bundle@") })
		for _, v := range c.Versions {
			if err := errors.Join(images.Find(ctx, v.Image), images.Find(ctx, v.BundleImage)); err != nil {
				return fmt.Errorf("offering %s: %w", v.Version, err)
			}
		}
		if err := c.Write(ctx); err != nil {
			return err
		}
	}
	packed, err := CatalogImage(c.Output)
	if err != nil {
		return err
	}
	_, err = Deliver(ctx, packed, layout, repository+"-catalog:latest", repository != "")
	return err
}

// render returns the catalog's description of one version.
func (c Catalog) render(ctx context.Context, opm string, v Version) ([]byte, error) {
	args := []string{"render", c.Bundle(v.Version), "-o", "yaml"}
	if !c.Inline {
		args = append(args, "--migrate-level=bundle-object-to-csv-metadata")
	}
	cmd := exec.CommandContext(ctx, opm, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering the bundle of %s: %w\n%s", v.Version, err, problems.String())
	}
	blob := map[string]any{}
	if err := yaml.Unmarshal(output, &blob); err != nil {
		return nil, fmt.Errorf("reading the rendered bundle of %s: %w", v.Version, err)
	}
	if blob["name"] != CSVName(v.Version) {
		return nil, fmt.Errorf("the bundle of %s is one of %v", v.Version, blob["name"])
	}
	if !c.Inline {
		if v.BundleImage == "" {
			return nil, fmt.Errorf("version %s has no bundle image", v.Version)
		}
		blob["image"] = v.BundleImage
	}
	return yaml.Marshal(blob)
}

// channel and channelEntry are the file-based catalog format's.
type channel struct {
	Schema  string         `json:"schema"`
	Package string         `json:"package"`
	Name    string         `json:"name"`
	Entries []channelEntry `json:"entries"`
}

type channelEntry struct {
	Name      string   `json:"name"`
	Replaces  string   `json:"replaces,omitempty"`
	Skips     []string `json:"skips,omitempty"`
	SkipRange string   `json:"skipRange,omitempty"`
}

// graph returns the package and its channels. A version leads to the next in its channel even where the version between them is in
// another channel only.
func (c Catalog) graph() []any {
	blobs := []any{map[string]any{
		"schema": "olm.package", "name": Package, "defaultChannel": Channels()[0],
		"description": "Workloads that roll forward in place, pod by pod, without losing names, addresses or volumes.",
		"icon":        map[string]any{"base64data": c.Icon, "mediatype": "image/svg+xml"},
	}}
	for _, name := range append(Channels(), closed()...) {
		made := channel{Schema: "olm.channel", Package: Package, Name: name}
		var offered []string
		for _, v := range c.Versions {
			if !slices.Contains(v.Channels, name) {
				continue
			}
			entry := channelEntry{Name: CSVName(v.Version), SkipRange: v.SkipRange}
			if v.Replaces != "" && len(offered) > 0 {
				entry.Replaces = CSVName(v.Replaces)
				if !slices.Contains(offered, v.Replaces) {
					entry.Replaces = CSVName(offered[len(offered)-1])
				}
			}
			for _, skipped := range v.Skips {
				entry.Skips = append(entry.Skips, CSVName(skipped))
			}
			made.Entries = append(made.Entries, entry)
			offered = append(offered, v.Version)
		}
		if len(made.Entries) > 0 {
			blobs = append(blobs, made)
		}
	}
	return blobs
}

// Graph draws the channels of a catalog: a page with one flow chart in Mermaid for each, as opm draws it, and the list of versions.
func (c Catalog) Graph(ctx context.Context) ([]byte, error) {
	const head = "<!-- Written by `make catalog` from catalog/versions.yaml. -->\n# Versions and upgrades\n\n"
	if len(c.Versions) == 0 {
		return []byte(head + "No version has been released yet.\n"), nil
	}
	opm, err := program(ctx, binaries.OPM, c.Progress)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, opm, "alpha", "render-graph", c.Output)
	var problems strings.Builder
	cmd.Stderr = &problems
	drawn, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("drawing the upgrade graph: %w\n%s", err, problems.String())
	}
	var page bytes.Buffer
	page.WriteString(head)
	page.WriteString("| Version | Commit | Channels | Replaces | Skips | May be reached from | |\n|---|---|---|---|---|---|---|\n")
	for _, v := range c.Versions {
		fmt.Fprintf(&page, "| %s | `%.12s` | %s | %s | %s | %s | %s |\n", v.Version, v.Commit, strings.Join(v.Channels, ", "),
			v.Replaces, strings.Join(v.Skips, ", "), strings.ReplaceAll(v.SkipRange, "<", "&lt;"), v.Why)
	}
	fmt.Fprintf(&page, "\n```mermaid\n%s\n```\n", bytes.TrimSpace(drawn))
	return page.Bytes(), nil
}
