// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const referenceFolder = "docs/reference"

// referencePages are the pages generated from a working copy's code; of most, only the
// sections between marks.
func referencePages(root string) (map[string]string, error) {
	r := reference{root: root}
	sections := map[string]map[string][]string{
		"messages.md": {
			"conditions":          r.constants(`Condition|^(CloneSet|StatefulSet)[A-Z]`, conditionsOfSets()...),
			"reasons":             r.constants(`^Reason`, conditionsOfSets()...),
			"operator":            r.constants(`^Reason`, "api/operator/v1alpha1/kruise_types.go"),
			"keys":                r.constants(`^(Label|Annotation|Gate)`, filesWithKeys()...),
			"notes":               r.constants(`^Reason`, "internal/engine/podset/draft.go", "internal/engine/inplace/inplace.go"),
			"conditions of kinds": r.constantsOfKinds("Condition types", "^"),
			"reasons of kinds":    r.constantsOfKinds("", "^Reason"),
		},
		"flags.md":         {"flags": flagRows()},
		"feature-gates.md": {"gates": gateRows()},
		"metrics.md": {
			"operator": r.metrics(func(to prometheus.Registerer) { metrics.New(to) }),
			"daemon": r.metrics(func(to prometheus.Registerer) {
				host.NewMetrics(to)
				cri.New(nil, to)
			}),
		},
	}
	pages := map[string]string{"api.md": r.api()}
	for name, parts := range sections {
		page, err := os.ReadFile(filepath.Join(root, referenceFolder, name))
		r.errs = append(r.errs, err)
		pages[name] = string(page)
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			pages[name], err = replaceSection(pages[name], part, strings.Join(parts[part], "\n"))
			r.errs = append(r.errs, err)
		}
	}
	return pages, errors.Join(r.errs...)
}

