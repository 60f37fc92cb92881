// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package environment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// StatefulSetManifest is a Parallel set updated in place, one pod at a time. Its pods have
// one container, "main", of the image example/web:v1, and the label app with the set's
// name. edits are as for Edited.
func StatefulSetManifest(name string, replicas int, edits ...string) string {
	return Edited(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata:
  name: %[1]s
spec:
  replicas: %[2]d
  serviceName: %[1]s
  podManagementPolicy: Parallel
  selector:
    matchLabels: {app: %[1]s}
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      readinessGates:
      - conditionType: InPlaceUpdateReady
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: example/web:v1
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      podUpdatePolicy: InPlaceIfPossible
      maxUnavailable: 1
`, name, replicas), edits...)
}

// Edited replaces text in a manifest, old and new in turns, each at its first place. A
// missing text is a mistake of the test.
func Edited(manifest string, edits ...string) string {
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(manifest, edits[i]) {
			panic("the manifest has no " + edits[i])
		}
		manifest = strings.Replace(manifest, edits[i], edits[i+1], 1)
	}
	return manifest
}

// DocumentedManifests are the fenced YAML blocks of the Markdown pages in a folder, by the names of the pages. A page without any fails
// the test, except the folder's list of pages.
func DocumentedManifests(t testing.TB, folder string) map[string][]string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in %s: %v", len(pages), folder, err)
	}
	all := map[string][]string{}
	for _, page := range pages {
		name := filepath.Base(page)
		if name == "README.md" {
			continue
		}
		all[name] = ManifestsOfPage(t, page)
		if len(all[name]) == 0 {
			t.Errorf("%s has no manifest", page)
		}
	}
	return all
}

// ManifestsOfPage are the fenced YAML blocks of a Markdown page.
func ManifestsOfPage(t testing.TB, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for rest := string(text); ; {
		_, block, found := strings.Cut(rest, "\n```yaml\n")
		if !found {
			return blocks
		}
		block, rest, _ = strings.Cut(block, "\n```")
		blocks = append(blocks, block+"\n")
	}
}
