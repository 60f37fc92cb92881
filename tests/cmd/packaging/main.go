// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command packaging makes and checks the Operator Lifecycle Manager's packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/tests/framework/chart"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/dashboard"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
	scorecards "github.com/kruise-operator/kruise-operator/tests/framework/scorecard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := repository.EnterRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
	root := &cobra.Command{Use: "packaging", Short: "Make and check bundle, catalog and community tree", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(bundle(), charts(), dashboards(), installer(), validate(), notes(), release(), releaseChart(), catalog(), operatorHub(), scorecard())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// bundle writes the bundle of this tree.
func bundle() *cobra.Command {
	b := packaging.Bundle{Progress: os.Stderr}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write bundle/ and bundle.Dockerfile of this tree",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := repository.Root()
			if err != nil {
				return err
			}
			if err := packaging.Generate(cmd.Context(), root, b.Progress); err != nil {
				return err
			}
			b.Root, b.Output, b.Dockerfile = root, filepath.Join(root, "bundle"), filepath.Join(root, "bundle.Dockerfile")
			return b.Write(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&b.Version, "version", "v0.0.0", "The version.")
	cmd.Flags().StringVar(&b.Image, "image", "", "The manager's image.")
	cmd.Flags().StringVar(&b.ScorecardImage, "scorecard-image", "", "The image of our own scorecard tests.")
	cmd.Flags().StringVar(&b.Created, "created", "2026-01-01T00:00:00Z", "When the version was made.")
	return cmd
}

// charts writes the generated part of this tree's Helm chart.
func charts() *cobra.Command {
	return &cobra.Command{
		Use:   "chart",
		Short: "Write the templates of charts/kruise-operator from config/",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root, err := repository.Root()
			if err != nil {
				return err
			}
			return chart.Write(root)
		},
	}
}

// dashboards writes the Grafana dashboard of this tree.
func dashboards() *cobra.Command {
	return &cobra.Command{
		Use:   "dashboard",
		Short: "Write " + dashboard.File,
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return dashboard.Write(".") },
	}
}

// installer writes install.yaml of this tree.
func installer() *cobra.Command {
	image, output := "", ""
	cmd := &cobra.Command{
		Use:   "installer",
		Short: "Write " + packaging.InstallFile + ": config/default in one file",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root, err := repository.Root()
			if err != nil {
				return err
			}
			return packaging.WriteInstaller(root, image, output)
		},
	}
	cmd.Flags().StringVar(&image, "image", "", "The manager's image.")
	cmd.Flags().StringVar(&output, "output", "dist/"+packaging.InstallFile, "The file.")
	return cmd
}

// notes writes a version's section of the changelog.
func notes() *cobra.Command {
	version, output := "", ""
	cmd := &cobra.Command{
		Use:   "notes",
		Short: "Write the notes of a release from CHANGELOG.md",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			changelog, err := os.ReadFile("CHANGELOG.md")
			if err != nil {
				return err
			}
			text, err := packaging.Notes(string(changelog), version)
			if err != nil {
				return err
			}
			folder := filepath.Join(output, version)
			return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "notes.md"), []byte(text), 0o644))
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "The version.")
	cmd.Flags().StringVar(&output, "output", releasesFolder, "Folder for the version's folder.")
	return cmd
}

// releaseChart packs the chart, and pushes it.
func releaseChart() *cobra.Command {
	version, pullFrom, pushTo, output := "", "", "", ""
	cmd := &cobra.Command{
		Use:   "release-chart",
		Short: "Pack the chart of this tree as a version, and push it to an OCI registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			archive, err := packaging.PackChart(cmd.Context(), ".", version, pullFrom, filepath.Join(output, version), os.Stderr)
			if err != nil || pushTo == "" {
				return err
			}
			return packaging.PushChart(cmd.Context(), archive, pushTo, os.Stderr)
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "The version.")
	cmd.Flags().StringVar(&pullFrom, "repository", "", "Where the manager's image is pulled from.")
	cmd.Flags().StringVar(&pushTo, "push-to", "", "Where the chart is pushed, such as ghcr.io/team/charts. Empty pushes nothing.")
	cmd.Flags().StringVar(&output, "output", releasesFolder, "Folder for the version's folder.")
	return cmd
}

// releasesFolder receives a folder for each made version.
const releasesFolder = "dist/releases"

// versionsFile lists the released versions; bundlesFolder holds the rendered bundle of each.
const (
	versionsFile  = "catalog/versions.yaml"
	bundlesFolder = "catalog/bundles"
)

