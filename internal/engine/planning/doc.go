// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package planning is what a planner answers with and what the executor reports back: a Plan of Actions, and its Outcome.
//
// An Action is a verb on one object of any kind, in any namespace: a pod, a volume claim, a Job, a child workload, a Secret
// somewhere else. Who plans for pods takes the constructors of package podset. Nothing here talks to a server or reads a clock, and
// the objects in a plan are read-only.
package planning
