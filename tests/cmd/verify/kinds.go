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

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A kind is complete when all that CONTRIBUTING.md asks for is there. Names of the parts, as exceptions use them:
const (
	partProject     = "PROJECT"
	partDefinition  = "config/crd"
	partSample      = "minimal sample"
	partFullSample  = "full sample"
	partPage        = "docs/kinds page"
	partDescriptors = "descriptors in the bundle"
	partExample     = "example in the bundle"
	partWebhooks    = "webhooks"
	partController  = "controller"
	partRights      = "operator's rights"
	partUserRoles   = "roles for users"
)

// exceptions say what a kind does without, and why. One that its kind does not need any more is a finding, too.
func exceptions() map[string]map[string]string {
	return map[string]map[string]string{
		"Kruise": {
			partController: "the reconciler is controllers/operatorconfig: it follows one object and has no kind to list",
			partFullSample: "there is one object of the kind, and its sample names most fields",
			partPage:       "docs/operations/configuration.md describes it",
			partUserRoles:  "configuring the operator is for administrators of the cluster",
			partWebhooks:   "all its rules are in the schema",
		},
		"ImagePullJob": {
			partController: "a node daemon that pulls is yet to come; workloads create the jobs and remove them",
			partRights:     "its status is for that daemon to write",
			partWebhooks:   "all its rules are in the schema",
		},
	}
}

// definition is what a CRD says that the other parts are compared with.
type definition struct {
	group, kind, plural, storage string
	versions                     []string
}

func (d definition) name() string { return d.plural + "." + d.group }

