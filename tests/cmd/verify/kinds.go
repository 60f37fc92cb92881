// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// A kind is complete with everything CONTRIBUTING.md asks for; parts generated from the
// table of kinds are not checked here. Names of the parts, for exceptions:
const (
	partDefinition  = "definition in config/crd/bases"
	partSample      = "minimal sample"
	partFullSample  = "full sample"
	partPage        = "docs/kinds page"
	partDescriptors = "descriptors in the bundle"
	partExample     = "example in the bundle"
	partWebhooks    = "webhooks"
	partRights      = "operator's rights"
)

// exceptions are parts a kind lacks although its entry in the table asks for them, with
// reasons. An unneeded exception is a finding, too.
func exceptions() map[string]map[string]string {
	return map[string]map[string]string{
		"Kruise": {
			partFullSample: "there is one object of the kind, and its sample names most fields",
			partPage:       "docs/operations/configuration.md describes it",
		},
		"NodePodProbe": {
			partRights: "nobody but the node daemon writes its status: config/rbac/daemon",
		},
	}
}

// checkKinds finds a working copy's kinds with missing parts, and definitions not in the
// table.
func checkKinds(root fs.FS, table []kinds.Kind, without map[string]map[string]string) error {
	t := tree{root: root}
	needed := map[string][]string{}
	for _, kind := range table {
		for part, fault := range t.faults(kind) {
			if without[kind.Name][part] != "" {
				needed[kind.Name] = append(needed[kind.Name], part)
				continue
			}
			t.errs = append(t.errs, fmt.Errorf("kind %s: %s: %w", kind.Name, part, fault))
		}
	}
	for _, kind := range table {
		for part := range without[kind.Name] {
			if !slices.Contains(needed[kind.Name], part) {
				t.errs = append(t.errs, fmt.Errorf("kind %s has an exception for %q and does not need it", kind.Name, part))
			}
		}
	}
	t.checkStrays(table)
	slices.SortFunc(t.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(t.errs...)
}

// tree reads a working copy and keeps the errors.
type tree struct {
	root fs.FS
	errs []error
}

func (t *tree) text(name string) string {
	content, err := fs.ReadFile(t.root, name)
	if err != nil {
		t.errs = append(t.errs, err)
	}
	return string(content)
}

func (t *tree) read(name string, into any) {
	if err := yaml.Unmarshal([]byte(t.text(name)), into); err != nil {
		t.errs = append(t.errs, fmt.Errorf("reading %s: %w", name, err))
	}
}

func (t *tree) exists(name string) error {
	if _, err := fs.Stat(t.root, name); err != nil {
		return fmt.Errorf("there is no %s", name)
	}
	return nil
}

// faults are a kind's missing parts.
func (t *tree) faults(k kinds.Kind) map[string]error {
	short, _, _ := strings.Cut(k.Group, ".")
	faults := map[string]error{}
	note := func(part string, err error) {
		if err != nil {
			faults[part] = errors.Join(faults[part], err)
		}
	}
	note(partDefinition, t.checkDefinition(k))
	for _, version := range k.Versions {
		note(partSample, t.exists("config/samples/"+short+"_"+version+"_"+k.Lower()+".yaml"))
	}
	note(partFullSample, t.exists("config/samples/"+short+"_"+k.Storage+"_"+k.Lower()+"_full.yaml"))
	note(partPage, t.exists("docs/kinds/"+k.Lower()+".md"))
	t.checkBundle(k, note)
	note(partWebhooks, t.checkWebhooks(k))
	if k.Controller != kinds.APIOnly {
		note(partRights, t.checkRights(k))
	}
	return faults
}

// definitionFile is where controller-gen writes the definition of a kind.
func definitionFile(k kinds.Kind) string {
	return "config/crd/bases/" + k.Group + "_" + k.Plural + ".yaml"
}

// checkDefinition compares the definition generated from the types with the entry in the
// table.
func (t *tree) checkDefinition(k kinds.Kind) error {
	if err := t.exists(definitionFile(k)); err != nil {
		return err
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	t.read(definitionFile(k), &crd)
	made := kinds.Kind{Name: crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural, Group: crd.Spec.Group, Scope: kinds.Scope(crd.Spec.Scope)}
	for _, version := range crd.Spec.Versions {
		if version.Served {
			made.Versions = append(made.Versions, version.Name)
		}
		if version.Storage {
			made.Storage = version.Name
			made.Scale = version.Subresources != nil && version.Subresources.Scale != nil
		}
	}
	want := kinds.Kind{Name: k.Name, Plural: k.Plural, Group: k.Group, Scope: k.Scope, Versions: k.Versions, Storage: k.Storage, Scale: k.Scale}
	if diff := cmp.Diff(want, made); diff != "" {
		return fmt.Errorf("it is not what its entry says (-entry +types):\n%s", diff)
	}
	return nil
}

// checkStrays finds types not in the table.
func (t *tree) checkStrays(table []kinds.Kind) {
	files, err := fs.Glob(t.root, "config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.errs = append(t.errs, fmt.Errorf("%d definitions in config/crd/bases: %w", len(files), err))
	}
	for _, file := range files {
		if !slices.ContainsFunc(table, func(k kinds.Kind) bool { return definitionFile(k) == file }) {
			t.errs = append(t.errs, fmt.Errorf("%s is of a kind that controllers.All does not have", file))
		}
	}
}

// checkBundle checks the ClusterServiceVersion's text on every version of the kind.
func (t *tree) checkBundle(k kinds.Kind, note func(string, error)) {
	csv := struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			CustomResourceDefinitions struct {
				Owned []struct {
					Name, Version                      string
					Resources                          []any
					SpecDescriptors, StatusDescriptors []struct{ Path string }
				} `json:"owned"`
			} `json:"customresourcedefinitions"`
		} `json:"spec"`
	}{}
	t.read("bundle/manifests/kruise-operator.clusterserviceversion.yaml", &csv)
	var examples []unstructured.Unstructured
	if err := json.Unmarshal([]byte(csv.Metadata.Annotations["alm-examples"]), &examples); err != nil {
		t.errs = append(t.errs, fmt.Errorf("reading the examples in the bundle: %w", err))
	}
	for _, version := range k.Versions {
		owned := false
		for _, o := range csv.Spec.CustomResourceDefinitions.Owned {
			if o.Name != k.Definition() || o.Version != version {
				continue
			}
			owned = true
			if len(o.SpecDescriptors) == 0 || len(o.StatusDescriptors) == 0 || len(o.Resources) == 0 {
				note(partDescriptors, fmt.Errorf("%s has %d for spec, %d for status and %d resources", version, len(o.SpecDescriptors), len(o.StatusDescriptors), len(o.Resources)))
			}
		}
		if !owned {
			note(partDescriptors, fmt.Errorf("%s is not owned", version))
		}
		if !slices.ContainsFunc(examples, func(example unstructured.Unstructured) bool {
			return example.GetKind() == k.Name && example.GetAPIVersion() == k.Group+"/"+version
		}) {
			note(partExample, fmt.Errorf("%s has none", version))
		}
	}
}

