// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Reasons of actions.
const (
	// reasonScaleOut creates a pod.
	reasonScaleOut = "ScaleOut"
	// reasonScaleIn removes a pod that is too many.
	reasonScaleIn = "ScaleIn"
	// reasonSpecifiedDelete replaces a pod because its user asked for it.
	reasonSpecifiedDelete = "SpecifiedDelete"
	// reasonOutdated replaces a pod that is at another revision.
	reasonOutdated = "Outdated"
)

// Reasons of notes.
const (
	noteMaxUnavailable = "MaxUnavailable"
	noteScaleUpLimited = "ScaleUpLimited"
	noteNoFreshSlot    = "NoFreshSlot"
	noteClaimsUnused   = "ClaimsUnused"
	// noteClaimsReturning: new pods wait for claims whose pods are terminating.
	noteClaimsReturning = "ClaimsReturning"
)

// creationsAtOnce bounds the memory of one plan. What is left is planned when the first of these pods show.
const creationsAtOnce = 5000

// Pods derives the facts about the pods of the set, in the order of their names. Finished pods are doomed, although nobody but their
// garbage collector deletes them, unless their user asks for it: they count for nothing. Where the spec cannot be read, no other pod is.
func Pods(set *appsv1beta1.CloneSet, objects []*corev1.Pod, now time.Time, o Options) []podset.Pod {
	w, err := read(set, o)
	rules := podset.FactRules{Now: now, MinReady: w.minReady, InPlace: o.InPlace}
	pods := make([]podset.Pod, len(objects))
	for i, object := range slices.SortedFunc(slices.Values(objects), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) {
		id := podset.Identity{Slot: slotOf(set, object), Revision: revisionOf(set, object)}
		switch {
		case podstate.Finished(object):
			id.Doom = podset.DoomFinished
		case err == nil && w.asked(object):
			id.Doom = podset.DoomSpecified
		}
		pods[i] = podset.Observe(object, id, rules)
		// An update in place under way takes a pod out of service before the kubelet says so.
		condition := podstate.Condition(object, shared.GateInPlaceUpdateReady)
		pods[i].Ready = pods[i].Ready && (condition == nil || condition.Status == corev1.ConditionTrue)
	}
	return pods
}

// slotOf is the instance ID of a pod; the end of its name where the label was lost.
func slotOf(set *appsv1beta1.CloneSet, pod *corev1.Pod) podset.Slot {
	if id := pod.Labels[shared.LabelInstanceID]; id != "" {
		return podset.Slot(id)
	}
	return podset.Slot(strings.TrimPrefix(pod.Name, set.Name+"-"))
}

// revisionOf is the full name of a pod's revision. Its label holds that or the hash alone.
func revisionOf(set *appsv1beta1.CloneSet, pod *corev1.Pod) string {
	label := pod.Labels[shared.LabelControllerRevisionHash]
	if label == "" {
		return ""
	}
	return revision.Name(set.Name, hashOf(label))
}

// hashOf is the hash in a revision's name.
func hashOf(name string) string { return name[strings.LastIndex(name, "-")+1:] }

// counts says that the pod is one of the set's replicas: it is neither terminating nor finished.
func counts(pod *podset.Pod) bool { return !pod.Terminating && pod.Doom != podset.DoomFinished }

// Plan decides the next step of a CloneSet.
//
//  1. Leaving: pods at their preDelete hook are deleted when it is released, or brought back when they are needed after all.
//  2. Creating: missing pods, as far as scaleStrategy.maxUnavailable allows.
//  3. Deleting: pods that their user wants deleted, finished ones too, then pods that are too many.
//  4. Moving: pods at the wrong revision, in place or by deleting them.
//  5. Settling: whatever is under way on all other pods goes on, always. So do their claims.
//
// No part waits for another one. All that take a serving pod away draw on the same limit: as many pods may be unavailable as
// maxUnavailable says, more by every pod beyond replicas, less by every missing one. So a request that the server keeps refusing
// stops nothing else.
//
// A set that is being deleted plans nothing: the garbage collector takes its pods. Nor does one whose spec cannot be read,
// but for settling.
func Plan(set *appsv1beta1.CloneSet, s podset.Snapshot, o Options) podset.Plan {
	if set.DeletionTimestamp != nil {
		return podset.Plan{}
	}
	w, err := read(set, o)
	p := newPlanner(set, &s, w, o)
	if err != nil {
		return p.pass.Unreadable(err, p.settling())
	}

	scale := p.count(p.census(o.PreparingUpdateAsUpdate))
	p.leave()
	p.create(p.withReturned(scale))
	p.removeSpecified()
	p.scaleIn(scale)
	p.move(p.count(p.census(false)))
	p.holdBack()
	p.pass.Settle(p.settling())
	p.keepClaims()
	return p.pass.Plan()
}

