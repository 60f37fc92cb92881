// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Reasons of actions and notes, beside those of workloads.
const (
	// reasonReset makes a replaced container idle.
	reasonReset = "ResetContainer"
	// reasonUpgradable writes the condition SidecarSetUpgradable alone.
	reasonUpgradable = "Upgradable"

	noteNotUpdate     = "NotUpdate"
	noteNotSelected   = "NotSelected"
	noteNotUpgradable = "NotUpgradable"
	noteNoneAllowed   = "NoneAllowed"
)

// Plan decides the next step of a SidecarSet.
//
//  1. Updating: outdated pods get new images, within partition and maxUnavailable, once the server has recorded the spec.
//  2. Settling: other pods complete begun work, even paused: further batches of containers, and idling replaced ones.
//  3. Pods differing in more than images get a condition.
//
// A set being deleted leaves its pods as they are.
func Plan(spec *Spec, s Snapshot) planning.Plan {
	if spec.Deleting {
		return planning.Plan{}
	}
	own := podset.Spec{Owner: metav1.OwnerReference{Kind: Kind().Kind, Name: spec.Set.Name}}
	p := &planner{Spec: spec, s: &s, pass: own.NewDraft(&podset.Snapshot{Now: s.Now})}
	if spec.Invalid != nil {
		p.pass.Hold(planning.Note{Reason: podset.ReasonInvalidSpec, Message: spec.Invalid.Error()})
		return p.pass.Plan()
	}
	if s.Unrecorded == "" {
		p.move()
	}
	p.settle()
	if !spec.NotUpdate && !spec.Paused && s.Unrecorded == "" {
		p.markUpgradable()
	}
	return p.pass.Plan()
}

// planner is shared by the steps of one Plan.
type planner struct {
	*Spec
	s    *Snapshot
	pass *podset.Draft
}

// outdated sorts outdated pods by their prospects.
type outdated struct {
	// candidates can be updated, in the order of the update.
	candidates []*Pod
	// notSelected are kept by updateStrategy.selector, notUpgradable differ in more than images.
	notSelected, notUpgradable []*Pod
}

func (p *planner) outdated() (outdated, error) {
	var o outdated
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		switch {
		case pod.Updated:
		case !pod.Selected:
			o.notSelected = append(o.notSelected, pod)
		case !pod.Upgradable:
			o.notUpgradable = append(o.notUpgradable, pod)
		default:
			o.candidates = append(o.candidates, pod)
		}
	}
	if len(o.candidates) == 0 {
		return o, nil
	}
	object := func(pod *Pod) *corev1.Pod { return pod.Object }
	ordered := podorder.ByActivity(o.candidates, func(pod *Pod) podorder.Victim {
		return podorder.Victim{Object: pod.Object, Ready: pod.Available, Available: pod.Available}
	})
	all := make([]*Pod, len(p.s.Pods))
	for i := range p.s.Pods {
		all[i] = &p.s.Pods[i]
	}
	order := podorder.UpdateOrder{Priority: p.Set.Spec.UpdateStrategy.PriorityStrategy}
	if !p.NotUpdate && !p.Paused {
		order.Scatter = p.scatter(all)
	}
	var err error
	o.candidates, err = podorder.ForUpdate(ordered, all, object, order)
	return o, err
}

// whyNotUpgradable says why pods cannot be updated.
func (o outdated) whyNotUpgradable() string {
	at := slices.IndexFunc(o.notUpgradable, func(pod *Pod) bool { return pod.Rewritten != "" })
	if at < 0 {
		return "differ from the spec in more than images, which a running pod cannot follow"
	}
	return fmt.Sprintf("cannot be updated while they run (of %s, %s: what rewrites images of new pods may not rewrite an edit)", o.notUpgradable[at].Slot, o.notUpgradable[at].Rewritten)
}

// maxScattered limits the values of a label scattered by "*", most frequent first. Each costs a look at all pods.
const maxScattered = 100

