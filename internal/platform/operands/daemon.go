// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operands

import (
	"cmp"
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/manifests"
)

const (
	// DaemonNamespace is the node daemon's namespace.
	DaemonNamespace = "kruise-daemon-config"
	// DaemonName is the name of its DaemonSet and of its account.
	DaemonName = "kruise-daemon"
	// mounted is where the daemon finds the folder of the sockets.
	mounted = "/hostrun"
	// mountedConfig and mountedPlugins are where it finds the folders of the configuration of credential providers and of their programs.
	mountedConfig  = "/credential-config"
	mountedPlugins = "/credential-plugins"
)

// Daemon is how the node daemon is deployed.
type Daemon struct {
	// Namespace is the operator's own.
	Namespace string
	// Image is the daemon's image.
	Image string
	// PullSecrets are Secrets in the daemon's namespace to pull its image.
	PullSecrets []string
	// Resources are the container's. Nil: the manifest's.
	Resources *corev1.ResourceRequirements
	// Tolerations are the pods'. Nil: every taint.
	Tolerations []corev1.Toleration
	// PriorityClass is the pods'. Empty: the cluster's default.
	PriorityClass string
	// SELinux is the context of the container. Nil: the runtime chooses it.
	SELinux *corev1.SELinuxOptions
	// Privileged gives the container all rights on the node.
	Privileged bool
	// Socket is where the container runtime listens on the nodes. Empty: the usual places are tried.
	Socket string
	// CredentialConfig is a file on the nodes configuring credential provider plugins, CredentialFolder their
	// folder. Empty: none are used.
	CredentialConfig, CredentialFolder string
	// Port serves its health and metrics on the node's network; 0: nowhere. Nil: the manifest's.
	Port *int32
	// NoProbes keeps it from probing.
	NoProbes bool
	// NoReports stops its reports on containers.
	NoReports bool
}

// DaemonPolicy is the policy keeping each daemon to its own node's objects.
const DaemonPolicy = "kruise-daemon-own-node"

// RenderDaemonPolicy renders DaemonPolicy and its binding.
func RenderDaemonPolicy() ([]*unstructured.Unstructured, error) {
	return manifests.Read("operands/daemonpolicy")
}

// RenderDaemon renders all objects of the node daemon but its policy, its namespace first. They have no owner.
func RenderDaemon(d Daemon) ([]*unstructured.Unstructured, error) {
	objects, err := read("operands/daemon")
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		switch {
		case object.GetKind() == "DaemonSet":
			err = change(object, &appsv1.DaemonSet{}, func(set *appsv1.DaemonSet) { d.change(&set.Spec.Template.Spec) })
		case object.GetName() == "kruise-operator-pull-secrets":
			err = change(object, &rbacv1.RoleBinding{}, func(binding *rbacv1.RoleBinding) { binding.Subjects[0].Namespace = d.Namespace })
		}
		if err != nil {
			return nil, fmt.Errorf("rendering %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return objects, nil
}

func change[T any](object *unstructured.Unstructured, typed *T, how func(*T)) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return err
	}
	how(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	delete(content, "status")
	object.Object = content
	return err
}

// change makes the pods as they are to be deployed.
func (d Daemon) change(pod *corev1.PodSpec) {
	c := &pod.Containers[0]
	c.Image, pod.PriorityClassName, c.SecurityContext.SELinuxOptions = d.Image, d.PriorityClass, d.SELinux
	if d.Resources != nil {
		c.Resources = *d.Resources
	}
	if d.Tolerations != nil {
		pod.Tolerations = d.Tolerations
	}
	if d.Privileged {
		// The API server refuses a privileged container with allowPrivilegeEscalation false.
		c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = ptr.To(true), nil
	}
	if d.Socket != "" {
		pod.Volumes[0].HostPath.Path = path.Dir(d.Socket)
		c.Args = append(c.Args, "--runtime-socket="+path.Join(mounted, path.Base(d.Socket)))
	}
	if d.CredentialConfig != "" {
		mount(pod, "credential-config", path.Dir(d.CredentialConfig), mountedConfig)
		mount(pod, "credential-plugins", d.CredentialFolder, mountedPlugins)
		c.Args = append(c.Args, "--credential-provider-config="+path.Join(mountedConfig, path.Base(d.CredentialConfig)), "--credential-provider-bin-dir="+mountedPlugins)
	}
	if d.Port != nil {
		listen(c, *d.Port)
	}
	if d.NoProbes {
		c.Args = append(c.Args, "--no-probes")
	}
	if d.NoReports {
		c.Args = append(c.Args, "--no-reports")
	}
	for _, name := range d.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
}

// listen changes the port. Without one, the kubelet has nothing to check.
func listen(c *corev1.Container, port int32) {
	if port == 0 {
		c.Ports, c.ReadinessProbe, c.LivenessProbe, c.Args = nil, nil, nil, append(c.Args, "--addr=0")
		return
	}
	c.Ports[0].ContainerPort, c.Ports[0].HostPort = port, port
	c.Args = append(c.Args, fmt.Sprintf("--addr=:%d", port))
}

// DaemonImage is the node daemon's image: the one asked for, else the environment's, else the operator's own,
// moved to repository if set.
func DaemonImage(asked, related, own, repository string) string {
	image := cmp.Or(related, own)
	if repository != "" {
		image = repository + "/" + path.Base(image)
	}
	return cmp.Or(asked, image)
}

// mount adds a folder of the node, read-only: a mounted file would hide its replacement. A missing folder
// becomes an empty one, and the daemon works without.
func mount(pod *corev1.PodSpec, name, from, to string) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: from, Type: ptr.To(corev1.HostPathDirectoryOrCreate)},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: to, ReadOnly: true})
}