// planner is what the steps of one Plan share.
type planner struct {
	wanted
	set  *appsv1beta1.CloneSet
	s    *podset.Snapshot
	o    Options
	pass *podset.Pass

	// pods are those that count.
	pods []*podset.Pod
	// unavailable is the limit that everything draws on, blocked are the pods that wait for room in it.
	unavailable podset.Limit
	blocked     []*podset.Pod
	// claimsOf are the claims of each slot, by name.
	claimsOf map[podset.Slot][]*corev1.PersistentVolumeClaim
	// existing are the slots that have a pod object, whatever its state; leaving are the pods whose deletion this pass works at.
	existing map[podset.Slot]bool
	leaving  map[string]bool
	// back is how many pods at their preDelete hook are brought back by this pass.
	back int
}

func newPlanner(set *appsv1beta1.CloneSet, s *podset.Snapshot, w wanted, o Options) *planner {
	w.rollBack = w.rollBack && s.Current.Name != s.Update.Name
	p := &planner{
		wanted: w, set: set, s: s, o: o,
		pass: &podset.Pass{
			Snapshot: s,
			Workload: podset.Workload{Kind: "CloneSet", Name: set.Name},
			Hooks:    set.Spec.Lifecycle,
			InPlace:  o.InPlace,
		},
		claimsOf: bySlot(set, s.Claims),
		existing: make(map[podset.Slot]bool, len(s.Pods)),
		leaving:  map[string]bool{},
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		p.existing[pod.Slot] = true
		if counts(pod) {
			p.pods = append(p.pods, pod)
		}
	}
	surplus := max(len(p.pods)-p.replicas, 0)
	p.unavailable = podset.Limit{Name: "maxUnavailable", Max: p.maxUnavailable + surplus, Extra: surplus}
	p.unavailable.UseOthers(max(p.replicas-len(p.pods), 0))
	for _, pod := range p.pods {
		if !pod.Available {
			p.unavailable.Use(pod.Object.Name)
		}
	}
	return p
}

// updated says that the pod is at the update revision.
func (p *planner) updated(pod *podset.Pod) bool { return pod.Revision == p.s.Update.Name }

func parked(pod *podset.Pod) bool { return pod.State == shared.StatePreparingDelete }

func specified(pod *podset.Pod) bool { return pod.Doom == podset.DoomSpecified }

// census counts the pods. With preparing, a pod that waits for its inPlaceUpdate hook counts as updated already.
func (p *planner) census(preparing bool) census {
	var c census
	for _, pod := range p.pods {
		g := &c.old
		if p.updated(pod) || preparing && pod.State == shared.StatePreparingUpdate {
			g = &c.updated
		}
		switch {
		case parked(pod):
			g.parked++
		case specified(pod):
			g.specified++
		case !pod.Available:
			g.unavailable++
		default:
			g.available++
		}
	}
	return c
}

// leave is step 1. A pod at its preDelete hook goes on leaving
//
//   - if its user asked for its deletion;
//   - if another one at the other revision is to take its place;
//   - if there are enough pods without it;
//   - if a hook takes pods out of service: what the user has done at the hook cannot be undone by staying.
//
// Otherwise settling brings it back.
func (p *planner) leave() {
	c := p.census(false)
	need := p.replicas
	for _, g := range []group{c.old, c.updated} {
		need -= g.unavailable + g.available
	}
	lackOld := p.partition - (c.old.unavailable + c.old.available)
	lackUpdated := p.replicas - p.partition - (c.updated.unavailable + c.updated.available)

	var doubtful []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case !parked(pod):
		case specified(pod):
			p.remove(pod, reasonSpecifiedDelete)
		case p.marksNotReady():
			p.remove(pod, reasonScaleIn)
		default:
			doubtful = append(doubtful, pod)
		}
	}
	for _, pod := range doubtful {
		lack := &lackOld
		if p.updated(pod) {
			lack = &lackUpdated
		}
		switch {
		case *lack <= 0 && p.replaced(pod):
			p.remove(pod, reasonOutdated)
		case need <= 0:
			p.remove(pod, reasonScaleIn)
		default:
			need--
			*lack--
			p.back++
		}
	}
}