// scatter returns the terms of scatterStrategy, with "*" replaced
// by every value of several pods. Single pods need no scattering.
func (p *planner) scatter(pods []*Pod) []shared.UpdateScatterTerm {
	var terms []shared.UpdateScatterTerm
	for _, term := range p.Set.Spec.UpdateStrategy.ScatterStrategy {
		if term.Value != "*" {
			terms = append(terms, term)
			continue
		}
		having := map[string]int{}
		for _, pod := range pods {
			if value, has := pod.Object.Labels[term.Key]; has {
				having[value]++
			}
		}
		maps.DeleteFunc(having, func(_ string, pods int) bool { return pods < 2 })
		values := slices.SortedFunc(maps.Keys(having), func(a, b string) int { return cmp.Or(having[b]-having[a], strings.Compare(a, b)) })
		values = values[:min(len(values), maxScattered)]
		slices.Sort(values)
		for _, value := range values {
			terms = append(terms, shared.UpdateScatterTerm{Key: term.Key, Value: value})
		}
	}
	return terms
}

// move is step 1.
func (p *planner) move() {
	o, err := p.outdated()
	old := slices.Concat(o.candidates, o.notUpgradable)
	switch {
	case err != nil:
		p.pass.Hold(planning.Note{Reason: podset.ReasonInvalidSpec, Message: "spec.updateStrategy." + err.Error()})
		return
	case p.NotUpdate:
		p.hold(noteNotUpdate, old, "are at an earlier revision, and updateStrategy.type is NotUpdate")
	case p.Paused:
		p.hold(podset.ReasonPaused, old, "are at an earlier revision, and updateStrategy.paused is true")
	default:
		p.advance(o)
	}
	p.hold(noteNotSelected, o.notSelected, "are at an earlier revision, and updateStrategy.selector does not select them")
}

// advance updates the pods that may be.
//
// The partition counts all old pods: first those not updatable, then the
// last in update order. It never comes with an updateStrategy.selector.
func (p *planner) advance(o outdated) {
	// Both were parsed once already.
	partition, _ := p.partition(len(p.s.Pods))
	most, _ := p.maxUnavailable(len(p.s.Pods))
	keep := min(max(partition-len(o.notUpgradable), 0), len(o.candidates))
	moving, kept := o.candidates[:len(o.candidates)-keep], o.candidates[len(o.candidates)-keep:]

	moving = p.refusedLast(moving)

	limit := podset.Limit{Name: "updateStrategy.maxUnavailable", Max: most}
	for i := range p.s.Pods {
		if pod := &p.s.Pods[i]; !pod.Spent && (pod.Updated && !pod.Available || pod.UnderWay()) {
			limit.Use(&pod.Pod)
		}
	}
	var waiting []*podset.Pod
	for _, pod := range moving {
		switch {
		case p.takenOver(pod):
			// Settling idles the replaced container. It could not take over again without a restart.
		case !pod.Available:
			p.updatePod(pod)
		case len(waiting) == 0 && limit.Room():
			if p.updatePod(pod) {
				limit.Use(&pod.Pod)
			}
		default:
			waiting = append(waiting, &pod.Pod)
		}
	}
	if len(waiting) > 0 {
		reason := podset.ReasonMaxUnavailable
		if most == 0 {
			reason = noteNoneAllowed // They do not wait for others, but for the spec.
		}
		p.pass.Hold(limit.Note(reason, len(waiting), podset.Slots(waiting)))
	}
	p.hold(noteNotUpgradable, o.notUpgradable, o.whyNotUpgradable()+"; they get the present sidecars when they are re-created")
	p.pass.HoldPartition(plain(kept), partition)
}

// takenOver reports whether the hot upgrade lacks only the idling,
// and the replaced container has the spec's image: a rollback.
func (p *planner) takenOver(pod *Pod) bool {
	if pod.Update.Progress != inplace.None && pod.Update.Progress != inplace.Done {
		return false
	}
	return slices.ContainsFunc(pod.pairs, func(pair pair) bool {
		return !pair.idle(pod.Object) && isReady(pod.Object, pair.working) && imageOf(pod.Object, pair.other) == pair.Image && imageOf(pod.Object, pair.working) != pair.EmptyImage
	})
}

// manyRefused refusals are taken to hold for all pods.
const manyRefused = 20