func writeReference(root string) error {
	pages, err := referencePages(root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(root, referenceFolder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// reference reads a working copy and keeps the errors.
type reference struct {
	root string
	errs []error
}

// replaceSection puts text between the two marks of a section.
func replaceSection(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+": from the code -->\n", "\n<!-- end of "+name+" -->"
	head, rest, found := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return page, fmt.Errorf("the page has no section %s", name)
	}
	return head + begin + text + end + tail, nil
}

// flagRows leave out the workers of each kind: one row is about all of them.
func flagRows() (rows []string) {
	c, flags := config.Config{Table: controllers.Table()}, pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(flags)
	workers := map[string]bool{}
	for _, kind := range controllers.Table().Switchable() {
		workers[kind.WorkersFlag] = true
	}
	flags.VisitAll(func(f *pflag.Flag) {
		value := strings.Trim(f.DefValue, "[]")
		switch {
		case workers[f.Name]:
			return
		case f.Name == "kinds":
			value = "all"
		}
		rows = append(rows, fmt.Sprintf("| `--%s` | %s | %s |", f.Name, value, cell(f.Usage)))
	})
	var names []string
	defaults := "as `--workers`"
	for _, kind := range controllers.Table().Switchable() {
		names = append(names, "`--"+kind.WorkersFlag+"`")
		if kind.Workers > 0 {
			defaults += fmt.Sprintf("; %d for a %s", kind.Workers, kind.Name)
		}
	}
	slices.Sort(names)
	return append(rows, "| "+strings.Join(names, ", ")+" | "+defaults+" | How many objects of that kind are reconciled at the same time. |")
}

func gateRows() (rows []string) {
	for _, gate := range features.Known() {
		effect := gate.Effect
		if why := gate.Ignored + gate.Missing; why != "" {
			effect += " (" + why + ")"
		}
		needs := make([]string, 0, len(gate.Needs))
		for _, need := range gate.Needs {
			needs = append(needs, "`"+string(need)+"`")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %t | %s | %s |", gate.Name, gate.Default, cell(effect), strings.Join(needs, ", ")))
	}
	return rows
}

// metrics are the rows of registered metrics: name, type, labels and help.
func (r *reference) metrics(register func(prometheus.Registerer)) (rows []string) {
	registered := &collectors{}
	register(registered)
	parts := regexp.MustCompile(`fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .* variableLabels: \{([^}]*)\}`)
	for _, collector := range registered.all {
		descriptions := make(chan *prometheus.Desc, 10)
		collector.Describe(descriptions)
		close(descriptions)
		for description := range descriptions {
			found := parts.FindStringSubmatch(description.String())
			if found == nil {
				r.errs = append(r.errs, fmt.Errorf("cannot read %s", description))
				continue
			}
			help, err := strconv.Unquote(found[2])
			r.errs = append(r.errs, err)
			labels := ""
			if found[3] != "" {
				labels = "`" + strings.ReplaceAll(found[3], ",", "`, `") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", found[1], typeOf(collector), labels, cell(help)))
		}
	}
	slices.Sort(rows)
	return rows
}

func typeOf(c prometheus.Collector) string {
	name := strings.ToLower(fmt.Sprintf("%T", c))
	for _, kind := range []string{"counter", "gauge", "histogram"} {
		if strings.Contains(name, kind) {
			return kind
		}
	}
	return "gauge" // one of our own, that counts when it is asked
}

// collectors is a registry keeping its collectors.
type collectors struct {
	prometheus.Registerer
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (c *collectors) Register(collector prometheus.Collector) error {
	c.all = append(c.all, collector)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (c *collectors) MustRegister(all ...prometheus.Collector) { c.all = append(c.all, all...) }

// conditionsOfSets are the files whose constants have their own tables.
func conditionsOfSets() []string {
	return []string{"api/apps/v1beta1/cloneset_conditions.go", "api/apps/v1beta1/statefulset_conditions.go"}
}

// filesWithKeys have the labels and annotations.
func filesWithKeys() []string {
	return []string{
		"api/apps/shared/names.go", "api/apps/shared/sidecar.go", "internal/engine/restart/pin.go", "api/apps/v1alpha1/podprobemarker_types.go",
		"api/apps/v1alpha1/nodepodprobe_types.go", "api/policy/v1beta1/podunavailablebudget_conditions.go",
	}
}

// constants are table rows of the string constants in files of matching names: value and
// comment.
func (r *reference) constants(names string, files ...string) (rows []string) {
	match, meaning := regexp.MustCompile(names), map[string]string{}
	for _, name := range files {
		r.eachConstant(name, func(_ *ast.GenDecl, constant, value, comment string) {
			if match.MatchString(constant) {
				meaning[value] = comment
			}
		})
	}
	for _, value := range slices.Sorted(maps.Keys(meaning)) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", value, meaning[value]))
	}
	return rows
}

// constantsOfKinds are table rows of the matching constants of all other kinds, in groups
// whose comment begins with about. A file is named after its kind.
func (r *reference) constantsOfKinds(about, names string) (rows []string) {
	match := regexp.MustCompile(names)
	for _, kind := range controllers.Table().Names() {
		for _, suffix := range []string{"conditions", "types"} {
			name := r.existing("api/apps/v1beta1/"+strings.ToLower(kind)+"_"+suffix+".go", "api/apps/v1alpha1/"+strings.ToLower(kind)+"_"+suffix+".go",
				"api/policy/v1beta1/"+strings.ToLower(kind)+"_"+suffix+".go")
			if name == "" || slices.Contains(conditionsOfSets(), name) {
				continue
			}
			r.eachConstant(name, func(group *ast.GenDecl, constant, value, comment string) {
				if strings.HasPrefix(group.Doc.Text(), about) && match.MatchString(constant) {
					rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", kind, value, comment))
				}
			})
		}
	}
	return rows
}

// existing is the first existing file.
func (r *reference) existing(names ...string) string {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(r.root, name)); err == nil {
			return name
		}
	}
	return ""
}

// eachConstant visits a file's string constants. A single one has its group's comment.
func (r *reference) eachConstant(name string, visit func(group *ast.GenDecl, constant, value, comment string)) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(r.root, name), nil, parser.ParseComments)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		comment := ""
		if len(group.Specs) == 1 {
			comment = group.Doc.Text()
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			if constant.Doc != nil {
				comment = constant.Doc.Text()
			}
			if len(constant.Values) != 1 {
				continue
			}
			if value, ok := literal(constant.Values[0]); ok {
				visit(group, constant.Names[0].Name, value, inWords(comment, constant.Names[0].Name))
			}
		}
	}
}

// inWords is a comment without the name of its constant at the beginning.
func inWords(comment, name string) string {
	text := strings.TrimPrefix(strings.Join(strings.Fields(comment), " "), name)
	text = strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), ":")), ".")
	for _, verb := range []string{"says that ", "is a note: ", "is "} {
		text = strings.TrimPrefix(text, verb)
	}
	return cell(text)
}

// cell is a text in one line, safe from Markdown's cell ends and HTML.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "\\<").Replace(strings.Join(strings.Fields(text), " "))
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
