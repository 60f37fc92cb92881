// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// longest is the length of a name of most objects.
const longest = 253

// Name joins two names. What is too long is cut, and stays unique.
func Name(a, b string) string {
	name := a + "-" + b
	if len(name) <= longest {
		return name
	}
	return cut(a+"/"+b, longest) // a slash is in no name
}

// cut shortens a name, with what stands for all of it.
func cut(name string, longest int) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	tail := "-" + strconv.FormatUint(sum.Sum64(), 36)
	return strings.TrimRight(strings.ReplaceAll(name, "/", "-")[:longest-len(tail)], "-.") + tail
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
	if len(annotations) > 0 {
		to["annotations"] = tree.FromTexts(annotations)
	}
}
