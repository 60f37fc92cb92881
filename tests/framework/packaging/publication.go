// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/mod/semver"

	"github.com/kruise-operator/kruise-operator/tests/framework/chart"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// DigestsFile lists a release's pushes, the manager's image first, as references by digest.
const DigestsFile = "digests.txt"

// Notes are a version's section in the changelog. A candidate has the unreleased one.
func Notes(changelog, version string) (string, error) {
	wanted := version
	if semver.Prerelease(version) != "" {
		wanted = "Unreleased"
	}
	for _, section := range strings.Split("\n"+changelog, "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		first, _, _ := strings.Cut(heading, " ")
		if text = strings.TrimSpace(text); first == wanted && text != "" {
			return text + "\n", nil
		}
	}
	return "", fmt.Errorf("the changelog says nothing under %q", wanted)
}

// PackChart packs a working copy's chart as a version with its image in a repository, and
// returns the archive.
func PackChart(ctx context.Context, root, version, repository, folder string, progress io.Writer) (string, error) {
	scratch, err := os.MkdirTemp("", "kruise-operator-chart-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.CopyFS(scratch, os.DirFS(filepath.Join(root, chart.Folder))); err != nil {
		return "", fmt.Errorf("copying the chart: %w", err)
	}
	values := filepath.Join(scratch, "values.yaml")
	content, err := os.ReadFile(values)
	if err != nil {
		return "", err
	}
	line := regexp.MustCompile(`(?m)^    repository: .*$`)
	if len(line.FindAll(content, -1)) != 1 {
		return "", errors.New("values.yaml of the chart does not say once where the image is")
	}
	if err := os.WriteFile(values, line.ReplaceAll(content, []byte("    repository: "+repository)), 0o644); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	number := strings.TrimPrefix(version, "v")
	if _, err := helm(ctx, progress, "package", scratch, "--version="+number, "--app-version="+version, "--destination="+folder); err != nil {
		return "", err
	}
	return filepath.Join(folder, Package+"-"+number+".tgz"), nil
}

// PushChart pushes a packed chart to a registry's folder, such as ghcr.io/team/charts, with
// docker login's credentials, and notes its digest.
func PushChart(ctx context.Context, archive, folder string, progress io.Writer) error {
	target, err := name.NewRepository(folder + "/" + Package)
	if err != nil {
		return fmt.Errorf("pushing the chart: %w", err)
	}
	args := []string{"push", archive, "oci://" + folder}
	if target.Scheme() == "http" {
		args = append(args, "--plain-http")
	}
	said, err := helm(ctx, progress, args...)
	if err != nil {
		return err
	}
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(said)
	if digest == "" {
		return fmt.Errorf("helm push names no digest:\n%s", said)
	}
	return note(filepath.Dir(archive), target.Name()+"@"+digest)
}

// note adds pushes to the list of digests.
func note(layouts string, references ...string) error {
	file, err := os.OpenFile(filepath.Join(layouts, DigestsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, strings.Join(references, "\n"))
	return errors.Join(err, file.Close())
}

// helm runs Helm and returns its output.
func helm(ctx context.Context, progress io.Writer, args ...string) (string, error) {
	path, err := program(ctx, binaries.Helm, progress)
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
