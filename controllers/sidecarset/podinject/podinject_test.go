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
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/podinject"
)

// server answers with the injections of some sets, and counts what it reads.
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
	// other is a set that depends on more than the name of the namespace.
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

// patched is a pod as a call with this path leaves it, and whether the call has changed it.
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

// Of the sets that meet on a pod, the one that is called first injects them all, and the others change nothing: so the API server calls none twice. Without
// that, or in another order, the pod is the same.
func TestTheFirstCallInjectsTheSetsThatMeet(t *testing.T) {
	const elsewhere = `{metadata: {name: zz}, spec: {selector: {matchLabels: {tier: back}}, containers: [{name: back, image: a}]}}`
	handler, revisions, reads := server(t, plain, other, elsewhere)
	joined := func(first int) string {
		return join(t, handler, revisions[first], slices.Delete(slices.Clone(revisions), first, first+1)...)
	}
	paths := []string{joined(0), joined(1)}
	clear(reads)
	raw, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	apart, _ := patched(t, handler, revisions[0], raw)
	if apart, _ = patched(t, handler, revisions[1], apart); !strings.Contains(string(apart), `"agent"`) || !strings.Contains(string(apart), `"first"`) {
		t.Fatalf("apart: %s", apart)
	}
	for first := range 2 {
		together, changed := patched(t, handler, paths[first], raw)
		if diff := cmp.Diff(decoded(t, apart), decoded(t, together)); diff != "" || !changed {
			t.Errorf("set %d first, changed %v (-apart +together):\n%s", first, changed, diff)
		}
		if again, changed := patched(t, handler, paths[1-first], together); changed {
			t.Errorf("the call of the other set changed %s", again)
		}
	}
	// A pod that is marked has all sets, or was copied: it is asked for the set that is called alone, or twenty sets would cost four hundred injections.
	marked, _ := patched(t, handler, revisions[0], raw)
	if again, changed := patched(t, handler, paths[0], marked); changed {
		t.Errorf("the call of a set that is there changed %s", again)
	}
	for name, times := range reads {
		if times != 1 && name != "shop" {
			t.Errorf("revision %s was read %d times", name, times)
		}
	}
}

// A set that refuses the pod, or whose revision cannot be read, keeps no other set from injecting: its own call says what is wrong.
func TestAFaultOfAnotherSetIsLeftToItsOwnCall(t *testing.T) {
	const needy = `
metadata: {name: needy}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: needing, image: a, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ^db$, resourcesExpr: {limits: {cpu: cpu}}}}]`
	handler, revisions, _ := server(t, plain, needy)
	for _, other := range []string{revisions[1], "gone"} {
		code, answer := ask(t, handler, join(t, handler, revisions[0], other), pod, nil)
		if code != http.StatusOK || !answer.Allowed || !strings.Contains(string(answer.Patch), `"agent"`) || strings.Contains(string(answer.Patch), "needy") {
			t.Errorf("beside %s: %d, %+v", other, code, answer)
		}
	}
}

// The memory of a call is bounded: a large pod gets the sidecars of the set that is called, and the others by their own calls.
func TestALargePodIsInjectedOneSetACall(t *testing.T) {
	handler, revisions, _ := server(t, plain, other)
	joined := join(t, handler, revisions[0], revisions[1])
	for size, want := range map[int]bool{10 << 10: true, 40 << 10: false} {
		large := strings.Replace(pod, "image: w", "image: w, args: ["+strings.Repeat("x", size)+"]", 1)
		code, answer := ask(t, handler, joined, large, nil)
		if code != http.StatusOK || !strings.Contains(string(answer.Patch), `"agent"`) || strings.Contains(string(answer.Patch), `"first"`) != want {
			t.Errorf("%d bytes: %d, %s", size, code, answer.Patch)
		}
	}
}

