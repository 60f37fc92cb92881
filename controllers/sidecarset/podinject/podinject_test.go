// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podinject_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/podinject"
)

// server answers with some sets' injections, and counts its reads.
func server(t testing.TB, sets ...string) (handler *podinject.Handler, revisions []string, reads map[string]int) {
	t.Helper()
	var all []*sidecar.Set
	for _, text := range sets {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		set, err := sidecar.ParseSet(object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, set)
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}}
	for _, set := range all {
		i, err := sidecar.Compile(set, all)
		if err != nil {
			t.Fatal(err)
		}
		name, data, err := i.Encode()
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, name)
		objects = append(objects, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: name}, Data: runtime.RawExtension{Raw: data}})
	}
	reads = map[string]int{}
	reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads[key.Name]++
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	return &podinject.Handler{Reader: reader, Namespace: "kruise-system"}, revisions, reads
}

// ask sends a review about a pod and returns the status of HTTP and the answer.
func ask(t testing.TB, handler http.Handler, revision, pod string, change func(*admissionv1.AdmissionRequest)) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		},
	}
	if change != nil {
		change(review.Request)
	}
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, podinject.Path+revision, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	answer := admissionv1.AdmissionReview{}
	if recorder.Code == http.StatusOK {
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
	}
	return recorder.Code, answer.Response
}

const (
	pod   = `{metadata: {labels: {app: shop}}, spec: {containers: [{name: web, image: w}]}}`
	plain = `{metadata: {name: log}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: agent, image: a}]}}`
	// other is a set depending on more than the namespace's name.
	other = `{metadata: {name: other}, spec: {selector: {matchLabels: {app: shop}}, namespaceSelector: {matchLabels: {team: a}}, containers: [{name: first, image: a}]}}`
)

func TestInjects(t *testing.T) {
	handler, revisions, reads := server(t, plain)
	for range 3 {
		code, answer := ask(t, handler, revisions[0], pod, nil)
		if code != http.StatusOK || !answer.Allowed || !strings.Contains(string(answer.Patch), `"agent"`) {
			t.Fatalf("%d, %+v", code, answer)
		}
	}
	if reads[revisions[0]] != 1 || reads["shop"] != 0 {
		t.Errorf("read: %v", reads)
	}
}

func TestAReplacedContainerIsWarnedOf(t *testing.T) {
	handler, revisions, _ := server(t, plain)
	for text, want := range map[string]string{
		pod: "",
		`{metadata: {labels: {app: shop}}, spec: {containers: [{name: web, image: w}, {name: agent, image: own}]}}`:                                          "containers of the pod are replaced by sidecars of SidecarSet log with the same names: agent",
		`{metadata: {labels: {app: shop}}, spec: {containers: [{name: web, image: w}, {name: agent, image: a, env: [{name: IS_INJECTED, value: "true"}]}]}}`: "",
	} {
		if code, answer := ask(t, handler, revisions[0], text, nil); code != http.StatusOK || strings.Join(answer.Warnings, "") != want {
			t.Errorf("%s: %d, warnings %q, want %q", text, code, answer.Warnings, want)
		}
	}
}

