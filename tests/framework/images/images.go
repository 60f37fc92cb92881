// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package images builds the container images that the suites run, from small Go programs in
// tests/images, and serves them from a registry inside the process that needs them. No network, no
// container engine and no base image are involved: an image is one or more static programs
// on an empty file system.
//
// Building the same program with the same version gives the same image, down to its ID.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// Program is a Go program of this repository and the version it is built with.
type Program struct {
	// Package is the folder of the main package, relative to the top of the repository.
	Package string
	// Name is the file name of the program. Empty: the name of the folder.
	Name string
	// Version is written to the variable main.version. Empty leaves the variable alone.
	Version string
}

// Guestbook is the web server of tests/images/guestbook at the given version.
func Guestbook(version string) Program {
	return Program{Package: "tests/images/guestbook", Version: version}
}

// Pause is the program that holds the namespaces of a pod open.
func Pause() Program {
	return Program{Package: "tests/images/pause"}
}

func (p Program) name() string {
	if p.Name != "" {
		return p.Name
	}
	return path.Base(p.Package)
}

// Compile builds the program as a static Linux executable and returns its path in the user's cache
// folder. A program that has not changed since the last call is not linked again. Processes that
// compile at the same time wait for each other.
func Compile(ctx context.Context, program Program) (string, error) {
	file := ""
	err := compileLocked(ctx, program, func(path string) error {
		file = path
		return nil
	})
	return file, err
}

// Build compiles the programs and makes an image of them, each at the top of its file system. The image runs the first one
// unless a container says otherwise.
func Build(ctx context.Context, first Program, more ...Program) (v1.Image, error) {
	programs := append([]Program{first}, more...)
	files := make([]file, len(programs))
	for i, program := range programs {
		files[i].name = program.name()
		err := compileLocked(ctx, program, func(path string) (err error) {
			files[i].content, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	image, err := wrap(files)
	if err != nil {
		return nil, fmt.Errorf("making an image of %s: %w", first.Package, err)
	}
	return image, nil
}

// compileLocked compiles the program and hands its path to use while no other process can replace it.
func compileLocked(ctx context.Context, program Program, use func(path string) error) error {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return err
	}
	name := program.name()
	// Working copies do not share: one would run what another one has just compiled from other sources.
	copyOf := sha256.Sum256([]byte(root))
	folder := filepath.Join(cache, "images", hex.EncodeToString(copyOf[:8]), name)
	if program.Version != "" {
		folder = filepath.Join(folder, program.Version)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	file := filepath.Join(folder, name)
	flags := "-s -w"
	if program.Version != "" {
		flags += " -X main.version=" + program.Version
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file,
		"./"+program.Package)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", program.Package, err, strings.TrimSpace(string(output)))
	}
	return use(file)
}

// lock takes the exclusive lock of a file, creating it if needed, and returns the function that gives it back.
func lock(name string) (func(), error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return func() { _ = file.Close() }, nil
}

// file is an executable in an image.
type file struct {
	name    string
	content []byte
}

// wrap makes an image of the files that runs the first one.
func wrap(files []file) (v1.Image, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, file := range files {
		if err := writer.WriteHeader(&tar.Header{
			Name: file.name, Mode: 0o755, Size: int64(len(file.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = runtime.GOARCH
	config.Config.Entrypoint = []string{"/" + files[0].name}
	config.Config.Env = []string{"PATH=/"}
	return mutate.ConfigFile(image, config)
}
