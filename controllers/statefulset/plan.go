// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Reasons of actions.
const (
	// reasonScaleOut creates a pod that an ordinal lacks.
	reasonScaleOut = "ScaleOut"
	// reasonScaleIn removes a pod whose ordinal is not wanted.
	reasonScaleIn = "ScaleIn"
	// reasonSpecifiedDelete replaces a pod because its user asked for it.
	reasonSpecifiedDelete = "SpecifiedDelete"
	// reasonOutdated replaces a pod that is at another revision.
	reasonOutdated = "Outdated"
)

// Reasons of notes.
const (
	noteMaxUnavailable      = "MaxUnavailable"
	noteScaleMaxUnavailable = "ScaleMaxUnavailable"
	notePodNotReady         = "PodNotReady"
	noteTerminating         = "PodTerminating"
	noteClaimGoing          = "ClaimBeingDeleted"
)

// creationsAtOnce bounds the memory of one plan: it creates pods for so many of the lowest ordinals that lack one, and the claims
// of no others are read. What is left is planned when the first of these pods show.
const creationsAtOnce = 5000

// namedSlots is how many slots a note about missing pods names at most.
const namedSlots = 100

// Pods derives the facts about the pods of the set, in the order of their ordinals. Objects whose name is not that of a slot are
// left out. Where the spec cannot be read, no pod is doomed.
func Pods(set *appsv1beta1.StatefulSet, objects []*corev1.Pod, now time.Time, o Options) []podset.Pod {
	w, err := read(set, o)
	rules := podset.FactRules{Now: now, MinReady: w.minReady, InPlace: o.InPlace}

	type member struct {
		ordinal int
		object  *corev1.Pod
	}
	members := make([]member, 0, len(objects))
	for _, object := range objects {
		if n, ok := ordinal.OfPod(set.Name, object.Name); ok {
			members = append(members, member{n, object})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })

	pods := make([]podset.Pod, len(members))
	for i, m := range members {
		id := podset.Identity{
			Slot:     podset.Slot(strconv.Itoa(m.ordinal)),
			Revision: m.object.Labels[shared.LabelControllerRevisionHash],
		}
		_, specified := m.object.Labels[shared.LabelSpecifiedDelete]
		switch {
		case err != nil:
		case !w.ordinals.Contains(m.ordinal):
			id.Doom = podset.DoomSurplus
		case podstate.Finished(m.object):
			id.Doom = podset.DoomFinished
		case specified:
			id.Doom = podset.DoomSpecified
		}
		pods[i] = podset.Observe(m.object, id, rules)
	}
	return pods
}

// Plan decides the next step of a StatefulSet.
//
//  1. Replicas: finished pods are removed, missing ones created, claims kept right.
//  2. Scaling in: pods whose ordinal is not wanted are removed.
//  3. Moving: pods that their user wants deleted, then outdated ones, as far as the limit allows.
//  4. Settling: whatever is under way on all other pods goes on, always.
//
// With the policy Parallel all of this happens for every ordinal independently. With OrderedReady each part waits until the one
// before has nothing to do and every pod is available; see replicasInOrder.
//
// A set that is being deleted plans nothing: the garbage collector takes its pods. Nor does one whose spec cannot be read,
// but for settling.
func Plan(set *appsv1beta1.StatefulSet, s podset.Snapshot, o Options) podset.Plan {
	if set.DeletionTimestamp != nil {
		return podset.Plan{}
	}
	w, err := read(set, o)
	p := newPlanner(set, &s, w, o)
	if err != nil {
		return p.pass.Unreadable(err, p.settling())
	}

	p.keepWanted()
	p.keepClaims()
	if w.parallel {
		p.replicasAtOnce()
		p.scaleInAtOnce()
		p.move()
	} else if p.replicasInOrder() && p.scaleInInOrder() {
		p.move()
	}
	p.pass.Settle(p.settling())
	return p.pass.Plan()
}

// planner is what the steps of one Plan share.
type planner struct {
	wanted
	set  *appsv1beta1.StatefulSet
	s    *podset.Snapshot
	o    Options
	pass *podset.Pass

	// pods are those at valid ordinals, by ordinal and in ascending order; surplus are the others, in descending order.
	byOrdinal map[int]*podset.Pod
	pods      []member
	surplus   []*podset.Pod
	// targets are the pods that may leave the current revision, in the order of their update; updatable says whether they may now.
	targets []*podset.Pod
	// unavailable is the limit of step 3, used up by every pod that is missing or not available.
	unavailable podset.Limit
	// old is how many pods that stay are not at the update revision. Only for unordered updates.
	old int
	// touched are the claims that have an action.
	touched map[string]bool
}

