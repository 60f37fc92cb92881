// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs real Kubernetes nodes on this machine: containerd, runc, CNI and a
// kubelet, for a local control plane. It needs Linux and root, and neither systemd nor a
// container engine.
//
// # What a node is
//
// A node is a tree of processes with its own process, mount, network, host name and IPC
// namespaces. Its first process is nodeinit; the kubelet and containerd are its children.
// Folders fixed in node programs (/run, /var/lib, /var/log) are the node's own: inside,
// every path is the usual one, for example /run/containerd/containerd.sock, and nodes
// disturb neither each other nor the machine's container engine. The rest of the file
// system is the machine's. Files inside the node replace kernel settings a kubelet would
// change for the whole machine.
//
// A node ends when its owner closes it or dies. The kernel then removes processes, mounts,
// network interfaces and namespaces; nodeinit removes control groups and files. If nodeinit
// is killed as well, the next Start does.
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
// Addresses come from 198.18.0.0/15, the range for benchmarks, a /20 for each network. This
// machine reaches nodes and pods; nodes and pods reach each other and the router. The API
// server listens for them at the router and at the address of the Service kubernetes in the
// namespace default, so clients in pods need no kube-proxy. For other Services use the
// addresses of their endpoints.
//
// # Images
//
// Every image name resolves to the network's registry, whatever its host:
// docker.io/openkruise/guestbook:v1 is the image pushed as openkruise/guestbook:v1. Nothing
// else can be pulled.
package realnode
