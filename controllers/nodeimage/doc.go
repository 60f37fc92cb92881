// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage keeps NodeImages in order: it takes out tags whose jobs are gone and those that have expired, fails tags about which a node
// says nothing for ten minutes or that take longer than they may, gives them the labels of their nodes, and deletes those without a node.
//
// What it promises:
//
//   - All that is to be taken out of a NodeImage at a time goes with one write.
//   - It pulls nothing and asks for nothing: jobs do, and users who write a NodeImage by hand.
//
// What wakes it: a changed NodeImage, its status included; its node; the end of a job that it carries; the clock.
package nodeimage
