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
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/controllers"
)

var updateMessages = flag.Bool("update-messages", false, "write docs/operations/messages.md")

const (
	sourceTree   = "../../.."
	messagesPage = "docs/operations/messages.md" // in it
)

// filesWithKeys have the labels and annotations.
func filesWithKeys() []string {
	return []string{
		"api/apps/shared/names.go", "api/apps/shared/sidecar.go", "internal/engine/restart/pin.go", "api/apps/v1alpha1/podprobemarker_types.go", "api/apps/v1alpha1/nodepodprobe_types.go",
	}
}

// TestMessagesAreListed compares what users see, as the code has it, with its page. With -update-messages it writes the page.
func TestMessagesAreListed(t *testing.T) {
	t.Chdir(sourceTree)
	page, err := os.ReadFile(messagesPage)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, rows := range map[string][]string{
		"conditions":          constants(t, `Condition|^(CloneSet|StatefulSet)[A-Z]`, "api/apps/v1beta1/cloneset_conditions.go", "api/apps/v1beta1/statefulset_conditions.go"),
		"reasons":             constants(t, `^Reason`, "api/apps/v1beta1/cloneset_conditions.go", "api/apps/v1beta1/statefulset_conditions.go"),
		"operator":            constants(t, `^Reason`, "api/operator/v1alpha1/kruise_types.go"),
		"keys":                constants(t, `^(Label|Annotation|Gate)`, filesWithKeys()...),
		"notes":               constants(t, `^Reason`, "internal/engine/podset/pass.go", "internal/engine/inplace/inplace.go"),
		"sentences":           sentences(t),
		"conditions of kinds": constantsOfKinds(t, "Condition types", "^"),
		"reasons of kinds":    constantsOfKinds(t, "", "^Reason"),
	} {
		want = replaceSection(t, want, name, strings.Join(rows, "\n"))
	}
	if *updateMessages {
		if err := os.WriteFile(messagesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("%s is not what the code says (-code +page); write it with cd tests && go test ./cmd/verify -run TestMessages -update-messages:\n%s", messagesPage, diff)
	}
}

// TestKeysOnPagesAreListed: each key of our own that a page tells users of has a row that says what it means.
func TestKeysOnPagesAreListed(t *testing.T) {
	t.Chdir(sourceTree)
	page, err := os.ReadFile(messagesPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs/kinds", "docs/operations"} {
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

// TestEventsAreListed: what an event means is written by hand; that each has a row, and each row an event, is checked.
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

// TestEveryEventIsNamedByATest: each reason of an event is named, as a word of a string, by a test of those who emit it: of the same kind, or for what kinds
// share, of any. A test that names FailedCreate for one kind says nothing about another.
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

// namedInTests says whether a word stands in a string of a test, or in a golden file of a test, below the folders.
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

// replaceSection puts text between the two marks of a section.
func replaceSection(t *testing.T, page, name, text string) string {
	t.Helper()
	begin, end := "<!-- "+name+": from the code -->\n", "\n<!-- end of "+name+" -->"
	head, rest, found := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no section %s", messagesPage, name)
	}
	return head + begin + text + end + tail
}

// constants are table rows of the string constants in files whose names match: the value and what its comment says.
func constants(t *testing.T, names string, files ...string) []string {
	t.Helper()
	match := regexp.MustCompile(names)
	meaning := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			comment := ""
			if !group.Lparen.IsValid() {
				comment = group.Doc.Text() // a constant that stands alone
			}
			for _, spec := range group.Specs {
				constant := spec.(*ast.ValueSpec)
				if constant.Doc != nil {
					comment = constant.Doc.Text()
				}
				if len(constant.Values) != 1 || !match.MatchString(constant.Names[0].Name) {
					continue
				}
				if value, ok := literal(constant.Values[0]); ok {
					meaning[value] = inWords(comment, constant.Names[0].Name)
				}
			}
		}
	}
	var rows []string
	for _, value := range slices.Sorted(maps.Keys(meaning)) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", value, meaning[value]))
	}
	return rows
}

// ofTwoKinds are the files whose constants have tables of their own.
var ofTwoKinds = []string{"api/apps/v1beta1/cloneset_conditions.go", "api/apps/v1beta1/statefulset_conditions.go"}

