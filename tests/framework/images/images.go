// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package images builds every container image of this repository from Go programs, without
// a network, a container engine or a base image: the manager, the packaging's images, and
// the suites' small programs in tests/images. An image is static programs and files on an
// empty file system.
//
// [Image] is an image's content. [Image.Index] makes it for release: the same sources and
// version give the same digest on every machine. [Image.For] makes it for a test cluster,
// from the suites' compiled packages. [WriteLayout] stores an index as an OCI layout,
// [Publish] pushes it to a registry, [SBOM] lists its parts, and [Registry] serves images
// to a test cluster from within the process.
package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// Program is a Go program and how it is built.
type Program struct {
	// Package is the folder of the main package, relative to the top of the repository. With ModFile, it is an import path.
	Package string
	// Name is the file name of the program. Empty: the last element of Package.
	Name string
	// Version is written to a string variable of the program. Empty leaves the variable alone.
	Version string
	// VersionVariable is the version's variable with its import path. Empty: main.version.
	VersionVariable string
	// ModFile is the go.mod of a foreign program, relative to the top of the repository,
	// such as tools/sdk/go.mod. Empty: the module of Package.
	ModFile string
	// Tags are build tags.
	Tags []string
}

// Manager is the manager of the operator at the given version, such as v0.1.0.
func Manager(version string) Program {
	return Program{
		Package: ".", Name: "kruise-operator",
		Version: version, VersionVariable: "github.com/kruise-operator/kruise-operator/internal/platform/version.release",
	}
}

// NodeDaemon is the operator's program for nodes, at the given version. It is in the
// operator's image.
func NodeDaemon(version string) Program {
	daemon := Manager(version)
	daemon.Package, daemon.Name = "internal/cmd/daemon", "kruise-daemon"
	return daemon
}

// Preflight checks a cluster before a takeover from OpenKruise. It is in the operator's image.
func Preflight(version string) Program {
	checks := Manager(version)
	checks.Package, checks.Name = "internal/cmd/preflight", "kruise-preflight"
	return checks
}

// Operator are the programs of the operator's image: the manager, run by the image, the
// node daemon and the checks before a takeover.
func Operator(version string) []Program {
	return []Program{Manager(version), NodeDaemon(version), Preflight(version)}
}

// Guestbook is the web server of tests/images/guestbook at the given version.
func Guestbook(version string) Program {
	return Program{Package: "tests/images/guestbook", Version: version}
}

// Scorecard holds the scorecard tests of this project.
func Scorecard() Program {
	return Program{Package: "tests/images/scorecard"}
}

// Pause is the program keeping a pod's namespaces open.
func Pause() Program {
	return Program{Package: "tests/images/pause"}
}

func (p Program) name() string {
	if p.Name != "" {
		return p.Name
	}
	return path.Base(p.Package)
}

// Compile builds the program as a static Linux executable for this machine and returns its
// path in the user's cache folder. An unchanged program is not linked again. Parallel
// processes wait for each other.
func Compile(ctx context.Context, program Program) (string, error) {
	file := ""
	err := program.compile(ctx, target{arch: runtime.GOARCH}, func(path string) error {
		file = path
		return nil
	})
	return file, err
}

// CompileTo compiles the program for this machine's own operating system into a new file;
// later compilations leave it alone.
func CompileTo(ctx context.Context, program Program, file string) error {
	return program.compile(ctx, target{os: runtime.GOOS, arch: runtime.GOARCH}, func(path string) error {
		if os.Link(path, file) == nil {
			return nil
		}
		// Another file system: copy.
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(file, content, 0o755)
	})
}

// Build makes an image of the programs for this machine's architecture, each at the top of its file system. The image runs the
// first one, as root, unless a container says otherwise.
func Build(ctx context.Context, first Program, more ...Program) (v1.Image, error) {
	return Image{Programs: append([]Program{first}, more...)}.For(ctx, Host())
}

// target is a platform to compile for.
type target struct {
	// os is an operating system of Go. Empty: linux, as in every image.
	os   string
	arch string
	// release removes this machine's paths, so every machine makes the same program.
	// Without it, packages are shared with tests, compiled with paths.
	release bool
}

func (t target) system() string { return cmp.Or(t.os, "linux") }

func (t target) folder() string {
	folder := t.system() + "-" + t.arch
	if t.release {
		folder += "-release"
	}
	return folder
}

// compile builds the program and hands its path to use while no other process can replace it.
func (p Program) compile(ctx context.Context, to target, use func(path string) error) error {
	root, err := repository.Root()
	if err != nil {
		return err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return err
	}
	// Working copies do not share: one would run another's program.
	copyOf := sha256.Sum256([]byte(root))
	folder := filepath.Join(cache, "images", hex.EncodeToString(copyOf[:8]), to.folder(), p.name(), cmp.Or(p.Version, "none"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	file := filepath.Join(folder, p.name())
	flags := "-s -w"
	if p.Version != "" {
		flags += " -X " + cmp.Or(p.VersionVariable, "main.version") + "=" + p.Version
	}
	dir := root
	args := []string{"build", "-buildvcs=false", "-ldflags", flags, "-o", file}
	if to.release {
		args = append(args, "-trimpath")
	}
	if len(p.Tags) > 0 {
		args = append(args, "-tags", strings.Join(p.Tags, ","))
	}
	if p.ModFile != "" {
		args = append(args, "-modfile", p.ModFile, p.Package)
	} else {
		module, pkg := repository.SplitPackage(p.Package)
		dir, args = filepath.Join(root, module), append(args, pkg)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	// GOAMD64 and its like are left at their defaults: the program has to run on any machine of its architecture.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+to.system(), "GOARCH="+to.arch, "GOFLAGS=", "GOAMD64=", "GOARM64=")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", p.Package, err, strings.TrimSpace(string(output)))
	}
	return use(file)
}

// lock takes a file's exclusive lock, creating it if needed, and returns the release.
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
