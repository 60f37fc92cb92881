// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admissiontest plays the API server for tests of webhooks: it makes their requests, reads their answers, and answers their
// questions about pod templates.
package admissiontest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

// Parse reads YAML or JSON. A field that the type does not have fails the test.
func Parse[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return v
}

// Merge changes an object by a merge patch, both in YAML or JSON. An empty patch changes nothing.
func Merge(t testing.TB, object, patch string) string {
	t.Helper()
	texts := [2][]byte{}
	for i, text := range []string{object, patch} {
		read, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("reading %s: %v", text, err)
		}
		texts[i] = read
	}
	if patch == "" {
		return string(texts[0])
	}
	merged, err := jsonpatch.MergePatch(texts[0], texts[1])
	if err != nil {
		t.Fatalf("merging %s: %v", patch, err)
	}
	return string(merged)
}

// Request is what the API server sends about the object web in the namespace default, converted to the version of kind: a creation, or an
// update of old when that is not empty. version is the client's.
func Request(kind schema.GroupVersionKind, version, object, old string) admission.Request {
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation:   admissionv1.Create,
		Name:        "web",
		Namespace:   "default",
		Kind:        metav1.GroupVersionKind(kind),
		RequestKind: &metav1.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind},
		Object:      runtime.RawExtension{Raw: []byte(object)},
	}}
	if old != "" {
		req.Operation = admissionv1.Update
		req.OldObject = runtime.RawExtension{Raw: []byte(old)}
	}
	return req
}

// Mutated is the object after the patches of an answer, which must allow it.
func Mutated(t testing.TB, object string, response admission.Response) string {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("denied: %v", response.Result)
	}
	if len(response.Patches) == 0 {
		return object
	}
	operations, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	mutated, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("applying %s: %v", operations, err)
	}
	return string(mutated)
}

// Denied are the fields that an answer denies an object for; none when it is allowed.
func Denied(response admission.Response) []string {
	if response.Allowed || response.Result == nil || response.Result.Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

// Templates is an API server that is asked about pod templates and Jobs, and nothing else, by dry runs.
type Templates struct {
	client.Writer
	// Answer is the error for a template; nil accepts all.
	Answer func(*corev1.PodTemplateSpec) error
	// AnswerJob is the error for a Job; nil accepts all.
	AnswerJob func(*batchv1.JobSpec) error
	// Asked says whether there was a question.
	Asked bool
}

// Create answers a question.
func (s *Templates) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	s.Asked = true
	if o := (&client.CreateOptions{}).ApplyOptions(options); len(o.DryRun) == 0 {
		return errors.New("the template would be stored")
	}
	switch question := object.(type) {
	case *corev1.PodTemplate:
		if s.Answer != nil {
			return s.Answer(&question.Template)
		}
	case *batchv1.Job:
		if s.AnswerJob != nil {
			return s.AnswerJob(&question.Spec)
		}
	default:
		return errors.New("something else than a template is created")
	}
	return nil
}

// NewPod is what the API server sends about a pod that is created in the namespace ns.
func NewPod(body string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "ns", Object: runtime.RawExtension{Raw: []byte(body)},
	}}
}

// Patched is the object as an answer changes it. An answer that refuses it fails the test.
func Patched(t testing.TB, object string, answer admission.Response) []byte {
	t.Helper()
	if !answer.Allowed {
		t.Fatalf("refused: %+v", answer.Result)
	}
	if len(answer.Patch) == 0 {
		return []byte(object)
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
