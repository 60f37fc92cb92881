// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podspread

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// server is an API server with a Deployment of n pods and a WorkloadSpread of these limits, and the replicas of the operator.
type server struct {
	t *testing.T
	client.Client
	replicas []*Handler
	reads    atomic.Int64
	writes   atomic.Int64
	down     atomic.Bool
}

func newServer(t *testing.T, replicas, n int, limits ...int) *server {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws", UID: "ws"}}
	ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	ws.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	for i, limit := range limits {
		sub := appsv1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if limit >= 0 {
			sub.MaxReplicas = ptr.To(intstr.FromInt32(int32(limit)))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, sub)
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-h1", UID: "set", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: ptr.To(true)},
	}}}
	set.Spec.Replicas = ptr.To(int32(n))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", shared.LabelPodTemplateHash: "h1"}}
	s := &server{t: t}
	s.Client = fake.NewClientBuilder().WithScheme(types).WithObjects(ws, set).WithStatusSubresource(ws).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string { return []string{string(o.(*corev1.Pod).Status.Phase)} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if s.down.Load() {
					return errors.New("down")
				}
				s.reads.Add(1)
				return c.Get(ctx, key, o, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				o := (&client.ListOptions{}).ApplyOptions(options)
				o.FieldSelector = nil // the fake knows no such selectors
				return c.List(ctx, list, o)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				s.writes.Add(1)
				return c.SubResource(subresource).Patch(ctx, o, patch, options...)
			},
		}).Build()
	for range replicas {
		s.replicas = append(s.replicas, &Handler{Client: s.Client})
	}
	return s
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-h1-", Labels: map[string]string{"app": "web", shared.LabelPodTemplateHash: "h1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-h1", UID: "set", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

// ask asks a replica about a pod. It returns the pod as admitted, and the code of the answer.
func (s *server) ask(replica int, pod *corev1.Pod, dry bool) (*corev1.Pod, int) {
	raw, err := json.Marshal(pod)
	if err != nil {
		s.t.Error(err)
	}
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "shop", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, DryRun: &dry, Object: runtime.RawExtension{Raw: raw},
	}}
	body, err := json.Marshal(review)
	if err != nil {
		s.t.Error(err)
	}
	request := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, Path+"ws", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	newpods.Handler{Path: Path, Change: s.replicas[replica].Change}.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		return nil, recorder.Code
	}
	answer := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || !answer.Response.Allowed {
		s.t.Errorf("answer %s: %v", recorder.Body, err)
		return nil, 0
	}
	if len(answer.Response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(answer.Response.Patch)
		if err == nil {
			raw, err = patch.Apply(raw)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	admitted := &corev1.Pod{}
	if err := json.Unmarshal(raw, admitted); err != nil {
		s.t.Error(err)
	}
	return admitted, recorder.Code
}

func subsetOf(pod *corev1.Pod) string {
	mark, _ := spread.MarkOf(pod.Annotations)
	return mark.Subset
}

func (s *server) store(pod *corev1.Pod, name string) *corev1.Pod {
	s.t.Helper()
	pod.Name, pod.UID = name, types.UID(name)
	if err := s.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// 200 pods at once, asked about at three replicas.
func TestReplicasNeverOverfillASubset(t *testing.T) {
	s := newServer(t, 3, 200, 70, 70, -1)
	var group sync.WaitGroup
	var mutex sync.Mutex
	counts, keys := map[string]int{}, map[string]bool{}
	for i := range 200 {
		group.Go(func() {
			pod, code := s.ask(i%3, newPod(), false)
			mutex.Lock()
			defer mutex.Unlock()
			if code != http.StatusOK {
				t.Errorf("answer %d", code)
				return
			}
			counts[subsetOf(pod)]++
			mark, _ := spread.MarkOf(pod.Annotations)
			keys[mark.UID] = true
		})
	}
	group.Wait()
	if counts["a"] != 70 || counts["b"] != 70 || counts["c"] != 60 || len(keys) != 200 {
		t.Errorf("the subsets have %v, by %d keys", counts, len(keys))
	}
	if n := s.writes.Load(); n > 100 {
		t.Errorf("%d writes for 200 pods", n)
	} else {
		t.Logf("measured: %d writes and %d reads for 200 pods at three replicas", n, s.reads.Load())
	}
}

func TestAReplacementComesBeforeTheStatusKnows(t *testing.T) {
	s := newServer(t, 1, 3, 2, -1)
	var pods []*corev1.Pod
	for i := range 3 {
		pod, _ := s.ask(0, newPod(), false)
		pods = append(pods, s.store(pod, fmt.Sprint("web-", i)))
	}
	if got := subsetOf(pods[0]) + subsetOf(pods[1]) + subsetOf(pods[2]); got != "aab" {
		t.Fatalf("the subsets are %s", got)
	}
	ws := &appsv1beta1.WorkloadSpread{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "ws"}, ws); err != nil {
		t.Fatal(err)
	}
	ws.Status.VersionedSubsetStatuses = map[string][]appsv1beta1.WorkloadSpreadSubsetStatus{"h1": {{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1, MissingReplicas: -1}}}
	if err := s.Status().Update(t.Context(), ws); err != nil { // the controller has seen all
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), pods[0]); err != nil {
		t.Fatal(err)
	}
	replacement, _ := s.ask(0, newPod(), false)
	if s.store(replacement, "web-3"); subsetOf(replacement) != "a" {
		t.Errorf("the replacement is in %q", subsetOf(replacement))
	}
	if pod, _ := s.ask(0, newPod(), false); subsetOf(pod) != "b" {
		t.Errorf("one more is in %q", subsetOf(pod))
	}
}

