// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command images builds the container images of a release, without a container engine: each as an OCI layout with a bill of
// materials beside it, and pushed when a repository is named.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := repository.EnterRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var output, repository, version string
	var architectures []string
	cmd := &cobra.Command{
		Use:           "images",
		Short:         "Build the container images of a release",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			platforms := images.Platforms()
			if len(architectures) > 0 {
				platforms = nil
			}
			for _, architecture := range architectures {
				platforms = append(platforms, v1.Platform{OS: "linux", Architecture: architecture})
			}
			for _, r := range releases(version) {
				if err := build(cmd.Context(), r, platforms, output, repository, version); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "dist/images", "Folder for the OCI layouts and the bills of materials.")
	cmd.Flags().StringVar(&repository, "repository", os.Getenv("IMAGE_REPO"),
		"Where the manager's image is pushed, such as registry.example/team/kruise-operator; others get a suffix. Empty pushes nothing.")
	cmd.Flags().StringSliceVar(&architectures, "arch", nil, "The architectures to build for. Empty: those of a release.")
	cmd.Flags().StringVar(&version, "version", "v0.6.0", "The version: the tag of the images and what the programs say of themselves.")
	return cmd
}

// release is an image of a release.
type release struct {
	// suffix is added to the name of the manager's repository.
	suffix string
	image  images.Image
}

// releases are all images of a release.
func releases(version string) []release {
	return []release{
		{suffix: "-scorecard", image: images.Image{Programs: []images.Program{images.Scorecard()}, User: images.NonRoot}},
		{image: images.Image{
			Programs: images.Operator(version),
			User:     images.NonRoot,
			Command:  []string{"run"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "kruise-operator",
				"org.opencontainers.image.version":  version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		}},
	}
}

func build(ctx context.Context, r release, platforms []v1.Platform, output, repository, version string) error {
	name := "kruise-operator" + r.suffix
	index, err := r.image.Index(ctx, platforms...)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of %s: %w", name, err)
	}
	if err := images.WriteLayout(filepath.Join(output, name), version, index); err != nil {
		return err
	}
	materials, err := r.image.SBOM(ctx, name, version, index)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(output, name+".cdx.json"), materials, 0o644); err != nil {
		return fmt.Errorf("writing the bill of materials: %w", err)
	}
	fmt.Printf("%s:%s@%s in %s\n", name, version, digest, filepath.Join(output, name))
	if repository == "" {
		return nil
	}
	reference := repository + r.suffix + ":" + version
	if err := images.Publish(ctx, reference, index); err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", reference, digest)
	return nil
}