// release makes a version from a commit and adds it to the list, or makes a listed one again.
func release() *cobra.Command {
	v := packaging.Version{}
	pullFrom, layouts, push := "", "", false
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Build a version from a commit: its images and its bundle; add it to " + versionsFile,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := repository.Root()
			if err != nil {
				return err
			}
			list := filepath.Join(root, versionsFile)
			releases, err := packaging.ReadReleases(list)
			if err != nil {
				return err
			}
			listed := slices.IndexFunc(releases.Versions, func(known packaging.Version) bool { return known.Version == v.Version })
			if listed >= 0 && v.Commit == "" {
				v = releases.Versions[listed]
			}
			if last := len(releases.Versions) - 1; v.Replaces == "" && listed < 0 && last >= 0 {
				v.Replaces = releases.Versions[last].Version
			}
			made, err := packaging.Release{
				Root: root, Version: v, Repository: pullFrom, Bundle: filepath.Join(root, bundlesFolder, v.Version),
				Layouts: filepath.Join(layouts, v.Version), Push: push, Progress: os.Stderr,
			}.Make(cmd.Context())
			if err != nil {
				return err
			}
			if listed >= 0 {
				releases.Versions[listed] = made
			} else {
				releases.Versions = append(releases.Versions, made)
			}
			fmt.Printf("%s is %s\n%s\n%s\n", made.Version, made.Commit, made.Image, made.BundleImage)
			return packaging.WriteReleases(list, releases)
		},
	}
	cmd.Flags().StringVar(&v.Version, "version", "", "The version.")
	cmd.Flags().StringVar(&v.Commit, "commit", "", "The commit. Empty: the one that is listed.")
	cmd.Flags().StringSliceVar(&v.Channels, "channels", packaging.Channels(), "The channels that offer it.")
	cmd.Flags().StringVar(&v.Replaces, "replaces", "", "The version before it. Empty: the last one that is listed.")
	cmd.Flags().StringSliceVar(&v.Skips, "skips", nil, "Versions that nobody should be led through any more.")
	cmd.Flags().StringVar(&v.SkipRange, "skip-range", "", "Which versions may go straight to this one.")
	cmd.Flags().StringVar(&v.Why, "why", "", "A line on what the version is for.")
	cmd.Flags().StringVar(&pullFrom, "repository", "registry.example.com/kruise-operator", "Where the manager's image is pulled from.")
	cmd.Flags().StringVar(&layouts, "layouts", releasesFolder, "Folder for the images as OCI layouts.")
	cmd.Flags().BoolVar(&push, "push", false, "Push the images to the repository.")
	return cmd
}

// released is the catalog of all released versions.
func released(output string) (packaging.Catalog, error) {
	root, err := repository.Root()
	if err != nil {
		return packaging.Catalog{}, err
	}
	releases, err := packaging.ReadReleases(filepath.Join(root, versionsFile))
	if err != nil {
		return packaging.Catalog{}, err
	}
	icon, err := os.ReadFile(filepath.Join(root, "config", "manifests", "icon.svg"))
	if err != nil {
		return packaging.Catalog{}, err
	}
	return packaging.Catalog{
		Releases: releases, Output: output, Icon: icon, Progress: os.Stderr,
		Bundle: func(version string) string { return filepath.Join(root, bundlesFolder, version) },
	}, nil
}

func catalog() *cobra.Command {
	output, drawing, image, pushTo := "", "", "", ""
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Render the file-based catalog of all released versions, check it, pack it and draw its upgrade graph",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := released(output)
			if err != nil {
				return err
			}
			if err := c.Write(cmd.Context()); err != nil {
				return err
			}
			drawn, err := c.Graph(cmd.Context())
			if err != nil {
				return err
			}
			if drawing != "" {
				if err := os.WriteFile(drawing, drawn, 0o644); err != nil {
					return err
				}
			}
			fmt.Printf("%d versions in %s\n", len(c.Versions), output)
			return c.Publish(cmd.Context(), image, pushTo)
		},
	}
	cmd.Flags().StringVar(&output, "output", "dist/catalog", "Folder for the catalog.")
	cmd.Flags().StringVar(&image, "image", "dist/catalog-image", "Folder for the catalog's image as an OCI layout.")
	cmd.Flags().StringVar(&pushTo, "repository", os.Getenv("IMAGE_REPO"), "The manager's repository: the catalog is pushed beside it. Empty pushes nothing.")
	cmd.Flags().StringVar(&drawing, "drawing", "", "File for the page with the upgrade graph.")
	return cmd
}

func operatorHub() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "operatorhub",
		Short: "Write the tree for a pull request to a community catalog and check it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := released("")
			if err != nil {
				return err
			}
			return c.OperatorHub(cmd.Context(), output, os.Stdout)
		},
	}
	cmd.Flags().StringVar(&output, "output", "dist/operatorhub", "Folder for the tree.")
	return cmd
}

func validate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [bundle folder]",
		Short: "Check a bundle with every validator that applies; a warning is an error",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return packaging.Validate(cmd.Context(), args[0], os.Stdout)
		},
	}
}

func scorecard() *cobra.Command {
	return &cobra.Command{
		Use:   "scorecard [bundle folder]",
		Short: "Run a bundle's scorecard in pods on a real node, with the operator; where no node can run, its suites basic and olm as processes",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if unavailable := realnode.Check(); unavailable != nil {
				fmt.Printf("not in pods: %v\nour own tests are left out: they need a cluster (make test-e2e runs them with simulated nodes)\n", unavailable)
				return packaging.Scorecard(cmd.Context(), args[0], os.Stdout)
			}
			return scorecards.Run(cmd.Context(), args[0], os.Stdout, os.Stderr)
		},
	}
}
