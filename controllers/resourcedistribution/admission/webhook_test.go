// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const (
	configmap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	opaque    = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}`
)

func named(names ...string) (all []appsv1beta1.ResourceDistributionNamespace) {
	for _, name := range names {
		all = append(all, appsv1beta1.ResourceDistributionNamespace{Name: name})
	}
	return all
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		resource string
		edit     func(*appsv1beta1.ResourceDistributionTargets)
		// want are the fields of the faults.
		want []string
	}{
		"a ConfigMap": {resource: configmap},
		"a Secret":    {resource: opaque + `,"type":"Opaque","data":{"k":"dg=="},"stringData":{"l":"v"}}`},
		"nothing":     {want: []string{"spec.resource"}},
		"null":        {resource: `null`, want: []string{"spec.resource"}},
		"no object":   {resource: `[]`, want: []string{"spec.resource"}},
		"a Pod":       {resource: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, want: []string{"spec.resource"}},
		"a Secret of another group": {
			resource: `{"apiVersion":"example.com/v1","kind":"Secret","metadata":{"name":"a"}}`, want: []string{"spec.resource"},
		},
		"no name":           {resource: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, want: []string{"spec.resource.metadata.name"}},
		"a bad name":        {resource: strings.Replace(configmap, `"a"`, `"A_"`, 1), want: []string{"spec.resource.metadata.name"}},
		"a bad label":       {resource: strings.Replace(configmap, `"name":"a"`, `"name":"a","labels":{"-":"x"}`, 1), want: []string{"spec.resource.metadata.labels"}},
		"a bad key":         {resource: strings.Replace(configmap, `"k"`, `"k/l"`, 1), want: []string{"spec.resource.data[k/l]"}},
		"an unknown field":  {resource: strings.Replace(configmap, `"data"`, `"dat"`, 1), want: []string{"spec.resource"}},
		"a number for text": {resource: strings.Replace(configmap, `"v"`, `7`, 1), want: []string{"spec.resource.data[k]"}},
		"a key in both": {
			resource: strings.Replace(configmap, `"data"`, `"binaryData":{"k":"dg=="},"data"`, 1), want: []string{"spec.resource.binaryData[k]"},
		},
		"too much data":    {resource: strings.Replace(configmap, `"v"`, `"`+strings.Repeat("v", 1<<20+1)+`"`, 1), want: []string{"spec.resource.data"}},
		"no base64":        {resource: opaque + `,"data":{"k":"?"}}`, want: []string{"spec.resource.data[k]"}},
		"TLS without keys": {resource: opaque + `,"type":"kubernetes.io/tls"}`, want: []string{"spec.resource.data[tls.crt]", "spec.resource.data[tls.key]"}},
		"a pull secret that is no JSON": {
			resource: opaque + `,"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"x"}}`, want: []string{"spec.resource.data[.dockerconfigjson]"},
		},
		"basic auth without either": {resource: opaque + `,"type":"kubernetes.io/basic-auth"}`, want: []string{"spec.resource.data[username]"}},
		"a token without an account": {
			resource: opaque + `,"type":"kubernetes.io/service-account-token"}`, want: []string{"spec.resource.metadata.annotations[kubernetes.io/service-account.name]"},
		},
		"a bad namespace": {
			resource: configmap, want: []string{"spec.targets.includedNamespaces.list[0].name", "spec.targets.excludedNamespaces.list[1].name"},
			edit: func(t *appsv1beta1.ResourceDistributionTargets) {
				t.IncludedNamespaces.List, t.ExcludedNamespaces.List = named("A"), named("a", "")
			},
		},
		"included and excluded": {
			resource: configmap, want: []string{"spec.targets"},
			edit: func(t *appsv1beta1.ResourceDistributionTargets) {
				t.IncludedNamespaces.List, t.ExcludedNamespaces.List = named("a", "b"), named("b")
			},
		},
		"a bad selector": {
			resource: configmap, want: []string{"spec.targets.namespaceSelector.matchExpressions[0].operator"},
			edit: func(t *appsv1beta1.ResourceDistributionTargets) {
				t.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := &appsv1beta1.ResourceDistribution{}
			object.Spec.Resource.Raw = []byte(tc.resource)
			if tc.edit != nil {
				tc.edit(&object.Spec.Targets)
			}
			var got []string
			for _, err := range Validate(object) {
				got = append(got, err.Field)
				if strings.Contains(err.Error(), "dg==") {
					t.Errorf("a value is in the answer: %s", err)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("faults of %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheResourceStaysTheSameObject(t *testing.T) {
	for change, refused := range map[string]bool{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}}}`: false,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`:                    true,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`:                       true,
		`{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}`:                    true,
	} {
		object, old := &appsv1beta1.ResourceDistribution{}, &appsv1beta1.ResourceDistribution{}
		object.Spec.Resource.Raw, old.Spec.Resource.Raw = []byte(change), []byte(configmap)
		if errs := ValidateUpdate(object, old); len(errs) > 0 != refused {
			t.Errorf("%s: %v", change, errs)
		}
	}
}

func TestWarnings(t *testing.T) {
	object := &appsv1beta1.ResourceDistribution{}
	object.Spec.Resource.Raw = []byte(opaque + `,"type":"kubernetes.io/service-account-token"}`)
	object.Spec.Targets.AllNamespaces = true
	object.Spec.Targets.IncludedNamespaces.List = named("kube-system")
	got := strings.Join(Warnings(object, nil), "\n")
	for _, want := range []string{"kube-system is a system namespace", "allNamespaces: chooses every namespace", "spec.resource.type"} {
		if !strings.Contains(got, want) {
			t.Errorf("no warning %q in:\n%s", want, got)
		}
	}
}
