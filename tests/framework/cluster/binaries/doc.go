// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the programs of a Kubernetes cluster, and those of the Operator Lifecycle Manager, from Go modules and
// keeps them in a cache.
//
// A program is built once for each version, platform and Go release, into $KRUISE_CACHE or, when that is not set, into
// kruise-operator beneath the user's cache folder. What is cached is complete: a build happens beside the cache and is moved
// in when it is done, and a file lock keeps two processes from building the same thing.
//
// The versions are those that tools/kubernetes, tools/etcd and tools/sdk pin. Another Kubernetes version can be asked for by
// $KUBERNETES_VERSION; its modules then come from a go.mod generated in the cache, pinned by the go.mod and go.sum of that
// Kubernetes release and checked against the checksum database.
//
// Needed are the go command and either a filled module cache or a module proxy; no other download takes place.
package binaries
