// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package advancedcronjob manages AdvancedCronJobs: it creates Jobs, BroadcastJobs or ImageListPullJobs by a schedule.
//
// Promises:
//
//   - A due run starts once. Its name is its instant, and lastScheduleTime never goes back: no crash, lost answer, deleted run
//     or jumping clock starts it again. One exception: the run is deleted, and the operator dies, in the few seconds before the
//     status records the start.
//   - Missed runs never hold up the schedule: only the newest starts, at a cost independent of their number.
//   - A refused run is tried again until the next one replaces it.
//   - An object being deleted only gets its status.
//
// Triggers of a pass: a changed object, its runs, and the clock. Ownership goes by the
// controller's UID, in any API version. A kind of runs is watched from its first template on.
//
// Never touched: runs of other controllers, pods, and the spec. Pods of
// a Job are read, from the API server, while it holds up another run.
//
// Read it in the order of a pass: controller.go, the whole pass;
// observe.go, the reads; and package plan, the pure decisions.
package advancedcronjob
