// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagelistpulljob manages ImageListPullJobs: several images for the same nodes. Each image gets an ImagePullJob, which does the work.
//
// Promises:
//
//   - There is one ImagePullJob for each image. It is named after the image and after how it is pulled, so neither a crash nor a lost answer
//     makes a second one.
//   - When an image leaves the list its ImagePullJob goes. When anything else of the spec changes, all of them are replaced.
//   - An ImagePullJob that OpenKruise made is kept when it pulls the image as the list says.
//   - A list that has ended is only ever deleted. Its ImagePullJobs stay for as long as it does.
//
// Triggers of a pass: a changed list; its ImagePullJobs, by the UID of their controller, whatever API version the reference was written with; the
// clock, for the time to live.
//
// Read it in the order of a pass: controller.go; observe.go, the reads; the pure package plan, the decisions.
package imagelistpulljob
