// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// The pods in testdata are as OpenKruise 1.9 left them, cut down to what this package reads.
func fixtures(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods in testdata: %v", err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(body, pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pods[strings.TrimSuffix(filepath.Base(file), ".yaml")] = pod
	}
	return pods
}

const envWaiting = "cloneset-env-waiting_web-68fpv"

func TestStateAnnotationsOfOpenKruiseAreWrittenBackByteForByte(t *testing.T) {
	seen := 0
	for name, pod := range fixtures(t) {
		raw, ok := pod.Annotations[shared.AnnotationInPlaceState]
		if !ok {
			continue
		}
		seen++
		update, found, err := readRun(pod)
		if err != nil || !found {
			t.Fatalf("%s: %v", name, err)
		}
		var e edit.Edit
		update.write(&e, pod)
		if got := *e.Annotations[shared.AnnotationInPlaceState]; got != raw {
			t.Errorf("%s:\n%s becomes\n%s", name, raw, got)
		}
	}
	if seen < 6 {
		t.Errorf("only %d pods have a state", seen)
	}
}

func TestPodsOfOpenKruise(t *testing.T) {
	now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	for name, pod := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			before := pod.DeepCopy()
			want := None
			if name == envWaiting {
				want = Blocked
			}
			s := Check(pod, Options{}, now)
			if s.Progress != want {
				t.Errorf("got %+v, want %q", s, want)
			}
			if want == Blocked && (s.Reason != ReasonNodeDaemon || !strings.Contains(s.Message, "node daemon")) {
				t.Errorf("got %+v", s)
			}
			if e, ok := Continue(pod, Options{}, now); ok || !e.IsZero() {
				t.Errorf("nothing is to be written, got %+v", e)
			}
			if name != envWaiting && !Finish(pod, now).IsZero() {
				t.Error("the pod is in service already")
			}

			// The same pod, as if its manager had died before it wrote the end of the update.
			if pod.Annotations[shared.AnnotationInPlaceState] != "" && name != envWaiting {
				unfinished := pod.DeepCopy()
				podstate.Condition(unfinished, shared.GateInPlaceUpdateReady).Status = corev1.ConditionFalse
				if s := Check(unfinished, Options{}, now); s.Progress != Done {
					t.Errorf("got %+v, want Done", s)
				}
			}
			equal(t, before, pod)
		})
	}
}

func TestAnEnvironmentUpdateOfOpenKruiseEndsWithTheDaemonsReport(t *testing.T) {
	all := fixtures(t)
	now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	waiting, done := all[envWaiting], all["cloneset-env_web-h7d69"]
	if s := Check(waiting, Options{EnvFromMetadata: true}, now); s.Progress != Running || s.Reason != ReasonNodeDaemon {
		t.Errorf("with a daemon it is a matter of time, got %+v", s)
	}
	reported := waiting.DeepCopy()
	reported.Annotations[shared.AnnotationRuntimeContainersMeta] = strings.Replace(done.Annotations[shared.AnnotationRuntimeContainersMeta],
		done.Status.ContainerStatuses[0].ContainerID, waiting.Status.ContainerStatuses[0].ContainerID, 1)
	if s := Check(reported, Options{}, now); s.Progress != Done {
		t.Errorf("got %+v, want Done", s)
	}
	stale := waiting.DeepCopy()
	stale.Annotations[shared.AnnotationRuntimeContainersMeta] = done.Annotations[shared.AnnotationRuntimeContainersMeta]
	if s := Check(stale, Options{}, now); s.Progress != Blocked {
		t.Errorf("a report about another container proves nothing, got %+v", s)
	}
	reported.Labels["release"] = "r3"
	if s := Check(reported, Options{}, now); s.Progress != Blocked {
		t.Errorf("the container runs with r2, got %+v", s)
	}
}

// The daemon passes on the hash the kubelet gave the container, and its own of the variables.
func TestHashesAreThoseTheDaemonReports(t *testing.T) {
	seen := 0
	for name, pod := range fixtures(t) {
		for container, entry := range readReport(pod) {
			seen++
			c := containerOf(pod.Spec.Containers, container)
			if got := plainHash(c); got != entry.Hashes.Plain {
				t.Errorf("%s: hash of container %s is %d, reported %d", name, container, got, entry.Hashes.Plain)
			}
			if got := environmentHash(pod, c); got != entry.Hashes.Environment {
				t.Errorf("%s: hash of the variables of %s is %d, reported %d", name, container, got, entry.Hashes.Environment)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d containers are reported", seen)
	}
}

func TestAtRestIsFreeOfParsing(t *testing.T) {
	pod := fixtures(t)["statefulset-midway_db-5"]
	now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	if n := testing.AllocsPerRun(100, func() { Check(pod, Options{}, now) }); n != 0 {
		t.Errorf("looking at a pod at rest allocates %v times", n)
	}
}
