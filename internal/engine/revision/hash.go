// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"strings"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// HashOf is the hash in the name of a revision. It takes the hash alone, too: pods carry either as their label.
func HashOf(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Hash is the hash of the revision, as its object says it, else as its name ends.
func (r Of[T]) Hash() string {
	if r.Object != nil {
		if hash := r.Object.Labels[shared.LabelRevisionHash]; hash != "" {
			return hash
		}
	}
	return HashOf(r.Name)
}
