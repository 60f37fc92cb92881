// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagepulljob manages ImagePullJobs: it asks nodes to pull an image, a few at a time, by writing to their NodeImages. The node daemons
// pull, and report in the status of the NodeImages.
//
// Promises:
//
//   - No more nodes are asked at a time than parallelism allows, except those that were asked before it was lowered.
//   - A job over N nodes costs at most N writes of NodeImages, one for each of its pull secrets, and one of its own status a second at most.
//   - A pull secret is copied into the node daemon's namespace and nowhere else. All jobs share the copy, and it goes with the last of them.
//   - A NodeImage is created when its node is asked for the first time, and deleted with its node.
//   - A job that has ended is only ever deleted. Images stay on the nodes.
//
// Triggers of a pass: a changed job; answers on the NodeImages that carry it; nodes that join, leave or change, for jobs that have not ended; pods,
// for those that choose nodes by them; the clock, for deadlines.
//
// Read it in the order of a pass: controller.go; observe.go and secrets.go, which read and copy; the pure package plan, the decisions; and last
// watch.go.
package imagepulljob
