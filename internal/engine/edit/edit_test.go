// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

func setImage(e *Edit, container, image string) { put(&e.Images, container, image) }

func TestRequestsGoWhereTheyHaveTo(t *testing.T) {
	condition := corev1.PodCondition{Type: "Gate", Status: corev1.ConditionFalse, Reason: "R", LastTransitionTime: at(5)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u1", Generation: 4, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}},
	}
	cases := map[string]struct {
		edit func(*Edit)
		want []string
	}{
		"nothing needs no request": {edit: func(*Edit) {}},
		"metadata alone is one request to the pod": {
			edit: func(e *Edit) { e.SetLabel("k", "v"); e.RemoveAnnotation("old") },
			want: []string{`pods {"metadata":{"uid":"u1","resourceVersion":"7","labels":{"k":"v"},"annotations":{"old":null}}}`},
		},
		"conditions take the metadata along, finalizers too": {
			edit: func(e *Edit) {
				e.SetCondition(condition)
				e.SetLabel("k", "v")
				e.AddFinalizer("x/y")
				e.RemoveFinalizer("x/z")
			},
			want: []string{`pods/status {"metadata":{"uid":"u1","resourceVersion":"7","labels":{"k":"v"},"finalizers":["x/y"],"$deleteFromPrimitiveList/finalizers":["x/z"]},` +
				`"status":{"conditions":[{"lastTransitionTime":"2026-01-01T10:00:05Z","message":"","reason":"R","status":"False","type":"Gate"}]}}`},
		},
		"with images the conditions go first and alone, the metadata goes with the images": {
			edit: func(e *Edit) { e.SetCondition(condition); e.SetLabel("k", "v"); setImage(e, "b", "b:2") },
			want: []string{
				`pods/status {"metadata":{"uid":"u1","resourceVersion":"7"},"status":{"conditions":[{"lastTransitionTime":"2026-01-01T10:00:05Z","message":"","reason":"R","status":"False","type":"Gate"}]}}`,
				`pods {"metadata":{"uid":"u1","labels":{"k":"v"}},"spec":{"containers":[{"name":"b","image":"b:2"}]}}`,
			},
		},
		"images alone are tied to the pod as it was observed": {
			edit: func(e *Edit) { setImage(e, "b", "b:2") },
			want: []string{`pods {"metadata":{"uid":"u1","resourceVersion":"7"},"spec":{"containers":[{"name":"b","image":"b:2"}]}}`},
		},
		"resources are resized between the two": {
			edit: func(e *Edit) {
				e.SetCondition(condition)
				setImage(e, "b", "b:2")
				e.SetResources("a", corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}})
			},
			want: []string{
				`pods/status {"metadata":{"uid":"u1","resourceVersion":"7"},"status":{"conditions":[{"lastTransitionTime":"2026-01-01T10:00:05Z","message":"","reason":"R","status":"False","type":"Gate"}]}}`,
				`pods/resize {"metadata":{"uid":"u1"},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"2"}}}]}}`,
				`pods {"metadata":{"uid":"u1"},"spec":{"containers":[{"name":"b","image":"b:2"}]}}`,
			},
		},
		"annotations that others write as well are tied to the pod that was read": {
			edit: func(e *Edit) { e.Exact = true; e.SetCondition(condition); setImage(e, "b", "b:2") },
			want: []string{
				`pods/status {"metadata":{"uid":"u1","resourceVersion":"7"},"status":{"conditions":[{"lastTransitionTime":"2026-01-01T10:00:05Z","message":"","reason":"R","status":"False","type":"Gate"}]}}`,
				`pods {"metadata":{"uid":"u1","resourceVersion":"7"},"spec":{"containers":[{"name":"b","image":"b:2"}]}}`,
			},
		},
		"what is first written to a new pod is tied to its UID alone": {
			edit: func(e *Edit) { e.Fresh = true; e.SetCondition(condition) },
			want: []string{`pods/status {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastTransitionTime":"2026-01-01T10:00:05Z","message":"","reason":"R","status":"False","type":"Gate"}]}}`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var e Edit
			tc.edit(&e)
			var got []string
			version := planning.Version{ResourceVersion: "7"}
			for _, request := range e.Requests(pod) {
				body, err := request.Body(version)
				if err != nil {
					t.Fatal(err)
				}
				resource := "pods"
				if request.Subresource != "" {
					resource += "/" + request.Subresource
				}
				got = append(got, resource+" "+string(body))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if e.IsZero() != (len(tc.want) == 0) {
				t.Errorf("IsZero is %v with %d requests", e.IsZero(), len(got))
			}
		})
	}
}

