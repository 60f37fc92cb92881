// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The one use of tar by `operator-sdk scorecard`: unpacking a bundle into a folder.
package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tar:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 || args[0] != "xvzf" || args[2] != "-C" {
		return fmt.Errorf("know only xvzf <archive> -C <folder>, not %q", args)
	}
	archive, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	content, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	// A root lets no entry of the archive out of the folder.
	folder, err := os.OpenRoot(args[3])
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	entries := tar.NewReader(content)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(entry.Name)
		if err := unpack(folder, entry, entries); err != nil {
			return fmt.Errorf("unpacking %s: %w", entry.Name, err)
		}
	}
}

func unpack(folder *os.Root, entry *tar.Header, content io.Reader) error {
	name := filepath.Clean(entry.Name)
	switch entry.Typeflag {
	case tar.TypeDir:
		return folder.MkdirAll(name, 0o755)
	case tar.TypeReg:
		if err := folder.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		file, err := folder.Create(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	default:
		return fmt.Errorf("it is of type %q, and a bundle holds files alone", entry.Typeflag)
	}
}