// withReturned is what is left to create: parked pods that are brought back take the places of new ones, even where parked pods do not count.
func (p *planner) withReturned(s steps) steps {
	if p.excludeParked {
		s.create = max(s.create-p.back, 0)
		s.createOld = min(s.createOld, s.create)
	}
	return s
}

func (p *planner) marksNotReady() bool {
	hooks := p.set.Spec.Lifecycle
	marks := func(h *shared.LifecycleHook) bool { return h != nil && h.MarkPodNotReady }
	return hooks != nil && (marks(hooks.PreDelete) || marks(hooks.InPlaceUpdate))
}

// replaced says that a parked pod can get to the other revision only by being replaced, and that pods move there.
func (p *planner) replaced(pod *podset.Pod) bool {
	var way podset.Way
	switch {
	case p.onDelete:
		return false
	case !p.updated(pod):
		if p.s.UpdateFault == "" {
			way, _ = p.pass.Way(pod, p.rollout(p.s.Update))
		}
	case p.rollBack:
		way, _ = p.pass.Way(pod, p.rollout(p.s.Current))
	}
	return way == podset.WayReplace
}

// create is step 2: first the partition's share at the current revision, then the rest at the update revision.
func (p *planner) create(s steps) {
	n := min(s.create, creationsAtOnce)
	// A claim that is to be deleted takes the place of the next creation: a server that refuses pods cannot make claims pile up.
	if unused := min(len(p.unusedClaims()), n); unused > 0 {
		n -= unused
		p.pass.Hold(podset.Note{
			Reason:  noteClaimsUnused,
			Message: fmt.Sprintf("%s to be created: as many volume claims without a pod are deleted first", podset.Waits(unused)),
		})
	}
	if returning, after := p.returning(); returning > 0 {
		if waiting := min(returning, n-min(n, len(p.reusable()))); waiting > 0 {
			n -= waiting
			p.pass.Recheck(after)
			p.pass.Hold(podset.Note{
				Reason:  noteClaimsReturning,
				Message: fmt.Sprintf("%s to be created: volume claims are reused, and the pods that have them are terminating", podset.Waits(waiting)),
			})
		}
	}
	slots := p.freshSlots(n)
	for i, slot := range slots {
		rev := p.s.Update
		if i < s.createOld {
			rev = p.s.Current
		}
		pod := p.newPod(slot, rev)
		p.pass.Create(slot, pod, p.missingClaims(slot, pod.Name), reasonScaleOut)
	}
	if len(slots) < n {
		p.pass.Hold(podset.Note{
			Reason:  noteNoFreshSlot,
			Message: fmt.Sprintf("%s to be created: no free instance ID was found for it", podset.Waits(n-len(slots))),
		})
		p.pass.Recheck(time.Second)
	}
	if s.held > 0 {
		limit := podset.Limit{Name: "scaleStrategy.maxUnavailable", Max: p.scaleMaxUnavailable}
		for _, pod := range p.pods {
			if !pod.Available && (parked(pod) || !specified(pod)) {
				limit.Use(pod.Object.Name)
			}
		}
		for _, slot := range slots {
			limit.Use(p.podName(slot))
		}
		p.pass.Hold(limit.Note(noteScaleUpLimited, s.held, nil))
	}
}

// removeSpecified is the first half of step 3. Pods that serve nobody go at once, the others while there is room. A finished pod is no
// replica any more, so its deletion costs nothing; without it its name would stay in podsToDelete until the garbage collector takes the
// pod, which may be never.
func (p *planner) removeSpecified() {
	for i := range p.s.Pods {
		if pod := &p.s.Pods[i]; pod.Doom == podset.DoomFinished && !pod.Terminating && p.asked(pod.Object) {
			p.remove(pod, reasonSpecifiedDelete)
		}
	}
	var waiting []*podset.Pod
	for _, pod := range p.pods {
		if specified(pod) && !parked(pod) {
			waiting = append(waiting, pod)
		}
	}
	admitted, blocked := p.unavailable.Select(waiting)
	for _, pod := range admitted {
		p.remove(pod, reasonSpecifiedDelete)
	}
	p.blocked = append(p.blocked, blocked...)
}

