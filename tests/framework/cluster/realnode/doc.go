// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs real Kubernetes nodes on this machine: containerd, runc, CNI and a kubelet, for a control
// plane that runs here too. It needs Linux and root, and neither systemd nor a container engine.
//
// # What a node is
//
// A node is a tree of processes with process, mount, network, host name and IPC namespaces of its own. Its first process is
// nodeinit; the kubelet and containerd are its children. Folders that node programs insist on (/run, /var/lib,
// /var/log) are the node's own, so every path is the usual one inside, for example
// /run/containerd/containerd.sock, and several nodes do not disturb each other or a container engine of the machine. The
// rest of the file system is the machine's. Kernel settings that a kubelet changes for the whole machine are
// replaced by files inside the node.
//
// A node ends when its owner closes it and also when its owner dies. The kernel then removes processes, mounts,
// network interfaces and namespaces; nodeinit removes control groups and files. If nodeinit is killed as
// well, the next Start does that.
//
// # Network
//
// All nodes of a [Network] hang on one router, a network namespace without a way out of the machine:
//
//	this machine  .0.1 --+
//	                     +-- router .0.2      registry, API server
//	node i    .0.(10+i) --+
//	pods of node i  .i.0/24
//
// Addresses come from 198.18.0.0/15, the range for benchmarks, a /20 for each network. This machine reaches nodes and pods, nodes
// and pods reach each other and the router. The API server listens for them at the router and at the address of
// the Service kubernetes in the namespace default, so clients in pods need no kube-proxy. No other Service address works; use the
// addresses of its endpoints.
//
// # Images
//
// Every image name resolves to the registry of the network, whatever host it names: docker.io/openkruise/guestbook:v1 is what
// was pushed as openkruise/guestbook:v1. Nothing else can be pulled.
package realnode
