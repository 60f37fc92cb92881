// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import "github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"

// Options describe a [Node].
type Options struct {
	// Name is the name of the node in the API.
	Name string
	// Network is the node network.
	Network *Network
	// Authority issues the certificates of the kubelet. The certificate of the API server, and of its client for
	// kubelets, are signed by it, too.
	Authority *pki.Authority
	// ServerName is a name or address in the certificate of the API server. Empty: 127.0.0.1.
	ServerName string
	// KubeletPath is the program to run. It must not lie below /run, /var/lib or /var/log.
	KubeletPath string
	// LogDir is where the logs of the kubelet and of containerd go, as <name>-kubelet.log and <name>-containerd.log. Empty:
	// they are deleted with the node; an error of Start still quotes their end.
	LogDir string
	// Labels are given to the node when it registers. The API server accepts only some with the prefix
	// kubernetes.io from a node.
	Labels map[string]string
	// Taints are given to the node when it registers, each as key=value:effect.
	Taints []string
	// KubeletConfig overrides fields of the KubeletConfiguration, by their JSON names.
	KubeletConfig map[string]any
	// KubeletArgs are further flags of the kubelet.
	KubeletArgs []string
}