// refusedLast puts refused pods last: each try uses up the limit. If most or many are refused, trying on is useless.
func (p *planner) refusedLast(pods []*Pod) []*Pod {
	var first, last []*Pod
	for _, pod := range pods {
		if _, refused := p.s.Refused[pod.Slot]; refused {
			last = append(last, pod)
		} else {
			first = append(first, pod)
		}
	}
	if len(last) > min(len(pods)/2, manyRefused) {
		return pods
	}
	return append(first, last...)
}

func (p *planner) hold(reason string, pods []*Pod, what string) {
	p.pass.HoldPods(reason, plain(pods), podset.Count(len(pods), "of the pods", "pods")+" "+what)
}

func plain(pods []*Pod) []*podset.Pod {
	out := make([]*podset.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i].Pod
	}
	return out
}

// updatePod updates one pod. False: something of the pod prevents it, and it keeps serving.
func (p *planner) updatePod(pod *Pod) bool {
	e, err := p.update(pod)
	if err != nil {
		p.pass.Wait(&pod.Pod, podset.ReasonInPlaceBlocked, err.Error())
		return false
	}
	p.act(pod, e, podset.ReasonInPlaceUpdate, "SuccessfulUpdatePodInPlace", "FailedUpdatePodInPlace", "updating the sidecars")
	return true
}

// act writes an edit to a pod, with the events about it.
func (p *planner) act(pod *Pod, e edit.Edit, reason, success, failure, what string) {
	action := podset.EditPod(pod.Slot, pod.Object, e, reason)
	if success != "" {
		message := fmt.Sprintf("%s of pod %s", what, pod.Slot)
		action.Success = planning.Event{Reason: success, Message: message + " succeeded"}
		action.Failure = planning.Event{Warning: true, Reason: failure, Message: message + " failed"}
	}
	p.pass.Act(action)
}

// settle is step 2.
func (p *planner) settle() {
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		p.pass.Recheck(pod.Update.RecheckAfter)
		p.pass.Recheck(pod.Trouble.RecheckAfter)
		if p.pass.Taken(&pod.Pod) {
			continue
		}
		switch pod.Update.Progress {
		case inplace.Running, inplace.Grace:
			if pod.Update.Reason != inplace.ReasonNextBatch {
				continue
			}
			if next, ok := p.record().Continue(pod.Object, p.s.Now); ok {
				p.act(pod, next, podset.ReasonInPlaceContinue, "", "", "")
			}
		case inplace.Blocked:
			p.pass.Wait(&pod.Pod, podset.ReasonInPlaceBlocked, pod.Update.Message)
		case inplace.None, inplace.Done:
			p.reset(pod)
		}
	}
}

// reset idles all containers replaced by a hot upgrade in one write, once the sidecars are
// ready. A pod due for other images does not wait: its sidecar may never become ready.
func (p *planner) reset(pod *Pod) {
	if !pod.underWay || pod.Updated && !pod.Spent && !sidecarsReady(p.Spec, pod.Object, pod.pairs) {
		return
	}
	images := map[string]string{}
	var marks edit.Edit
	some := false
	for i := range pod.pairs {
		if pod.pairs[i].reset(pod.Object, images, &marks) {
			some = true
		}
	}
	if !some {
		return
	}
	revision := pod.recorded.Revision()
	if revision == "" {
		revision = pod.Revision
	}
	e := p.record().Begin(pod.Object, revision, images, p.s.Now)
	e.Merge(marks)
	p.act(pod, e, reasonReset, "ResetContainerSucceed", "ResetContainerFailed", "making the replaced container idle")
}

// markUpgradable is step 3. It also takes back an outdated condition.
func (p *planner) markUpgradable() {
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		differs := !pod.Updated && !pod.Upgradable
		if p.pass.Taken(&pod.Pod) || !differs && !pod.deniesUpgradable {
			continue
		}
		if condition, ok := upgradable(pod.Object, p.Set.Name, !differs, p.s.Now); ok {
			p.act(pod, edit.Edit{Conditions: []corev1.PodCondition{condition}}, reasonUpgradable, "", "", "")
		}
	}
}
