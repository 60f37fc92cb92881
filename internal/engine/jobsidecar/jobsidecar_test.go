// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package jobsidecar

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func marked(name string, env ...corev1.EnvVar) corev1.Container {
	return corev1.Container{Name: name, Env: env}
}

func TestMainDone(t *testing.T) {
	sidecar := marked("s", corev1.EnvVar{Name: EnvTerminateImage, Value: "exit0:v1"})
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	for name, tc := range map[string]struct {
		policy     corev1.RestartPolicy
		phase      corev1.PodPhase
		containers []corev1.Container
		statuses   []corev1.ContainerStatus
		want       bool
	}{
		"the main container runs":                {"Never", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{running("m"), running("s")}, false},
		"it has ended":                           {"Never", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 0), running("s")}, true},
		"it has failed under Never":              {"Never", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 2), running("s")}, true},
		"it has failed under OnFailure":          {"OnFailure", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 2), running("s")}, false},
		"the sidecar has ended, too":             {"Never", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 0), ended("s", 0)}, true},
		"a pod that goes on for ever":            {"Always", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 0), running("s")}, false},
		"no marks":                               {"Never", "Running", []corev1.Container{{Name: "m"}, {Name: "s"}}, []corev1.ContainerStatus{ended("m", 0), running("s")}, false},
		"a pod that has not started":             {"Never", "Pending", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 0), running("s")}, false},
		"a status without all of its containers": {"Never", "Running", []corev1.Container{{Name: "m"}, sidecar}, []corev1.ContainerStatus{ended("m", 0)}, false},
		"sidecars alone":                         {"Never", "Running", []corev1.Container{sidecar}, []corev1.ContainerStatus{running("s")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.policy, Containers: tc.containers}, Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: tc.statuses}}
			if got := MainDone(pod); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	stops := corev1.EnvVar{Name: EnvTerminate, Value: "True"}
	exits := corev1.EnvVar{Name: EnvTerminateImage, Value: "exit0:v1"}
	from := corev1.EnvVar{Name: EnvTerminate, ValueFrom: &corev1.EnvVarSource{}}
	many := slices.Repeat([]corev1.EnvVar{{Name: EnvTerminate, Value: "1"}}, 50)
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want []string // what the warnings begin with
	}{
		"marks as they should be": {corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", stops, exits)}}, nil},
		"another value": {
			corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", corev1.EnvVar{Name: "A"}, corev1.EnvVar{Name: EnvTerminate, Value: "yes"})}},
			[]string{`spec.containers[1].env[1].value: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT is "yes"`},
		},
		"switched off":           {corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", stops, corev1.EnvVar{Name: EnvIgnoreExitCode, Value: "false"})}}, nil},
		"a value from elsewhere": {corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", from)}}, []string{"spec.containers[1].env[0].valueFrom: "}},
		"an empty image": {
			corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", corev1.EnvVar{Name: EnvTerminateImage})}},
			[]string{"spec.containers[1].env[0].value: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE is empty"},
		},
		"sidecars alone": {corev1.PodSpec{Containers: []corev1.Container{marked("s", stops)}}, []string{"spec.containers: all of them are marked"}},
		"a virtual node without an image": {
			corev1.PodSpec{NodeSelector: map[string]string{"type": "virtual-kubelet"}, Containers: []corev1.Container{{Name: "m"}, marked("s", stops)}},
			[]string{"spec.containers[1].env: nodeSelector asks for a virtual node"},
		},
		"a virtual node with an image": {
			corev1.PodSpec{NodeSelector: map[string]string{"type": "virtual-kubelet"}, Containers: []corev1.Container{{Name: "m"}, marked("s", stops, exits)}}, nil,
		},
		"very many": {
			corev1.PodSpec{Containers: []corev1.Container{{Name: "m"}, marked("s", many...)}}, slices.Repeat([]string{"spec.containers[1].env["}, maxWarnings),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Warnings(&tc.spec, field.NewPath("spec"))
			if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
				t.Errorf("%q, want those that begin with %q", got, tc.want)
			}
		})
	}
}
