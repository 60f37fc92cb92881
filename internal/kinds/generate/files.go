// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

const (
	module = "github.com/kruise-operator/kruise-operator"
	domain = "kruise.io"

	license   = "// SPDX-FileCopyrightText: The kruise-operator Authors\n// SPDX-License-Identifier: Apache-2.0\n\n"
	goHeader  = license + "// Code generated from the kinds in controllers by `make generate`. DO NOT EDIT.\n\n"
	header    = "# Generated from the kinds in controllers by `make generate`. Do not edit.\n"
	kustomize = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
)

// files are all files generated from the table, by path. tree gives existing ones: samples, patches, the head of PROJECT.
func files(tree fs.FS, table []kinds.Kind) (map[string]string, error) {
	made := map[string]string{
		"api/operator/v1alpha1/zz_generated.kinds.go": enum(table),
		"internal/kinds/zz_generated.rights.go":       rights(table),
	}
	for folder, known := range packages(table) {
		made[path.Join(folder, "zz_generated.register.go")] = registration(path.Base(folder), known)
	}
	for _, kind := range table {
		if kind.Users != kinds.AdminsOnly {
			made["config/rbac/users/"+kind.Plural+".yaml"] = roles(kind)
		}
	}
	made["config/rbac/users/kustomization.yaml"] = usersKustomization(table)
	var failed []error
	for name, make := range map[string]func(fs.FS, []kinds.Kind) (string, error){
		"PROJECT": project, "config/crd/kustomization.yaml": definitions, "config/samples/kustomization.yaml": samples,
	} {
		content, err := make(tree, table)
		if err != nil {
			failed = append(failed, fmt.Errorf("making %s: %w", name, err))
		}
		made[name] = content
	}
	return made, errors.Join(failed...)
}

// short is the group without the domain, as folders and PROJECT have it: apps.
func short(kind kinds.Kind) string {
	name, _, _ := strings.Cut(kind.Group, ".")
	return name
}

// packages are the kinds by the folder of their types.
func packages(table []kinds.Kind) map[string][]kinds.Kind {
	found := map[string][]kinds.Kind{}
	for _, kind := range table {
		for _, version := range kind.Versions {
			folder := path.Join("api", short(kind), version)
			found[folder] = append(found[folder], kind)
		}
	}
	return found
}

// enum types the names of kinds in the Kruise object's schema.
func enum(table []kinds.Kind) string {
	var names []string
	for _, kind := range table {
		if kind.Controller == kinds.Optional {
			names = append(names, kind.Name)
		}
	}
	return goHeader + "package v1alpha1\n\n" +
		"// Kind is a kind of object that the operator manages.\n" +
		"// +kubebuilder:validation:Enum=" + strings.Join(names, ";") + "\ntype Kind string\n"
}

// rights are the markers for rights to write CRDs' conversion and to migrate stored objects. Markers work in any file.
func rights(table []kinds.Kind) string {
	var names, movable []string
	plurals := map[string][]string{}
	for _, kind := range table {
		if kind.Converted {
			names = append(names, kind.Definition())
		}
		if len(kind.Versions) > 1 {
			movable, plurals[kind.Group] = append(movable, kind.Definition()), append(plurals[kind.Group], kind.Plural)
		}
	}
	var migrating strings.Builder
	for _, group := range slices.Sorted(maps.Keys(plurals)) {
		fmt.Fprintf(&migrating, "// +kubebuilder:rbac:groups=%s,resources=%s,verbs=list;patch\n", group, strings.Join(plurals[group], ";"))
	}
	const marker = "// +kubebuilder:rbac:groups="
	return goHeader + "package kinds\n\n" +
		"// The operator tells the API server how to reach the conversion of these kinds.\n" +
		"// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=" + strings.Join(names, ";") +
		",verbs=get;list;watch;update\n" +
		"//\n// It moves objects of these kinds to the version that is to be stored.\n" +
		marker + "apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=" + strings.Join(movable, ";") + ",verbs=get\n" +
		marker + "apiextensions.k8s.io,resources=customresourcedefinitions/status,resourceNames=" + strings.Join(movable, ";") + ",verbs=update\n" +
		migrating.String()
}

// registration makes the types of one version known to a scheme.
func registration(version string, known []kinds.Kind) string {
	var text strings.Builder
	text.WriteString(goHeader + "package " + version + `

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
`)
	for _, kind := range known {
		fmt.Fprintf(&text, "\t\t&%s{}, &%sList{},\n", kind.Name, kind.Name)
	}
	text.WriteString("\t)\n\tmetav1.AddToGroupVersion(scheme, GroupVersion())\n\treturn nil\n}\n")
	return text.String()
}

