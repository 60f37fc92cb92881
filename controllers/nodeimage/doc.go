// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage cleans up NodeImages: it removes expired tags and tags of deleted jobs, fails tags
// unreported for ten minutes or beyond their timeouts, copies the node's labels, and deletes NodeImages without
// a node. While hand-written tags have not ended, it has the node daemon deployed.
//
// Promises:
//
//   - All tags removed from a NodeImage at one time go in one write.
//   - It adds no tags: jobs do, and users who write a NodeImage by hand.
//
// Triggers of a pass: a changed NodeImage, its status included; its node; the end of one of its jobs; the clock.
package nodeimage
