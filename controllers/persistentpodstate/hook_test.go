// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

const zone = corev1.LabelTopologyZone

func TestHooksAreForPodsOfOthers(t *testing.T) {
	for name, tc := range map[string]struct{ version, kind, target, want string }{
		"a native StatefulSet":     {"apps/v1", "StatefulSet", "db", "o.apiVersion.startsWith('apps/') && o.kind == 'StatefulSet' && o.name == 'db'"},
		"a listed kind":            {"game.example/v1", "GameServerSet", "db", "o.apiVersion.startsWith('game.example/') && o.kind == 'GameServerSet' && o.name == 'db'"},
		"one of ours":              {"apps.kruise.io/v1beta1", "StatefulSet", "db", ""},
		"a name that is none":      {"apps/v1", "StatefulSet", "x' || true", ""},
		"a kind that is none":      {"apps/v1", "Stateful' || 'Set", "db", ""},
		"a group that is none":     {"a' || 'b/v1", "StatefulSet", "db", ""},
		"a version without a name": {"", "StatefulSet", "db", ""},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"targetRef": map[string]any{"apiVersion": tc.version, "kind": tc.kind, "name": tc.target}}}}
			stored.SetNamespace("shop")
			stored.SetName("db")
			hook := HookOf(stored)
			if hook == nil || tc.want == "" {
				if hook != nil || tc.want != "" {
					t.Fatalf("got %+v", hook)
				}
				return
			}
			if !strings.Contains(hook.Conditions[0].Expression, tc.want) || hook.Path != Path+"db" || hook.OnFailure != registrationv1.Ignore || hook.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] != "shop" {
				t.Errorf("got %+v", hook)
			}
			stored.SetAnnotations(map[string]string{shared.AnnotationInjectionFailurePolicy: "Fail"})
			if HookOf(stored).OnFailure != registrationv1.Fail {
				t.Error("it does not fail closed")
			}
			stored.SetDeletionTimestamp(ptr.To(metav1.Now()))
			if HookOf(stored) != nil {
				t.Error("one that is being deleted has a hook")
			}
		})
	}
}

// ask asks the handler about a pod of a StatefulSet.
func ask(t *testing.T, reader client.Reader, owner, pod string) (*admissionv1.AdmissionResponse, int) {
	t.Helper()
	raw, err := json.Marshal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: "1", Controller: ptr.To(true)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "shop", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
	}})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path+"db", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	serve(reader)[Path].ServeHTTP(recorder, request)
	answer := admissionv1.AdmissionReview{}
	if recorder.Code == http.StatusOK && json.Unmarshal(recorder.Body.Bytes(), &answer) != nil {
		t.Fatalf("answer %s", recorder.Body)
	}
	return answer.Response, recorder.Code
}

func TestOnlyPodsWithAPlaceAreChanged(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	state := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	state.Spec.TargetRef = appsv1beta1.PersistentPodStateTargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}
	state.Spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: []string{zone}}
	state.Status.PodStates = map[string]appsv1beta1.PodState{
		"db-0": {NodeName: "n1", NodeTopologyLabels: map[string]string{zone: "a"}}, "db-1": {NodeName: "gone", NodeTopologyLabels: map[string]string{zone: "z"}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	reader := fake.NewClientBuilder().WithScheme(types).WithObjects(state, node).Build()
	for name, tc := range map[string]struct {
		owner, pod string
		changed    bool
	}{
		"with a place":               {"db", "db-0", true},
		"with a place that is gone":  {"db", "db-1", false},
		"without one":                {"db", "db-2", false},
		"of another workload":        {"web", "db-0", false},
		"whose name is not known":    {"db", "", false},
		"of a workload named longer": {"db-0", "db-0", false},
	} {
		response, code := ask(t, reader, tc.owner, tc.pod)
		if code != http.StatusOK || !response.Allowed || (len(response.Patch) > 0) != tc.changed {
			t.Errorf("a pod %s: %d %+v", name, code, response)
		}
	}
	down := interceptor.NewClient(fake.NewClientBuilder().WithScheme(types).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("down")
		},
	})
	if _, code := ask(t, down, "db", "db-0"); code != http.StatusServiceUnavailable {
		t.Errorf("without an answer of the API server: %d", code)
	}
	none := fake.NewClientBuilder().WithScheme(types).Build()
	if response, code := ask(t, none, "db", "db-0"); code != http.StatusOK || !response.Allowed || len(response.Patch) > 0 {
		t.Errorf("without the object: %d %+v", code, response)
	}
}
