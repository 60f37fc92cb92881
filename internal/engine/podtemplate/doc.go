// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate compares pod templates that differ only in defaults, and turns a template into a pod.
package podtemplate
