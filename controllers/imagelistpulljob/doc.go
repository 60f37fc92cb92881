// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagelistpulljob manages ImageListPullJobs: several images for the same nodes. An ImagePullJob for
// each image does the work.
//
// Promises:
//
//   - There is one ImagePullJob for each image. Its name follows from the image and its settings, so neither a crash nor a lost answer
//     makes a second one.
//   - An ImagePullJob goes when its image leaves the list. Any other change of the spec replaces all of them.
//   - An ImagePullJob made by OpenKruise is kept if it pulls the image as the list says.
//   - An ended list is only ever deleted. Its ImagePullJobs stay as long as the list.
//
// Triggers of a pass: a changed list; its ImagePullJobs, by their controller's UID, whatever API version the
// reference has; the clock, for the time to live.
//
// Read it in the order of a pass: controller.go; observe.go, the reads; the pure package plan, the decisions.
package imagelistpulljob
