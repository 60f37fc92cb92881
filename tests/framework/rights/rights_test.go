// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const roles = `
kind: ClusterRole
rules:
- {apiGroups: [""], resources: [pods, pods/status], verbs: [patch]}
---
kind: ServiceAccount
---
kind: Role
rules:
- {apiGroups: [apps], resources: [things], resourceNames: [own], verbs: [get, create]}
`

func event(verb, resource, subresource, group, namespace, name, decision string, code int32) auditv1.Event {
	return auditv1.Event{
		Verb: verb, RequestURI: "/" + resource + "/" + name,
		ObjectRef:      &auditv1.ObjectReference{APIGroup: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name},
		ResponseStatus: &metav1.Status{Code: code},
		Annotations:    map[string]string{"authorization.k8s.io/decision": decision},
	}
}

func TestUnused(t *testing.T) {
	given, err := read(strings.NewReader(roles))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		events []auditv1.Event
		want   string
	}{
		"nothing was asked":               {want: `patch pods, patch pods/status, get apps things "own" in its namespace, create apps things "own" in its namespace`},
		"a subresource is not the object": {events: []auditv1.Event{event("patch", "pods", "status", "", "any", "web", "allow", 200)}, want: `patch pods, get apps things "own" in its namespace, create apps things "own" in its namespace`},
		"a refused request needs nothing": {events: []auditv1.Event{event("patch", "pods", "", "", "any", "web", "forbid", 403)}, want: `patch pods, patch pods/status, get apps things "own" in its namespace, create apps things "own" in its namespace`},
		"another name, another namespace": {
			events: []auditv1.Event{event("get", "things", "", "apps", "home", "other", "allow", 200), event("get", "things", "", "apps", "away", "own", "allow", 200)},
			want:   `patch pods, patch pods/status, get apps things "own" in its namespace, create apps things "own" in its namespace`,
		},
		"an apply that creates": {
			events: []auditv1.Event{event("patch", "things", "", "apps", "home", "own", "allow", 201), event("get", "things", "", "apps", "home", "own", "allow", 200)},
			want:   `patch pods, patch pods/status`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, right := range Unused(given, tc.events, "home") {
				got = append(got, right.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	given, err := read(strings.NewReader(roles))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []Excuse{{"they are for others", To("get patch", "pods", "pods/status", "things")}, {"it is for a restart", To("create", "things")}}
	if err := Check(given, nil, "home", elsewhere...); err != nil {
		t.Errorf("all is excused, and still: %v", err)
	}
	elsewhere[1] = Excuse{"nodes were asked for once", With("nodes")}
	err = Check(given, []auditv1.Event{event("list", "nodes", "", "", "", "", "forbid", 403)}, "home", elsewhere...)
	for _, want := range []string{"list /nodes/ was refused", `to create apps things "own"`, "not given: nodes were asked for once"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestWildcardsAreRefused(t *testing.T) {
	if _, err := read(strings.NewReader(`{kind: Role, rules: [{apiGroups: [""], resources: ["*"], verbs: [get]}]}`)); err == nil {
		t.Error("a wildcard is taken")
	}
}