func roles(kind kinds.Kind) string {
	written := kind.Plural
	if kind.Scale {
		written += ", " + kind.Plural + "/scale"
	}
	text := header + role(kind, "view", written+", "+kind.Plural+"/status", "get, list, watch")
	if kind.Users == kinds.Edit {
		text += "---\n" + role(kind, "edit", written, "create, delete, deletecollection, patch, update")
	}
	return text
}

func role(kind kinds.Kind, to, resources, verbs string) string {
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kruise-operator-%s-%s
  labels:
    rbac.authorization.k8s.io/aggregate-to-%s: "true"
rules:
- apiGroups: [%s]
  resources: [%s]
  verbs: [%s]
`, kind.Plural, to, to, kind.Group, resources, verbs)
}

func usersKustomization(table []kinds.Kind) string {
	text := header + `# What users may do with each kind, added to the cluster's own roles: view gets the first role of a kind, edit both, and admin
# contains edit. What configures the operator itself is for administrators of the cluster. The Operator Lifecycle Manager makes its
# own. A test holds every kind to this.
` + kustomize + "resources:\n"
	for _, kind := range table {
		if kind.Users != kinds.AdminsOnly {
			text += "- " + kind.Plural + ".yaml\n"
		}
	}
	return text
}

// definitions is the kustomization of the CRDs, with patches completing controller-gen's output.
func definitions(tree fs.FS, table []kinds.Kind) (string, error) {
	text := header + kustomize + "resources:\n"
	for _, kind := range bySortedDefinition(table) {
		text += "- bases/" + kind.Group + "_" + kind.Plural + ".yaml\n"
	}
	text += "patches:\n"
	patch := func(file string, is func(kinds.Kind) bool) {
		for _, kind := range bySortedDefinition(table) {
			if is(kind) {
				text += "- path: patches/" + file + "\n  target:\n    kind: CustomResourceDefinition\n    name: " + kind.Definition() + "\n"
			}
		}
	}
	patch("conversion_webhook.yaml", func(k kinds.Kind) bool { return k.Converted })
	patch("conversion_none.yaml", func(k kinds.Kind) bool { return !k.Converted && len(k.Versions) > 1 })
	patch("claim_templates.yaml", func(k kinds.Kind) bool { return k.ClaimTemplates })
	for _, kind := range table {
		_, err := fs.Stat(tree, "config/crd/patches/"+kind.Plural+".yaml")
		switch {
		case err == nil:
			patch(kind.Plural+".yaml", func(k kinds.Kind) bool { return k.Name == kind.Name })
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return text, nil
}

func bySortedDefinition(table []kinds.Kind) []kinds.Kind {
	return slices.SortedFunc(slices.Values(table), func(a, b kinds.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Plural, b.Plural))
	})
}

func samples(tree fs.FS, _ []kinds.Kind) (string, error) {
	found, err := fs.Glob(tree, "config/samples/*_*.yaml")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%d samples in config/samples: %w", len(found), err)
	}
	text := header + kustomize + "resources:\n"
	for _, file := range found {
		text += "- " + path.Base(file) + "\n"
	}
	return text, nil
}

// project is for operator-sdk: the present head, and every version of every kind, the stored one first.
func project(tree fs.FS, table []kinds.Kind) (string, error) {
	content, err := fs.ReadFile(tree, "PROJECT")
	if err != nil {
		return "", err
	}
	head, _, found := bytes.Cut(content, []byte("resources:\n"))
	if !found {
		return "", errors.New("it has no resources")
	}
	var text strings.Builder
	text.Write(head)
	text.WriteString("resources:\n")
	for _, kind := range table {
		resource(&text, kind, kind.Storage)
		for _, version := range kind.Versions {
			if version != kind.Storage {
				resource(&text, kind, version)
			}
		}
	}
	text.WriteString("version: \"3\"\n")
	return text.String(), nil
}

// resource writes one entry of PROJECT.
func resource(text *strings.Builder, kind kinds.Kind, version string) {
	line := func(format string, args ...any) { fmt.Fprintf(text, format+"\n", args...) }
	line("- api:")
	line("    crdVersion: v1")
	if kind.Scope == kinds.Namespaced {
		line("    namespaced: true")
	}
	stored := version == kind.Storage
	if stored && kind.Controller != kinds.APIOnly {
		line("  controller: true")
	}
	line("  domain: %s", domain)
	line("  group: %s", short(kind))
	line("  kind: %s", kind.Name)
	line("  path: %s/api/%s/%s", module, short(kind), version)
	line("  version: %s", version)
	if !stored || !kind.Converted && !kind.Admission {
		return
	}
	line("  webhooks:")
	if kind.Converted {
		line("    conversion: true")
	}
	if kind.Admission {
		line("    defaulting: true")
	}
	if kind.Converted {
		line("    spoke:")
		for _, other := range kind.Versions {
			if other != kind.Storage {
				line("    - %s", other)
			}
		}
	}
	if kind.Admission {
		line("    validation: true")
	}
	line("    webhookVersion: v1")
}