func TestMerge(t *testing.T) {
	var a, b Edit
	a.SetLabel("one", "a")
	a.SetLabel("both", "a")
	a.AddFinalizer("f/1")
	a.SetCondition(corev1.PodCondition{Type: "X", Status: corev1.ConditionFalse, Reason: "a"})
	a.SetResources("c", corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}})
	b.RemoveLabel("both")
	b.RemoveFinalizer("f/1")
	b.SetCondition(corev1.PodCondition{Type: "X", Status: corev1.ConditionTrue})
	b.SetResources("c", corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("1Gi")}})

	joined := a
	joined.Merge(b)
	if value, ok := joined.Labels["both"]; !ok || value != nil {
		t.Error("the removal of the second Edit should win over the value of the first")
	}
	if len(joined.AddFinalizers) != 0 || len(joined.RemoveFinalizers) != 1 {
		t.Errorf("finalizers are %v and %v", joined.AddFinalizers, joined.RemoveFinalizers)
	}
	if len(joined.Conditions) != 1 || joined.Conditions[0].Status != corev1.ConditionTrue || joined.Conditions[0].Reason != "" {
		t.Errorf("conditions are %v", joined.Conditions)
	}
	if got := joined.Resources["c"].Requests; len(got) != 2 {
		t.Errorf("requests are %v", got)
	}
	if *a.Labels["both"] != "a" || len(a.AddFinalizers) != 1 || a.Conditions[0].Reason != "a" || len(a.Resources["c"].Requests) != 1 {
		t.Errorf("merging into a copy changed the original: %+v", a)
	}

	fresh := Edit{Fresh: true}
	fresh.SetLabel("k", "v")
	var sum Edit
	sum.Merge(fresh)
	if !sum.Fresh {
		t.Error("nothing and a Fresh Edit should be Fresh")
	}
	sum.Merge(b)
	if sum.Fresh {
		t.Error("a Fresh Edit and another should be tied to the resourceVersion")
	}
}

// What Apply foresees is what a server makes of the rendered patches, whatever the pod and the Edit.
func TestApplyEqualsThePatches(t *testing.T) {
	const seed = 20260101
	asStored := cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }),
		// The place of a new condition or finalizer in its list means nothing.
		cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type }),
		cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	}
	random := rand.New(rand.NewSource(seed))
	for i := range 300 {
		pod := randomPod(random)
		e := randomEdit(random)
		want := pod.DeepCopy()
		for _, request := range e.Requests(pod) {
			body, err := request.Body(planning.Version{ResourceVersion: "7"})
			if err != nil {
				t.Fatal(err)
			}
			want = serve(t, want, request.Subresource, body)
		}
		got := e.Apply(pod)
		if diff := cmp.Diff(want, got, asStored); diff != "" {
			t.Fatalf("seed %d, round %d, edit %s: patches (-) and Apply (+) differ:\n%s", seed, i, render(e), diff)
		}
		if e.Generation(pod) != want.Generation {
			t.Fatalf("seed %d, round %d: generation %d foreseen, is %d", seed, i, e.Generation(pod), want.Generation)
		}
	}
}

