// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podlaunch

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

const ordered = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","annotations":{"apps.kruise.io/container-launch-priority":"Ordered",
"apps.kruise.io/container-launch-priority-completed":"true"}},"spec":{"notKnownYet":{"deep":[1]},"containers":[{"name":"db","image":"a"},
{"name":"app","image":"b","env":[{"name":"KRUISE_CONTAINER_BARRIER","value":"stale"},{"name":"X","value":"1"}]},{"name":"log","image":"c","env":[{"name":"X","value":"1"}]}]}}`

func ask(t *testing.T, body string) ctrladmission.Response {
	t.Helper()
	req := admissiontest.NewPod(body)
	response := Handler{}.Handle(t.Context(), req)
	if err := response.Complete(req); err != nil {
		t.Fatal(err)
	}
	return response
}

func patched(t *testing.T, body string) []byte {
	t.Helper()
	return admissiontest.Patched(t, body, ask(t, body))
}

func TestPodsAreOrdered(t *testing.T) {
	out := patched(t, ordered)
	pod := &corev1.Pod{}
	if err := json.Unmarshal(out, pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Name) != len("web-")+5 || !strings.HasPrefix(pod.Name, "web-") {
		t.Errorf("the name is %q", pod.Name)
	}
	if launch.Completed(pod) {
		t.Error("it is marked")
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if n, ok := launch.At(pod.Name, c); !ok || n != -i {
			t.Errorf("container %d has priority %d (%v)", i, n, ok)
		}
		if want := map[int]int{0: 1, 1: 2, 2: 2}[i]; len(c.Env) != want {
			t.Errorf("container %d has %d variables", i, len(c.Env))
		}
	}
	if !strings.Contains(string(out), `"notKnownYet":{"deep":[1]}`) {
		t.Errorf("what is not known is lost: %s", out)
	}
	again := &corev1.Pod{}
	if err := json.Unmarshal(patched(t, string(out)), again); err != nil || again.Name != pod.Name || len(again.Spec.Containers[0].Env) != 1 {
		t.Errorf("asked again: %v %+v", err, again)
	}
}

func TestAnswers(t *testing.T) {
	with := func(annotations, env string) string {
		return strings.NewReplacer("ANNOTATIONS", annotations, "ENV", env).Replace(
			`{"metadata":{"name":"a","annotations":{ANNOTATIONS}},"spec":{"containers":[{"name":"a","env":[ENV]},{"name":"b"}]}}`)
	}
	for name, tc := range map[string]struct {
		body    string
		patches int
		refused string
	}{
		"nobody asks":         {body: with("", "")},
		"a lower case letter": {body: with(`"apps.kruise.io/container-launch-priority":"ordered"`, "")},
		"a priority":          {body: with("", `{"name":"KRUISE_CONTAINER_PRIORITY","value":"1"}`), patches: 2},
		"no number":           {body: with("", `{"name":"KRUISE_CONTAINER_PRIORITY","value":"abc"}`), refused: `spec.containers[0].env[0].value: Invalid value: "abc"`},
		"one container":       {body: `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","env":[{"name":"KRUISE_CONTAINER_PRIORITY","value":"abc"}]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(t, tc.body)
			var patch []edit.Operation
			if len(response.Patch) > 0 {
				if err := json.Unmarshal(response.Patch, &patch); err != nil {
					t.Fatal(err)
				}
			}
			if len(patch) != tc.patches {
				t.Errorf("%d operations: %s", len(patch), response.Patch)
			}
			switch {
			case response.Allowed != (tc.refused == ""):
				t.Errorf("allowed %v: %+v", response.Allowed, response.Result)
			case tc.refused != "" && (response.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(response.Result.Message, tc.refused)):
				t.Errorf("%+v", response.Result)
			}
		})
	}
	long := strings.ReplaceAll(with(`"apps.kruise.io/container-launch-priority":"Ordered"`, ""), `"name":"a","annotations"`, `"name":"`+strings.Repeat("x", 246)+`","annotations"`)
	if response := ask(t, long); response.Allowed || !strings.Contains(response.Result.Message, "metadata.name") {
		t.Errorf("a long name: %+v", response.Result)
	}
	if response := ask(t, "no JSON"); response.Allowed || response.Result.Code != http.StatusBadRequest {
		t.Errorf("%+v", response.Result)
	}
}
