// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package advancedcronjob manages AdvancedCronJobs: it creates a Job, a BroadcastJob or an ImageListPullJob each time that a
// schedule says.
//
// Promises:
//
//   - A run that is due is started once. It is named after its instant, and lastScheduleTime never goes back, so neither a crash nor a lost
//     answer, neither a deleted run nor a clock that jumps starts one a second time. The one exception is a run that is gone before the status
//     says that it was started, some seconds later at most, if the operator dies just then: nothing is left that tells of it.
//   - Runs that were missed never hold up the schedule: only the newest is started, at a cost that does not grow with their number.
//   - A run that the server refuses is tried again until the next one is due, which then takes its place.
//   - One that is being deleted gets its status written and nothing else.
//
// Triggers of a pass: a changed object, its runs, and the clock. Runs count as its own by the UID of their controller, whatever API version the
// reference was written with. Runs of a kind are watched from the first object on that has such a template.
//
// Never touched: runs of other controllers, pods, and the spec of the object. Pods of a Job are read, from the API server, while the Job holds up
// another run.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the reads; and package plan, which
// decides and is pure.
package advancedcronjob