// serve does what the server does with a patch: merge, take only the part that the subresource owns, count generations.
func serve(t *testing.T, pod *corev1.Pod, subresource string, body []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
	if err != nil {
		t.Fatalf("applying %s: %v", body, err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	if out.UID != pod.UID {
		t.Fatalf("the patch is for %s", out.UID)
	}
	out.ResourceVersion = pod.ResourceVersion
	for i := range pod.Spec.Containers {
		if out.Spec.Containers[i].Name != pod.Spec.Containers[i].Name {
			t.Fatalf("the patch moves containers: %s", body)
		}
	}
	if subresource == SubresourceStatus {
		out.Spec = pod.Spec
	} else {
		out.Status = pod.Status
	}
	if !equality.Semantic.DeepEqual(out.Spec, pod.Spec) {
		out.Generation++
	}
	return out
}

func randomPod(r *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "7", Generation: int64(r.Intn(9))}}
	for _, key := range pick(r, "a", "b", "c") {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, pick1(r, "1", "2"))
	}
	for _, key := range pick(r, "a", "b/c", "d") {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, pick1(r, "1", `{"x":"<y>"}`))
	}
	pod.Finalizers = pick(r, "f/1", "f/2", "f/3")
	for _, name := range []string{"main", "side", "third"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: pick1(r, "i:1", "i:2"), Resources: randomResources(r)})
	}
	for _, conditionType := range pick(r, "A", "B", "C", "D") {
		condition := randomCondition(r, conditionType)
		if r.Intn(2) == 0 {
			condition.ObservedGeneration = int64(r.Intn(5))
			condition.LastProbeTime = at(r.Intn(60))
		}
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
	}
	return pod
}

func randomEdit(r *rand.Rand) Edit {
	var e Edit
	for _, key := range pick(r, "a", "b", "e") {
		if r.Intn(3) == 0 {
			e.RemoveLabel(key)
		} else {
			e.SetLabel(key, pick1(r, "1", "3", ""))
		}
	}
	for _, key := range pick(r, "a", "b/c", "f") {
		if r.Intn(3) == 0 {
			e.RemoveAnnotation(key)
		} else {
			e.SetAnnotation(key, pick1(r, "1", "3"))
		}
	}
	for _, name := range pick(r, "f/1", "f/2", "f/4") {
		if r.Intn(2) == 0 {
			e.AddFinalizer(name)
		} else {
			e.RemoveFinalizer(name)
		}
	}
	for _, conditionType := range pick(r, "D", "A", "E") {
		e.SetCondition(randomCondition(r, conditionType))
	}
	if r.Intn(2) == 0 {
		for _, name := range pick(r, "third", "main", "unknown") {
			setImage(&e, name, pick1(r, "i:1", "i:3"))
		}
	}
	if r.Intn(2) == 0 {
		for _, name := range pick(r, "side", "main") {
			e.SetResources(name, randomResources(r))
		}
	}
	return e
}

func randomCondition(r *rand.Rand, conditionType string) corev1.PodCondition {
	return corev1.PodCondition{
		Type:               corev1.PodConditionType(conditionType),
		Status:             corev1.ConditionStatus(pick1(r, "True", "False")),
		Reason:             pick1(r, "", "R"),
		Message:            pick1(r, "", `[{"userAgent":"a"}]`),
		LastTransitionTime: at(r.Intn(60)),
	}
}

func randomResources(r *rand.Rand) corev1.ResourceRequirements {
	var out corev1.ResourceRequirements
	for _, name := range pick(r, "cpu", "memory") {
		if out.Limits == nil {
			out.Limits, out.Requests = corev1.ResourceList{}, corev1.ResourceList{}
		}
		out.Limits[corev1.ResourceName(name)] = resource.MustParse(pick1(r, "1", "1000m", "2"))
		if r.Intn(2) == 0 {
			out.Requests[corev1.ResourceName(name)] = resource.MustParse(pick1(r, "1", "500m"))
		}
	}
	return out
}

func pick(r *rand.Rand, from ...string) []string {
	var out []string
	for _, s := range from {
		if r.Intn(2) == 0 {
			out = append(out, s)
		}
	}
	return out
}

func pick1(r *rand.Rand, from ...string) string { return from[r.Intn(len(from))] }

func at(second int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 10, 0, second, 0, time.UTC))
}

func render(e Edit) string {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Sprint(e)
	}
	return string(body)
}
