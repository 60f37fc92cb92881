// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// lists answers lists of one kind each, page by page.
type lists struct {
	client.Reader
	pods, objects [][]metav1.PartialObjectMetadata
	claims        []corev1.PersistentVolumeClaim
	err           error
	// asked are the requested lists.
	asked []string
}

func (l *lists) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(options)
	selector := ""
	if o.FieldSelector != nil {
		selector = o.FieldSelector.String()
	}
	l.asked = append(l.asked, fmt.Sprintf("%s %s %s %d", list.GetObjectKind().GroupVersionKind().Kind, o.Namespace, selector, o.Limit))
	if l.err != nil {
		return l.err
	}
	switch list := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		list.Items = l.claims
	case *metav1.PartialObjectMetadataList:
		pages := l.objects
		if list.Kind == "PodList" {
			pages = l.pods
		}
		at := 0
		if o.Continue != "" {
			_, _ = fmt.Sscan(o.Continue, &at)
		}
		list.Items, list.Continue = nil, ""
		if at < len(pages) {
			list.Items = pages[at]
		}
		if at+1 < len(pages) {
			list.Continue = fmt.Sprint(at + 1)
		}
	}
	return nil
}

func some(n int, going bool) []metav1.PartialObjectMetadata {
	all := make([]metav1.PartialObjectMetadata, n)
	for i := range all {
		if going {
			all[i].DeletionTimestamp = &metav1.Time{}
			now := metav1.Now()
			all[i].DeletionTimestamp = &now
		}
	}
	return all
}

func claim(phase corev1.PersistentVolumeClaimPhase, going bool) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	if going {
		now := metav1.Now()
		c.DeletionTimestamp = &now
	}
	return c
}

func request(t *testing.T, resource string, object any) ctrladmission.Request {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Name: "it", Resource: metav1.GroupVersionResource{Resource: resource}, OldObject: runtime.RawExtension{Raw: raw},
	}}
}

func labeled(value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "it", Labels: map[string]string{"policy.kruise.io/delete-protection": value}}
}

func TestNamespaces(t *testing.T) {
	going := labeled("Cascading")
	now := metav1.Now()
	going.DeletionTimestamp = &now
	pods := func(pages ...[]metav1.PartialObjectMetadata) lists { return lists{pods: pages} }
	cases := map[string]struct {
		metadata metav1.ObjectMeta
		off      bool
		has      lists
		// want is in the refusal; empty: it is allowed.
		want string
	}{
		"nothing in it":                     {metadata: labeled("Cascading")},
		"a pod":                             {metadata: labeled("Cascading"), has: pods(some(1, false)), want: "and active pods 1>0: to delete it, delete what runs in it or take this label away first"},
		"pods on the second page":           {metadata: labeled("Cascading"), has: pods(some(500, true), some(3, false)), want: "active pods 3>0"},
		"more than a page of pods":          {metadata: labeled("Cascading"), has: pods(some(500, false), some(1, false)), want: "active pods at least 500>0"},
		"pods that are going":               {metadata: labeled("Cascading"), has: pods(some(3, true))},
		"a bound claim":                     {metadata: labeled("Cascading"), has: lists{claims: []corev1.PersistentVolumeClaim{claim(corev1.ClaimBound, false), claim(corev1.ClaimPending, false)}}, want: "and bound volume claims 1>0: to delete it, delete these claims or take"},
		"a claim that is going":             {metadata: labeled("Cascading"), has: lists{claims: []corev1.PersistentVolumeClaim{claim(corev1.ClaimBound, true)}}},
		"what cannot be read":               {metadata: labeled("Cascading"), has: lists{err: errors.New("etcd is away")}, want: "it is not known whether it is in use: etcd is away: try again"},
		"another value":                     {metadata: labeled("cascading"), has: pods(some(1, false))},
		"no label":                          {has: pods(some(1, false))},
		"one that is being deleted already": {metadata: going, has: pods(some(1, false))},
		"while the gate is off":             {metadata: labeled("Cascading"), off: true, has: pods(some(1, false))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := &Handler{Reader: &tc.has, On: !tc.off}
			expect(t, h.Handle(t.Context(), request(t, "namespaces", corev1.Namespace{ObjectMeta: tc.metadata})), tc.want)
		})
	}
	t.Run("ended pods are not listed", func(t *testing.T) {
		l := &lists{}
		h := &Handler{Reader: l, On: true}
		expect(t, h.Handle(t.Context(), request(t, "namespaces", corev1.Namespace{ObjectMeta: labeled("Cascading")})), "")
		if got := strings.Join(l.asked, ";"); got != "PodList it status.phase!=Succeeded,status.phase!=Failed 500; it  500" {
			t.Errorf("asked for %q", got)
		}
	})
}

func expect(t *testing.T, got ctrladmission.Response, want string) {
	t.Helper()
	if got.Allowed != (want == "") {
		t.Fatalf("allowed: %v, %v", got.Allowed, got.Result)
	}
	if want == "" {
		return
	}
	const begins = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading"
	if got.Result.Code != 403 || !strings.HasPrefix(got.Result.Message, begins) || !strings.Contains(got.Result.Message, want) ||
		!strings.Contains(got.Result.Message, "take this label away first") {
		t.Errorf("refused with %d %q, want %q in it", got.Result.Code, got.Result.Message, want)
	}
}

func TestDefinitions(t *testing.T) {
	definition := func(versions ...apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinition {
		return apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: labeled("Cascading"),
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"}, Versions: versions,
			},
		}
	}
	v1 := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true, Storage: true}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "", errors.New("no"))
	cases := map[string]struct {
		of   apiextensionsv1.CustomResourceDefinition
		gate bool
		has  lists
		want string
	}{
		"nothing of the kind":              {of: definition(v1), gate: true},
		"two, one of which is going":       {of: definition(v1), gate: true, has: lists{objects: [][]metav1.PartialObjectMetadata{append(some(1, false), some(1, true)...)}}, want: "and objects of its kind 1>0: to delete it, delete these objects or take"},
		"the gate is off":                  {of: definition(v1), want: "while the feature gate DeletionProtectionForCRDCascadingGate is off"},
		"no right to list them":            {of: definition(v1), gate: true, has: lists{err: forbidden}, want: `a ClusterRole with the verb list on resource widgets of API group "example.com"`},
		"no version is served":             {of: definition(apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Storage: true}), gate: true, want: "no version of it is served"},
		"the stored version is not served": {of: definition(apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true}, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Storage: true}), gate: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := &Handler{Reader: &tc.has, On: true, Definitions: tc.gate}
			expect(t, h.Handle(t.Context(), request(t, "customresourcedefinitions", tc.of)), tc.want)
		})
	}
}
