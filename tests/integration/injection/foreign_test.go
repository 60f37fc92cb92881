// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	admission "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
)

// foreignName is somebody else's webhook, called after ours.
const foreignName = "images.example.com"

// foreign serves somebody else's webhook for a namespace's pods until the test ends. act
// returns a JSON patch of a pod, or a refusal; again has it called again for pods changed
// after it. An API server may not know the webhook before foreign returns.
func (w *fixture) foreign(t *testing.T, namespace string, again admissionv1.ReinvocationPolicyType, act func(*corev1.Pod) (patch, refusal string)) {
	t.Helper()
	calls := &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		review, pod := &admission.AdmissionReview{}, &corev1.Pod{}
		err := json.NewDecoder(request.Body).Decode(review)
		if err == nil {
			err = json.Unmarshal(review.Request.Object.Raw, pod)
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		calls.Add(1)
		patch, refusal := act(pod)
		answer := &admission.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == ""}
		if refusal != "" {
			answer.Result = &metav1.Status{Message: refusal}
		} else if patch != "" {
			answer.Patch, answer.PatchType = []byte(patch), ptr.To(admission.PatchTypeJSONPatch)
		}
		review.Request, review.Response = nil, answer
		_ = json.NewEncoder(response).Encode(review) // Who is gone needs no answer.
	}))
	t.Cleanup(server.Close)
	entry := newEntry(foreignName, admissionv1.Fail, admissionv1.WebhookClientConfig{
		URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	})
	entry.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
	entry.ReinvocationPolicy = &again
	configuration := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "the-images-of-somebody-else"}, Webhooks: []admissionv1.MutatingWebhook{entry},
	}
	if err := w.client.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	gone := func() { w.remove(t, configuration) }
	t.Cleanup(gone)
	w.eventually(t, "the webhook of somebody else is called", func(context.Context) error {
		_, _ = w.pod(t, namespace, `{metadata: {generateName: asked-}, spec: {containers: [{name: web, image: w}]}}`)
		if calls.Load() == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// A webhook of somebody else has images pulled from a mirror, after ours and only once. Ours is called again after it, and leaves the image as it is.
func TestTheImageOfAMirrorStays(t *testing.T) {
	w := shared
	namespace := w.namespace(t, nil)
	i := w.injection(false)
	called := &atomic.Int64{}
	w.foreign(t, namespace, admissionv1.NeverReinvocationPolicy, func(pod *corev1.Pod) (string, string) {
		at := agentOf(pod)
		if at < 0 {
			return "", ""
		}
		called.Add(1)
		return fmt.Sprintf(`[{"op": "replace", "path": "/spec/containers/%d/image", "value": "mirror.example/agent:v1"}]`, at), ""
	})
	w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mirrored}
spec:
  selector: {matchLabels: {app: shop}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}
  containers: [{name: agent, image: "example/agent:v1"}]
`)
	t.Cleanup(func() { w.switchedOff(t) })
	w.inForce(t, i, "mirrored", sidecarset.PathWebhook)
	before := called.Load()
	pod, err := w.pod(t, namespace, shop)
	if err != nil {
		t.Fatal(err)
	}
	if at := agentOf(pod); at < 0 || pod.Spec.Containers[at].Image != "mirror.example/agent:v1" {
		t.Errorf("the pod has %+v", pod.Spec.Containers)
	}
	if calls := called.Load() - before; calls != 1 {
		t.Errorf("the webhook of somebody else was called %d times, want once", calls)
	}
}

// agentOf is where the sidecar stands in a pod; less than 0 when it has none.
func agentOf(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "agent" })
}
