// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/uuid"
)

// SBOM returns a CycloneDX bill of materials, in JSON, of an image built as index: every Go
// module linked into one of its programs, and the Go standard library. It is the same for
// the same image.
func (i Image) SBOM(ctx context.Context, imageName, version string, index v1.ImageIndex) ([]byte, error) {
	digest, err := index.Digest()
	if err != nil {
		return nil, fmt.Errorf("listing what %s is made of: %w", imageName, err)
	}
	modules := map[string]cyclonedx.Component{}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("listing what %s is made of: %w", imageName, err)
	}
	for _, descriptor := range manifest.Manifests {
		for _, program := range i.Programs {
			err := program.compile(ctx, target{arch: descriptor.Platform.Architecture, release: true}, func(path string) error {
				info, err := buildinfo.ReadFile(path)
				if err != nil {
					return err
				}
				collect(modules, info, version)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("listing what %s is made of: %w", imageName, err)
			}
		}
	}
	var components []cyclonedx.Component
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceOID, []byte(imageName+"@"+digest.String())).URN()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: imageName + "@" + digest.String(), Type: cyclonedx.ComponentTypeContainer, Name: imageName, Version: version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: digest.Hex}},
	}}
	bom.Components = &components
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("writing the bill of materials of %s: %w", imageName, err)
	}
	return text.Bytes(), nil
}

// collect adds the modules of one program. The main module has no version of its own in a build from a working copy.
func collect(modules map[string]cyclonedx.Component, info *debug.BuildInfo, version string) {
	add := func(path, version string) {
		ref := "pkg:golang/" + path + "@" + version
		modules[ref] = cyclonedx.Component{
			BOMRef: ref, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: ref,
		}
	}
	add("std", strings.TrimPrefix(info.GoVersion, "go"))
	if info.Main.Version == "" || info.Main.Version == "(devel)" {
		add(info.Main.Path, version)
	} else {
		add(info.Main.Path, info.Main.Version)
	}
	for _, module := range info.Deps {
		switch {
		case module.Replace == nil:
			add(module.Path, module.Version)
		case module.Replace.Version == "": // a folder of this working copy: the module that lies beside the main one
			add(module.Path, version)
		default:
			add(module.Replace.Path, module.Replace.Version)
		}
	}
}
