// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operands

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// rendered finds one object and decodes it.
func rendered[T any](t *testing.T, d Daemon, kind, name string) *T {
	t.Helper()
	objects, err := RenderDaemon(d)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if at < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	result := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[at].Object, result, true); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestTheDaemonHasOnlyWhatItNeeds(t *testing.T) {
	pod := rendered[appsv1.DaemonSet](t, Daemon{Namespace: "op", Image: "reg/kruise:1"}, "DaemonSet", DaemonName).Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 {
		t.Fatalf("%d containers and %d init containers, want one container", len(pod.Containers), len(pod.InitContainers))
	}
	container := pod.Containers[0]
	security := container.SecurityContext
	if *security.Privileged || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem ||
		!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(security.Capabilities.Add) > 0 {
		t.Errorf("security context %+v", security)
	}
	if pod.HostPID || pod.HostIPC || len(pod.Volumes) != 1 || len(container.VolumeMounts) != 1 || !container.VolumeMounts[0].ReadOnly || len(container.VolumeDevices) > 0 {
		t.Errorf("it has more of the node than one folder, which is read-only: %+v", pod)
	}
	if folder := pod.Volumes[0].HostPath; folder == nil || folder.Path != "/run" {
		t.Errorf("it mounts %+v, want the folder of the sockets alone", pod.Volumes[0].VolumeSource)
	}
	if profile := security.SeccompProfile; profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault || security.SELinuxOptions != nil {
		t.Errorf("security context %+v", security)
	}
	if container.Image != "reg/kruise:1" || pod.Tolerations[0].Operator != corev1.TolerationOpExists {
		t.Errorf("image %s, tolerations %v", container.Image, pod.Tolerations)
	}
}

func TestTheDaemonIsAsTheSettingsSay(t *testing.T) {
	d := Daemon{
		Namespace: "op", Image: "x", Socket: "/run/k3s/containerd/containerd.sock", PullSecrets: []string{"reg"}, PriorityClass: "system-node-critical", NoProbes: true, NoReports: true,
		Resources:   &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		Tolerations: []corev1.Toleration{{Key: "gpu"}},
	}
	pod := rendered[appsv1.DaemonSet](t, d, "DaemonSet", DaemonName).Spec.Template.Spec
	if got := pod.Volumes[0].HostPath.Path; got != "/run/k3s/containerd" {
		t.Errorf("mounts %s", got)
	}
	if got := pod.Containers[0].Args; !slices.Equal(got, []string{"--runtime-socket=/hostrun/containerd.sock", "--no-probes", "--no-reports"}) {
		t.Errorf("arguments %v", got)
	}
	if got := pod.Containers[0].Resources.Limits.Memory().String(); got != "64Mi" || len(pod.Containers[0].Resources.Requests) > 0 {
		t.Errorf("resources %v", pod.Containers[0].Resources)
	}
	if pod.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %s", pod.PriorityClassName)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != "gpu" || pod.ImagePullSecrets[0].Name != "reg" {
		t.Errorf("tolerations %v, pull secrets %v", pod.Tolerations, pod.ImagePullSecrets)
	}
	binding := rendered[rbacv1.RoleBinding](t, d, "RoleBinding", "kruise-operator-pull-secrets")
	if binding.Subjects[0].Namespace != "op" || binding.Namespace != DaemonNamespace {
		t.Errorf("binding %+v", binding)
	}
	if daemon := rendered[rbacv1.RoleBinding](t, d, "RoleBinding", "kruise-daemon-secrets"); daemon.Subjects[0].Namespace != DaemonNamespace {
		t.Errorf("binding %+v", daemon)
	}
}

// Where SELinux is enforced, a container of the usual type cannot connect to the socket.
func TestTheDaemonHasTheRightsThatItIsGiven(t *testing.T) {
	of := func(d Daemon) *corev1.SecurityContext {
		d.Namespace, d.Image = "op", "x"
		return rendered[appsv1.DaemonSet](t, d, "DaemonSet", DaemonName).Spec.Template.Spec.Containers[0].SecurityContext
	}
	if c := of(Daemon{SELinux: &corev1.SELinuxOptions{Type: "spc_t", Level: "s0"}}); c.SELinuxOptions == nil || *c.SELinuxOptions != (corev1.SELinuxOptions{Type: "spc_t", Level: "s0"}) ||
		*c.Privileged || *c.AllowPrivilegeEscalation {
		t.Errorf("with an SELinux context: %+v", c)
	}
	if c := of(Daemon{Privileged: true}); !*c.Privileged || c.AllowPrivilegeEscalation != nil || c.SELinuxOptions != nil || !*c.ReadOnlyRootFilesystem {
		t.Errorf("privileged: %+v", c)
	}
}

// The port was taken on nodes, and nothing could change it.
func TestThePortOfTheDaemonCanBeChangedAndSwitchedOff(t *testing.T) {
	of := func(port int32) corev1.Container {
		d := Daemon{Namespace: "op", Image: "x", Port: &port}
		return rendered[appsv1.DaemonSet](t, d, "DaemonSet", DaemonName).Spec.Template.Spec.Containers[0]
	}
	c := of(11221)
	if !slices.Equal(c.Args, []string{"--addr=:11221"}) || len(c.Ports) != 1 || c.Ports[0].ContainerPort != 11221 || c.Ports[0].HostPort != 11221 ||
		c.LivenessProbe.HTTPGet.Port.StrVal != c.Ports[0].Name || c.ReadinessProbe.HTTPGet.Port.StrVal != c.Ports[0].Name {
		t.Errorf("another port: %+v", c)
	}
	if c := of(0); !slices.Equal(c.Args, []string{"--addr=0"}) || len(c.Ports) > 0 || c.LivenessProbe != nil || c.ReadinessProbe != nil {
		t.Errorf("no port: %+v", c)
	}
}

func TestTheDaemonSeesTheFoldersOfCredentialProviders(t *testing.T) {
	d := Daemon{Namespace: "op", Image: "x", CredentialConfig: "/etc/providers/config.yaml", CredentialFolder: "/opt/providers"}
	pod := rendered[appsv1.DaemonSet](t, d, "DaemonSet", DaemonName).Spec.Template.Spec
	want := map[string]string{"/hostrun": "/run", "/credential-config": "/etc/providers", "/credential-plugins": "/opt/providers"}
	if len(pod.Volumes) != len(want) {
		t.Errorf("volumes %v", pod.Volumes)
	}
	for _, mounted := range pod.Containers[0].VolumeMounts {
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mounted.Name })
		if at < 0 || pod.Volumes[at].HostPath.Path != want[mounted.MountPath] || !mounted.ReadOnly {
			t.Errorf("%+v", mounted)
		}
	}
	wantArgs := []string{"--credential-provider-config=/credential-config/config.yaml", "--credential-provider-bin-dir=/credential-plugins"}
	if got := pod.Containers[0].Args; !slices.Equal(got, wantArgs) {
		t.Errorf("arguments %v", got)
	}
}

func TestDaemonImage(t *testing.T) {
	for want, got := range map[string]string{
		"asked:1":                   DaemonImage("asked:1", "rel:1", "own:1", "mirror"),
		"rel@sha256:1":              DaemonImage("", "rel@sha256:1", "own:1", ""),
		"reg.example/own:1":         DaemonImage("", "", "reg.example/own:1", ""),
		"mirror.example/kruise/o:1": DaemonImage("", "", "reg.example/a/o:1", "mirror.example/kruise"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
