// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests renders the embedded kustomizations below config/. It applies nothing.
//
// A failure is a program error, found by tests.
package manifests

import (
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/config"
)

// root is where the folder config is while it is rendered.
const root = "/config"

// Render returns the objects of a kustomization, named by its folder below config/.
func Render(base string) ([]*unstructured.Unstructured, error) {
	files, err := copied()
	if err != nil {
		return nil, err
	}
	return Build(files, path.Join(root, base))
}

// RenderOver returns the objects of a kustomization as an overlay changes them. The overlay's resources need not name the base.
func RenderOver(base string, overlay types.Kustomization) ([]*unstructured.Unstructured, error) {
	files, err := copied()
	if err != nil {
		return nil, err
	}
	overlay.TypeMeta = types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}
	overlay.Resources = append([]string{path.Join("..", root, base)}, overlay.Resources...)
	text, err := yaml.Marshal(overlay)
	if err != nil {
		return nil, fmt.Errorf("writing the overlay of %s: %w", base, err)
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", text); err != nil {
		return nil, fmt.Errorf("writing the overlay of %s: %w", base, err)
	}
	return Build(files, "/overlay")
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
