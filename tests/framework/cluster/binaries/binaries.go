// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/filelock"
)

// Name is a program this package can build.
type Name string

// The programs Ensure knows.
const (
	Etcd                  Name = "etcd"
	KubeAPIServer         Name = "kube-apiserver"
	KubeControllerManager Name = "kube-controller-manager"
	KubeScheduler         Name = "kube-scheduler"
	Kubectl               Name = "kubectl"
	Kubelet               Name = "kubelet"

	// OperatorSDK generates and checks bundles.
	OperatorSDK Name = "operator-sdk"
	// OPM makes, checks and serves catalogs.
	OPM Name = "opm"
	// OLM is the Operator Lifecycle Manager's installer of ClusterServiceVersions.
	OLM Name = "olm"
	// OLMCatalog is its other operator, for catalogs and subscriptions.
	OLMCatalog Name = "catalog"
	// CopyBundle copies the content of a bundle image, as the first step of unpacking it.
	CopyBundle Name = "cpb"
	// CopyContent copies the files of a catalog image without programs, for a serving pod.
	CopyContent Name = "copy-content"
	// Helm installs charts.
	Helm Name = "helm"
	// ScorecardTest holds the basic and olm suites of the scorecard.
	ScorecardTest Name = "scorecard-test"
	// Traefik is a gateway for the Gateway API and for Ingresses of the class nginx.
	Traefik Name = "traefik"
)

const (
	// CacheVariable names the environment variable with the cache folder.
	CacheVariable = "KRUISE_CACHE"
	// VersionVariable names the environment variable with the Kubernetes version to build.
	VersionVariable = "KUBERNETES_VERSION"
	// lowPriority is the nice value of background builds: other work gets about ten times
	// as much.
	lowPriority = 10
)

// ErrBuild wraps every failure of Ensure to build: no go command, no module proxy, no
// compiler new enough.
var ErrBuild = errors.New("cannot build the programs of the test cluster")

// Options choose the programs and their place.
type Options struct {
	// Version is the Kubernetes version: a release such as v1.35.2, or 1.35 for its newest
	// patch. When empty it is $KUBERNETES_VERSION, and then the pin of tools/kubernetes.
	// Etcd always has the version pinned in tools/etcd.
	Version string
	// Cache is the cache folder; when empty, CacheDir's.
	Cache string
	// Progress receives a line for each built program, none for cached ones. It may be nil.
	Progress io.Writer
	// Background builds with low priority, beside more important work.
	Background bool
}

// Set is where programs of one Kubernetes version are.
type Set struct {
	// Version is the Kubernetes version, such as v1.37.1.
	Version string
	paths   map[Name]string
}

// Path returns the executable; empty for a program Ensure was not asked for.
func (s Set) Path(name Name) string {
	return s.paths[name]
}

// Ensure builds the named programs missing in the cache.
func Ensure(ctx context.Context, options Options, names ...Name) (Set, error) {
	set, err := ensure(ctx, options, names)
	if err != nil {
		if ctx.Err() != nil {
			return Set{}, err
		}
		return Set{}, fmt.Errorf("%w: %w", ErrBuild, err)
	}
	return set, nil
}

// Cached is true if the cache has a program in Ensure's default version.
func Cached(ctx context.Context, name Name) (bool, error) {
	cache, err := CacheDir()
	if err != nil {
		return false, err
	}
	s, err := newSources(ctx, cache, "")
	if err != nil {
		return false, err
	}
	from, _, err := s.of(name)
	if err != nil {
		return false, err
	}
	path, err := builder{cache: cache}.path(ctx, from, name)
	return err == nil && isExecutable(path), err
}

func ensure(ctx context.Context, options Options, names []Name) (Set, error) {
	b := builder{cache: options.Cache, progress: options.Progress, background: options.Background}
	if b.progress == nil {
		b.progress = io.Discard
	}
	if b.cache == "" {
		cache, err := CacheDir()
		if err != nil {
			return Set{}, err
		}
		b.cache = cache
	}
	s, err := newSources(ctx, b.cache, options.Version)
	if err != nil {
		return Set{}, err
	}
	set := Set{Version: s.kubernetes.version, paths: map[Name]string{}}
	for _, name := range names {
		from, pkg, err := s.of(name)
		if err != nil {
			return Set{}, err
		}
		path, err := b.ensure(ctx, from, pkg, name)
		if err != nil {
			return Set{}, err
		}
		set.paths[name] = path
	}
	return set, nil
}

