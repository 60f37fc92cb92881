// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides an AdvancedCronJob's creations and deletions. It is pure.
//
// Read it in this order: spec.go, the API; adapter.go, the kinds of runs; plan.go, the due run; status.go, the report.
package plan
