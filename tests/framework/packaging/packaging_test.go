// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const bundle = "../../../bundle"

func TestTheCommittedBundlePassesEveryValidator(t *testing.T) {
	if err := Validate(t.Context(), bundle, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

func TestTheCommittedBundlePassesTheScorecard(t *testing.T) {
	if err := Scorecard(t.Context(), bundle, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

// TestFaultsAreFound damages the bundle to prove the tests above can fail.
func TestFaultsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		check    func(t *testing.T, dir string) error
		want     string
	}{
		"a warning of a validator": {
			from: "minKubeVersion: 1.34.0", to: "x: y",
			check: func(t *testing.T, dir string) error { return Validate(t.Context(), dir, nil) }, want: "minKubeVersion",
		},
		"a label for an architecture without image": {
			from: "operatorframework.io/arch.arm64", to: "operatorframework.io/arch.s390x",
			check: func(t *testing.T, dir string) error { return Validate(t.Context(), dir, nil) }, want: "s390x",
		},
		"a field without descriptor": {
			from: "path: replicas\n", to: "path: other\n",
			check: func(t *testing.T, dir string) error { return Scorecard(t.Context(), dir, nil) }, want: "olm-spec-descriptors",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundle")
			if err := os.CopyFS(dir, os.DirFS(bundle)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "manifests", csvFile)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged := strings.ReplaceAll(string(content), tc.from, tc.to)
			if damaged == string(content) {
				t.Fatalf("the bundle does not hold %q", tc.from)
			}
			if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tc.check(t, dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want a fault that names %q, got %v", tc.want, err)
			}
		})
	}
}

func TestListOfVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		versions []Version
		want     string
	}{
		"in order": {versions: []Version{
			{Version: "v0.1.0", Channels: []string{"candidate"}}, {Version: "v0.2.0", Replaces: "v0.1.0", Channels: []string{"stable"}},
		}},
		"out of order": {versions: []Version{{Version: "v0.2.0"}, {Version: "v0.1.0"}}, want: "is listed after"},
		"replaces what it skips": {versions: []Version{
			{Version: "v0.1.0"}, {Version: "v0.2.0", Replaces: "v0.1.0"}, {Version: "v0.3.0", Replaces: "v0.2.0", Skips: []string{"v0.2.0"}},
		}, want: "stranded"},
		"half a version":                    {versions: []Version{{Version: "v0.2"}}, want: "not a full version"},
		"follows nobody we know":            {versions: []Version{{Version: "v0.2.0", Replaces: "v0.1.0"}}, want: "not listed before"},
		"skips nobody we know":              {versions: []Version{{Version: "v0.2.0", Skips: []string{"v0.1.0"}}}, want: "not listed before"},
		"a new version in a closed channel": {versions: []Version{{Version: "v0.5.0", Channels: []string{"candidate", "stable"}}}, want: "ends with v0.4.0"},
		"a channel that is no one":          {versions: []Version{{Version: "v0.2.0", Channels: []string{"fast"}}}, want: "unknown channel"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Releases{Versions: tc.versions}.check()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestGraph has a version only candidate offers, and one skipping another.
func TestGraph(t *testing.T) {
	both := []string{"candidate", "stable"}
	c := Catalog{Releases: Releases{Versions: []Version{
		{Version: "v0.1.0", Channels: both},
		{Version: "v0.2.0", Channels: []string{"candidate"}, Replaces: "v0.1.0"},
		{Version: "v0.3.0", Channels: both, Replaces: "v0.1.0", Skips: []string{"v0.2.0"}, SkipRange: ">=0.1.0 <0.3.0"},
	}}}
	want := []any{
		channel{Schema: "olm.channel", Package: Package, Name: "candidate", Entries: []channelEntry{
			{Name: "kruise-operator.v0.1.0"},
			{Name: "kruise-operator.v0.2.0", Replaces: "kruise-operator.v0.1.0"},
			{Name: "kruise-operator.v0.3.0", Replaces: "kruise-operator.v0.1.0", Skips: []string{"kruise-operator.v0.2.0"}, SkipRange: ">=0.1.0 <0.3.0"},
		}},
		channel{Schema: "olm.channel", Package: Package, Name: "stable", Entries: []channelEntry{
			{Name: "kruise-operator.v0.1.0"},
			{Name: "kruise-operator.v0.3.0", Replaces: "kruise-operator.v0.1.0", Skips: []string{"kruise-operator.v0.2.0"}, SkipRange: ">=0.1.0 <0.3.0"},
		}},
	}
	if diff := cmp.Diff(want, c.graph()[1:]); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
}

// TestEveryKindHasItsOwnPlace: of two kinds with the same place in the bundle, tools may show either first.
func TestEveryKindHasItsOwnPlace(t *testing.T) {
	files, err := filepath.Glob("../../../api/*/*/*_types.go")
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`csv:customresourcedefinitions:displayName="([^"]+)",order=(\d+)`).FindAllStringSubmatch(string(text), -1) {
			if other := places[found[2]]; other != "" {
				t.Errorf("%s and %s have the place %s", other, found[1], found[2])
			}
			places[found[2]] = found[1]
		}
	}
	if len(places) < 20 {
		t.Errorf("%d kinds in %v", len(places), files)
	}
}
