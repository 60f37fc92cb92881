// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A stopped full run resumes, and repeats its failures.
func TestCoverageGoesOnWhereItWasStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dist", "chaos.jsonl")
	s := Scenario{Kind: "CloneSet", Name: "scale"}
	all := All(&Result{Writes: 4, Created: map[string]int{"pods": 2}, Resources: []string{"clonesets.apps.kruise.io", "pods"}})
	first, err := NewCoverage(path)
	if err != nil {
		t.Fatal(err)
	}
	left, err := first.There(s, all)
	if err != nil || len(left) != len(all) {
		t.Fatalf("%d of %d are left, %v", len(left), len(all), err)
	}
	outcomes := []Outcome{Passed, Failed, Unfired}
	for i, outcome := range outcomes {
		if err := first.Tried(s, all[i], outcome); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"kind":"CloneSet","sce`); err != nil { // killed while it wrote
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := NewCoverage(path)
	if err != nil {
		t.Fatal(err)
	}
	left, err = second.There(s, all)
	if err != nil || len(left) != len(all)-2 || left[0] != all[1] {
		t.Errorf("%v are left of %v, %v", left, all, err)
	}
	if got := second.String(); !strings.Contains(got, "| CloneSet | 1 | 1 of 4 |") || !strings.HasSuffix(got, "| 1 | 1 |") {
		t.Errorf("the table is\n%s", got)
	}
}

// Every run can be named, and no two have the same name.
func TestPerturbationsCanBeReplayed(t *testing.T) {
	var names []string
	kinds := map[Kind]bool{}
	for _, p := range All(&Result{Writes: 9, Created: map[string]int{"pods": 3}, Resources: []string{"clonesets.apps.kruise.io", "pods"}}) {
		parsed, err := Parse(p.String())
		if err != nil || parsed != p {
			t.Errorf("%s is read as %v, %v", p, parsed, err)
		}
		kinds[p.Kind] = true
		names = append(names, p.String())
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("some have the same name: %v", names)
	}
	if len(kinds) != len(Kinds()) {
		t.Errorf("tried are %v, there are %v", kinds, Kinds())
	}
	for _, text := range []string{"", "crash", "crash@0", "crash@1:pods", "stale@1", "fault@1:nothing", "failover@2", "other@1:pods"} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}
