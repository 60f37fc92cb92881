// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rights compares a service account's rights with its requests: the roles in
// manifests with an audit log. A refused request shows a missing right; a right without
// requests shows one too many.
package rights

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Right is one allowed action.
type Right struct {
	// Verb is get, list, create ...
	Verb string
	// Group is the API group; empty for pods.
	Group string
	// Resource is the resource, with its subresource behind a slash.
	Resource string
	// Name is the right's only object. Empty: all.
	Name string
	// Namespaced: it holds in the role's namespace alone.
	Namespaced bool
}

// String is such as "patch pods/status", "get secrets "own" in its namespace", "get apps.kruise.io clonesets".
func (r Right) String() string {
	text := r.Verb + " "
	if r.Group != "" {
		text += r.Group + " "
	}
	text += r.Resource
	if r.Name != "" {
		text += fmt.Sprintf(" %q", r.Name)
	}
	if r.Namespaced {
		text += " in its namespace"
	}
	return text
}

// Of returns the rights in the manager's Roles and ClusterRoles in config/rbac, one for
// each verb, resource and name; folder is its path. Users' roles are in another folder.
// Wildcards are refused: nobody could tell the needed rights.
func Of(folder string) ([]Right, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading rights: %w", err)
	}
	var all []Right
	for _, file := range append(files, filepath.Join(folder, "manager", "role.yaml")) {
		content, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading rights: %w", err)
		}
		rights, err := read(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, fmt.Errorf("reading rights in %s: %w", file, err)
		}
		all = append(all, rights...)
	}
	return all, nil
}

func read(manifests io.Reader) ([]Right, error) {
	var all []Right
	decoder := yaml.NewYAMLOrJSONDecoder(manifests, 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same fields, and an aggregation that none of ours uses
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if role.Kind != "Role" && role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 || slices.Contains(slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups), "*") {
				return nil, fmt.Errorf("%s %s has a wildcard or a URL: %+v", role.Kind, role.Name, rule)
			}
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							all = append(all, Right{verb, group, resource, name, role.Kind == "Role"})
						}
					}
				}
			}
		}
	}
}

// Refused are an audit log's requests refused for want of a right.
func Refused(events []auditv1.Event) []string {
	var refused []string
	for i := range events {
		if events[i].Annotations["authorization.k8s.io/decision"] == "forbid" {
			refused = append(refused, events[i].Verb+" "+events[i].RequestURI)
		}
	}
	slices.Sort(refused)
	return slices.Compact(refused)
}

// Unused are rights without a request. namespace is the Roles' one.
func Unused(given []Right, events []auditv1.Event, namespace string) []Right {
	used := map[Right]bool{}
	for i := range events {
		ref := events[i].ObjectRef
		if ref == nil || events[i].Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		resource := ref.Resource
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		for _, namespaced := range []bool{false, ref.Namespace == namespace} {
			for _, name := range []string{"", ref.Name} {
				used[Right{events[i].Verb, ref.APIGroup, resource, name, namespaced}] = true
			}
		}
		// An apply that creates also needs the right to create; the log has only the patch.
		if events[i].Verb == "patch" && events[i].ResponseStatus != nil && events[i].ResponseStatus.Code == 201 {
			for _, namespaced := range []bool{false, ref.Namespace == namespace} {
				for _, name := range []string{"", ref.Name} {
					used[Right{"create", ref.APIGroup, resource, name, namespaced}] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(given), func(r Right) bool { return used[r] })
}

// Excuse is the reason for rights without a request.
type Excuse struct {
	// Why is the reason, and who needs them.
	Why string
	// Covers accepts the excused rights.
	Covers func(Right) bool
}

// To is the rights to do any of the verbs, separated by spaces, with any of the resources.
func To(verbs string, resources ...string) func(Right) bool {
	return func(r Right) bool {
		return slices.Contains(strings.Fields(verbs), r.Verb) && slices.Contains(resources, r.Resource)
	}
}

// With is the rights to do anything with any of the resources.
func With(resources ...string) func(Right) bool {
	return func(r Right) bool { return slices.Contains(resources, r.Resource) }
}

// Check returns an error naming every refused request, and every right neither needed nor
// excused. An excuse for missing rights is an error, too.
func Check(given []Right, events []auditv1.Event, namespace string, excuses ...Excuse) error {
	var faults []error
	for _, request := range Refused(events) {
		faults = append(faults, fmt.Errorf("a right is missing: %s was refused", request))
	}
	for _, right := range Unused(given, events, namespace) {
		if !slices.ContainsFunc(excuses, func(e Excuse) bool { return e.Covers(right) }) {
			faults = append(faults, fmt.Errorf("nothing needed the right to %s", right))
		}
	}
	for _, excuse := range excuses {
		if !slices.ContainsFunc(given, excuse.Covers) {
			faults = append(faults, fmt.Errorf("there is an excuse for rights that are not given: %s", excuse.Why))
		}
	}
	return errors.Join(faults...)
}