// A pod that is evicted as soon as it is there is still counted as one to come.
func TestAPodThatWentBeforeItWasSeenLeavesItsPlace(t *testing.T) {
	s := newServer(t, 1, 3, 2, -1)
	var pods []*corev1.Pod
	for i := range 3 {
		pod, _ := s.ask(0, newPod(), false)
		pods = append(pods, s.store(pod, fmt.Sprint("web-", i)))
	}
	if err := s.Delete(t.Context(), pods[1]); err != nil {
		t.Fatal(err)
	}
	replacement, _ := s.ask(0, newPod(), false)
	if s.store(replacement, "web-3"); subsetOf(replacement) != "a" {
		t.Errorf("the replacement is in %q", subsetOf(replacement))
	}
	if pod, _ := s.ask(0, newPod(), false); subsetOf(pod) != "b" {
		t.Errorf("one more is in %q", subsetOf(pod))
	}
}

func TestDryRunsCountNothing(t *testing.T) {
	s := newServer(t, 1, 1, 1)
	for range 3 {
		if pod, _ := s.ask(0, newPod(), true); subsetOf(pod) != "a" {
			t.Errorf("it is in %q", subsetOf(pod))
		}
	}
	if s.writes.Load() > 0 {
		t.Error("a dry run writes")
	}
}

func TestPodsOfOthersStayAsTheyAre(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"without a controller":  func(p *corev1.Pod) { p.OwnerReferences = nil },
		"of another ReplicaSet": func(p *corev1.Pod) { p.OwnerReferences[0].Name = "web-other" },
		"of an older one":       func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"of another kind":       func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" },
		"without its labels":    func(p *corev1.Pod) { p.Labels["app"] = "api" },
	} {
		s := newServer(t, 1, 1, 1)
		pod := newPod()
		change(pod)
		if pod, code := s.ask(0, pod, false); code != http.StatusOK || subsetOf(pod) != "" {
			t.Errorf("%s: %d, subset %q", name, code, subsetOf(pod))
		}
	}
}

func TestWithoutRoomAPodStaysAsItIs(t *testing.T) {
	s := newServer(t, 1, 5, 1, 1)
	for i, want := range []string{"a", "b", ""} {
		pod, _ := s.ask(0, newPod(), false)
		if subsetOf(pod) != want {
			t.Errorf("pod %d is in %q", i, subsetOf(pod))
		}
	}
}