// constantsOfKinds are table rows of the string constants of all other kinds whose names match, in groups whose comment begins with about: the kind,
// the value and what the comment says. A file is named after its kind.
func constantsOfKinds(t *testing.T, about, names string) (rows []string) {
	t.Helper()
	match := regexp.MustCompile(names)
	for _, kind := range controllers.Table().Names() {
		for _, suffix := range []string{"conditions", "types"} {
			name := "api/apps/v1beta1/" + strings.ToLower(kind) + "_" + suffix + ".go"
			if _, err := os.Stat(name); err != nil {
				name = strings.Replace(name, "v1beta1", "v1alpha1", 1) // a kind that has no other version
			}
			if _, err := os.Stat(name); err != nil || slices.Contains(ofTwoKinds, name) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range file.Decls {
				group, ok := declaration.(*ast.GenDecl)
				if !ok || group.Tok != token.CONST || !strings.HasPrefix(group.Doc.Text(), about) {
					continue
				}
				for _, spec := range group.Specs {
					constant := spec.(*ast.ValueSpec)
					comment := constant.Doc.Text()
					if comment == "" && len(group.Specs) == 1 {
						comment = group.Doc.Text()
					}
					value, isText := literal(constant.Values[0])
					if isText && match.MatchString(constant.Names[0].Name) {
						rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", kind, value, inWords(comment, constant.Names[0].Name)))
					}
				}
			}
		}
	}
	return rows
}

// inWords is a comment without the name of its constant at the beginning.
func inWords(comment, name string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = strings.TrimPrefix(text, name)
	text = strings.TrimPrefix(strings.TrimSpace(text), ":")
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	for _, verb := range []string{"says that ", "is a note: ", "is "} {
		text = strings.TrimPrefix(text, verb)
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

// sentences are what notes, and with them conditions, say, and what events about deletions add. What differs from case to case is shown as three dots.
func sentences(t *testing.T) []string {
	found := map[string]struct{}{}
	add := func(e ast.Expr) {
		text := regexp.MustCompile(`%[+#]?[sdqvt]`).ReplaceAllString(sentence(e), "...")
		if strings.Contains(strings.Trim(text, ".: "), " ") {
			found["| "+strings.ReplaceAll(text, "|", "\\|")+" |"] = struct{}{}
		}
	}
	inspect(t, sources(), func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			name, isNote := n.Type.(*ast.SelectorExpr)
			if !isNote || name.Sel.Name != "Note" {
				return
			}
			for _, element := range n.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok && fmt.Sprint(pair.Key) == "Message" {
					add(pair.Value)
				}
			}
		case *ast.AssignStmt:
			if target, ok := n.Lhs[0].(*ast.SelectorExpr); ok && target.Sel.Name == "Message" {
				add(n.Rhs[0])
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Wait" && len(n.Args) == 3 {
				add(n.Args[2])
			}
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "AppendToEvent" && len(n.Args) == 2 {
				add(n.Args[1])
			}
			if slices.ContainsFunc(n.Args, isReason) { // a condition, with its message beside its reason
				for _, argument := range n.Args {
					add(argument)
				}
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// isReason says whether an expression is one of the constants that are reasons.
func isReason(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasPrefix(e.Name, "Reason")
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Reason")
	}
	return false
}

// sentence is the text of an expression: a literal, a format or a sum of these.
func sentence(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := literal(e)
		return text
	case *ast.BinaryExpr:
		return dots(sentence(e.X)) + dots(sentence(e.Y))
	case *ast.CallExpr:
		if called, ok := e.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Sprintf" {
			text, _ := literal(e.Args[0])
			return text
		}
	}
	return ""
}

func dots(text string) string {
	if text == "" {
		return "..."
	}
	return text
}

// eventsIn are the reasons of events in the code below the folders: literals, and constants in groups whose comment begins with "Reasons of events".
// Events that take the reason of a condition have no row of their own.
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

// reasonsOfEvents are the reasons that a literal of an event, or of several, names in plain text.
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

// sources have the code that plans, writes and reports.
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

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
