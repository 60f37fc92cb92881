// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images

import (
	"context"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// referenceAnnotation is how tools find an image in a layout.
const referenceAnnotation = "org.opencontainers.image.ref.name"

// WriteLayout replaces a folder by an OCI layout with the index under a name, a tag or a
// whole reference.
func WriteLayout(folder, reference string, index v1.ImageIndex) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("writing an image layout: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing an image layout: %w", err)
	}
	into, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("writing an image layout to %s: %w", folder, err)
	}
	if err := into.AppendIndex(index, layout.WithAnnotations(map[string]string{referenceAnnotation: reference})); err != nil {
		return fmt.Errorf("writing an image layout to %s: %w", folder, err)
	}
	return nil
}

// Publish pushes the index to the reference's registry, with the credentials of the user's
// container tools (docker login and its like). A registry on loopback gets plain HTTP.
func Publish(ctx context.Context, reference string, index v1.ImageIndex) error {
	target, err := name.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("pushing an image: %w", err)
	}
	if err := remote.WriteIndex(target, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// Find fails if the registry lacks the reference's image.
func Find(ctx context.Context, reference string) error {
	target, err := name.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("looking for an image: %w", err)
	}
	if _, err := remote.Head(target, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("looking for %s: %w", reference, err)
	}
	return nil
}
