// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestWhoIsWarnedOfALabelThatDoesNotProtect(t *testing.T) {
	labeled := func(value string) string {
		return `{"metadata":{"name":"web","labels":{"policy.kruise.io/delete-protection":"` + value + `"}}}`
	}
	const plain = `{"metadata":{"name":"web","labels":{"app":"web"}}}`
	for name, tc := range map[string]struct {
		object, old string
		on, other   bool
		want        string
	}{
		"no label":                                   {object: plain},
		"a creation, with the gate off":              {object: labeled("Always"), want: "ResourcesDeletionProtection is off"},
		"a creation, with the gate on":               {object: labeled("Cascading"), on: true},
		"the label is set, with the gate off":        {object: labeled("Cascading"), old: plain, want: "ResourcesDeletionProtection is off"},
		"it has been set before":                     {object: labeled("Cascading"), old: labeled("Cascading")},
		"another value that protects":                {object: labeled("Always"), old: labeled("Cascading"), on: true},
		"a value that protects from nothing":         {object: labeled("always"), old: plain, on: true, want: `"always" protects from nothing; use Always or Cascading`},
		"the same, with the gate off":                {object: labeled(""), want: `"" protects from nothing`},
		"a kind that is not protected":               {object: labeled("Always"), old: plain, on: true, other: true, want: "objects of the kind SidecarSet cannot be protected from deletion"},
		"a kind that is not protected, gate off":     {object: labeled("Always"), other: true, want: "objects of the kind SidecarSet cannot be protected from deletion"},
		"it is taken away":                           {object: plain, old: labeled("Always")},
		"an object whose labels cannot be read":      {object: `{"metadata":{"labels":7}}`},
		"a stored object whose labels are like that": {object: labeled("Always"), old: `{"metadata":{"labels":7}}`, want: "is off"},
	} {
		t.Run(name, func(t *testing.T) {
			req := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Object: runtime.RawExtension{Raw: []byte(tc.object)}, OldObject: runtime.RawExtension{Raw: []byte(tc.old)},
			}}
			got := strings.Join(unprotected(req, "SidecarSet", Protection{Kind: !tc.other, On: tc.on}), "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("warns %q, want %q", got, tc.want)
			}
		})
	}
}
