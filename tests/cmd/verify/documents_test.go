// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// longestLine of a document, in characters. Longer ones cannot be read in a diff, nor in a terminal.
const longestLine = 160

// mostWords limits handwritten pages, without decisions and the reference.
const mostWords = 40000

// documents are the pages of the working copy, by their path from its top.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root, pages := os.DirFS(sourceTree), map[string]string{}
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || strings.Contains(path, "/") && !strings.HasPrefix(path, "docs/") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		pages[path] = string(text)
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d documents: %v", len(pages), err)
	}
	return pages
}

func TestDocumentsAreReadInAnAfternoon(t *testing.T) {
	words := 0
	for path, text := range documents(t) {
		if strings.HasPrefix(path, "docs/") && !strings.HasPrefix(path, "docs/adr/") && !strings.HasPrefix(path, referenceFolder) {
			words += len(strings.Fields(text))
		}
	}
	if words > mostWords {
		t.Errorf("%d words, want at most %d", words, mostWords)
	}
}

// TestLinksOfDocumentsLeadSomewhere: to a file of the working copy, and to a heading of it.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	pages := documents(t)
	for from, text := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutCode(text), -1) {
			to, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(to, ":") {
				continue // another site
			}
			path := from
			if to != "" {
				path = filepath.Join(filepath.Dir(from), to)
			}
			if _, err := os.Stat(filepath.Join(sourceTree, path)); err != nil {
				t.Errorf("%s links to %s, which is not there", from, link[1])
			}
			if anchor != "" && !slices.Contains(anchorsOf(pages[path]), anchor) {
				t.Errorf("%s links to %s, and that page has no such heading", from, link[1])
			}
		}
	}
}

// withoutCode takes fenced blocks out of a page.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```").ReplaceAllString(text, "")
}

// anchorsOf are the headings of a page as links name them.
func anchorsOf(text string) (anchors []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}

// TestDocumentsOfKindsNameEveryField: a kind's page names each field of its spec, as code,
// with the default stated in the field's comment.
func TestDocumentsOfKindsNameEveryField(t *testing.T) {
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	pages := documents(t)
	for _, kind := range controllers.Table() {
		page, found := pages["docs/kinds/"+kind.Lower()+".md"]
		if !found {
			continue // TestKindsAreComplete says which may lack it
		}
		_, fields, err := apiFields(sourceTree, known, kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			name := strings.NewReplacer("[]", "", "[key]", "").Replace(field.path[strings.LastIndex(field.path, ".")+1:])
			if !strings.HasPrefix(field.path, "spec.") || name == "*" || strings.Contains(field.path, "Template.spec.") {
				continue // the last are the fields of another kind
			}
			named := regexp.MustCompile("(?m)^.*(?:`|\\.)"+name+"[`.:\\[ ].*$").FindAllString(page, -1)
			if named == nil {
				t.Errorf("the page of %s does not name %s", kind.Name, field.path)
			}
			value := regexp.MustCompile(`When omitted, it is ([A-Z0-9][A-Za-z0-9%]*)\.`).FindStringSubmatch(field.text)
			if value != nil && !strings.Contains(strings.Join(named, "\n"), value[1]) {
				t.Errorf("the page of %s does not say beside %s that its default is %s", kind.Name, field.path, value[1])
			}
		}
	}
}

// TestLinesOfDocumentsAreShort skips tables, quoted output and drawings, which cannot be
// wrapped, and generated documents.
func TestLinesOfDocumentsAreShort(t *testing.T) {
	for name, text := range documents(t) {
		if strings.HasPrefix(name, referenceFolder) {
			continue
		}
		for number, line := range strings.Split(withoutCode(text), "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "|") && utf8.RuneCountInString(line) > longestLine {
				t.Errorf("%s:%d without code has %d characters, at most are allowed %d", name, number+1, utf8.RuneCountInString(line), longestLine)
			}
		}
	}
}

// The installation page names the version that the Makefile builds.
func TestTheVersionOfTheTreeIsInstalled(t *testing.T) {
	root := os.DirFS(sourceTree)
	makefile, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(root, "docs/operations/install.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^VERSION \?= (v\S+)$`).FindStringSubmatch(string(makefile))
	named := regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+`).FindAllString(string(page), -1)
	if len(version) != 2 || len(named) == 0 {
		t.Fatalf("the Makefile builds %v, the page names %v", version, named)
	}
	for _, other := range slices.DeleteFunc(named, func(v string) bool { return v == version[1] }) {
		t.Errorf("it names %s, and the Makefile builds %s", other, version[1])
	}
}
