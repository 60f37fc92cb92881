// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/rand"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// revisionHash is how many characters of the hash are in the name of a revision.
const revisionHash = 12

// Encode returns the ControllerRevision's data and name. The name is a hash of the data.
func (i Injection) Encode() (name string, data []byte, err error) {
	if data, err = json.Marshal(i); err != nil {
		return "", nil, fmt.Errorf("encoding what SidecarSet %s injects: %w", i.Set, err)
	}
	return RevisionName(i.Set, data), data, nil
}

// RevisionName is the name of the ControllerRevision for data.
func RevisionName(set string, data []byte) string {
	sum := sha256.Sum256(data)
	return "sidecarset-" + set + "-" + rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:revisionHash]
}

// Decode reads the data of such a ControllerRevision. Whole numbers stay whole.
func Decode(data []byte) (Injection, error) {
	var i Injection
	if err := kjson.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("decoding what a SidecarSet injects: %w", err)
	}
	return i, nil
}
