// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the user and group of images without rights. It is a number: runAsNonRoot is
// checked before the image is read, and there is no /etc/passwd.
const NonRoot = "65532:65532"

// Platforms are the released images'.
func Platforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// Host is the platform of this machine, on Linux.
func Host() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// Image is an image's content and start. The zero value is an empty image.
type Image struct {
	// Programs are compiled for the platform and put at the top of the file system.
	Programs []Program
	// Files are further files by their path, such as "manifests/x.yaml". Folders above them are made. Programs among them can be run.
	Files map[string][]byte
	// User is who runs it, as user:group. Empty is root; use NonRoot.
	User string
	// Entrypoint is run. Empty: the first program, if there is one.
	Entrypoint []string
	// Command are the default arguments of the entrypoint.
	Command []string
	// Path is searched for programs called by name alone. Empty: the top of the file
	// system.
	Path string
	// Labels are in the image's configuration.
	Labels map[string]string
}

// AddFolder adds all files below a folder, below prefix in the image.
func (i *Image) AddFolder(prefix string, folder fs.FS) error {
	if i.Files == nil {
		i.Files = map[string][]byte{}
	}
	return fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		i.Files[path.Join(prefix, name)] = content
		return nil
	})
}

// For makes the image for one platform, for use on this machine: its digest differs between machines.
func (i Image) For(ctx context.Context, platform v1.Platform) (v1.Image, error) {
	return i.build(ctx, platform, target{arch: platform.Architecture})
}

// build makes the image: one layer of files and one for each program.
func (i Image) build(ctx context.Context, platform v1.Platform, to target) (v1.Image, error) {
	var layers []v1.Layer
	if len(i.Files) > 0 {
		layer, err := filesLayer(i.Files)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	entrypoint := i.Entrypoint
	for _, program := range i.Programs {
		var content []byte
		err := program.compile(ctx, to, func(path string) (err error) {
			content, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			return nil, err
		}
		layer, err := newLayer([]*tar.Header{{Name: program.name(), Mode: 0o755, Size: int64(len(content))}}, [][]byte{content})
		if err != nil {
			return nil, fmt.Errorf("making a layer of %s: %w", program.Package, err)
		}
		layers = append(layers, layer)
		if len(entrypoint) == 0 {
			entrypoint = []string{"/" + program.name()}
		}
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("putting an image together: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("putting an image together: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = cmp.Or(platform.OS, "linux"), platform.Architecture, platform.Variant
	config.Config.User = i.User
	config.Config.Entrypoint, config.Config.Cmd = entrypoint, i.Command
	config.Config.Env = []string{"PATH=" + cmp.Or(i.Path, "/")}
	config.Config.Labels = maps.Clone(i.Labels)
	return mutate.ConfigFile(image, config)
}

// Index makes the image for several platforms. The same sources and version give the same digest on every machine.
func (i Image) Index(ctx context.Context, platforms ...v1.Platform) (v1.ImageIndex, error) {
	if len(platforms) == 0 {
		return nil, errors.New("making an image index: no platform is named")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		image, err := i.build(ctx, platform, target{arch: platform.Architecture, release: true})
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

// filesLayer makes a layer of files and the folders above them, in the order of their names.
func filesLayer(files map[string][]byte) (v1.Layer, error) {
	all := map[string]*tar.Header{}
	contents := map[string][]byte{}
	for name, content := range files {
		name = strings.TrimPrefix(path.Clean("/"+name), "/")
		all[name] = &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}
		if bytes.HasPrefix(content, []byte("\x7fELF")) {
			all[name].Mode = 0o755
		}
		contents[name] = content
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			all[folder] = &tar.Header{Name: folder + "/", Mode: 0o755, Typeflag: tar.TypeDir}
		}
	}
	var headers []*tar.Header
	var bodies [][]byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		headers = append(headers, all[name])
		bodies = append(bodies, contents[name])
	}
	layer, err := newLayer(headers, bodies)
	if err != nil {
		return nil, fmt.Errorf("making a layer of files: %w", err)
	}
	return layer, nil
}

// newLayer makes the same layer for the same content: no times, no owners.
func newLayer(headers []*tar.Header, bodies [][]byte) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for i, header := range headers {
		header.Format = tar.FormatPAX
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(bodies[i]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
