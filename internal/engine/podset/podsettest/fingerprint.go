// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
)

// CompareWithPlain explores with and without reduction, and fails the test if not the same reduced states are reached.
func CompareWithPlain[W comparable](t testing.TB, e Exploration[W]) {
	t.Helper()
	e.KeepFingerprints = true
	reduced := e.Run()
	e.Plain = true
	plain := e.Run()
	compare(t, plain, reduced)
	if more := missing(reduced.Fingerprints, plain.Fingerprints); more > 0 {
		t.Errorf("reduction makes up %d states that do not exist", more)
	}
}

// CompareWithNames explores with and without names that mean something, and fails the test if the first reaches states that the second does
// not. The second reaches more: it plans in every order of names, also in those that the names given to new pods do not come in.
func CompareWithNames[W comparable](t testing.TB, e Exploration[W]) {
	t.Helper()
	e.KeepFingerprints = true
	anonymous := e.Run()
	e.anonymous, e.Rename = e.Rename, nil
	compare(t, e.Run(), anonymous)
}

func compare(t testing.TB, all, reduced Result) {
	t.Helper()
	t.Logf("all: %s; reduced: %s", all, reduced)
	if all.Failure != "" || reduced.Failure != "" || all.Cut+reduced.Cut > 0 {
		t.Errorf("all: %s\nreduced: %s", all.Failure, reduced.Failure)
	}
	if lost := missing(all.Fingerprints, reduced.Fingerprints); lost > 0 {
		t.Errorf("of %d states %d are lost by reduction", len(all.Fingerprints), lost)
	}
}

func missing(from, in map[[16]byte]struct{}) int {
	n := 0
	for state := range from {
		if _, found := in[state]; !found {
			n++
		}
	}
	return n
}

// fingerprints are the hashes of all visited states once they are reduced, from what is in them: two explorations of one set can be compared.
func (x *explorer[W]) fingerprints() map[[16]byte]struct{} {
	rename := x.Rename
	if x.anonymous != nil {
		rename = x.anonymous
	}
	all := make(map[[16]byte]struct{}, len(x.nodes))
	reduced := newPodTable(x.Cluster, true)
	known := map[id]string{}
	textOf := func(number id) string {
		text, found := known[number]
		if !found {
			pod := reduced.settle(x.podTable.pods.get(number).DeepCopy())
			if rename != nil {
				rename(pod, 0)
			}
			data, err := pod.Marshal()
			if err != nil {
				panic(fmt.Sprintf("encoding a pod: %v", err))
			}
			text = string(data)
			known[number] = text
		}
		return text
	}
	for i := range x.nodes {
		s := &x.nodes[i].state
		set, marked := s.set, ""
		if rename != nil && x.Marked != nil {
			if marked = x.Marked(set); marked != "" {
				set = x.Mark(set, "marked")
			}
		}
		var parts []string
		for _, number := range s.pods {
			if number == 0 {
				continue
			}
			text := textOf(number)
			if marked != "" && marked == x.podTable.pods.get(number).Name {
				text += "marked"
			}
			parts = append(parts, text)
		}
		if rename != nil {
			slices.Sort(parts)
		}
		w := decode(x.podTable, s)
		for _, node := range slices.Concat(w.Nodes, w.departed) {
			data, err := node.Marshal()
			if err != nil {
				panic(fmt.Sprintf("encoding a node: %v", err))
			}
			parts = append(parts, string(data))
		}
		for _, claim := range w.Claims {
			data, err := claim.Marshal()
			if err != nil {
				panic(fmt.Sprintf("encoding a claim: %v", err))
			}
			parts = append(parts, string(data))
		}
		hash := sha256.New()
		fmt.Fprintf(hash, "%+v %q", set, parts)
		all[[16]byte(hash.Sum(nil)[:16])] = struct{}{}
	}
	return all
}
