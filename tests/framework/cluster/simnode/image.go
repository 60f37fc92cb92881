// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/distribution/reference"
)

// UnpullableMarker in an image's name, tag or digest makes its pull fail.
const UnpullableMarker = "unpullable"

// statusImage is the name a runtime reports for an image: with registry host and tag written out, so "web" becomes
// "docker.io/library/web:latest".
func statusImage(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TagNameOnly(named).String()
}

// imageID depends on the image's name alone: the same on every node and in every run. A
// digest in the name stays.
func imageID(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "sha256:" + digest(image)
	}
	if canonical, ok := named.(reference.Canonical); ok {
		return reference.TrimNamed(named).String() + "@" + canonical.Digest().String()
	}
	return reference.TrimNamed(named).String() + "@sha256:" + digest(reference.TagNameOnly(named).String())
}

// DefaultImageID is simulated nodes' ID of an image, unless the pod or Options override it.
func DefaultImageID(image string) string { return imageID(image) }

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:])
}

func unpullable(image string) bool { return strings.Contains(image, UnpullableMarker) }
