// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefulset manages StatefulSets of the group apps.kruise.io: pods that keep their names and volumes, that may all
// start at once, and that move to a new template in place where the change allows it.
//
// What it promises:
//
//   - The pods are those whose ordinals the set asks for, each at the revision that partition and strategy say.
//   - No more pods than allowed are taken out of service for an update, whoever made the others unavailable.
//   - One pod that cannot be created, started or updated holds back no other in a Parallel set.
//   - A set that is being deleted gets its status written and nothing else.
//   - A stored set that cannot be decoded is left alone: it gets an event and the condition Stalled, and other sets are not affected.
//
// What triggers a pass: a changed set; its pods and revisions; orphans whose name and labels fit; its claims, from the moment the first
// set with claim templates is seen. Pods and revisions count as the set's by the UID of their controller, whatever API version the
// reference was written with.
//
// What it never touches: pods of other controllers, pods whose names are not those of a slot, and the spec of the set. Claims are
// created, given owners and grown, but never deleted. A pod keeps the volumes it was created with, because the server lets nobody
// change them: a claim template that is added later concerns a pod from its next replacement on.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads the cache, adopts and releases;
// package plan, which decides and is pure; and last watch.go, which says what triggers a pass. setup.go takes the options from feature gates.
package statefulset
