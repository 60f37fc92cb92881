// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

// group counts pods of one revision, each in one of the fields. Pods that are terminating or have finished are in none: their
// replacement does not wait for them.
type group struct {
	// parked wait at the preDelete hook.
	parked int
	// specified are to be deleted because their user asked for it.
	specified int
	// unavailable and available are all others.
	unavailable, available int
}

// staying is all that are not parked.
func (g group) staying() int { return g.specified + g.unavailable + g.available }

func (g group) all() int { return g.parked + g.staying() }

// census is the pods of a set: those at the update revision, and those that are not.
type census struct{ old, updated group }

func (c census) all() int { return c.old.all() + c.updated.all() }

// unavailable is how many pods serve nobody. Those that are to be deleted are left out: they go as soon as they may.
func (c census) unavailable() int {
	return c.old.parked + c.old.unavailable + c.updated.parked + c.updated.unavailable
}

// numbers are the limits of a set, in pods.
type numbers struct {
	replicas, partition                           int
	maxUnavailable, maxSurge, scaleMaxUnavailable int
	// excludeParked says that pods at their preDelete hook do not count as replicas.
	excludeParked bool
	// rollBack says that updated pods that the partition does not allow go back.
	rollBack bool
}

// steps is what is left to do, in pods.
type steps struct {
	// create is how many pods may be created now, createOld those of them at the current revision; held is how many more
	// scaleStrategy.maxUnavailable stops.
	create, createOld, held int
	// remove is how many pods are too many, without those that go already; removeOld those of them not at the update revision.
	remove, removeOld int
	// move is how many pods have to get to the update revision; below zero, back to the current one.
	move int
	// limit is how many of the existing pods may be unavailable: maxUnavailable, more with pods beyond replicas, less with missing ones.
	limit int
}

// count says what is left to do.
//
//  1. The surge: pods beyond replicas make up for those that are to be deleted or moved. It is used for one of the two at a time,
//     the larger one.
//  2. Pods are created up to replicas and surge. The partition gets its share first.
//  3. Pods are too many beyond that, when those on their way out are gone. What the partition does not need goes first.
//  4. Pods move while there are too many at one revision and too few at the other. Those that their user wants deleted get to the
//     right revision by being replaced.
func (n numbers) count(c census) steps {
	outdated := c.old.staying() - n.partition
	surplus := c.updated.staying() - (n.replicas - n.partition)
	if !n.rollBack {
		outdated, surplus = max(outdated, 0), min(surplus, 0)
	}
	surge, surgeOld := n.surge(c, outdated, surplus)
	target, targetOld := n.replicas+surge, n.partition+surgeOld

	counted, countedOld := c.all(), c.old.all()
	if n.excludeParked {
		counted -= c.old.parked + c.updated.parked
		countedOld -= c.old.parked
	}
	missing := max(target-counted, 0)
	missingOld := min(max(targetOld-countedOld, 0), missing)
	s := steps{
		create: min(missing, max(n.scaleMaxUnavailable-c.unavailable(), 0)),
		remove: max(c.old.unavailable+c.old.available+c.updated.unavailable+c.updated.available-target, 0),
		limit:  n.maxUnavailable + c.all() - n.replicas,
	}
	s.createOld = min(missingOld, s.create)
	s.held = missing - s.create
	s.removeOld = min(max(c.old.unavailable+c.old.available-targetOld, 0), s.remove)
	switch {
	case outdated > 0 && surplus < 0:
		s.move = min(max(outdated-c.old.specified, 0), -surplus)
	case outdated < 0 && surplus > 0:
		s.move = -min(-outdated, max(surplus-c.updated.specified, 0))
	}
	return s
}

// surge is how many pods beyond replicas there should be now, and how many of them at the current revision.
func (n numbers) surge(c census, outdated, surplus int) (surge, old int) {
	specified := c.old.specified + c.updated.specified
	deletion := min(max(c.unavailable()+specified-n.maxUnavailable, 0), specified)
	deletionOld := max(deletion-c.updated.specified, 0)
	update, updateOld := 0, 0
	switch {
	case outdated > 0 && surplus < 0:
		update = min(outdated, -surplus)
	case outdated < 0 && surplus > 0:
		update = min(-outdated, surplus)
		updateOld = update
	}
	if deletion < update {
		deletion, deletionOld = update, updateOld
	}
	surge = min(n.maxSurge, deletion)
	return surge, min(surge, deletionOld)
}
