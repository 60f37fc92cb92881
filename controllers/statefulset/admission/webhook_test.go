// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

const stored = `{"metadata":{"name":"web","finalizers":["x"]},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
	"podManagementPolicy":"Parallel","revisionHistoryLimit":10,
	"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1,"minReadySeconds":0,"podUpdatePolicy":"ReCreate"}},
	"reserveOrdinals":[1,"4-5"],"ordinals":{"start":0},"scaleStrategy":{"maxUnavailable":2},
	"lifecycle":{"preDelete":{"finalizersHandler":["a/b"]}},
	"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Delete"},
	"volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"},
	"template":{"metadata":{"labels":{"app":"web"},"creationTimestamp":null},"spec":{"containers":[{"name":"main","image":"example/web:1","madeUp":{"n":1.50,"x":null}}]}}}}`

func TestDefaulter(t *testing.T) {
	const client = `"podManagementPolicy":"Parallel","selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"example/web:2"}]}}`
	const retain = `"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"}`
	const restored = `"reserveOrdinals":[1,"4-5"],"ordinals":{"start":0},"scaleStrategy":{"maxUnavailable":2},"lifecycle":{"preDelete":{"finalizersHandler":["a/b"]}},
		"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Delete"},"volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"}`
	const defaults = `"replicas":1,"revisionHistoryLimit":10,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1,"minReadySeconds":0,"podUpdatePolicy":"ReCreate"}}`
	cases := map[string]struct{ version, old, object, want string }{
		"a creation gets defaults": {
			version: "v1beta1",
			object:  `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:    `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,` + retain + `}}`,
		},
		"nothing in a template is touched": {
			version: "v1beta1",
			object:  `{"spec":{"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","resources":{},"madeUp":{"n":1.50,"x":null}}]}},"volumeClaimTemplates":[{"metadata":{"creationTimestamp":null,"name":"a"},"status":{},"madeUp":1}]}}`,
			want:    `{"spec":{"podManagementPolicy":"OrderedReady",` + defaults + `,` + retain + `,"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","resources":{},"madeUp":{"n":1.50,"x":null}}]}},"volumeClaimTemplates":[{"metadata":{"creationTimestamp":null,"name":"a"},"status":{},"madeUp":1}]}}`,
		},
		"an update through v1alpha1 keeps what its client does not know": {
			version: "v1alpha1", old: stored,
			object: `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:   `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,` + restored + `}}`,
		},
		"an update through v1alpha1 may name newer fields": {
			version: "v1alpha1", old: stored,
			object: `{"metadata":{"name":"web"},"spec":{` + client + `,"reserveOrdinals":[],"ordinals":{},"scaleStrategy":{},"lifecycle":{},"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"},"volumeClaimUpdateStrategy":{}}}`,
			want:   `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,"reserveOrdinals":[],"ordinals":{},"scaleStrategy":{},"lifecycle":{},` + retain + `,"volumeClaimUpdateStrategy":{}}}`,
		},
		"a creation through v1alpha1 has nothing to keep": {
			version: "v1alpha1",
			object:  `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:    `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,` + retain + `}}`,
		},
		"an update through v1beta1 removes what it leaves out": {
			version: "v1beta1", old: stored,
			object: `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:   `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,` + retain + `}}`,
		},
		"an object that cannot be decoded is left to the schema": {
			version: "v1beta1",
			object:  `{"spec":{"replicas":"three"}}`,
			want:    `{"spec":{"replicas":"three"}}`,
		},
		"an update of metadata gets no defaults": {
			version: "v1alpha1",
			old:     `{"metadata":{"name":"web","finalizers":["x"]},"spec":{}}`,
			object:  `{"metadata":{"name":"web"},"spec":{}}`,
			want:    `{"metadata":{"name":"web"},"spec":{}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := admission.Kind(plan.Options{AutoDeletePVC: true}, admission.StorageClasses{}).Defaulter()
			response := d.Handle(t.Context(), request(tc.version, tc.object, tc.old))
			got := admissiontest.Mutated(t, tc.object, response)
			for _, o := range response.Patches {
				if strings.HasPrefix(o.Path, "/spec/template") || strings.HasPrefix(o.Path, "/spec/volumeClaimTemplates") || o.Operation == "remove" {
					t.Errorf("the patch has %s %s", o.Operation, o.Path)
				}
			}
			if diff := cmp.Diff(admissiontest.Parse[any](t, tc.want), admissiontest.Parse[any](t, got)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidator(t *testing.T) {
	edit := func(old, change string) string { return admissiontest.Merge(t, old, change) }
	fault := field.ErrorList{field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), "")}
	refusing := apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", fault)
	cases := map[string]struct {
		old, object  string
		templates    error
		asked        bool
		wantDenied   []string // fields
		wantWarnings []string
	}{
		"a good set": {object: edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"template":{"spec":{"containers":[{"name":"a"}]}}}}`), asked: true},
		"a template that the server would refuse": {
			object:    edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"template":{"spec":{"containers":[{"name":"a"}]}}}}`),
			templates: refusing, asked: true,
			wantWarnings: []string{"spec.template.spec.containers[0].image: Required value (pods cannot be created from this template)"},
		},
		"a server that does not answer": {
			object:    edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"template":{"spec":{"containers":[{"name":"a"}]}}}}`),
			templates: errors.New("connection refused"), asked: true,
		},
		"unknown fields in the template": {
			object: edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"elsewhere":1}}`), asked: true,
			wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].madeUp"`},
		},
		"a template that cannot be decoded": {
			object:     edit(stored, `{"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":"http"}]}]}}}}`),
			wantDenied: []string{"spec.template.spec.containers[0].ports[0].containerPort"},
		},
		"several faults": {
			object:     edit(stored, `{"metadata":{"name":"A"},"spec":{"replicas":-1}}`),
			wantDenied: []string{"metadata.name", "spec.replicas"},
		},
		"an update that leaves the template alone": {
			old: stored, object: edit(stored, `{"spec":{"replicas":4,"volumeClaimUpdateStrategy":null}}`), templates: refusing,
			wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].madeUp"`},
		},
		"an update of the template": {
			old: stored, object: edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"template":{"spec":{"containers":[{"name":"a"}]}}}}`), templates: refusing, asked: true,
			wantWarnings: []string{"spec.template.spec.containers[0].image: Required value (pods cannot be created from this template)"},
		},
		"removing a finalizer of an object that could not be created": {
			old: edit(stored, `{"spec":{"replicas":-1,"template":7}}`), object: edit(stored, `{"metadata":{"finalizers":null},"spec":{"replicas":-1,"template":7}}`),
		},
		"mending an object that cannot be decoded": {
			old: edit(stored, `{"spec":{"template":7}}`), object: edit(stored, `{"spec":{"volumeClaimUpdateStrategy":null,"template":{"spec":{"containers":[{"name":"a"}]}}}}`), asked: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer := &admissiontest.Templates{Answer: func(*corev1.PodTemplateSpec) error { return tc.templates }}
			v := admission.Kind(plan.Options{AutoDeletePVC: true}, admission.StorageClasses{}).
				Validator(admit.Cluster{Checker: templatecheck.Checker{Client: answer}})
			response := v.Handle(t.Context(), request("v1beta1", tc.object, tc.old))

			if diff := cmp.Diff(tc.wantDenied, admissiontest.Denied(response)); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if response.Allowed == (len(tc.wantDenied) > 0) {
				t.Errorf("allowed: %v", response.Allowed)
			}
			if !response.Allowed && response.Result.Code != http.StatusUnprocessableEntity {
				t.Errorf("code %d, want 422", response.Result.Code)
			}
			if diff := cmp.Diff(tc.wantWarnings, response.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if answer.Asked != tc.asked {
				t.Errorf("the server was asked about the template: %v, want %v", answer.Asked, tc.asked)
			}
		})
	}
}

func TestValidatorLooksAtStorageClasses(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := storagev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	class := func(name string, grows *bool, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, AllowVolumeExpansion: grows}
	}
	byDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		class("grows", ptr.To(true), nil), class("fixed", nil, nil), class("default", ptr.To(false), byDefault)).Build()

	set := func(class, size string) string {
		claim := `{"metadata":{"name":"data"},"spec":{` + class + `"resources":{"requests":{"storage":"` + size + `"}}}}`
		return admissiontest.Merge(t, stored, `{"spec":{"volumeClaimTemplates":[`+claim+`]}}`)
	}
	cases := map[string]struct {
		class, size string
		allowed     bool
	}{
		"a class that allows it":             {class: `"storageClassName":"grows",`, size: "2Gi", allowed: true},
		"a class that does not":              {class: `"storageClassName":"fixed",`, size: "2Gi"},
		"the default class, which does not":  {class: ``, size: "2Gi"},
		"a class that does not exist":        {class: `"storageClassName":"gone",`, size: "2Gi", allowed: true},
		"a smaller size is nobody's request": {class: `"storageClassName":"fixed",`, size: "512Mi", allowed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := admission.Kind(plan.Options{AutoResizePVC: true}, admission.StorageClasses{Reader: reader}).
				Validator(admit.Cluster{Checker: templatecheck.Checker{Client: &admissiontest.Templates{}}})
			response := v.Handle(t.Context(), request("v1beta1", set(tc.class, tc.size), set(tc.class, "1Gi")))
			if response.Allowed != tc.allowed {
				t.Errorf("allowed: %v, want %v: %v", response.Allowed, tc.allowed, response.Result)
			}
		})
	}
}

func request(version, object, old string) ctrladmission.Request {
	return admissiontest.Request(appsv1beta1.GroupVersion().WithKind("StatefulSet"), version, object, old)
}
