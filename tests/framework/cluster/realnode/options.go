// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package realnode

// Certificate is a certificate and its private key in PEM.
type Certificate struct {
	Cert, Key []byte
}

// Issuer makes the certificates of a node.
type Issuer interface {
	// Client issues a certificate that the API server accepts for the user and its groups.
	Client(user string, groups ...string) (Certificate, error)
	// Server issues a certificate for serving at the addresses.
	Server(name string, addresses ...string) (Certificate, error)
}

// Options describe a [Node].
type Options struct {
	// Name is the name of the node in the API.
	Name string
	// Network is what the node connects to.
	Network *Network
	// ServerName is a name or address in the certificate of the API server. Empty: 127.0.0.1.
	ServerName string
	// ServerCA is the authority, in PEM, of the API server's certificate.
	ServerCA []byte
	// ClientCA is the authority, in PEM, of clients of the kubelet. Empty: ServerCA.
	ClientCA []byte
	// Issuer makes the certificates of the kubelet.
	Issuer Issuer
	// KubeletPath is the program to run.
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