// A call names a bounded number of other sets; what is more is not read.
func TestACallReadsABoundedNumberOfRevisions(t *testing.T) {
	handler, revisions, reads := server(t, plain)
	var others []string
	for n := range 10 * sidecar.MaxMet {
		others = append(others, "other-"+strconv.Itoa(n))
	}
	joined := join(t, handler, revisions[0], others...)
	clear(reads)
	if code, answer := ask(t, handler, joined, pod, nil); code != http.StatusOK || !answer.Allowed {
		t.Errorf("%d, %+v", code, answer)
	}
	if len(reads) != sidecar.MaxMet+1 {
		t.Errorf("%d revisions were read", len(reads))
	}
}

// join writes a revision whose call injects those of other sets, too, and returns its name.
func join(t testing.TB, handler *podinject.Handler, revision string, others ...string) string {
	t.Helper()
	writer := handler.Reader.(client.Client)
	stored := &appsv1.ControllerRevision{}
	if err := writer.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: revision}, stored); err != nil {
		t.Fatal(err)
	}
	injection, err := sidecar.Decode(stored.Data.Raw)
	if err != nil {
		t.Fatal(err)
	}
	injection.Meets = others
	joined := &appsv1.ControllerRevision{}
	joined.Namespace = "kruise-system"
	if joined.Name, joined.Data.Raw, err = injection.Encode(); err == nil {
		err = writer.Create(t.Context(), joined)
	}
	if err != nil {
		t.Fatal(err)
	}
	return joined.Name
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Each change of a set makes a revision, of up to 1.4 MB. A process that kept all that it has read would run out of memory.
func TestRevisionsAreKeptWithinBounds(t *testing.T) {
	var sets []string
	for n := range 20 {
		env := fmt.Sprintf("image: a, env: [{name: BIG, value: %q}]", strings.Repeat("x", 1_000_000))
		sets = append(sets, strings.NewReplacer("log", fmt.Sprintf("log-%d", n), "agent", fmt.Sprintf("agent-%d", n), "image: a", env).Replace(plain))
	}
	handler, revisions, reads := server(t, sets...)
	call := func(n int) {
		t.Helper()
		if code, answer := ask(t, handler, revisions[n], pod, nil); code != http.StatusOK || !answer.Allowed || len(answer.Patch) == 0 {
			t.Fatalf("%d, %+v", code, answer)
		}
	}
	for n := range sets {
		call(n)
		call(0)
	}
	call(19)
	call(1)
	if first, second, last := reads[revisions[0]], reads[revisions[1]], reads[revisions[19]]; first != 1 || second != 2 || last != 1 {
		t.Errorf("the revision that is asked for each time was read %d times, want 1; one that was not for long %d times, want 2; the last one %d times, want 1", first, second, last)
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
	// What cannot be read decides nothing: the pod is not let through without its sidecars.
	code, answer := ask(t, handler, revisions[0], pod, func(r *admissionv1.AdmissionRequest) { r.Namespace = "gone" })
	if code != http.StatusOK || answer.Allowed {
		t.Errorf("%d, %+v", code, answer)
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

// BenchmarkTwentySets is all that the operator does for a pod that twenty sets select.
func BenchmarkTwentySets(b *testing.B) {
	var sets []string
	for n := range 20 {
		sets = append(sets, strings.NewReplacer("log", "log-"+strconv.Itoa(n), "agent", "agent-"+strconv.Itoa(n)).Replace(plain))
	}
	handler, revisions, _ := server(b, sets...)
	var calls []string
	for n := range revisions {
		calls = append(calls, join(b, handler, revisions[n], slices.Delete(slices.Clone(revisions), n, n+1)...))
	}
	raw, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		injected, changes := raw, 0
		for _, call := range calls {
			var changed bool
			if injected, changed = patched(b, handler, call, injected); changed {
				changes++
			}
		}
		if changes != 1 {
			b.Fatalf("%d calls changed the pod, want the first", changes)
		}
	}
}
