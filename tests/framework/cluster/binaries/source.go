// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/filelock"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	sdkModule        = "github.com/operator-framework/operator-sdk"
	traefikModule    = "github.com/traefik/traefik/v3"
	legoModule       = "github.com/go-acme/lego/v5"
	versionPackage   = "k8s.io/component-base/version"
	// stagingPrefix begins the Kubernetes repository's replacements of its own modules.
	stagingPrefix = "./staging/"
)

// source is a module to build programs from.
type source struct {
	// name is the first part of the cache key.
	name string
	// dir holds go.mod and go.sum.
	dir string
	// version is the version of the programs.
	version string
	// flags are for "go build".
	flags []string
	// complete makes a copy of dir that can be built, in a new folder. Nil: dir itself can be.
	complete func(ctx context.Context, from source, dir string) error
}

// DefaultVersion returns the Kubernetes version Ensure builds by default.
func DefaultVersion() (string, error) {
	if version := os.Getenv(VersionVariable); version != "" {
		return version, nil
	}
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	pinned, err := pinnedSource(filepath.Join(root, "tools", "kubernetes"), kubernetesModule)
	return pinned.version, err
}

// sources are all programs' modules.
type sources struct {
	root             string
	kubernetes, etcd source
}

func newSources(ctx context.Context, cache, version string) (sources, error) {
	root, err := repository.Root()
	if err != nil {
		return sources{}, err
	}
	s := sources{root: root}
	if s.kubernetes, err = kubernetesSource(ctx, root, cache, version); err != nil {
		return sources{}, err
	}
	s.etcd, err = pinnedSource(filepath.Join(root, "tools", "etcd"), etcdModule)
	return s, err
}

// of returns a program's source and package.
func (s sources) of(name Name) (source, string, error) {
	if target, packaging := packagingTargets()[name]; packaging {
		from, err := packagingSource(s.root, target)
		return from, target.pkg, err
	}
	if name == Traefik {
		from, err := pinnedSource(filepath.Join(s.root, "tools", "traefik"), traefikModule)
		from.complete = completeTraefik
		return from, traefikModule + "/cmd/traefik", err
	}
	from := s.kubernetes
	if name == Etcd {
		from = s.etcd
	}
	pkg, err := from.target(name)
	return from, pkg, err
}

// target returns the package to build for a program.
func (s source) target(name Name) (string, error) {
	switch name {
	case Etcd:
		return etcdModule, nil
	case KubeAPIServer, KubeControllerManager, KubeScheduler, Kubectl, Kubelet:
		return kubernetesModule + "/cmd/" + string(name), nil
	default:
		return "", fmt.Errorf("unknown program %q", name)
	}
}

// packagingTarget is the source of a program of tools/sdk or tools/helm.
type packagingTarget struct {
	// tools is the folder below tools/; empty: sdk.
	tools string
	// module decides the version.
	module string
	pkg    string
}

// packagingTargets are Helm and the programs around the Operator Lifecycle Manager. tools/helm and tools/sdk pin them.
func packagingTargets() map[Name]packagingTarget {
	const (
		lifecycleManager = "github.com/operator-framework/operator-lifecycle-manager"
		registry         = "github.com/operator-framework/operator-registry"
		helmModule       = "helm.sh/helm/v4"
	)
	return map[Name]packagingTarget{
		Helm:          {tools: "helm", module: helmModule, pkg: helmModule + "/cmd/helm"},
		OperatorSDK:   {module: sdkModule, pkg: sdkModule + "/cmd/operator-sdk"},
		ScorecardTest: {module: sdkModule, pkg: sdkModule + "/images/scorecard-test"},
		OPM:           {module: registry, pkg: registry + "/cmd/opm"},
		OLM:           {module: lifecycleManager, pkg: lifecycleManager + "/cmd/olm"},
		OLMCatalog:    {module: lifecycleManager, pkg: lifecycleManager + "/cmd/catalog"},
		CopyContent:   {module: lifecycleManager, pkg: lifecycleManager + "/cmd/copy-content"},
		CopyBundle:    {module: lifecycleManager, pkg: lifecycleManager + "/util/cpb"},
	}
}

// packagingSource returns the target's folder of tools at its module's version.
func packagingSource(root string, target packagingTarget) (source, error) {
	from, err := pinnedSource(filepath.Join(root, "tools", cmp.Or(target.tools, "sdk")), target.module)
	if err != nil || target.tools != "" {
		return from, err
	}
	from.name = path.Base(target.module)
	// Otherwise opm and operator-sdk need a C library for signatures, unused here.
	from.flags = []string{"-tags=containers_image_openpgp"}
	return from, nil
}

// goVersion returns the Go release for the module, perhaps not the one on the path.
func (s source) goVersion(ctx context.Context) (string, error) {
	output, err := runGo(ctx, s.dir, "env", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("asking for the version of Go: %w", err)
	}
	// A release built with experiments on has a space in its name.
	return strings.ReplaceAll(strings.TrimSpace(string(output)), " ", "-"), nil
}

// linkerFlags strip the symbols and stamp the version a Kubernetes component reports.
func (s source) linkerFlags() string {
	flags := []string{"-s", "-w"}
	if s.name == "kubernetes" {
		major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(s.version), "v"), ".")
		flags = append(flags,
			"-X", versionPackage+".gitVersion="+s.version,
			"-X", versionPackage+".gitMajor="+major,
			"-X", versionPackage+".gitMinor="+minor)
	}
	if s.name == path.Base(sdkModule) {
		// They end up in the bundle, and in the tags of the scorecard's images.
		for _, variable := range []string{"Version", "GitVersion", "ImageVersion"} {
			flags = append(flags, "-X", sdkModule+"/internal/version."+variable+"="+s.version)
		}
	}
	return strings.Join(flags, " ")
}

