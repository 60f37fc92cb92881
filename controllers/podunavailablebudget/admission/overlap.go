// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// overlap is true if both selectors have the same keys, and some labels suit both.
// Selectors of other keys may overlap unseen, as in OpenKruise: the older budget protects such pods.
func overlap(a, b *metav1.LabelSelector) bool {
	first, errA := podentry.Requirements(a)
	second, errB := podentry.Requirements(b)
	if errA != nil || errB != nil || !keysOf(first).Equal(keysOf(second)) {
		return false
	}
	_, possible := podentry.Example(append(first, second...))
	return possible
}

func keysOf(requirements []podentry.Requirement) sets.Set[string] {
	keys := sets.New[string]()
	for _, r := range requirements {
		keys.Insert(r.Key)
	}
	return keys
}
