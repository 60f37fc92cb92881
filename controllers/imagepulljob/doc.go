// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagepulljob manages ImagePullJobs: it asks nodes to pull an image, a few at a time, through their
// NodeImages. The node daemons pull, and report in the NodeImages' status.
//
// Promises:
//
//   - At most parallelism nodes are asked at a time, except those asked before it was lowered.
//   - A job over N nodes costs at most N writes of NodeImages, one for each of its pull secrets, and one of its own status a second.
//   - A pull secret is copied into the node daemon's namespace and nowhere else. All jobs share the copy, and it goes with the last.
//   - A NodeImage is created at the first request to its node, and deleted with the node.
//   - An ended job is only ever deleted. Images stay on the nodes.
//
// Triggers of a pass: a changed job; answers on its NodeImages; for running jobs, nodes that join, leave or
// change, and pods, if they choose the nodes; the clock, for deadlines.
//
// Read it in the order of a pass: controller.go; observe.go and secrets.go, reading and copying; the pure
// package plan, the decisions; and last watch.go.
package imagepulljob
