// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operands

import (
	"cmp"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

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
	// PullSecrets are Secrets in the daemon's namespace with which its image is pulled.
	PullSecrets []string
	// Resources are those of the container. Nil: those of the manifest.
	Resources *corev1.ResourceRequirements
	// Tolerations are those of the pods. Nil: every taint.
	Tolerations []corev1.Toleration
	// PriorityClass is that of the pods. Empty: the cluster's default.
	PriorityClass string
	// SELinux is the context of the container. Nil: the runtime chooses it.
	SELinux *corev1.SELinuxOptions
	// Privileged gives the container all rights on the node.
	Privileged bool
	// Socket is where the container runtime listens on the nodes. Empty: the usual places are tried.
	Socket string
	// CredentialConfig is a file on the nodes that configures credential provider plugins, CredentialFolder where these are. Empty: none are used.
	CredentialConfig, CredentialFolder string
	// Port is where it serves its health and metrics, on the network of the node; 0: nowhere. Nil: that of the manifest.
	Port *int32
	// NoProbes keeps it from probing.
	NoProbes bool
	// NoReports keeps it from reporting what containers run.
	NoReports bool
}

// DaemonPolicy is the name of the policy that keeps each daemon to the objects of its node.
const DaemonPolicy = "kruise-daemon-own-node"

// RenderDaemonPolicy renders that policy and its binding.
func RenderDaemonPolicy() ([]*unstructured.Unstructured, error) {
	return manifests.Render("operands/daemonpolicy")
}

// RenderDaemon renders all objects of the node daemon but its policy, its namespace first. They have no owner.
func RenderDaemon(d Daemon) ([]*unstructured.Unstructured, error) {
	set := []map[string]any{replace("/spec/template/spec/containers/0/image", d.Image)}
	if d.Resources != nil {
		set = append(set, replace("/spec/template/spec/containers/0/resources", d.Resources))
	}
	if d.Tolerations != nil {
		set = append(set, replace("/spec/template/spec/tolerations", d.Tolerations))
	}
	if d.PriorityClass != "" {
		set = append(set, map[string]any{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": d.PriorityClass})
	}
	const security = "/spec/template/spec/containers/0/securityContext"
	if d.SELinux != nil {
		set = append(set, map[string]any{"op": "add", "path": security + "/seLinuxOptions", "value": d.SELinux})
	}
	if d.Privileged {
		// The API server refuses a privileged container that says that it must not get further rights.
		set = append(set, replace(security+"/privileged", true), map[string]any{"op": "remove", "path": security + "/allowPrivilegeEscalation"})
	}
	var args []string
	if d.Socket != "" {
		set = append(set, replace("/spec/template/spec/volumes/0/hostPath/path", path.Dir(d.Socket)))
		args = append(args, "--runtime-socket="+path.Join(mounted, path.Base(d.Socket)))
	}
	if d.CredentialConfig != "" {
		set = append(set, mount("credential-config", path.Dir(d.CredentialConfig), mountedConfig)...)
		set = append(set, mount("credential-plugins", d.CredentialFolder, mountedPlugins)...)
		args = append(args, "--credential-provider-config="+path.Join(mountedConfig, path.Base(d.CredentialConfig)), "--credential-provider-bin-dir="+mountedPlugins)
	}
	set = append(set, portOf(d.Port)...)
	if d.Port != nil {
		args = append(args, addressOf(*d.Port))
	}
	if d.NoProbes {
		args = append(args, "--no-probes")
	}
	if d.NoReports {
		args = append(args, "--no-reports")
	}
	if len(args) > 0 {
		set = append(set, map[string]any{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": args})
	}
	if len(d.PullSecrets) > 0 {
		var secrets []corev1.LocalObjectReference
		for _, name := range d.PullSecrets {
			secrets = append(secrets, corev1.LocalObjectReference{Name: name})
		}
		set = append(set, map[string]any{"op": "add", "path": "/spec/template/spec/imagePullSecrets", "value": secrets})
	}
	overlay := types.Kustomization{Labels: labels(), Patches: []types.Patch{
		patchOf("DaemonSet", DaemonName, set),
		patchOf("RoleBinding", "kruise-operator-pull-secrets", []map[string]any{replace("/subjects/0/namespace", d.Namespace)}),
	}}
	return manifests.RenderOver("operands/daemon", overlay)
}

// portOf changes the port in the manifest. Without one, the kubelet has nothing to check.
func portOf(port *int32) []map[string]any {
	const container = "/spec/template/spec/containers/0/"
	switch {
	case port == nil:
		return nil
	case *port == 0:
		var gone []map[string]any
		for _, field := range []string{"ports", "readinessProbe", "livenessProbe"} {
			gone = append(gone, map[string]any{"op": "remove", "path": container + field})
		}
		return gone
	}
	return []map[string]any{replace(container+"ports/0/containerPort", *port), replace(container+"ports/0/hostPort", *port)}
}

// addressOf is the flag for a port.
func addressOf(port int32) string {
	if port == 0 {
		return "--addr=0"
	}
	return fmt.Sprintf("--addr=:%d", port)
}

// DaemonImage is the image of the node daemon: the one that is asked for, else the one that the environment names, else the operator's own,
// from another repository if there is one to take images from.
func DaemonImage(asked, related, own, repository string) string {
	image := cmp.Or(related, own)
	if repository != "" {
		image = repository + "/" + path.Base(image)
	}
	return cmp.Or(asked, image)
}

// mount adds a folder of the node, read-only. It is the folder of a file and not the file, so that a file that is replaced is seen. A node that does not have
// it gets an empty one: its daemon works without.
func mount(name, from, to string) []map[string]any {
	return []map[string]any{
		{"op": "add", "path": "/spec/template/spec/volumes/-", "value": map[string]any{
			"name": name, "hostPath": map[string]any{"path": from, "type": "DirectoryOrCreate"},
		}},
		{"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": map[string]any{"name": name, "mountPath": to, "readOnly": true}},
	}
}

func replace(at string, value any) map[string]any {
	return map[string]any{"op": "replace", "path": at, "value": value}
}

func patchOf(kind, name string, operations []map[string]any) types.Patch {
	text, _ := yaml.Marshal(operations) // strings, numbers and API types
	return types.Patch{Patch: string(text), Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: kind}, Name: name}}}
}
