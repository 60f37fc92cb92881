// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Reference is an image, taken apart as NodeImages have it.
type Reference struct {
	// Repository is its name without a tag in the short form, such as nginx or registry.example:5000/team/app.
	Repository string
	// Tag is its digest, such as sha256:..., if it has one, else its tag.
	Tag string
}

// ParseReference takes an image apart. One without tag and digest has the tag latest.
func ParseReference(image string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is no image: %w", image, err)
	}
	r := Reference{Repository: reference.FamiliarName(named)}
	if digested, ok := named.(reference.Digested); ok {
		r.Tag = digested.Digest().String()
		return r, nil
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	return r, nil
}

// Full is the image as a container runtime takes it: with its registry.
func (r Reference) Full() (string, error) {
	separator := ":"
	if strings.Contains(r.Tag, ":") {
		separator = "@"
	}
	named, err := reference.ParseNormalizedNamed(r.Repository + separator + r.Tag)
	if err != nil {
		return "", fmt.Errorf("%q is no image: %w", r.Repository+separator+r.Tag, err)
	}
	return named.String(), nil
}
