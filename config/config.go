// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package config carries the manifests in this folder inside the program, so that the program can install itself.
package config

import "embed"

// Files are the kustomize bases, by their paths below this folder. The package reads nothing else and does nothing with them.
//
//go:embed crd local namespace operands rbac webhook
var Files embed.FS
