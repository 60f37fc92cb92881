// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks a cluster before a takeover from OpenKruise, and prepares it for going back.
//
// Reading reads the cluster, Findings decides, Command prints. Only a flag or going-back changes the cluster, and never
// while another manager acts.
package preflight
