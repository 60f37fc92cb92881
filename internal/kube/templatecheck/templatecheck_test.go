// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package templatecheck_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

func TestCheckTellsFaultsFromOtherAnswers(t *testing.T) {
	templates := schema.GroupKind{Kind: "PodTemplate"}
	container := field.NewPath("template", "spec", "containers").Index(0)
	cases := map[string]struct {
		answer  error
		want    []string
		wantErr bool
	}{
		"accepted": {},
		"refused for two fields": {
			answer: apierrors.NewInvalid(templates, "", field.ErrorList{
				field.Required(container.Child("image"), ""), field.Invalid(container.Child("name"), "A", "must be small"),
			}),
			want: []string{
				`spec.template.spec.containers[0].image: Required value`,
				`spec.template.spec.containers[0].name: Invalid value: "A": must be small`,
			},
		},
		"a quota": {answer: apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "", errors.New("exceeded quota")), wantErr: true},
		"another admission webhook": {
			answer:  &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "admission webhook denied the request"}},
			wantErr: true,
		},
		"a webhook that refuses its own kind of fault": {
			answer:  apierrors.NewInvalid(schema.GroupKind{Kind: "Policy"}, "", field.ErrorList{field.Required(container.Child("image"), "")}),
			wantErr: true,
		},
		"a fault outside of the template": {
			answer:  apierrors.NewInvalid(templates, "", field.ErrorList{field.Required(field.NewPath("metadata", "labels"), "")}),
			wantErr: true,
		},
		"a namespace that is going away": {answer: apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "", errors.New("being terminated")), wantErr: true},
		"no answer":                      {answer: errors.New("connection refused"), wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checker := templatecheck.Checker{Client: &server{answer: tc.answer}}
			faults, err := checker.Check(t.Context(), "default", &corev1.PodTemplateSpec{}, nil)
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, want one: %v", err, tc.wantErr)
			}
			var got []string
			for _, fault := range faults {
				got = append(got, fault.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// The server takes these images in a template, where somebody may still replace them, and refuses them in a pod.
func TestCheckFindsImagesThatNoPodCanHave(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Image: " "}},
		Containers:     []corev1.Container{{Name: "good", Image: "web:1"}, {Name: "open"}, {Name: "bad", Image: "web:2\n"}},
	}}
	const because = `: must not have leading or trailing whitespace`
	want := []templatecheck.Fault{
		{Field: "spec.template.spec.initContainers[0].image", Message: `Invalid value: " "` + because, PodsOnly: true},
		{Field: "spec.template.spec.containers[2].image", Message: `Invalid value: "web:2\n"` + because, PodsOnly: true},
	}
	got, err := templatecheck.Checker{Client: &server{}}.Check(t.Context(), "default", template, nil)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
	}
}

func TestCheckAddsClaimsAsVolumes(t *testing.T) {
	s := &server{}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}, {Name: "tmp"}}}}
	claims := []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Name: "log"}}}
	if _, err := (templatecheck.Checker{Client: s}).Check(t.Context(), "there", template, claims); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, volume := range s.asked.Template.Spec.Volumes {
		names = append(names, volume.Name)
		if claimed := volume.PersistentVolumeClaim != nil; claimed == (volume.Name == "tmp") {
			t.Errorf("volume %s is a claim: %v", volume.Name, claimed)
		}
	}
	if diff := cmp.Diff([]string{"tmp", "data", "log"}, names); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if s.asked.Namespace != "there" || s.asked.Name != "" || s.asked.GenerateName == "" {
		t.Errorf("asked about %s/%s (%s...)", s.asked.Namespace, s.asked.Name, s.asked.GenerateName)
	}
	if len(template.Spec.Volumes) != 2 {
		t.Error("the caller's template was changed")
	}
}

// A Job has faults beyond its pods'. Errors of admission for Jobs are about something else.
func TestCheckOfAJob(t *testing.T) {
	jobs := schema.GroupKind{Group: "batch", Kind: "Job"}
	limit := field.NewPath("spec", "backoffLimit")
	for name, tc := range map[string]struct {
		answer error
		want   []templatecheck.Fault
		known  bool
	}{
		"accepted": {known: true},
		"refused": {
			answer: apierrors.NewInvalid(jobs, "", field.ErrorList{field.Invalid(limit, -1, "must be greater than or equal to 0")}),
			want:   []templatecheck.Fault{{Field: "spec.backoffLimit", Message: "Invalid value: -1: must be greater than or equal to 0"}}, known: true,
		},
		"refused for its name": {answer: apierrors.NewInvalid(jobs, "", field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), "A", "must be small")})},
		"a quota":              {answer: apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "", errors.New("exceeded quota"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: tc.answer}
			got, err := templatecheck.Checker{Client: s}.CheckJob(t.Context(), "there", &batchv1.JobSpec{BackoffLimit: ptr.To[int32](-1)})
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != tc.known {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
			}
			if s.job == nil || s.job.Namespace != "there" || s.job.Name != "" || s.job.GenerateName == "" || *s.job.Spec.BackoffLimit != -1 {
				t.Errorf("asked about %+v", s.job)
			}
		})
	}
}

// server gives one answer to every creation, and refuses to store anything.
type server struct {
	client.Writer
	answer error
	asked  *corev1.PodTemplate
	job    *batchv1.Job
}

func (s *server) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	if o := (&client.CreateOptions{}).ApplyOptions(options); !cmp.Equal(o.DryRun, []string{metav1.DryRunAll}) {
		return errors.New("the question would be stored")
	}
	switch question := object.(type) {
	case *batchv1.Job:
		s.job = question
	case *corev1.PodTemplate:
		s.asked = question
	}
	return s.answer
}
