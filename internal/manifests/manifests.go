// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads the embedded manifests below config/. It applies nothing.
//
// A failure is a program error, found by tests.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/config"
)

// Read returns the objects in the files of a kustomization, named by its folder below config/. What else the kustomization says is for
// others.
func Read(base string) ([]*unstructured.Unstructured, error) {
	var kustomization struct{ Resources []string }
	text, err := config.Files.ReadFile(path.Join(base, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &kustomization)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kustomization %s: %w", base, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range kustomization.Resources {
		text, err := config.Files.ReadFile(path.Join(base, file))
		if err != nil {
			return nil, err
		}
		objects, err := Decode(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s/%s: %w", base, file, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Decode returns the objects of a manifest, in its order.
func Decode(text []byte) (objects []*unstructured.Unstructured, err error) {
	decoder := utilyaml.NewYAMLToJSONDecoder(bytes.NewReader(text))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
