// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// longest is the length of a name of most objects.
const longest = 253

// Name joins two names. What is too long is cut, and stays unique: a slash is in no name.
func Name(a, b string) string {
	return strings.ReplaceAll(rollable.Shortened(a+"/"+b, longest), "/", "-")
}

// CopyMetadata copies namespace, labels and annotations of the object of a user for one beside it. What tools write about the object
// itself is left out.
func CopyMetadata(to, object map[string]any) {
	for _, key := range []string{"namespace", "labels"} {
		if value, found := tree.Clone(tree.Map(object, "metadata"))[key]; found {
			to[key] = value
		}
	}
	annotations := tree.Texts(object, "metadata", "annotations")
	for key := range annotations {
		prefix, _, _ := strings.Cut(key, "/")
		switch {
		case key == "kubectl.kubernetes.io/last-applied-configuration", key == "argocd.argoproj.io/tracking-id", key == "cloud.google.com/neg-status",
			prefix == "field.cattle.io", prefix == "rollouts.kruise.io":
			delete(annotations, key)
		}
	}
	tree.Set(to, tree.FromTexts(annotations), "annotations")
}
