// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"bytes"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
)

// InstallFile is the name of the file for `kubectl apply -f`.
const InstallFile = "install.yaml"

// WriteInstaller writes config/default of a working copy to one file, with the manager's image by digest or tag.
func WriteInstaller(root, image, file string) error {
	objects, err := kustomized.Build(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	var all bytes.Buffer
	all.WriteString("# kruise-operator and its kinds. Deleting the kinds deletes all their objects, and with these their pods.\n")
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			if err := setImage(object, image); err != nil {
				return err
			}
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}
