// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides when the sidecars of a pod that runs to completion are stopped, and how. It is pure.
package plan