// scaleIn is the second half of step 3: first pods that the partition does not need, then updated ones, each in the order of
// deletion. A pod that is not available goes at once, as there are enough others, ready or soon ready like itself; an available one while
// there is room.
func (p *planner) scaleIn(s steps) {
	if s.remove == 0 {
		return
	}
	var old, updated []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case parked(pod), specified(pod):
		case p.updated(pod), p.o.PreparingUpdateAsUpdate && pod.State == shared.StatePreparingUpdate:
			updated = append(updated, pod)
		default:
			old = append(old, pod)
		}
	}
	spread := podorder.Spread{Constraints: p.set.Spec.Template.Spec.TopologySpreadConstraints, Domain: p.o.NodeLabel}
	if spread.Domain == nil {
		spread.Domain = func(string, string) string { return "" }
	}
	ordered := func(pods []*podset.Pod) []*podset.Pod { return podorder.ForDeletion(pods, p.pods, victim, spread) }
	old, updated = ordered(old), ordered(updated)
	// What one revision cannot give, the other one has to.
	fromOld := min(max(s.removeOld, s.remove-len(updated)), len(old))
	victims := append(old[:fromOld:fromOld], updated[:min(s.remove-fromOld, len(updated))]...)
	for _, pod := range victims {
		if !pod.Available {
			p.remove(pod, reasonScaleIn)
		}
	}
	for _, pod := range victims {
		switch {
		case !pod.Available:
		case p.unavailable.Admit(pod):
			p.remove(pod, reasonScaleIn)
		default:
			p.blocked = append(p.blocked, pod)
		}
	}
}

func victim(pod *podset.Pod) podorder.Victim {
	return podorder.Victim{Object: pod.Object, Ready: pod.Ready, Available: pod.Available}
}

// move is step 4.
//
// Candidates are the pods at the wrong revision that stay and can get to the right one. They go in the user's order, pods that wait at
// their inPlaceUpdate hook before all others, then those that an earlier update left behind, and no more of them than the partition
// leaves. Of these, pods that serve nobody are taken first, so that none of them waits behind a pod that has to wait for it. It ends when
//
//   - as many pods at the target are unavailable, or just being moved to it, as may be: so a bad image stops there;
//   - an available pod finds no room. A pod that serves nobody needs none: so a fix first reaches the pods that are broken.
func (p *planner) move(s steps) {
	if s.move == 0 || p.onDelete {
		return
	}
	target := p.s.Update
	if s.move < 0 {
		target = p.s.Current
	}
	rollout := p.rollout(target)
	candidates, ok := p.candidates(rollout)
	if !ok {
		return
	}
	candidates = candidates[:min(len(candidates), max(s.move, -s.move))]
	if s.move > 0 && p.s.UpdateFault != "" {
		if !p.paused {
			p.pass.HoldForTemplate(candidates)
		}
		return
	}
	for _, pod := range candidates {
		p.pass.KeepMoving(pod, rollout)
	}
	if p.paused {
		return
	}
	slices.SortStableFunc(candidates, func(a, b *podset.Pod) int { return first(b.InService(), a.InService()) })

	atTarget := 0
	for _, pod := range p.pods {
		if pod.Revision == target.Name && !pod.Available && !specified(pod) && !parked(pod) {
			atTarget++
		}
	}
	for i, pod := range candidates {
		if atTarget >= s.limit || !p.unavailable.Admit(pod) {
			p.blocked = append(p.blocked, candidates[i:]...)
			return
		}
		atTarget++
		p.pass.Move(pod, rollout)
	}
}

