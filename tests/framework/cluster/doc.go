// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, built from Go modules by package binaries. It is test infrastructure; the product never imports it.
//
// It holds:
//
//   - Several clusters run side by side. Each has a folder, ports and certificates of its own, and listens on loopback only.
//   - Start returns when the cluster is usable: the API is ready, RBAC has its default roles and, with the full control
//     plane, pods can be created in the default namespace.
//   - Stop leaves no process, folder, mount or port behind. On Linux neither does a test
//     that panics, is interrupted or gets a SIGKILL: the kernel ends the programs, and the
//     user's next Start removes the folder. On other systems programs of a test ended
//     without Stop keep running.
//   - Authorization is on. Config is an administrator bypassing it; ConfigFor gives any
//     other user the rights of RBAC or the node authorizer.
//
// There are no nodes, unless real ones are asked for (package realnode), and no kube-proxy. The API server dials a Service-backed webhook at its endpoint's address, and a
// webhook given by URL on 127.0.0.1 works as well.
package cluster
