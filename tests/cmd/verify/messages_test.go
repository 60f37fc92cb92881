// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateMessages = flag.Bool("update-messages", false, "write docs/reference")

const (
	sourceTree   = "../../.."
	messagesPage = "docs/reference/messages.md" // in it
)

// TestMessagesAndTheReferenceAreCurrent compares the pages with the code. With -update-messages it writes them, as `make reference` does.
func TestMessagesAndTheReferenceAreCurrent(t *testing.T) {
	if *updateMessages {
		if err := writeReference(sourceTree); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := referencePages(sourceTree)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		is, err := os.ReadFile(filepath.Join(sourceTree, referenceFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(is)); diff != "" {
			t.Errorf("%s is not what the code says (-code +page); run make reference:\n%s", name, diff)
		}
	}
}

// TestKeysOnPagesAreListed: each key of our own on a user's page has a row with its
// meaning.
func TestKeysOnPagesAreListed(t *testing.T) {
	t.Chdir(sourceTree)
	page, err := os.ReadFile(messagesPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs/kinds", "docs/operations", "docs/tasks"} {
		names, err := filepath.Glob(folder + "/*.md")
		if err != nil || len(names) == 0 {
			t.Fatalf("pages in %s: %v, %v", folder, names, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range regexp.MustCompile("`(operator\\.kruise\\.io/[a-z-]+)").FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(string(page), "\n| `"+key[1]+"` | ") {
					t.Errorf("%s names %s, which has no row in %s: is its constant in one of %v?", name, key[1], messagesPage, filesWithKeys())
				}
			}
		}
	}
}

// TestEventsAreListed: each event has a row, with a handwritten meaning, and each row an
// event.
func TestEventsAreListed(t *testing.T) {
	t.Chdir(sourceTree)
	page, err := os.ReadFile(messagesPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## Events\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(eventsIn(t, sources()...), listed); diff != "" {
		t.Errorf("reasons of events (-code +%s):\n%s", messagesPage, diff)
	}
}

// TestEveryEventIsNamedByATest: each reason of an event is a word in a string of a test of
// its emitters: of the same kind or, for code shared by kinds, of any. A test of
// FailedCreate for one kind says nothing about another.
func TestEveryEventIsNamedByATest(t *testing.T) {
	t.Chdir(sourceTree)
	var groups []string
	for _, pattern := range []string{"controllers/*", "internal/daemon/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, found, err)
		}
		groups = append(groups, found...)
	}
	for _, group := range groups {
		if path.Ext(group) == ".go" {
			continue
		}
		suites, err := filepath.Glob("tests/*/*" + path.Base(group) + "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		named := namedInTests(t, append(suites, group)...)
		for _, reason := range eventsIn(t, group) {
			if !named(reason) {
				t.Errorf("no test in %s is about the event %s", group, reason)
			}
		}
	}
	named := namedInTests(t, "controllers", "internal", "tests/e2e", "tests/integration")
	for _, reason := range eventsIn(t, sources()...) {
		if !named(reason) {
			t.Errorf("no test is about the event %s", reason)
		}
	}
}

// namedInTests is true if a word is in a string of a test, or in a test's golden file,
// below the folders.
func namedInTests(t *testing.T, roots ...string) func(word string) bool {
	t.Helper()
	text := &strings.Builder{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.Contains(name, "recorder") || strings.Contains(name, "executor") {
				return err // these only pass events on
			}
			switch {
			case strings.HasSuffix(name, ".golden"):
				golden, err := os.ReadFile(name)
				text.Write(golden)
				return err
			case strings.HasSuffix(name, "_test.go"):
				file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
				if err != nil {
					return err
				}
				ast.Inspect(file, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok {
						text.WriteString(l.Value + "\n")
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(word string) bool { return regexp.MustCompile(`\b` + word + `\b`).MatchString(text.String()) }
}

// eventsIn are the reasons of events in the code below the folders: literals, and constants
// in groups whose comment begins with "Reasons of events". Events with a condition's reason
// have no row of their own.
func eventsIn(t *testing.T, roots ...string) []string {
	t.Helper()
	found := map[string]struct{}{}
	reason := regexp.MustCompile(`^(Successful|Failed|ResetContainer)[A-Z][A-Za-z]+$`)
	inspect(t, roots, func(n ast.Node) {
		if l, ok := n.(*ast.BasicLit); ok {
			if text, ok := literal(l); ok && reason.MatchString(text) {
				found[text] = struct{}{}
			}
		}
		if made, ok := n.(*ast.CompositeLit); ok {
			for _, text := range reasonsOfEvents(made) {
				found[text] = struct{}{}
			}
		}
		if group, ok := n.(*ast.GenDecl); ok && group.Tok == token.CONST && strings.HasPrefix(group.Doc.Text(), "Reasons of events") {
			for _, spec := range group.Specs {
				if text, ok := literal(spec.(*ast.ValueSpec).Values[0]); ok {
					found[text] = struct{}{}
				}
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		if called, ok := call.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Eventf" && len(call.Args) > 3 {
			if text, ok := literal(call.Args[3]); ok {
				found[text] = struct{}{}
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// reasonsOfEvents are the plain-text reasons in a literal of one or several events.
func reasonsOfEvents(made *ast.CompositeLit) (reasons []string) {
	if list, several := made.Type.(*ast.ArrayType); several && isEvent(list.Elt) {
		for _, element := range made.Elts {
			if one, ok := element.(*ast.CompositeLit); ok {
				reasons = append(reasons, reasonsIn(one)...)
			}
		}
	}
	if isEvent(made.Type) {
		reasons = append(reasons, reasonsIn(made)...)
	}
	return reasons
}

func isEvent(e ast.Expr) bool {
	name, ok := e.(*ast.SelectorExpr)
	return ok && fmt.Sprint(name.X) == "planning" && name.Sel.Name == "Event"
}

func reasonsIn(event *ast.CompositeLit) (reasons []string) {
	for _, element := range event.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && fmt.Sprint(pair.Key) == "Reason" {
			if text, ok := literal(pair.Value); ok {
				reasons = append(reasons, text)
			}
		}
	}
	return reasons
}

// sources have the code for plans, writes and reports.
func sources() []string {
	return []string{"controllers", "internal/daemon", "internal/engine", "internal/kube"}
}

// inspect visits the code below the folders, without its tests.
func inspect(t *testing.T, roots []string, visit func(ast.Node)) {
	t.Helper()
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "podsettest") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if n != nil {
					visit(n)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