// candidates are the pods that can be moved, in the order in which they should be.
func (p *planner) candidates(rollout podset.Rollout) ([]*podset.Pod, bool) {
	var candidates []*podset.Pod
	for _, pod := range p.pods {
		// Going back concerns updated pods alone, whatever other revisions there are.
		if parked(pod) || specified(pod) || p.leaving[pod.Object.Name] || rollout.Target.Name != p.s.Update.Name && !p.updated(pod) {
			continue
		}
		switch way, why := p.pass.Way(pod, rollout); way {
		case podset.WayNone:
		case podset.WayRefused:
			p.pass.Refuse(pod, why)
		default:
			candidates = append(candidates, pod)
		}
	}
	object := func(pod *podset.Pod) *corev1.Pod { return pod.Object }
	ordered, err := podorder.ForUpdate(podorder.ByActivity(candidates, victim), p.pods, object, p.order)
	if err != nil {
		p.pass.Hold(podset.Note{Reason: podset.ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.rollingUpdate.%v", err)})
		for _, pod := range candidates {
			p.pass.Keep(pod)
		}
		return nil, false
	}
	slices.SortStableFunc(ordered, func(a, b *podset.Pod) int {
		return cmp.Or(first(preparing(a), preparing(b)), p.s.LeftBehindFirst(a, b))
	})
	return ordered, true
}

func preparing(pod *podset.Pod) bool { return pod.State == shared.StatePreparingUpdate }

// first compares so that what is true comes first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func (p *planner) rollout(target revision.Revision) podset.Rollout {
	return podset.Rollout{
		Target: target, Policy: p.policy, Grace: p.grace,
		MarkUpdating: func(*podset.Pod) bool { return true },
		Replace:      func(pod *podset.Pod) { p.remove(pod, reasonOutdated) },
	}
}

// remove brings a pod closer to its deletion. Its claims go with it: before the request to delete it they get it as their owner.
func (p *planner) remove(pod *podset.Pod, reason string) {
	p.leaving[pod.Object.Name] = true
	if !p.pass.HeldFromDeletion(pod) && p.handOver(pod) {
		p.pass.Keep(pod)
		p.pass.Recheck(afterClaims)
		return
	}
	if reason == reasonOutdated {
		p.pass.Recreate(pod, reason)
		return
	}
	p.pass.Remove(pod, reason)
}

// holdBack notes what waits, and for what.
func (p *planner) holdBack() {
	if len(p.blocked) > 0 {
		p.pass.Hold(p.unavailable.Note(noteMaxUnavailable, len(p.blocked), podset.Slots(p.blocked)))
	}
	var outdated []*podset.Pod
	updated := 0
	for _, pod := range p.pods {
		switch {
		case p.updated(pod):
			updated++
		case !parked(pod) && !specified(pod):
			outdated = append(outdated, pod)
		}
	}
	if len(outdated) == 0 {
		return
	}
	note := podset.Note{Slots: podset.Slots(outdated)}
	switch {
	case p.onDelete:
		note.Reason = podset.ReasonOnDelete
		note.Message = fmt.Sprintf("%s: with updateStrategy.type OnDelete a pod moves when its user deletes it", podset.Waits(len(outdated)))
	case p.paused && updated < p.replicas-p.partition:
		note.Reason = podset.ReasonPaused
		note.Message = fmt.Sprintf("%s: updateStrategy.rollingUpdate.paused is true", podset.Waits(len(outdated)))
	case p.partition > 0 && updated >= p.replicas-p.partition:
		note.Reason = podset.ReasonPartition
		note.Message = fmt.Sprintf("%d of the pods that partition %d keeps are at an earlier revision", len(outdated), p.partition)
	default:
		return
	}
	p.pass.Hold(note)
}

// settling is how step 5 settles pods.
func (p *planner) settling() podset.SettleRules {
	return podset.SettleRules{
		Admit: p.admit,
		Repair: func(pod *podset.Pod) edit.Edit {
			var e edit.Edit
			if pod.Revision != "" && pod.Object.Labels[shared.LabelPodTemplateHash] == "" {
				e.SetLabel(shared.LabelPodTemplateHash, hashOf(pod.Revision))
			}
			return e
		},
	}
}

// admit says that a new pod is normal: it has a node, and nothing of the preNormal hook is missing.
func (p *planner) admit(pod *podset.Pod) bool {
	hooks := p.set.Spec.Lifecycle
	return pod.Object.Spec.NodeName != "" && (hooks == nil || hooks.PreNormal == nil || lifecycle.AllHooked(hooks.PreNormal, pod.Object))
}
