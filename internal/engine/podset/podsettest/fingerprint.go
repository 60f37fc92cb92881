// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// CompareWithPlain explores with and without reduction, and fails the test if not the same reduced worlds are reached.
func CompareWithPlain[W comparable](t testing.TB, e Exploration[W]) {
	t.Helper()
	e.Fingerprints = true
	reduced := e.Run()
	e.Plain = true
	plain := e.Run()
	missing, more := 0, 0
	for world := range plain.Worlds {
		if _, found := reduced.Worlds[world]; !found {
			missing++
		}
	}
	for world := range reduced.Worlds {
		if _, found := plain.Worlds[world]; !found {
			more++
		}
	}
	t.Logf("plain: %s; reduced: %s", plain, reduced)
	if plain.Failure != "" || reduced.Failure != "" || plain.Cut+reduced.Cut > 0 {
		t.Errorf("plain: %s\nreduced: %s", plain.Failure, reduced.Failure)
	}
	if missing+more > 0 {
		t.Errorf("of %d worlds %d are lost by reduction, and %d do not exist", len(plain.Worlds), missing, more)
	}
}

// fingerprints are the hashes of all visited worlds once they are reduced, from what is in them: two explorations of one set can be compared.
func (x *explorer[W]) fingerprints() map[[16]byte]struct{} {
	all := make(map[[16]byte]struct{}, len(x.nodes))
	reduced := newAtlas(x.Cluster, true)
	number := map[id]string{}
	for i := range x.nodes {
		s := &x.nodes[i].state
		w := expand(x.atlas, s)
		hash := sha256.New()
		fmt.Fprintf(hash, "%+v", s.set)
		for at, pod := range w.Pods {
			text, known := number[s.pods[at]]
			if !known {
				data, err := reduced.settle(pod.DeepCopy()).Marshal()
				if err != nil {
					panic(fmt.Sprintf("encoding a pod: %v", err))
				}
				text = string(data)
				number[s.pods[at]] = text
			}
			fmt.Fprintf(hash, "%d %s", len(text), text)
		}
		for _, claim := range w.Claims {
			data, err := claim.Marshal()
			if err != nil {
				panic(fmt.Sprintf("encoding a claim: %v", err))
			}
			fmt.Fprintf(hash, "%d %s", len(data), data)
		}
		all[[16]byte(hash.Sum(nil)[:16])] = struct{}{}
	}
	return all
}
