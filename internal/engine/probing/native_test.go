// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

// A marker that names a native sidecar was told that the pod has no such container.
func TestANativeSidecarIsProbed(t *testing.T) {
	m := &Marker{Name: "m", Probes: []appsv1alpha1.PodContainerProbe{{
		Name: "p", ContainerName: "mesh",
		Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("admin")}}},
	}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{
		{Name: "setup"},
		{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 15000}}},
	}}}
	probes, faults := m.Wanted(pod)
	if len(faults) > 0 || len(probes) != 1 || probes[0].Probe.TCPSocket.Port != intstr.FromInt32(15000) {
		t.Errorf("probes %+v, faults %q", probes, faults)
	}
	m.Probes[0].ContainerName = "setup"
	if _, faults := m.Wanted(pod); len(faults) != 1 {
		t.Error("an init container that ends is probed")
	}
}
