// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollable

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
)

// Twin is how many pods of a revision a workload of ours has beside all old ones. An annotation says so.
type Twin struct {
	Revision string `json:"revision"`
	Pods     int    `json:"pods"`
}

// TwinOf reads it; false: there is none.
func TwinOf(annotations map[string]string) (t Twin, found bool) {
	text, found := annotations[shared.AnnotationOriginal]
	return t, found && json.Unmarshal([]byte(text), &t) == nil && t.Revision != "" && t.Pods >= 0
}

// Encode writes it as text.
func (t Twin) Encode() string {
	text, _ := json.Marshal(t)
	return string(text)
}
