// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package planning defines the answer of planners and the executor's report: a Plan of Actions, and
// its Outcome.
//
// An Action is a verb on one object of any kind, in any namespace: a pod, a volume claim, a Job, a
// child workload, a Secret somewhere else. Planners for pods use the constructors of package
// podset. Nothing here talks to a server or reads a clock, and the objects in a plan are read-only.
package planning
