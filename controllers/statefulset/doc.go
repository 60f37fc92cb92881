// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefulset manages StatefulSets of the group apps.kruise.io: pods keep their names and
// volumes, may all start at once, and move to a new template in place where the change allows it.
//
// Promises:
//
//   - The pods have the set's ordinals, each at the revision of partition and strategy.
//   - An update takes no more pods out of service than allowed, whoever made the others
//     unavailable.
//   - One pod without a creation, start or update holds back no other in a Parallel set.
//   - A set in deletion gets its status written and nothing else.
//   - An undecodable stored set is left alone: it gets an event and the condition Stalled, and
//     other sets are not affected.
//
// Triggers of a pass: a changed set; its pods and revisions; orphans with a fitting name and
// labels; its claims, from the first set with claim templates on. The UID of their controller makes
// pods and revisions the set's, whatever API version the reference has.
//
// Never touched: pods of other controllers, pods with other names, and the spec of the set. Claims
// are created, given owners and grown, but never deleted. A pod keeps the volumes of its creation,
// because the server lets nobody change them: a new claim template waits for its replacement.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the
// reads, adoptions and releases; the pure package plan, the decisions; and last watch.go, the
// triggers. kind.go takes the options from feature gates.
package statefulset
