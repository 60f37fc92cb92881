// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// completeTraefik puts lego beside tools/traefik, with its list of DNS services from there. Lego's own needs hundreds of modules, and
// not every proxy has them all.
func completeTraefik(ctx context.Context, from source, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(from.dir)); err != nil {
		return fmt.Errorf("copying %s: %w", from.dir, err)
	}
	lego, err := pinnedSource(from.dir, legoModule)
	if err != nil {
		return err
	}
	output, err := runGo(ctx, filepath.Dir(dir), "mod", "download", "-json", legoModule+"@"+lego.version)
	if err != nil {
		return fmt.Errorf("downloading lego %s: %w", lego.version, err)
	}
	var download moduleDownload
	if err := json.Unmarshal(output, &download); err != nil {
		return fmt.Errorf("reading what go says about lego %s: %w", lego.version, err)
	}
	return copyLibrary(download.Dir, filepath.Join(dir, "lego"))
}

// copyLibrary copies go.mod and the packages of lego without its program and its DNS services.
func copyLibrary(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("reading lego: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == "providers" {
			continue
		}
		if err := os.CopyFS(filepath.Join(to, entry.Name()), os.DirFS(filepath.Join(from, entry.Name()))); err != nil {
			return fmt.Errorf("copying lego: %w", err)
		}
	}
	requirements, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return fmt.Errorf("reading lego: %w", err)
	}
	if err := os.WriteFile(filepath.Join(to, "go.mod"), requirements, 0o600); err != nil {
		return fmt.Errorf("copying lego: %w", err)
	}
	return nil
}
