// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// sidecarRecord is where an owner of some containers remembers their updates.
func sidecarRecord(owner string) Record {
	return Record{State: "example.io/state", Evidence: "example.io/evidence", Member: owner}
}

// sidecarPod runs the workload's container and two sidecars.
func sidecarPod(now time.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Generation: 1, Labels: map[string]string{"controller-revision-hash": "web-1"}}}
	pod.Status.ObservedGeneration = 1
	for _, name := range []string{"main", "logger", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name + ":1"})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
		restartSidecar(pod, name, now.Add(-time.Hour))
	}
	return pod
}

// restartSidecar is what a kubelet does: it starts the container again with the image of the spec.
func restartSidecar(pod *corev1.Pod, name string, now time.Time) {
	pod.Status.ObservedGeneration = pod.Generation
	status, image := restart.StatusOf(pod, name), containerOf(pod.Spec.Containers, name).Image
	status.Image, status.ImageID, status.ContainerID = image, "id of "+image, "container of "+image
	status.Ready = true
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}
}

func applied(t *testing.T, pod *corev1.Pod, e edit.Edit) *corev1.Pod {
	t.Helper()
	if e.IsZero() {
		t.Fatal("nothing is written")
	}
	return e.Apply(pod)
}

func TestUpdateOfSomeContainers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	logs, mesh := sidecarRecord("logs"), sidecarRecord("mesh")
	pod := sidecarPod(now)
	expect := func(what string, r Record, want Progress) {
		t.Helper()
		if got := r.Check(pod, now); got.Progress != want {
			t.Errorf("%s: %+v, want %q", what, got, want)
		}
	}
	begin := func(r Record, revision string, images map[string]string) {
		t.Helper()
		pod = applied(t, pod, r.Begin(pod, revision, images, now))
	}
	expect("before anything", logs, None)

	begin(logs, "logs-2", map[string]string{"logger": "logger:2"})
	expect("right after the edit", logs, Running)
	begin(mesh, "mesh-2", map[string]string{"proxy": "proxy:2"})
	restartSidecar(pod, "logger", now)
	expect("when its container has restarted", logs, Done)
	expect("the other owner still waits", mesh, Running)
	if pod.Labels["controller-revision-hash"] != "web-1" || containerOf(pod.Spec.Containers, "main").Image != "main:1" {
		t.Errorf("what belongs to the workload was changed: %v", pod)
	}
	for key := range pod.Annotations {
		if key != logs.State && key != logs.Evidence {
			t.Errorf("annotation %s was written", key)
		}
	}

	// A third revision before the second was acted on: the container must run that one.
	begin(mesh, "mesh-3", map[string]string{"proxy": "proxy:3"})
	restartSidecar(pod, "proxy", now)
	expect("at the third revision", mesh, Done)
	if mesh.Read(pod).Revision() != "mesh-3" || logs.Read(pod).Revision() != "logs-2" {
		t.Errorf("records name %s and %s", mesh.Read(pod).Revision(), logs.Read(pod).Revision())
	}
	if again := mesh.Begin(pod, "mesh-3", map[string]string{"proxy": "proxy:3"}, now); !again.IsZero() {
		t.Errorf("what is done already is written once more: %+v", again)
	}
}

func TestSomeContainersInBatches(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := sidecarPod(now)
	for i, priority := range []string{"p_0", "p_2", "p_1"} {
		pod.Spec.Containers[i].Env = []corev1.EnvVar{{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: priority},
		}}}
	}
	record := sidecarRecord("all")
	e := record.Begin(pod, "all-2", map[string]string{"logger": "logger:2", "proxy": "proxy:2"}, now)
	pod = applied(t, pod, e)
	if containerOf(pod.Spec.Containers, "logger").Image != "logger:2" || containerOf(pod.Spec.Containers, "proxy").Image != "proxy:1" {
		t.Fatalf("the first batch is %+v", e.Images)
	}
	if _, more := record.Continue(pod, now); more {
		t.Error("the second batch does not wait for the first one")
	}
	restartSidecar(pod, "logger", now)
	next, more := record.Continue(pod, now)
	if !more {
		t.Fatalf("there is no second batch: %+v", record.Check(pod, now))
	}
	pod = applied(t, pod, next)
	restartSidecar(pod, "proxy", now)
	if got := record.Check(pod, now); got.Progress != Done {
		t.Errorf("in the end: %+v", got)
	}
}

func TestRecordThatCannotBeDecoded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record, pod := sidecarRecord("logs"), sidecarPod(now)
	pod.Annotations = map[string]string{record.State: "{"}
	if got := record.Check(pod, now); got.Progress != Blocked || got.Reason != ReasonMalformed {
		t.Errorf("got %+v", got)
	}
	pod = applied(t, pod, record.Begin(pod, "logs-2", map[string]string{"logger": "logger:2"}, now))
	restartSidecar(pod, "logger", now)
	if got := record.Check(pod, now); got.Progress != Done {
		t.Errorf("after the next update: %+v", got)
	}
}

func TestCompareContainers(t *testing.T) {
	old := []corev1.Container{{Name: "logger", Image: "logger:1"}, {Name: "proxy", Image: "proxy:1"}}
	cases := map[string]struct {
		target []corev1.Container
		images int
		why    string // part of the reason; empty when it is possible in place
	}{
		"nothing":        {target: old},
		"an image":       {target: []corev1.Container{{Name: "logger", Image: "logger:2"}, old[1]}, images: 1},
		"one is missing": {target: old[:1], why: "spec.containers changed: containers cannot be added"},
		"a command":      {target: []corev1.Container{{Name: "logger", Image: "logger:1", Command: []string{"x"}}, old[1]}, why: "spec.containers[0].command changed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := CompareContainers("spec.containers", old, tc.target, Options{})
			if d.InPlace != (tc.why == "") || !strings.Contains(d.Reason, tc.why) || len(d.Images) != tc.images {
				t.Errorf("got %+v", d)
			}
		})
	}
}
