// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

// revisionCounts are the pods at one revision, each counted in one of the fields. Terminating and
// finished pods are in none: their replacement does not wait for them.
type revisionCounts struct {
	// preparingDelete are the pods at their preDelete hook.
	preparingDelete int
	// specified are to be deleted because their user asked for it.
	specified int
	// unavailable and available are all others.
	unavailable, available int
}

// staying are all others.
func (g revisionCounts) staying() int { return g.specified + g.unavailable + g.available }

func (g revisionCounts) all() int { return g.preparingDelete + g.staying() }

// podCounts are the pods of a set: those at the update revision, and all others.
type podCounts struct{ old, updated revisionCounts }

func (c podCounts) all() int { return c.old.all() + c.updated.all() }

// unavailable is how many pods are unavailable, without the user's deletions: they go as soon as
// they may.
func (c podCounts) unavailable() int {
	return c.old.preparingDelete + c.old.unavailable + c.updated.preparingDelete + c.updated.unavailable
}

// diff is the difference between the pods there are and those there should be.
type diff struct {
	// create is how many pods may be created now, createOld those of them at the current revision;
	// held is how many more scaleStrategy.maxUnavailable stops.
	create, createOld, held int
	// remove is how many pods are too many, without the leaving ones; removeOld those of them not
	// at the update revision.
	remove, removeOld int
	// move is how many pods have to get to the update revision; below zero, back to the current one.
	move int
	// limit is how many of the existing pods may be unavailable: maxUnavailable, more with pods beyond replicas, less with missing ones.
	limit int
}

// diff is the work left. rollBack: updated pods beyond the partition go back.
//
//  1. The surge: pods beyond replicas make up for pods to delete or move. It is used for one of the
//     two at a time, the larger one.
//  2. Pods are created up to replicas and surge. The partition gets its share first.
//  3. Pods beyond that are too many, after the deletions under way. Pods beyond the partition's
//     need go first.
//  4. Pods move while there are too many at one revision and too few at the other. The user's
//     deletions get to the right revision by a replacement, so they are not counted at the target:
//     a pod in wait for its deletion would wait for ever for a staying pod broken by it.
func (s *Spec) diff(c podCounts, rollBack bool) diff {
	outdated := c.old.staying() - s.Partition
	surplus := c.updated.staying() - (s.Replicas - s.Partition)
	if !rollBack {
		outdated, surplus = max(outdated, 0), min(surplus, 0)
	}
	surge, surgeOld := s.surge(c, outdated, surplus)
	target, targetOld := s.Replicas+surge, s.Partition+surgeOld

	counted, countedOld := c.all(), c.old.all()
	if s.ExcludePreparingDelete {
		counted -= c.old.preparingDelete + c.updated.preparingDelete
		countedOld -= c.old.preparingDelete
	}
	missing := max(target-counted, 0)
	missingOld := min(max(targetOld-countedOld, 0), missing)
	d := diff{
		create: min(missing, max(s.ScaleMaxUnavailable-c.unavailable(), 0)),
		remove: max(c.old.unavailable+c.old.available+c.updated.unavailable+c.updated.available-target, 0),
		limit:  s.MaxUnavailable + c.all() - s.Replicas,
	}
	d.createOld = min(missingOld, d.create)
	d.held = missing - d.create
	d.removeOld = min(max(c.old.unavailable+c.old.available-targetOld, 0), d.remove)
	lackOld, lackUpdated := s.Partition-c.old.staying()+c.old.specified, s.Replicas-s.Partition-c.updated.staying()+c.updated.specified
	switch {
	case outdated > 0 && lackUpdated > 0:
		d.move = min(max(outdated-c.old.specified, 0), lackUpdated)
	case surplus > 0 && lackOld > 0:
		d.move = -min(lackOld, max(surplus-c.updated.specified, 0))
	}
	return d
}

// surge is how many pods beyond replicas there should be now, and how many of them at the current revision. An update uses all of
// maxSurge while pods at the target are missing, so it never slows down.
func (s *Spec) surge(c podCounts, outdated, surplus int) (surge, old int) {
	specified := c.old.specified + c.updated.specified
	deletion := min(max(c.unavailable()+specified-s.MaxUnavailable, 0), specified)
	deletionOld := max(deletion-c.updated.specified, 0)
	update, updateOld := 0, 0
	switch {
	case outdated > 0 && surplus < 0:
		update = outdated
	case outdated < 0 && surplus > 0:
		update, updateOld = surplus, surplus
	}
	if deletion < update {
		deletion, deletionOld = update, updateOld
	}
	surge = min(s.MaxSurge, deletion)
	return surge, min(surge, deletionOld)
}