// checkWebhooks looks for the kind in the configurations.
func (t *tree) checkWebhooks(k kinds.Kind) error {
	covered := map[string]bool{}
	t.documents("config/webhook/manifests.yaml", func(document []byte) error {
		// Both kinds of configuration have these fields.
		configuration := admissionv1.ValidatingWebhookConfiguration{}
		if err := yaml.Unmarshal(document, &configuration); err != nil {
			return err
		}
		for _, webhook := range configuration.Webhooks {
			if strings.HasPrefix(webhook.Name, "warn.") {
				continue // It refuses nothing.
			}
			for _, rule := range webhook.Rules {
				if slices.Contains(rule.APIGroups, k.Group) && slices.Contains(rule.Resources, k.Plural) {
					covered[configuration.Kind] = true
				}
			}
		}
		return nil
	})
	var errs []error
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		switch {
		case k.Admission && !covered[kind]:
			errs = append(errs, fmt.Errorf("no %s names %s", kind, k.Plural))
		case !k.Admission && covered[kind]:
			errs = append(errs, fmt.Errorf("a %s names %s, and the table says that it has no admission", kind, k.Plural))
		}
	}
	return errors.Join(errs...)
}

// checkRights looks for the kind, its status and its finalizers in the operator's role.
func (t *tree) checkRights(k kinds.Kind) error {
	var granted []string
	t.documents("config/rbac/manager/role.yaml", func(document []byte) error {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(document, &role); err != nil {
			return err
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, k.Group) {
				granted = append(granted, rule.Resources...)
			}
		}
		return nil
	})
	var errs []error
	for _, resource := range []string{k.Plural, k.Plural + "/status"} {
		if !slices.Contains(granted, resource) {
			errs = append(errs, fmt.Errorf("%s is not in config/rbac/manager/role.yaml", resource))
		}
	}
	return errors.Join(errs...)
}

// documents reads a file of several YAML documents.
func (t *tree) documents(name string, read func([]byte) error) {
	for document := range strings.SplitSeq(t.text(name), "\n---\n") {
		if err := read([]byte(document)); err != nil {
			t.errs = append(t.errs, fmt.Errorf("reading %s: %w", name, err))
		}
	}
}
