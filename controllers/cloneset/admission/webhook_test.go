// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/admission"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

const stored = `{"metadata":{"name":"web","namespace":"default","uid":"u1","finalizers":["example.com/x"]},"spec":{"replicas":3,"revisionHistoryLimit":10,
	"selector":{"matchLabels":{"app":"web"}},"scaleStrategy":{"enablePVCReuse":false,"excludePreparingDelete":true,"podsToDelete":["gone"]},
	"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","partition":0,"maxUnavailable":"20%","maxSurge":0}},
	"template":{"metadata":{"labels":{"app":"web"},"creationTimestamp":null},"spec":{"containers":[{"name":"main","image":"example/web:1","madeUp":{"n":1.50,"x":null}}]}}}}`

func TestDefaulter(t *testing.T) {
	const client = `"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"main","madeUp":{"n":1.50,"x":null}}]}}`
	const defaults = `"replicas":1,"revisionHistoryLimit":10,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","partition":0,"maxUnavailable":"20%","maxSurge":0}}`
	cases := map[string]struct{ version, old, object, want string }{
		"a creation gets defaults, and nothing in its template is touched": {
			version: "v1beta1",
			object:  `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:    `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `}}`,
		},
		"an update through v1alpha1 keeps what its client cannot say": {
			version: "v1alpha1", old: stored,
			object: `{"metadata":{"name":"web"},"spec":{` + client + `,"scaleStrategy":{"enablePVCReuse":true}}}`,
			want:   `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `,"scaleStrategy":{"enablePVCReuse":true,"excludePreparingDelete":true}}}`,
		},
		"an update through v1beta1 removes what it leaves out": {
			version: "v1beta1", old: stored,
			object: `{"metadata":{"name":"web"},"spec":{` + client + `}}`,
			want:   `{"metadata":{"name":"web"},"spec":{` + client + `,` + defaults + `}}`,
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
			response := admission.Kind(false, admission.Pods{}).Defaulter().Handle(t.Context(), request(tc.version, tc.object, tc.old))
			got := admissiontest.Mutated(t, tc.object, response)
			if diff := cmp.Diff(admissiontest.Parse[any](t, tc.want), admissiontest.Parse[any](t, got)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidator(t *testing.T) {
	edit := func(change string) string { return admissiontest.Merge(t, stored, change) }
	refusing := apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "",
		field.ErrorList{field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), "")})
	noImage := edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`)
	asks := func(names string) string {
		return edit(`{"spec":{"scaleStrategy":{"podsToDelete":["gone",` + names + `]}}}`)
	}
	const podsToDelete = "spec.scaleStrategy.podsToDelete"
	cases := map[string]struct {
		version, old, object string
		templates            map[string]error // by the name of the first container
		podsFail             bool
		wantDenied           []string // fields
		wantMessage          string
		wantWarnings         []string
	}{
		"a good set": {object: edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`)},
		"a template that the server would refuse": {
			object: noImage, templates: map[string]error{"a": refusing}, wantDenied: []string{"spec.template.spec.containers[0].image"},
			wantMessage: `CloneSet.apps.kruise.io "web" is invalid: spec.template.spec.containers[0].image: Required value`,
		},
		"a template whose pods alone the server would refuse": {
			object:       edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":" "}]}}}}`),
			wantWarnings: []string{`spec.template.spec.containers[0].image: Invalid value: " ": must not have leading or trailing whitespace (pods cannot be created from this template)`},
		},
		"a template whose fault is as old as the set": {
			old: stored, object: noImage, templates: map[string]error{"a": refusing, "main": refusing},
		},
		"an update to a template that the server would refuse": {
			old: stored, object: noImage, templates: map[string]error{"a": refusing}, wantDenied: []string{"spec.template.spec.containers[0].image"},
		},
		"an update that leaves the template alone": {
			old: stored, object: edit(`{"spec":{"replicas":5}}`), templates: map[string]error{"main": refusing},
			wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].madeUp"`},
		},
		"a server that does not answer": {object: noImage, templates: map[string]error{"a": errors.New("connection refused")}},
		"a template that cannot be decoded": {
			object:     edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":"http"}]}]}}}}`),
			wantDenied: []string{"spec.template.spec.containers[0].ports[0].containerPort"},
		},
		"a fault, in v1beta1": {
			version: "v1beta1", object: edit(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"many"}}}}`), wantDenied: []string{"spec.updateStrategy.rollingUpdate.partition"},
		},
		"a fault, in v1alpha1": {
			version: "v1alpha1", object: edit(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"many"}}}}`), wantDenied: []string{"spec.updateStrategy.partition"},
		},
		"a fault of the type, in v1alpha1": {
			version: "v1alpha1", object: edit(`{"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","maxSurge":1}}}}`), wantDenied: []string{"spec.updateStrategy.maxSurge"},
			wantMessage: `CloneSet.apps.kruise.io "web" is invalid: spec.updateStrategy.maxSurge: Invalid value: 1: must be 0 when updateStrategy.type is InPlaceOnly: no pod is ever created for an update`,
		},
		"a warning, in v1beta1": {
			version: "v1beta1", object: edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}},"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":3}}}}}`),
			wantWarnings: []string{"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism: ignored, because the feature gate PreDownloadImageForInPlaceUpdate is off"},
		},
		"a warning, in v1alpha1": {
			version: "v1alpha1", object: edit(`{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}},"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":3}}}}}`),
			wantWarnings: []string{"metadata.annotations[apps.kruise.io/image-predownload-parallelism]: ignored, because the feature gate PreDownloadImageForInPlaceUpdate is off"},
		},
		"an update of metadata passes unseen": {
			old:    `{"metadata":{"name":"web","finalizers":["x"]},"spec":{"replicas":-1}}`,
			object: `{"metadata":{"name":"web"},"spec":{"replicas":-1}}`,
		},

		"to delete: a pod of the set": {
			old: stored, object: asks(`"own"`), wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].madeUp"`},
		},
		"to delete: no pod":                   {old: stored, object: asks(`"none"`), wantDenied: []string{podsToDelete}, wantMessage: `CloneSet.apps.kruise.io "web" is invalid: ` + podsToDelete + `: Invalid value: "none": there is no such pod`},
		"to delete: a terminating pod":        {old: stored, object: asks(`"leaving"`), wantDenied: []string{podsToDelete}, wantMessage: `CloneSet.apps.kruise.io "web" is invalid: ` + podsToDelete + `: Invalid value: "leaving": is being deleted already`},
		"to delete: a pod of another set":     {old: stored, object: asks(`"foreign"`), wantDenied: []string{podsToDelete}, wantMessage: `CloneSet.apps.kruise.io "web" is invalid: ` + podsToDelete + `: Invalid value: "foreign": is not a pod of this CloneSet`},
		"to delete: a pod without controller": {old: stored, object: asks(`"bare"`), wantDenied: []string{podsToDelete}, wantMessage: `CloneSet.apps.kruise.io "web" is invalid: ` + podsToDelete + `: Invalid value: "bare": is not a pod of this CloneSet`},
		"to delete: several":                  {version: "v1alpha1", old: stored, object: asks(`"none","own","bare"`), wantDenied: []string{podsToDelete, podsToDelete}},
		"to delete: nobody answers": {
			old: stored, object: asks(`"none"`), podsFail: true, wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].madeUp"`},
		},
		"to delete: a creation has no pods to look at": {object: edit(`{"spec":{"scaleStrategy":{"podsToDelete":["none"]},"template":{"spec":{"containers":[{"name":"a"}]}}}}`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := fake.NewClientBuilder().WithObjects(
				pod("own", "u1"), pod("foreign", "u2"), pod("bare", ""), leaving(pod("leaving", "u1")),
			).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
					if tc.podsFail {
						return errors.New("connection refused")
					}
					return c.Get(ctx, key, object, o...)
				},
			}).Build()
			checker := templatecheck.Checker{Client: &admissiontest.Templates{Answer: func(template *corev1.PodTemplateSpec) error {
				return tc.templates[template.Spec.Containers[0].Name]
			}}}
			v := admission.Kind(false, admission.Pods{Reader: pods}).Validator(admit.Cluster{Checker: checker})
			response := v.Handle(t.Context(), request(tc.version, tc.object, tc.old))
			if diff := cmp.Diff(tc.wantDenied, admissiontest.Denied(response)); diff != "" {
				t.Errorf("denied fields (-want +got):\n%s\n%v", diff, response.Result)
			}
			if denied := len(tc.wantDenied) > 0; response.Allowed == denied || denied && response.Result.Code != http.StatusUnprocessableEntity {
				t.Errorf("allowed: %t, with %v", response.Allowed, response.Result)
			}
			if tc.wantMessage != "" && response.Result.Message != tc.wantMessage {
				t.Errorf("message %q, want %q", response.Result.Message, tc.wantMessage)
			}
			if diff := cmp.Diff(tc.wantWarnings, response.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func pod(name, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	return p
}

func leaving(p *corev1.Pod) *corev1.Pod {
	at := metav1.NewTime(time.Unix(1, 0))
	p.DeletionTimestamp, p.Finalizers = &at, []string{"example.com/wait"}
	return p
}

func request(version, object, old string) ctrladmission.Request {
	return admissiontest.Request(appsv1beta1.GroupVersion().WithKind("CloneSet"), version, object, old)
}