// checkKinds finds the kinds of a working copy that lack a part.
func checkKinds(root fs.FS, without map[string]map[string]string) error {
	t := tree{root: root}
	kinds := t.definitions()
	needed := map[string][]string{}
	for _, d := range kinds {
		for part, fault := range t.faults(d) {
			if without[d.kind][part] != "" {
				needed[d.kind] = append(needed[d.kind], part)
				continue
			}
			t.errs = append(t.errs, fmt.Errorf("kind %s: %s: %w", d.kind, part, fault))
		}
	}
	for kind, parts := range without {
		if !slices.ContainsFunc(kinds, func(d definition) bool { return d.kind == kind }) {
			continue
		}
		for part := range parts {
			if !slices.Contains(needed[kind], part) {
				t.errs = append(t.errs, fmt.Errorf("kind %s has an exception for %q and does not need it", kind, part))
			}
		}
	}
	slices.SortFunc(t.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(t.errs...)
}

// tree reads a working copy and keeps what went wrong.
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

// definitions are the kinds that have types: every generated CRD.
func (t *tree) definitions() []definition {
	files, err := fs.Glob(t.root, "config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.errs = append(t.errs, fmt.Errorf("%d definitions in config/crd/bases: %w", len(files), err))
	}
	var found []definition
	for _, file := range files {
		crd := apiextensionsv1.CustomResourceDefinition{}
		t.read(file, &crd)
		d := definition{group: crd.Spec.Group, kind: crd.Spec.Names.Kind, plural: crd.Spec.Names.Plural}
		for _, version := range crd.Spec.Versions {
			if version.Served {
				d.versions = append(d.versions, version.Name)
			}
			if version.Storage {
				d.storage = version.Name
			}
		}
		found = append(found, d)
	}
	return found
}

// faults are the parts that a kind lacks.
func (t *tree) faults(d definition) map[string]error {
	lower := strings.ToLower(d.kind)
	short, _, _ := strings.Cut(d.group, ".")
	faults := map[string]error{}
	note := func(part string, err error) {
		if err != nil {
			faults[part] = errors.Join(faults[part], err)
		}
	}
	note(partProject, t.checkProject(d, short))
	note(partDefinition, t.lists("config/crd/kustomization.yaml", "bases/"+d.group+"_"+d.plural+".yaml"))
	for _, version := range d.versions {
		sample := short + "_" + version + "_" + lower + ".yaml"
		note(partSample, errors.Join(t.exists("config/samples/"+sample), t.lists("config/samples/kustomization.yaml", sample)))
	}
	full := short + "_" + d.storage + "_" + lower + "_full.yaml"
	note(partFullSample, errors.Join(t.exists("config/samples/"+full), t.lists("config/samples/kustomization.yaml", full)))
	note(partPage, t.exists("docs/kinds/"+lower+".md"))
	t.checkBundle(d, note)
	note(partWebhooks, t.checkWebhooks(d))
	if !strings.Contains(t.text("controllers/controllers.go"), lower+".Kind()") {
		note(partController, fmt.Errorf("controllers/controllers.go does not list %s.Kind()", lower))
	}
	note(partRights, t.checkRights(d))
	note(partUserRoles, t.lists("config/rbac/users/kustomization.yaml", d.plural+".yaml"))
	return faults
}

// lists says whether a kustomization names a resource.
func (t *tree) lists(kustomization, resource string) error {
	content := struct {
		Resources []string `json:"resources"`
	}{}
	t.read(kustomization, &content)
	if !slices.Contains(content.Resources, resource) {
		return fmt.Errorf("%s does not list %s", kustomization, resource)
	}
	return nil
}

func (t *tree) checkProject(d definition, short string) error {
	project := struct {
		Resources []struct{ Group, Kind, Version string } `json:"resources"`
	}{}
	t.read("PROJECT", &project)
	var errs []error
	for _, version := range d.versions {
		if !slices.ContainsFunc(project.Resources, func(r struct{ Group, Kind, Version string }) bool {
			return r.Group == short && r.Kind == d.kind && r.Version == version
		}) {
			errs = append(errs, fmt.Errorf("it has no entry for %s", version))
		}
	}
	return errors.Join(errs...)
}

// checkBundle looks at what the ClusterServiceVersion says of every version of the kind.
func (t *tree) checkBundle(d definition, note func(string, error)) {
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
	for _, version := range d.versions {
		owned := false
		for _, o := range csv.Spec.CustomResourceDefinitions.Owned {
			if o.Name != d.name() || o.Version != version {
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
			return example.GetKind() == d.kind && example.GetAPIVersion() == d.group+"/"+version
		}) {
			note(partExample, fmt.Errorf("%s has none", version))
		}
	}
}

// checkWebhooks looks for the kind in the configurations, and for its package in the list of what is served.
func (t *tree) checkWebhooks(d definition) error {
	covered := map[string]bool{}
	t.documents("config/webhook/manifests.yaml", func(document []byte) error {
		// Both kinds of configuration have these fields.
		configuration := admissionv1.ValidatingWebhookConfiguration{}
		if err := yaml.Unmarshal(document, &configuration); err != nil {
			return err
		}
		for _, webhook := range configuration.Webhooks {
			for _, rule := range webhook.Rules {
				if slices.Contains(rule.APIGroups, d.group) && slices.Contains(rule.Resources, d.plural) {
					covered[configuration.Kind] = true
				}
			}
		}
		return nil
	})
	var errs []error
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		if !covered[kind] {
			errs = append(errs, fmt.Errorf("no %s names %s", kind, d.plural))
		}
	}
	if lower := strings.ToLower(d.kind); !strings.Contains(t.text("internal/webhook/webhook.go"), lower+".ValidatePath") {
		errs = append(errs, fmt.Errorf("internal/webhook/webhook.go does not serve %s.ValidatePath", lower))
	}
	return errors.Join(errs...)
}

// checkRights looks for the kind, its status and its finalizers in the operator's role.
func (t *tree) checkRights(d definition) error {
	var granted []string
	t.documents("config/rbac/manager/role.yaml", func(document []byte) error {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(document, &role); err != nil {
			return err
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, d.group) {
				granted = append(granted, rule.Resources...)
			}
		}
		return nil
	})
	var errs []error
	for _, resource := range []string{d.plural, d.plural + "/status"} {
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
