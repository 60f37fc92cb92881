// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package install puts into a cluster what an operator that runs outside of it needs there: CRDs, the rights of its service
// account and the webhook configurations that lead to it. It is what `make install` and `make uninstall` do.
package install

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kruise-operator/kruise-operator/config"
)

// Namespace is where the operator lives, or keeps its lease and certificate when it runs outside.
const Namespace = "kruise-system"

// base is the kustomization of what is installed.
const base = "local"

// render returns the objects to install, in the order in which they can be applied.
func render() ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(config.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(config.Files, name)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join("/config", name), content)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, path.Join("/config", base))
	if err != nil {
		return nil, fmt.Errorf("rendering the manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("reading %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return stage(a) - stage(b) })
	return objects, nil
}

// stage says what comes first: others need the namespace and the kinds, and webhooks must not be called before all else is there.
func stage(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case kindCRD:
		return 1
	case kindMutating, kindValidating:
		return 3
	default:
		return 2
	}
}

const (
	kindCRD        = "CustomResourceDefinition"
	kindMutating   = "MutatingWebhookConfiguration"
	kindValidating = "ValidatingWebhookConfiguration"
)

// CRDs returns the custom resource definitions that are installed, as they are applied.
func CRDs() ([]*unstructured.Unstructured, error) {
	objects, err := render()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != kindCRD }), nil
}