// arena changes the WorkloadSpread to one of a GameServerSet, which makes a GameServer for each pod.
func (s *server) arena() {
	s.t.Helper()
	ws := &appsv1beta1.WorkloadSpread{}
	if err := s.Get(s.t.Context(), types.NamespacedName{Namespace: "shop", Name: "ws"}, ws); err != nil {
		s.t.Fatal(err)
	}
	ws.Spec.TargetReference, ws.Spec.TargetFilter = &appsv1beta1.TargetReference{APIVersion: "game.example/v1", Kind: "GameServerSet", Name: "arena"}, nil
	if err := s.Update(s.t.Context(), ws); err != nil {
		s.t.Fatal(err)
	}
	list := `{"workloads":[{"Group":"game.example","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.size",
		"subResources":[{"Group":"game.example","Version":"v1","Kind":"GameServer"}]}]}`
	objects := []client.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"}, Data: map[string]string{listed.SpreadKey: list},
	}}
	for _, text := range []string{
		`{"apiVersion":"game.example/v1","kind":"GameServerSet","metadata":{"namespace":"shop","name":"arena","uid":"arena"},"spec":{"size":4}}`,
		`{"apiVersion":"game.example/v1","kind":"GameServer","metadata":{"namespace":"shop","name":"arena-0","uid":"arena-0","ownerReferences":[
			{"apiVersion":"game.example/v1","kind":"GameServerSet","name":"arena","uid":"arena","controller":true}]}}`,
		`{"apiVersion":"game.example/v1","kind":"GameServer","metadata":{"namespace":"shop","name":"loop","uid":"loop","ownerReferences":[
			{"apiVersion":"game.example/v1","kind":"GameServer","name":"loop","uid":"loop","controller":true}]}}`,
	} {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), object); err != nil {
			s.t.Fatal(err)
		}
		objects = append(objects, object)
	}
	for _, object := range objects {
		if err := s.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
	s.replicas[0].Namespace = "kruise-system"
}

// ofGame is a named pod of a GameServer.
func ofGame(name, owner string) *corev1.Pod {
	pod := newPod()
	pod.Name, pod.GenerateName, pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = name, "", "game.example/v1", "GameServer"
	pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = owner, types.UID(owner)
	return pod
}

// A pod that is asked about again, as after another webhook refused it, is the same one: rule 8.
func TestPodsOfListedKindsAreSpread(t *testing.T) {
	s := newServer(t, 1, 4, 2, -1)
	s.arena()
	for _, ask := range []struct{ name, owner, want string }{
		{"arena-0", "arena-0", "a"}, {"arena-0", "arena-0", "a"}, {"arena-1", "arena-0", "a"}, {"arena-2", "arena-0", "b"}, {"arena-0", "arena-0", "a"},
		{"loop", "loop", ""}, {"x", "unknown", ""},
	} {
		if pod, code := s.ask(0, ofGame(ask.name, ask.owner), false); code != http.StatusOK || subsetOf(pod) != ask.want {
			t.Errorf("pod %s of %s: %d, in %q, want %q", ask.name, ask.owner, code, subsetOf(pod), ask.want)
		}
	}
	if n := s.writes.Load(); n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
	if err := s.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"}}); err != nil {
		t.Fatal(err)
	}
	if pod, code := s.ask(0, ofGame("arena-3", "arena-0"), false); code != http.StatusOK || subsetOf(pod) != "" {
		t.Errorf("a kind that is no longer listed: %d, in %q", code, subsetOf(pod))
	}
}

func TestIgnoranceIsNoRefusal(t *testing.T) {
	s := newServer(t, 1, 1, 1)
	s.down.Store(true)
	if _, code := s.ask(0, newPod(), false); code != http.StatusServiceUnavailable {
		t.Errorf("answer %d", code)
	}
	for _, path := range []string{Path, Path + "a/b", Path + "A", strings.TrimSuffix(Path, "/")} {
		recorder := httptest.NewRecorder()
		newpods.Handler{Path: Path, Change: s.replicas[0].Change}.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
		if recorder.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, recorder.Code)
		}
	}
}
