// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/testutil/listserver"
)

func marker(namespace, name string) *appsv1alpha1.PodProbeMarker {
	m := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	m.Spec.Probes = []appsv1alpha1.PodContainerProbe{{
		Name: name, ContainerName: "app", PodConditionType: "game/" + name,
		Probe:        corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
		MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{"idle": "yes"}}},
	}}
	return m
}

func handler(t *testing.T, fails error) *Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	unreadable := marker("ns", "unreadable")
	unreadable.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	reads := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if fails != nil {
			return fails
		}
		return c.List(ctx, list, opts...)
	}}
	return &Handler{Reader: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(reads).
		WithObjects(marker("ns", "b"), marker("ns", "a"), marker("other", "c"), unreadable).Build()}
}

func ask(t *testing.T, h *Handler, body string) ctrladmission.Response {
	t.Helper()
	return h.Handle(t.Context(), admissiontest.NewPod(body))
}

// TestPodsAskForProbes: what is asked for is as providers of OpenKruise read it, and nothing of the pod is lost.
func TestPodsAskForProbes(t *testing.T) {
	for name, metadata := range map[string]string{
		"a new pod":                  `{"labels":{"app":"game"}}`,
		"with annotations":           `{"labels":{"app":"game"},"annotations":{"a":"b"}}`,
		"of what another asked for":  `{"labels":{"app":"game"},"annotations":{"kruise.io/podprobe":"[]","kruise.io/podprobemarker-list":"x"}}`,
		"in a namespace of its spec": `{"labels":{"app":"game"},"namespace":"ns"}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"apiVersion":"v1","kind":"Pod","metadata":` + metadata + `,"spec":{"notKnownYet":1,"containers":[{"name":"app"}]}}`
			out := admissiontest.Patched(t, body, ask(t, handler(t, nil), body))
			pod := &corev1.Pod{}
			if err := json.Unmarshal(out, pod); err != nil {
				t.Fatal(err)
			}
			want := `[{"name":"a","containerName":"app","probe":{"exec":{"command":["/idle.sh"]}},"podConditionType":"game/a"},` +
				`{"name":"b","containerName":"app","probe":{"exec":{"command":["/idle.sh"]}},"podConditionType":"game/b"}]`
			if got := pod.Annotations["kruise.io/podprobe"]; got != want {
				t.Errorf("asked for is %s", got)
			}
			if got := pod.Annotations["kruise.io/podprobemarker-list"]; got != "a,b" {
				t.Errorf("the markers are %s", got)
			}
			if !strings.Contains(string(out), "notKnownYet") {
				t.Errorf("lost: %s", out)
			}
			if again := ask(t, handler(t, nil), string(out)); len(again.Patch) > 0 {
				t.Errorf("asked again: %s", again.Patch)
			}
		})
	}
}

func TestPodsThatAskForNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		body, warning string
		fails         error
	}{
		"no marker selects it":       {body: `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app"}]}}`},
		"it has no such container":   {body: `{"metadata":{"labels":{"app":"game"}},"spec":{"containers":[{"name":"main"}]}}`},
		"markers cannot be read now": {body: `{"metadata":{"labels":{"app":"game"}},"spec":{"containers":[{"name":"app"}]}}`, fails: errors.New("too busy"), warning: "too busy"},
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(t, handler(t, tc.fails), tc.body)
			if !response.Allowed || len(response.Patch) > 0 {
				t.Errorf("%+v", response)
			}
			if got := strings.Join(response.Warnings, ""); (got == "") != (tc.warning == "") || !strings.Contains(got, tc.warning) {
				t.Errorf("warned of %q", got)
			}
		})
	}
}

// TestMarkersThatAreNotLookedAt: a namespace may have more markers than are read for one pod.
func TestMarkersThatAreNotLookedAt(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const body = `{"metadata":{"labels":{"app":"game"}},"spec":{"containers":[{"name":"app"}]}}`
	for name, tc := range map[string]struct {
		markers int
		warning string
	}{
		"as many as are read": {markers: 500},
		"one more":            {markers: 501, warning: `whose names come after "m499" were not looked at`},
	} {
		t.Run(name, func(t *testing.T) {
			server := &listserver.Server{Lists: map[schema.GroupVersionKind][][]byte{}}
			for i := range tc.markers {
				m := marker("ns", fmt.Sprintf("m%03d", i))
				if i > 0 {
					m.Spec.Selector.MatchLabels["app"] = "web"
				}
				text, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				kind := appsv1alpha1.GroupVersion().WithKind("PodProbeMarker")
				server.Lists[kind] = append(server.Lists[kind], text)
			}
			response := ask(t, &Handler{Reader: server.Client(t, scheme, pages.Bound)}, body)
			if !response.Allowed || len(response.Patch) == 0 {
				t.Errorf("%+v", response)
			}
			if got := strings.Join(response.Warnings, "; "); (got == "") != (tc.warning == "") || !strings.Contains(got, tc.warning) {
				t.Errorf("warned of %q", got)
			}
		})
	}
}
