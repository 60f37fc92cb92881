// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

// revisionCounts are the pods at one revision, each counted in one of the fields. Pods that are terminating or have finished are in none:
// their replacement does not wait for them.
type revisionCounts struct {
	// preparingDelete are the pods that wait at their preDelete hook.
	preparingDelete int
	// specified are to be deleted because their user asked for it.
	specified int
	// unavailable and available are all others.
	unavailable, available int
}

// staying are all that do not wait at their preDelete hook.
func (g revisionCounts) staying() int { return g.specified + g.unavailable + g.available }

func (g revisionCounts) all() int { return g.preparingDelete + g.staying() }

// podCounts are the pods of a set: those at the update revision, and all others.
type podCounts struct{ old, updated revisionCounts }

func (c podCounts) all() int { return c.old.all() + c.updated.all() }

// unavailable is how many pods are unavailable. Those whose deletion the user asked for are left out: they go as soon as they may.
func (c podCounts) unavailable() int {
	return c.old.preparingDelete + c.old.unavailable + c.updated.preparingDelete + c.updated.unavailable
}

// limits are those of a set, in pods.
type limits struct {
	replicas, partition                           int
	maxUnavailable, maxSurge, scaleMaxUnavailable int
	// excludePreparingDelete says that pods at their preDelete hook do not count as replicas.
	excludePreparingDelete bool
	// rollBack says that updated pods that the partition does not allow go back.
	rollBack bool
}

// diff is what is left to do to get from the pods there are to those there should be, in pods.
type diff struct {
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

// diff says what is left to do.
//
//  1. The surge: pods beyond replicas make up for those that are to be deleted or moved. It is used for one of the two at a time,
//     the larger one.
//  2. Pods are created up to replicas and surge. The partition gets its share first.
//  3. Pods are too many beyond that, when those that are being deleted are gone. What the partition does not need goes first.
//  4. Pods move while there are too many at one revision and too few at the other. Those that their user wants deleted get to the
//     right revision by being replaced. So they are not counted at the revision that pods move to: one that waits to be deleted would wait for ever for
//     a pod that stays broken because of it.
func (l limits) diff(c podCounts) diff {
	outdated := c.old.staying() - l.partition
	surplus := c.updated.staying() - (l.replicas - l.partition)
	if !l.rollBack {
		outdated, surplus = max(outdated, 0), min(surplus, 0)
	}
	surge, surgeOld := l.surge(c, outdated, surplus)
	target, targetOld := l.replicas+surge, l.partition+surgeOld

	counted, countedOld := c.all(), c.old.all()
	if l.excludePreparingDelete {
		counted -= c.old.preparingDelete + c.updated.preparingDelete
		countedOld -= c.old.preparingDelete
	}
	missing := max(target-counted, 0)
	missingOld := min(max(targetOld-countedOld, 0), missing)
	d := diff{
		create: min(missing, max(l.scaleMaxUnavailable-c.unavailable(), 0)),
		remove: max(c.old.unavailable+c.old.available+c.updated.unavailable+c.updated.available-target, 0),
		limit:  l.maxUnavailable + c.all() - l.replicas,
	}
	d.createOld = min(missingOld, d.create)
	d.held = missing - d.create
	d.removeOld = min(max(c.old.unavailable+c.old.available-targetOld, 0), d.remove)
	lackOld, lackUpdated := l.partition-c.old.staying()+c.old.specified, l.replicas-l.partition-c.updated.staying()+c.updated.specified
	switch {
	case outdated > 0 && lackUpdated > 0:
		d.move = min(max(outdated-c.old.specified, 0), lackUpdated)
	case surplus > 0 && lackOld > 0:
		d.move = -min(lackOld, max(surplus-c.updated.specified, 0))
	}
	return d
}

// surge is how many pods beyond replicas there should be now, and how many of them at the current revision.
func (l limits) surge(c podCounts, outdated, surplus int) (surge, old int) {
	specified := c.old.specified + c.updated.specified
	deletion := min(max(c.unavailable()+specified-l.maxUnavailable, 0), specified)
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
	surge = min(l.maxSurge, deletion)
	return surge, min(surge, deletionOld)
}
