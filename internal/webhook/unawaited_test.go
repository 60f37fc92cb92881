// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// leaving is an API server whose first answer comes after the client has left. Its lists
// never end.
type leaving struct {
	client.Client
	leave func()
	// refuses is true if creation is refused.
	refuses bool
	asked   []string
}

func (c *leaving) ask(what string) {
	c.asked = append(c.asked, what)
	c.leave()
}

func (c *leaving) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.ask(fmt.Sprintf("get %T %s", object, key.Name))
	switch into := object.(type) {
	case *corev1.Pod:
		*into = *podWithManyContainers()
	case *metav1.PartialObjectMetadata:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	case *storagev1.StorageClass:
		into.Name = key.Name
	}
	return nil
}

func (c *leaving) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.ask(fmt.Sprintf("list %T", list))
	switch into := list.(type) {
	case *unstructured.UnstructuredList: // of SidecarSets
	case *metav1.PartialObjectMetadataList:
		if into.Kind != "PodList" {
			into.Continue = "more"
		}
	default:
		list.SetContinue("more")
	}
	return nil
}

func (c *leaving) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	c.ask(fmt.Sprintf("create %T", object))
	if c.refuses {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "web", field.ErrorList{field.Required(field.NewPath("template", "spec"), "")})
	}
	return nil
}

// TestARequestForWhichNobodyWaitsAnyMoreEnds: after the caller has left, nothing is asked for it.
func TestARequestForWhichNobodyWaitsAnyMoreEnds(t *testing.T) {
	changed := func(kind string, fields map[string]string) string {
		of := kindNamed(kind)
		object := full(t, of, of.Storage)
		for at, value := range fields {
			if err := json.Unmarshal([]byte(placed(t, object, strings.Split(at, "."), value)), &object); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	about := func(kind, object, old string) *admissionv1.AdmissionRequest {
		of := kindNamed(kind)
		request := &admissionv1.AdmissionRequest{
			UID: "u1", Operation: admissionv1.Create, Name: "web", Namespace: "default",
			Kind: metav1.GroupVersionKind{Group: of.Group, Version: of.Storage, Kind: kind}, Object: kruntime.RawExtension{Raw: []byte(object)},
		}
		if old != "" {
			request.Operation, request.OldObject.Raw = admissionv1.Update, []byte(old)
		}
		return request
	}
	claims := func(size string) map[string]string {
		return map[string]string{"SPEC": `,"podManagementPolicy":"OrderedReady","updateStrategy":{"type":"RollingUpdate"},"serviceName":"web","volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"},"volumeClaimTemplates":[` +
			times(`{"metadata":{"name":"c%d"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"s%d","resources":{"requests":{"storage":"`+size+`"}}}}`, 5) + `]`}
	}
	subsets := `[` + times(`{"name":"s%d","patch":{"metadata":{"annotations":{"a":"b%d"}}}}`, 5) + `]`
	const sidecars = `,"injectionStrategy":{"revision":{"revisionName":"r"}},"patchPodMetadata":[{"annotations":{"a":"b"},"patchPolicy":"Retain"}]`
	united := func(image string) string {
		return changed("UnitedDeployment", map[string]string{"spec.topology.subsets": subsets, "spec.updateStrategy": `{}`, "spec.template.cloneSetTemplate.spec.template.spec.containers.[].image": `"` + image + `"`})
	}
	for name, tc := range map[string]struct {
		at      string
		request *admissionv1.AdmissionRequest
		refuses bool
	}{
		"pods of a CloneSet that are to be deleted": {"/validate-apps-kruise-io-v1beta1-cloneset", about("CloneSet", fill("CloneSet", "v1beta1", map[string]string{"SPEC": `,"scaleStrategy":{"podsToDelete":["a","b","c"]}`}), fill("CloneSet", "v1beta1", nil)), false},
		"the template of a CloneSet":                {"/validate-apps-kruise-io-v1beta1-cloneset", about("CloneSet", fill("CloneSet", "v1beta1", map[string]string{"LABELS": `,"b":"c"`}), fill("CloneSet", "v1beta1", nil)), true},
		"claims of a StatefulSet that grow":         {"/validate-apps-kruise-io-v1beta1-statefulset", about("StatefulSet", fill("StatefulSet", "v1beta1", claims("2Gi")), fill("StatefulSet", "v1beta1", claims("1Gi"))), false},
		"subsets of a UnitedDeployment":             {"/validate-apps-kruise-io-v1beta1-uniteddeployment", about("UnitedDeployment", united("i"), ""), false},
		"a UnitedDeployment whose workloads are refused": {
			"/validate-apps-kruise-io-v1beta1-uniteddeployment", about("UnitedDeployment", united("i"), united("j")), true,
		},
		"the pod of a ContainerRecreateRequest": {"/mutate-apps-kruise-io-v1beta1-containerrecreaterequest", about("ContainerRecreateRequest", `{"metadata":{"name":"web"},"spec":{"podName":"web","containers":[{"name":"c1"}]}}`, ""), false},
		"a SidecarSet":                          {"/validate-apps-kruise-io-v1beta1-sidecarset", about("SidecarSet", fillSet("logs", "v1beta1", map[string]string{"SPEC": sidecars}), ""), false},
		"a namespace":                           {deletionprotection.Path, deletion("namespaces", fillDefinition(nil)), false},
		"a definition":                          {deletionprotection.Path, deletion("customresourcedefinitions", fillDefinition(nil)), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &served{handlers: map[string]http.Handler{}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &leaving{leave: cancel, refuses: tc.refuses}
			webhook.Register(s, controllers.All(), admit.Deps{Client: c, Gates: allGates()})
			handler, ok := s.handlers[tc.at].(*ctrladmission.Webhook)
			if !ok {
				t.Fatalf("nothing is at %s", tc.at)
			}
			response := handler.Handle(ctx, ctrladmission.Request{AdmissionRequest: *tc.request})
			if len(c.asked) != 1 {
				t.Errorf("asked for %v; the answer is %v", c.asked, response.Result)
			}
			c.asked = nil
			if handler.Handle(ctx, ctrladmission.Request{AdmissionRequest: *tc.request}); len(c.asked) > 0 {
				t.Errorf("asked for %v although nobody waits from the beginning", c.asked)
			}
		})
	}
}
