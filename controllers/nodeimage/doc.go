// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage cleans up NodeImages: it removes tags whose jobs are deleted and tags that have expired, fails tags for which a node reports
// nothing for ten minutes or that exceed their timeouts, copies the labels of the node, and deletes NodeImages without a node. While tags that were
// written by hand have not ended, it has the node daemon deployed.
//
// Promises:
//
//   - All tags that are removed from a NodeImage at one time are removed with one write.
//   - It adds no tags: jobs do, and users who write a NodeImage by hand.
//
// Triggers of a pass: a changed NodeImage, its status included; its node; the end of a job that it carries; the clock.
package nodeimage