// pinnedSource reads the version a go.mod of ours requires.
func pinnedSource(dir, module string) (source, error) {
	file, err := readModule(filepath.Join(dir, "go.mod"))
	if err != nil {
		return source{}, err
	}
	for _, require := range file.Require {
		if require.Mod.Path == module {
			return source{name: filepath.Base(dir), dir: dir, version: require.Mod.Version}, nil
		}
	}
	return source{}, fmt.Errorf("%s does not require %s", file.Syntax.Name, module)
}

// kubernetesSource returns the pinned module when it has the wanted version, and a generated one otherwise.
func kubernetesSource(ctx context.Context, root, cache, version string) (source, error) {
	pinned, err := pinnedSource(filepath.Join(root, "tools", "kubernetes"), kubernetesModule)
	if err != nil {
		return source{}, err
	}
	if version == "" {
		version = os.Getenv(VersionVariable)
	}
	if version == "" {
		return pinned, nil
	}
	version = "v" + strings.TrimPrefix(version, "v")
	if !semver.IsValid(version) {
		return source{}, fmt.Errorf("%q is not a Kubernetes version", version)
	}
	if version == pinned.version {
		return pinned, nil
	}
	return generatedSource(ctx, cache, version)
}

// moduleDownload is the output of "go mod download -json".
type moduleDownload struct {
	Version string
	GoMod   string
	Dir     string
}

// generatedSource makes a module in the cache for the programs of any Kubernetes release.
func generatedSource(ctx context.Context, cache, query string) (source, error) {
	modules := filepath.Join(cache, "modules")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return source{}, fmt.Errorf("creating the cache: %w", err)
	}
	// Only a full version is the same tomorrow.
	if semver.Canonical(query) == query {
		generated := newGenerated(modules, query)
		if _, err := os.Stat(filepath.Join(generated.dir, "go.mod")); err == nil {
			return generated, nil
		}
	}
	output, err := runGo(ctx, modules, "mod", "download", "-json", kubernetesModule+"@"+query)
	if err != nil {
		return source{}, fmt.Errorf("downloading Kubernetes %s: %w", query, err)
	}
	var download moduleDownload
	if err := json.Unmarshal(output, &download); err != nil {
		return source{}, fmt.Errorf("reading what go says about Kubernetes %s: %w", query, err)
	}

	generated := newGenerated(modules, download.Version)
	lock, err := filelock.Acquire(ctx, generated.dir+".lock", nil)
	if err != nil {
		return source{}, err
	}
	defer func() { _ = lock.Release() }()
	if _, err := os.Stat(filepath.Join(generated.dir, "go.mod")); err == nil {
		return generated, nil
	}
	return generated, generateModule(download, generated.dir)
}

func newGenerated(modules, version string) source {
	return source{
		name:    "kubernetes",
		dir:     filepath.Join(modules, "kubernetes-"+version),
		version: version,
		// The checksums of the staging modules are not in the go.sum of Kubernetes: go fetches and records them.
		flags: []string{"-mod=mod"},
	}
}

// generateModule writes a go.mod requiring a Kubernetes release with its requirements, in
// the tested versions. Staging modules, folders in the release, are replaced by their
// published versions: v0.X.Y belongs to v1.X.Y.
func generateModule(download moduleDownload, dir string) error {
	release, err := readModule(download.GoMod)
	if err != nil {
		return err
	}
	generated := &modfile.File{}
	if err := generated.AddModuleStmt(repository.Module + "/cache/kubernetes"); err != nil {
		return err
	}
	if err := generated.AddGoStmt(release.Go.Version); err != nil {
		return err
	}
	for _, setting := range release.Godebug {
		if err := generated.AddGodebug(setting.Key, setting.Value); err != nil {
			return err
		}
	}
	generated.AddNewRequire(kubernetesModule, download.Version, false)
	for _, require := range release.Require {
		generated.AddNewRequire(require.Mod.Path, require.Mod.Version, true)
	}
	staging := "v0." + strings.TrimPrefix(download.Version, "v1.")
	for _, replace := range release.Replace {
		path, version := replace.New.Path, replace.New.Version
		if strings.HasPrefix(path, stagingPrefix) {
			path, version = replace.Old.Path, staging
		}
		if err := generated.AddReplace(replace.Old.Path, replace.Old.Version, path, version); err != nil {
			return err
		}
	}
	generated.Cleanup()
	content, err := generated.Format()
	if err != nil {
		return fmt.Errorf("formatting the go.mod of Kubernetes %s: %w", download.Version, err)
	}
	sums, err := os.ReadFile(filepath.Join(download.Dir, "go.sum"))
	if err != nil {
		return fmt.Errorf("reading the checksums of Kubernetes %s: %w", download.Version, err)
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the module of Kubernetes %s: %w", download.Version, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		return fmt.Errorf("writing the module of Kubernetes %s: %w", download.Version, err)
	}
	// The go.mod comes last and by a rename: it proves the module complete.
	temp := filepath.Join(dir, "go.mod.new")
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return fmt.Errorf("writing the module of Kubernetes %s: %w", download.Version, err)
	}
	if err := os.Rename(temp, filepath.Join(dir, "go.mod")); err != nil {
		return fmt.Errorf("writing the module of Kubernetes %s: %w", download.Version, err)
	}
	return nil
}

func readModule(path string) (*modfile.File, error) {
	content, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading a go.mod: %w", err)
	}
	file, err := modfile.Parse(path, content, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing a go.mod: %w", err)
	}
	return file, nil
}
