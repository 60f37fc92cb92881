// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides when and how to stop sidecars of pods running to completion. It is pure.
package plan
