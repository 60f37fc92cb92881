// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func TestResizeRestartsNothing(t *testing.T) { forWorkloads(t, resizeRestartsNothing) }

func resizeRestartsNothing(t *testing.T, w workload) {
	n := onNode(t)
	was := steady(n, w.start(t, n, 1)[0])
	if got := cpuQuota(t, &was, "web"); got != "50000" {
		t.Fatalf("a limit of 500m is %s microseconds in each period of 100000, want 50000", got)
	}
	states := follow(t, n)
	began := time.Now()
	w.change(n, func(template *corev1.PodTemplateSpec) {
		resources := template.Spec.Containers[0].Resources
		resources.Requests[corev1.ResourceCPU] = resource.MustParse("30m")
		resources.Limits[corev1.ResourceCPU] = resource.MustParse("300m")
	})
	revision := w.settled(n)
	took := time.Since(began)

	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertSameContainer(t, &was, is, "web")
	applied := status(is, "web").Resources
	if applied == nil || applied.Requests.Cpu().MilliValue() != 30 || applied.Limits.Cpu().MilliValue() != 300 || applied.Limits.Memory().String() != "64Mi" {
		t.Errorf("the container runs with %+v", applied)
	}
	if got := cpuQuota(t, is, "web"); got != "30000" {
		t.Errorf("a limit of 300m is %s microseconds in each period of 100000, want 30000", got)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != revision {
		t.Errorf("the pod has labels %v, the revision is %s", is.Labels, revision)
	}
	assertInService(t, states.of(n, is))
	t.Logf("measured: resize of one pod in place: available after %s", seconds(took))
}

// cpuQuota reads the limit of a container from its control group: microseconds in each period.
func cpuQuota(t *testing.T, pod *corev1.Pod, container string) string {
	t.Helper()
	id := strings.TrimPrefix(status(pod, container).ContainerID, "containerd://")
	var pid string
	for line := range strings.Lines(inside(t, "ctr", "--namespace=k8s.io", "tasks", "list")) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == id {
			pid = words[1]
		}
	}
	if pid == "" {
		t.Fatalf("container %s has no process", id)
	}
	// Lines are number:controllers:path; version 2 has one line without controllers.
	for line := range strings.Lines(inside(t, "cat", fmt.Sprintf("/proc/%s/cgroup", pid))) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case fields[0] == "0" && fields[2] != "/":
			quota, _, _ := strings.Cut(inside(t, "cat", "/sys/fs/cgroup"+fields[2]+"/cpu.max"), " ")
			return quota
		case slices.Contains(strings.Split(fields[1], ","), "cpu"):
			return strings.TrimSpace(inside(t, "cat", "/sys/fs/cgroup/cpu"+fields[2]+"/cpu.cfs_quota_us"))
		}
	}
	t.Fatalf("process %s is in no control group for cpu", pid)
	return ""
}

// inside runs a command in the node and returns its output.
func inside(t *testing.T, args ...string) string {
	t.Helper()
	output, err := theNode().Command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("running %v in the node: %v: %s", args, err, output)
	}
	return string(output)
}