// CacheDir returns the folder of built programs.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(dir, "kruise-operator"), nil
}

// builder fills one cache folder.
type builder struct {
	cache      string
	progress   io.Writer
	background bool
}

// path is where the cache has the program, or would have it.
func (b builder) path(ctx context.Context, from source, name Name) (string, error) {
	goVersion, err := from.goVersion(ctx)
	if err != nil {
		return "", err
	}
	key := strings.Join([]string{from.name, from.version, runtime.GOOS, runtime.GOARCH, goVersion}, "-")
	return filepath.Join(b.cache, "bin", key, string(name)), nil
}

// ensure returns the path of the program, after building it from the package target if need be.
func (b builder) ensure(ctx context.Context, from source, target string, name Name) (string, error) {
	path, err := b.path(ctx, from, name)
	if err != nil || isExecutable(path) {
		return path, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache: %w", err)
	}
	// One lock for each version: the go command uses every core anyway, and two builds would compile the same packages.
	lock, err := filelock.Acquire(ctx, dir+".lock", func() {
		fmt.Fprintf(b.progress, "waiting for another process that builds %s %s\n", from.name, from.version)
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Release() }()
	if isExecutable(path) {
		return path, nil
	}
	return path, b.build(ctx, from, target, path)
}

func (b builder) build(ctx context.Context, from source, target, path string) error {
	// The lock is held, so any file here is from a killed build.
	temp := filepath.Join(filepath.Dir(path), ".building")
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("removing an unfinished build: %w", err)
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()

	fmt.Fprintf(b.progress, "building %s %s ... ", filepath.Base(path), from.version)
	start := time.Now()
	built := filepath.Join(temp, filepath.Base(path))
	arguments := append([]string{"build"}, from.flags...)
	// Libraries are compiled as for the suites, so Go's cache has them once. Nobody debugs
	// the rest: no DWARF is faster.
	arguments = append(arguments, "-gcflags="+kubernetesModule+"/...=-dwarf=false", "-ldflags", from.linkerFlags(), "-o", built, target)
	dir := from.dir
	if from.complete != nil {
		dir = filepath.Join(temp, "module")
		if err := from.complete(ctx, from, dir); err != nil {
			return err
		}
	}
	if _, err := run(ctx, dir, b.background, arguments...); err != nil {
		fmt.Fprintf(b.progress, "failed after %.0f s\n", time.Since(start).Seconds())
		return fmt.Errorf("building %s %s: %w", filepath.Base(path), from.version, err)
	}
	if err := os.Rename(built, path); err != nil {
		return fmt.Errorf("moving %s into the cache: %w", filepath.Base(path), err)
	}
	fmt.Fprintf(b.progress, "%.0f s\n", time.Since(start).Seconds())
	return nil
}

// runGo runs the go command in dir, without cgo and for the machine it runs on, and returns its standard output.
func runGo(ctx context.Context, dir string, arguments ...string) ([]byte, error) {
	return run(ctx, dir, false, arguments...)
}

// run is runGo, with low priority if asked for.
func run(ctx context.Context, dir string, background bool, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "PWD="+dir)
	// An interrupted go command stops its compilers and removes its work folder; a killed one would not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var output, problems strings.Builder
	cmd.Stdout = &output
	cmd.Stderr = &problems
	err := cmd.Start()
	if err == nil && background {
		// Compilers inherit it. Where it is refused, the build is only in the way of others.
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, lowPriority)
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// "go mod download -json" reports its error in the output.
		return nil, fmt.Errorf("go %s: %w\n%s", arguments[0], err, lastLines(problems.String()+downloadError(output.String())))
	}
	return []byte(output.String()), nil
}

func downloadError(output string) string {
	var download struct{ Error string }
	if err := json.Unmarshal([]byte(output), &download); err != nil {
		return ""
	}
	return download.Error
}

func lastLines(text string) string {
	const limit = 20
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-limit, 0):], "\n")
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
