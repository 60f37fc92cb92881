// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package routes reads the objects that lead requests to a workload, and makes the writes to them. Who routes decides; this only does.
package routes
