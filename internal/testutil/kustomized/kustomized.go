// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package kustomized renders kustomizations for tests and tools. It applies nothing.
package kustomized

import (
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kruise-operator/kruise-operator/config"
)

// root is where the folder config is while it is rendered.
const root = "/config"

// Render returns the objects of an embedded kustomization, named by its folder below config/.
func Render(base string) ([]*unstructured.Unstructured, error) {
	files, err := copied()
	if err != nil {
		return nil, err
	}
	return Build(files, path.Join(root, base))
}

// copied is the folder config in memory, where kustomize can read it.
func copied() (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(config.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(config.Files, name)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join(root, name), content)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	return files, nil
}

// Build renders the kustomization in a folder of a file system.
func Build(files filesys.FileSystem, folder string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
