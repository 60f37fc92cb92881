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
	"path/filepath"
	"strings"
)

// ciConfig is ci.yaml of a community catalog: upgrades follow `replaces`, and nobody is named who would have to review.
const ciConfig = `---
updateGraph: replaces-mode
reviewers: []
`

// OperatorHub writes the tree of a pull request to a community catalog: a folder for each
// version and ci.yaml. Every version is validated, and must match its folder.
func (c Catalog) OperatorHub(ctx context.Context, output string, progress io.Writer) error {
	base := filepath.Join(output, "operators", Package)
	if err := errors.Join(os.RemoveAll(output), os.MkdirAll(base, 0o755)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(base, "ci.yaml"), []byte(ciConfig), 0o644); err != nil {
		return err
	}
	if len(c.Versions) == 0 {
		return errors.New("no version has been released")
	}
	for _, v := range c.Versions {
		number := strings.TrimPrefix(v.Version, "v")
		target := filepath.Join(base, number)
		if err := os.CopyFS(target, os.DirFS(c.Bundle(v.Version))); err != nil {
			return fmt.Errorf("copying %s: %w", v.Version, err)
		}
		csv, err := readObject(filepath.Join(target, "manifests", csvFile))
		if err != nil {
			return err
		}
		spec, ok := csv.Object["spec"].(map[string]any)
		if !ok || csv.GetName() != CSVName(v.Version) || spec["version"] != number {
			return fmt.Errorf("the bundle in %s is %s", number, csv.GetName())
		}
		if want := CSVName(v.Replaces); v.Replaces != "" && spec["replaces"] != want {
			return fmt.Errorf("%s replaces %v, the list of versions says %s", v.Version, spec["replaces"], want)
		}
		if !strings.Contains(v.Image, "@sha256:") || csv.GetAnnotations()["containerImage"] != v.Image {
			return fmt.Errorf("%s runs %s, the list of versions says %s", v.Version, csv.GetAnnotations()["containerImage"], v.Image)
		}
		if err := Validate(ctx, target, nil); err != nil {
			return fmt.Errorf("%s: %w", v.Version, err)
		}
		if progress != nil {
			fmt.Fprintf(progress, "%s is fit for a community catalog\n", v.Version)
		}
	}
	return nil
}