// patched returns a pod after a call with this path; true: the call changed it.
func patched(t testing.TB, handler http.Handler, path string, pod []byte) (after []byte, changed bool) {
	t.Helper()
	code, answer := ask(t, handler, path, string(pod), nil)
	if code != http.StatusOK || !answer.Allowed {
		t.Fatalf("%s: %d, %+v", path, code, answer)
	}
	if len(answer.Patch) == 0 {
		return pod, false
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err == nil {
		pod, err = patch.Apply(pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod, true
}

// Each change of a set makes a revision of up to 1.4 MB. Keeping all of them would exhaust memory.
func TestRevisionsAreKeptWithinBounds(t *testing.T) {
	env := fmt.Sprintf("image: a, env: [{name: BIG, value: %q}]", strings.Repeat("x", 1_000_000))
	handler, revisions, reads := server(t, plain, strings.NewReplacer("log", "large", "agent", "large", "image: a", env).Replace(plain))
	for range 3 {
		for _, revision := range revisions {
			if code, answer := ask(t, handler, revision, pod, nil); code != http.StatusOK || !answer.Allowed || len(answer.Patch) == 0 {
				t.Fatalf("%d, %+v", code, answer)
			}
		}
	}
	if small, large := reads[revisions[0]], reads[revisions[1]]; small != 1 || large != 3 {
		t.Errorf("the small revision was read %d times, want 1; the large one %d times, want 3", small, large)
	}
}

func TestReadsTheNamespaceWhereItDecides(t *testing.T) {
	handler, revisions, reads := server(t, plain, other)
	if code, answer := ask(t, handler, revisions[0], pod, nil); code != http.StatusOK || !answer.Allowed {
		t.Fatalf("%d, %+v", code, answer)
	}
	if reads["shop"] != 1 {
		t.Errorf("read: %v", reads)
	}
	// A failed read decides nothing: the pod is not let through without its sidecars.
	code, answer := ask(t, handler, revisions[0], pod, func(r *admissionv1.AdmissionRequest) { r.Namespace = "gone" })
	if code != http.StatusOK || answer.Allowed {
		t.Errorf("%d, %+v", code, answer)
	}
}

// Each invented path caused a read of the API server.
func TestNothingIsReadForAPathThatSomebodyMadeUp(t *testing.T) {
	handler, revisions, reads := server(t, plain)
	handler.Known = func(_ context.Context, name string) bool { return name == revisions[0] }
	if code, _ := ask(t, handler, "made-up", pod, nil); code != http.StatusServiceUnavailable || len(reads) > 0 {
		t.Errorf("answered %d after reading %v", code, reads)
	}
	if code, answer := ask(t, handler, revisions[0], pod, nil); code != http.StatusOK || len(answer.Patch) == 0 {
		t.Errorf("the revision that there is: %d, %+v", code, answer)
	}
}

// Anybody reaching the operator's port could inject sidecars
// into all pods, by a review of a SidecarSet's creation.
func TestNothingIsInjectedOfASetThatIsNotStored(t *testing.T) {
	handler, revisions, _ := server(t, plain)
	writer := handler.Reader.(client.Client)
	announced := &appsv1.ControllerRevision{}
	if err := writer.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: revisions[0]}, announced); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, injected bool) {
		t.Helper()
		if code, answer := ask(t, handler, revisions[0], pod, nil); code != http.StatusOK || !answer.Allowed || (len(answer.Patch) > 0) != injected {
			t.Errorf("%s: answered %d, %+v", when, code, answer)
		}
	}
	set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": map[string]any{"name": "log"}}}
	for _, uid := range []string{"", "u"} {
		announced.Annotations = map[string]string{sidecar.AnnouncedAnnotation: uid}
		if err := writer.Update(t.Context(), announced); err != nil {
			t.Fatal(err)
		}
		expect("there is no such set", false)
		for _, stored := range []types.UID{"other", "u"} {
			live := set.DeepCopy()
			live.SetUID(stored)
			if err := writer.Create(t.Context(), live); err != nil {
				t.Fatal(err)
			}
			expect(fmt.Sprintf("announced for %q, stored is %q", uid, stored), uid == string(stored))
			if err := writer.Delete(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestARevisionThatIsNotThereIsNoRefusal(t *testing.T) {
	handler, _, _ := server(t)
	if code, _ := ask(t, handler, "gone", pod, nil); code != http.StatusServiceUnavailable {
		t.Errorf("the failure policy cannot decide: %d", code)
	}
}

func TestOnlyCreationsOfPodsAreChanged(t *testing.T) {
	handler, revisions, _ := server(t, plain)
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"an update":     func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"a subresource": func(r *admissionv1.AdmissionRequest) { r.SubResource = "binding" },
		"another kind":  func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Secret" },
	} {
		if code, answer := ask(t, handler, revisions[0], pod, change); code != http.StatusOK || !answer.Allowed || len(answer.Patch) > 0 {
			t.Errorf("%s: %d, %+v", name, code, answer)
		}
	}
}

func TestRefusesWithTheReason(t *testing.T) {
	const needy = `
metadata: {name: needy}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: agent, image: a, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ^db$, resourcesExpr: {limits: {cpu: cpu}}}}]`
	handler, revisions, _ := server(t, needy)
	code, answer := ask(t, handler, revisions[0], pod, nil)
	if code != http.StatusOK || answer.Allowed || answer.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(answer.Result.Message, "SidecarSet needy: container agent") {
		t.Errorf("%d, %+v", code, answer)
	}
}

// BenchmarkTwentySets measures all work for a pod of twenty sets.
func BenchmarkTwentySets(b *testing.B) {
	var sets []string
	for n := range 20 {
		sets = append(sets, strings.NewReplacer("log", "log-"+strconv.Itoa(n), "agent", "agent-"+strconv.Itoa(n)).Replace(plain))
	}
	handler, revisions, _ := server(b, sets...)
	raw, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		injected, changes := raw, 0
		for _, call := range revisions {
			var changed bool
			if injected, changed = patched(b, handler, call, injected); changed {
				changes++
			}
		}
		if changes != len(revisions) {
			b.Fatalf("%d calls changed the pod", changes)
		}
	}
}

// A probe proves the webhook at once, marked by the policy or not.
func TestProbesAreMarked(t *testing.T) {
	handler, revisions, _ := server(t, plain)
	ofProbes := func(r *admissionv1.AdmissionRequest) {
		r.Kind, r.Resource, r.Namespace = metav1.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "NodePodProbe"}, metav1.GroupVersionResource{Resource: sidecar.Probes}, ""
	}
	for probe, marked := range map[string]bool{
		`{metadata: {labels: {app: shop, operator.kruise.io/injection-probe: "true"}}}`: true,
		`{metadata: {labels: {app: shop}}}`:                                             false,
		`{metadata: {labels: {operator.kruise.io/injection-probe: "true"}, annotations: {probe.operator.kruise.io/log: "` + revisions[0] + `"}}}`: true,
	} {
		code, answer := ask(t, handler, revisions[0], probe, ofProbes)
		if code != http.StatusOK || !answer.Allowed || strings.Contains(string(answer.Patch), "webhook-probe.operator.kruise.io") != marked || !marked && len(answer.Patch) > 0 {
			t.Errorf("%s: %d, %s", probe, code, answer.Patch)
		}
	}
}