type member struct {
	ordinal int
	*podset.Pod
}

func newPlanner(set *appsv1beta1.StatefulSet, s *podset.Snapshot, w wanted, o Options) *planner {
	p := &planner{
		wanted: w, set: set, s: s, o: o,
		pass: &podset.Pass{
			Snapshot: s,
			Workload: podset.Workload{Kind: "StatefulSet", Name: set.Name},
			Hooks:    set.Spec.Lifecycle,
			InPlace:  o.InPlace,
		},
		byOrdinal:   make(map[int]*podset.Pod, len(s.Pods)),
		pods:        make([]member, 0, len(s.Pods)),
		unavailable: podset.Limit{Name: "maxUnavailable", Max: w.maxUnavailable},
		touched:     map[string]bool{},
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		n, err := strconv.Atoi(string(pod.Slot))
		switch {
		case err != nil: // not a slot of ours
		case pod.Doom == podset.DoomSurplus:
			p.surplus = append(p.surplus, pod)
		default:
			p.byOrdinal[n] = pod
			p.pods = append(p.pods, member{n, pod})
			if !pod.Terminating && pod.Revision != s.Update.Name {
				p.old++
			}
		}
	}
	slices.SortFunc(p.pods, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(p.surplus, func(a, b *podset.Pod) int { return cmp.Compare(slotNumber(b), slotNumber(a)) })
	return p
}

func slotNumber(pod *podset.Pod) int {
	n, err := strconv.Atoi(string(pod.Slot))
	if err != nil {
		return -1
	}
	return n
}

// keepWanted says which waits at hooks are still wanted, whether or not this pass gets to them.
func (p *planner) keepWanted() {
	for i := range p.s.Pods {
		// Only for a deletion: a pod that is to go has nothing to wait for at the update hook. In order it has to be available again
		// before it is removed.
		if pod := &p.s.Pods[i]; pod.Doom != "" && pod.State == shared.StatePreparingDelete {
			p.pass.Keep(pod)
		}
	}
	if p.onDelete {
		return
	}
	rollout := p.rollout()
	p.orderTargets()
	if p.s.UpdateFault != "" {
		return
	}
	for _, pod := range p.targets {
		p.pass.KeepMoving(pod, rollout)
	}
}

// replicasAtOnce handles every ordinal independently:
//
//  1. Finished pods are removed, always and before everything else, so that they can be replaced.
//  2. Missing pods are created in ascending order while scaleStrategy.maxUnavailable has room. It is used up by the pods at
//     lower ordinals that are not available.
func (p *planner) replicasAtOnce() {
	for _, pod := range p.pods {
		if pod.Doom == podset.DoomFinished {
			p.pass.Remove(pod.Pod, podset.ReasonFinished)
		}
	}

	missing := p.ordinals.Len() - len(p.pods)
	limit := podset.Limit{Name: "scaleStrategy.maxUnavailable", Max: p.scaleMaxUnavailable}
	created, waiting := 0, []podset.Slot(nil)
	var going []string
	left := missing
	for o := range p.ordinals.Iterate() {
		if left == 0 {
			break
		}
		if pod := p.byOrdinal[o]; pod != nil {
			if !pod.Available {
				limit.Use(pod.Object.Name)
			}
			continue
		}
		left--
		name := ordinal.PodName(p.set.Name, o)
		switch {
		case limit.Room() && created+len(going) < creationsAtOnce:
			if p.claimsGoing(name) {
				going = append(going, name)
				continue
			}
			limit.Use(name)
			p.create(o)
			created++
		case len(waiting) < namedSlots:
			waiting = append(waiting, slotOf(o))
		}
		if len(waiting) == namedSlots {
			break
		}
	}
	if held := missing - created - len(going); held > 0 && created+len(going) < creationsAtOnce {
		p.pass.Hold(limit.Note(noteScaleMaxUnavailable, held, waiting))
	}
	p.holdForClaims(going)
}

// replicasInOrder handles the ordinals one after the other, in ascending order, and stops at the first that is not in order:
// it is missing, finished, terminating or not available. It reports whether all are available.
//
// A pod at which it stops can be the very pod that the next revision repairs. Such pods are therefore moved all the same, one
// at a time; see moveUnavailable.
func (p *planner) replicasInOrder() bool {
	for o := range p.ordinals.Iterate() {
		pod := p.byOrdinal[o]
		switch {
		case pod == nil:
			name := ordinal.PodName(p.set.Name, o)
			if p.claimsGoing(name) {
				p.holdForClaims([]string{name})
			} else {
				p.create(o)
			}
			return false
		case pod.Terminating:
			p.holdFor(pod, noteTerminating, "is terminating")
			return false
		case pod.Doom == podset.DoomFinished:
			p.pass.Remove(pod, podset.ReasonFinished)
			return false
		case !pod.Available:
			p.holdFor(pod, notePodNotReady, "is not available yet")
			p.moveUnavailable()
			return false
		}
	}
	return true
}

// holdFor notes that everything else waits for one pod, if there is anything else.
func (p *planner) holdFor(pod *podset.Pod, reason, what string) {
	specified := func(m member) bool { return m.Doom == podset.DoomSpecified }
	if len(p.pods) < p.ordinals.Len() || len(p.surplus) > 0 || slices.ContainsFunc(p.targets, p.outdated) || slices.ContainsFunc(p.pods, specified) {
		p.pass.Hold(podset.Note{
			Reason:  reason,
			Message: fmt.Sprintf("the next step waits: %s %s", pod.Object.Name, what),
			Slots:   []podset.Slot{pod.Slot},
		})
	}
}

// scaleInAtOnce removes all pods whose ordinal is not wanted.
func (p *planner) scaleInAtOnce() {
	for _, pod := range p.surplus {
		p.removeSurplus(pod)
	}
}

// scaleInInOrder removes the pod with the highest ordinal that is not wanted, and waits until it is gone, also while it is
// parked at its hook. A pod that is not available waits until it is, unless it is the lowest of those, has finished or is on its
// way out already. It reports whether there was nothing to do.
func (p *planner) scaleInInOrder() bool {
	if len(p.surplus) == 0 {
		return true
	}
	pod := p.surplus[0]
	switch {
	case pod.Terminating:
		p.fixOwners(pod, true)
		p.holdFor(pod, noteTerminating, "is terminating")
	case pod.Available, pod.State == shared.StatePreparingDelete, podstate.Finished(pod.Object), pod == p.lowestUnavailable():
		p.removeSurplus(pod)
	default:
		p.holdFor(pod, notePodNotReady, "is not available yet, and neither is a pod below it")
	}
	return false
}

// lowestUnavailable is the surplus pod with the lowest ordinal that is not available.
func (p *planner) lowestUnavailable() *podset.Pod {
	for _, pod := range slices.Backward(p.surplus) {
		if !pod.Available {
			return pod
		}
	}
	return nil
}

// removeSurplus removes a pod once its claims have the owners that say what becomes of them.
func (p *planner) removeSurplus(pod *podset.Pod) {
	if p.fixOwners(pod, true) {
		p.pass.Recheck(afterClaims)
		return
	}
	p.pass.Remove(pod, reasonScaleIn)
}

// move is step 3: pods that are labeled for deletion from the highest ordinal down, then the outdated ones in their order.
// Pods that are unavailable already go first and cost nothing. An outage at any ordinal uses up the limit.
func (p *planner) move() {
	specified := p.specified()
	if p.onDelete || p.paused {
		p.holdAll(specified)
		return
	}
	p.countUnavailable()

	var blocked []*podset.Pod
	for _, pod := range specified {
		if p.unavailable.Admit(pod) {
			p.pass.Remove(pod, reasonSpecifiedDelete)
		} else {
			blocked = append(blocked, pod)
		}
	}
	admitted, waiting := p.unavailable.Select(p.movable())
	rollout := p.rollout()
	for _, pod := range admitted {
		p.moveOne(pod, rollout)
	}
	if waiting = append(blocked, waiting...); len(waiting) > 0 {
		p.pass.Hold(p.unavailable.Note(noteMaxUnavailable, len(waiting), podset.Slots(waiting)))
	}
	p.holdPartition()
}

// moveUnavailable moves, while OrderedReady stops at a pod that is not available, one outdated pod that serves nobody: that pod may
// be the reason, and the next revision the cure. It waits while a pod is terminating or being updated. Pods that are parked at
// their preDelete hook for their user go on being removed.
func (p *planner) moveUnavailable() {
	specified := p.specified()
	if p.onDelete || p.paused {
		p.holdAll(specified)
		return
	}
	for _, pod := range specified {
		if pod.State == shared.StatePreparingDelete {
			p.pass.Remove(pod, reasonSpecifiedDelete)
			return
		}
	}
	for _, pod := range p.pods {
		if pod.Terminating || pod.Revision == p.s.Update.Name && underWay(pod.Pod) {
			return
		}
	}
	for _, pod := range specified {
		if p.outdated(pod) && !pod.InService() {
			p.pass.Remove(pod, reasonSpecifiedDelete)
			return
		}
	}
	rollout := p.rollout()
	for _, pod := range p.movable() {
		if !pod.InService() {
			p.moveOne(pod, rollout)
			return
		}
	}
}

func underWay(pod *podset.Pod) bool {
	return pod.Update.Progress == inplace.Grace || pod.Update.Progress == inplace.Running
}

// specified are the pods that their user wants deleted, from the highest ordinal down.
func (p *planner) specified() []*podset.Pod {
	var specified []*podset.Pod
	for _, pod := range slices.Backward(p.pods) {
		if pod.Doom == podset.DoomSpecified && !pod.Terminating {
			specified = append(specified, pod.Pod)
		}
	}
	return specified
}

// countUnavailable uses up the limit with everything that is not available at a valid ordinal, pods that do not exist included.
func (p *planner) countUnavailable() {
	for _, pod := range p.pods {
		if !pod.Available || p.resize && p.growing(pod.Pod) {
			p.unavailable.Use(pod.Object.Name)
		}
	}
	missing := p.ordinals.Len() - len(p.pods)
	if missing == 0 {
		return
	}
	named := 0
	for o := range p.ordinals.Iterate() {
		if p.byOrdinal[o] == nil {
			p.unavailable.Use(ordinal.PodName(p.set.Name, o))
			if named++; named == min(missing, namedSlots) {
				break
			}
		}
	}
	p.unavailable.UseOthers(missing - named)
}

// orderTargets finds the pods that may leave the current revision.
//
// Ordered: all but the partition's share of the lowest ordinals, from the highest down. Unordered: as many as the partition
// leaves, where pods that are updated, are terminating or will be created at the update revision are the first to count. Next are
// those that an earlier update left behind, then the rest by priority, among equals those that serve nobody first, and from the highest
// ordinal down.
func (p *planner) orderTargets() {
	if !p.unordered {
		for _, pod := range slices.Backward(p.pods) {
			if p.staysOld(pod.ordinal) {
				break
			}
			p.targets = append(p.targets, pod.Pod)
		}
		return
	}
	var waiting, all []*podset.Pod
	for _, pod := range slices.Backward(p.pods) {
		all = append(all, pod.Pod)
		switch {
		case pod.Terminating:
		case p.outdated(pod.Pod):
			waiting = append(waiting, pod.Pod)
		default:
			p.targets = append(p.targets, pod.Pod)
		}
	}
	// Else the partition could keep a broken pod that uses up maxUnavailable, and none would ever move.
	slices.SortStableFunc(waiting, func(a, b *podset.Pod) int { return cmp.Compare(rank(a), rank(b)) })
	ordered, err := podorder.ForUpdate(waiting, all, func(pod *podset.Pod) *corev1.Pod { return pod.Object }, podorder.UpdateOrder{Priority: p.priority})
	if err != nil {
		p.pass.Hold(podset.Note{Reason: podset.ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.rollingUpdate.unorderedUpdate.%v", err)})
		return
	}
	slices.SortStableFunc(ordered, p.s.LeftBehindFirst)
	// The partition keeps its number of pods at the current revision, those that are yet to be created for it included.
	missing := p.ordinals.Len() - len(p.pods)
	keep := max(p.partition-min(missing, max(p.partition-p.old, 0)), 0)
	p.targets = append(p.targets, ordered[:max(len(ordered)-keep, 0)]...)
}

// rank is where a pod stands among those of equal priority: 0 when it waits at its hook to be updated, 1 when it serves nobody, 2 for others.
func rank(pod *podset.Pod) int {
	switch {
	case pod.State == shared.StatePreparingUpdate:
		return 0
	case !pod.InService():
		return 1
	default:
		return 2
	}
}

func (p *planner) outdated(pod *podset.Pod) bool {
	return !pod.Terminating && pod.Revision != p.s.Update.Name
}

// movable are the targets that have something to be done and that may have it done. Of the others it notes why not.
func (p *planner) movable() []*podset.Pod {
	rollout := p.rollout()
	var movable, outdated []*podset.Pod
	for _, pod := range p.targets {
		if pod.Terminating || pod.Doom != "" {
			continue
		}
		if p.s.UpdateFault != "" && p.outdated(pod) {
			outdated = append(outdated, pod)
			continue
		}
		way, why := p.pass.Way(pod, rollout)
		if way == podset.WayRefused {
			p.pass.Refuse(pod, why)
			continue
		}
		grow := p.resize && p.grows(pod)
		if grow && p.cannotGrow(pod) {
			continue
		}
		if grow || way != podset.WayNone {
			movable = append(movable, pod)
		}
	}
	p.pass.HoldForTemplate(outdated)
	return movable
}

// moveOne lets the claims of a pod grow first, and then moves the pod.
func (p *planner) moveOne(pod *podset.Pod, rollout podset.Rollout) {
	if p.resize && p.growClaims(pod) {
		return
	}
	p.pass.Move(pod, rollout)
}

func (p *planner) rollout() podset.Rollout {
	return podset.Rollout{
		Target: p.s.Update, Policy: p.policy, Grace: p.grace,
		MarkUpdating: func(pod *podset.Pod) bool { return pod.State != "" },
		Replace:      func(pod *podset.Pod) { p.pass.Remove(pod, reasonOutdated) },
	}
}

// holdAll notes what waits while the user has stopped updates.
func (p *planner) holdAll(specified []*podset.Pod) {
	candidates := p.targets
	if p.onDelete {
		candidates = make([]*podset.Pod, len(p.pods))
		for i := range p.pods {
			candidates[i] = p.pods[i].Pod
		}
	}
	waiting := slices.Clone(specified)
	for _, pod := range candidates {
		if p.outdated(pod) && pod.Doom == "" {
			waiting = append(waiting, pod)
		}
	}
	if len(waiting) == 0 {
		return
	}
	note := podset.Note{Reason: podset.ReasonPaused, Slots: podset.Slots(waiting)}
	note.Message = fmt.Sprintf("%s: updateStrategy.rollingUpdate.paused is true", podset.Waits(len(waiting)))
	if p.onDelete {
		note.Reason = podset.ReasonOnDelete
		note.Message = fmt.Sprintf("%s: with updateStrategy.type OnDelete a pod moves when its user deletes it", podset.Waits(len(waiting)))
	}
	p.pass.Hold(note)
}

// holdPartition notes which pods the partition keeps.
func (p *planner) holdPartition() {
	if p.partition == 0 || p.old == 0 {
		return
	}
	kept := map[*podset.Pod]bool{}
	for _, pod := range p.pods {
		if p.outdated(pod.Pod) {
			kept[pod.Pod] = true
		}
	}
	for _, pod := range p.targets {
		delete(kept, pod)
	}
	if len(kept) == 0 {
		return
	}
	pods := make([]*podset.Pod, 0, len(kept))
	for pod := range kept {
		pods = append(pods, pod)
	}
	p.pass.Hold(podset.Note{
		Reason:  podset.ReasonPartition,
		Message: fmt.Sprintf("%d of the pods that partition %d keeps are at an earlier revision", len(pods), p.partition),
		Slots:   podset.Slots(pods),
	})
}

// settling is how step 4 settles pods.
func (p *planner) settling() podset.SettleRules {
	return podset.SettleRules{
		Admit: func(pod *podset.Pod) bool { return p.normalAtOnce(pod.Object) },
		Repair: func(pod *podset.Pod) edit.Edit {
			var e edit.Edit
			if pod.Object.Labels[shared.LabelPodName] != pod.Object.Name {
				e.SetLabel(shared.LabelPodName, pod.Object.Name)
				if p.o.PodIndexLabel {
					e.SetLabel(shared.LabelPodIndex, string(pod.Slot))
				}
			}
			return e
		},
	}
}

// normalAtOnce says that nothing of the preNormal hook is missing on the pod.
func (p *planner) normalAtOnce(pod *corev1.Pod) bool {
	hooks := p.set.Spec.Lifecycle
	return hooks == nil || hooks.PreNormal == nil || lifecycle.AllHooked(hooks.PreNormal, pod)
}

func slotOf(o int) podset.Slot { return podset.Slot(strconv.Itoa(o)) }
