// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight says what a takeover from OpenKruise meets in a cluster, and what to do about each finding. It also goes back.
//
// It reads the cluster (Reading), decides what matters (Findings) and prints that (Command). It changes the cluster only where a flag or
// going-back asks for it (act.go, back.go), and never while another manager acts.
package preflight
