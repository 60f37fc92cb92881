// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the programs of a Kubernetes cluster and of the Operator
// Lifecycle Manager from Go modules, and caches them.
//
// A program is built once for each version, platform and Go release, into $KRUISE_CACHE or,
// by default, kruise-operator beneath the user's cache folder. Cached programs are
// complete: a build happens beside the cache and is moved in, and a file lock keeps two
// processes from the same build.
//
// The versions are pinned in tools/kubernetes, tools/etcd and tools/sdk.
// $KUBERNETES_VERSION asks for another Kubernetes; its modules then come from a go.mod
// generated in the cache, pinned by the release's go.mod and go.sum and checked against the
// checksum database.
//
// Needed are the go command and either a filled module cache or a module proxy; no other download takes place.
package binaries
