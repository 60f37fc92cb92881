// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a WorkloadSpread does with the pods that there are: which subset each is in, which go first when the
// workload shrinks, and which are deleted because they find no node.
//
// Which subset a new pod gets is decided by internal/engine/spread.
package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// Reasons of actions.
const (
	ReasonPlace      = "Place"
	ReasonReschedule = "Reschedule"
)

// Reasons of events.
const (
	reasonCostFailed = "PatchPodDeletionCostFailed"
	reasonCreate     = "CreatePodFailed"
	reasonRecover    = "RecoverSchedulable"
)

// LookAgain is when workloads that nobody watches are looked at again.
const LookAgain = time.Minute

// Snapshot is what a pass has seen.
type Snapshot struct {
	Now time.Time
	// Found: the workload exists. Replicas is what percentages are of.
	Found    bool
	Replicas int
	// Latest is the newest version; empty: unknown, or versions do not count.
	Latest string
	// Pods are those of the workload that are managed, by name.
	Pods []*corev1.Pod
	// Nodes are those of unplaced pods.
	Nodes map[string]*corev1.Node
	// HookFault says why new pods do not reach the webhook; HookPending: they will soon.
	HookFault   string
	HookPending bool
	// Unsupported is why nothing can be known about the workload; empty: it can.
	Unsupported string
	// PatchFault is why pods get no patch.
	PatchFault string
	// Unread pods get their subset when their templates are known.
	Unread sets.Set[string]
}

// pod is a pod with its subset.
type pod struct {
	*corev1.Pod
	subset  int
	version string
	active  bool
	edit    edit.Edit
}

// Decision is what to do, and the state behind it.
type Decision struct {
	planning.Plan
	// Events are about what no action says.
	Events []planning.Event

	pods    []pod
	subsets []appsv1beta1.WorkloadSpreadSubsetStatus
	// versions are the statuses of each.
	versions map[string][]appsv1beta1.WorkloadSpreadSubsetStatus
	unplaced []string
}

// Plan decides the next step.
//
//  1. Every pod gets its subset. One that was created without gets the best that fits its node.
//  2. Pods, and those that were admitted and not seen yet, are counted for each version.
//  3. A subset in which a pod found no node is shut. Once that is stored, the pod is deleted.
//  4. Deletion costs let pods beyond the limits of their subset go first.
func Plan(s *spread.Spread, ws *appsv1beta1.WorkloadSpread, seen Snapshot) Decision {
	d := &Decision{}
	if !seen.Found { // nobody tells when it is created without pods
		d.Recheck(LookAgain)
	}
	if seen.Unread.Len() > 0 {
		d.Recheck(time.Second)
	}
	d.place(s, seen)
	d.count(s, &ws.Status, seen)
	leaving := d.reschedule(s, &ws.Status, seen)
	if s.HasCost() {
		d.costs(s, seen)
	}
	for i := range d.pods {
		p := &d.pods[i]
		switch {
		case leaving[p.Name]:
			d.Actions = append(d.Actions, podset.DeletePod(planning.Slot(p.Name), p.Pod, ReasonReschedule))
		case !p.edit.IsZero():
			action := podset.EditPod(planning.Slot(p.Name), p.Pod, p.edit, ReasonPlace)
			action.Failure = planning.Event{Warning: true, Reason: reasonCostFailed, Message: "Writing subset and deletion cost of pod " + p.Name}
			d.Actions = append(d.Actions, action)
		}
	}
	return *d
}

// place is step 1.
func (d *Decision) place(s *spread.Spread, seen Snapshot) {
	counts := s.Counts(seen.Pods)
	for _, object := range seen.Pods {
		p := pod{
			Pod: object, version: s.Counted(object.Labels),
			active: object.DeletionTimestamp == nil && !podstate.Finished(object),
		}
		marked := false
		p.subset, marked = s.SubsetOf(object)
		if node := seen.Nodes[object.Spec.NodeName]; p.active && !marked && !seen.Unread.Has(object.Name) && node != nil {
			if p.subset = best(s, object, node, counts, seen.Replicas); p.subset != spread.None {
				counts[p.subset]++
				mark(s, &p)
			}
		}
		if p.active && p.subset == spread.None {
			d.unplaced = append(d.unplaced, p.Name)
		}
		d.pods = append(d.pods, p)
	}
}

// mark writes the subset of a pod that was created without one.
func mark(s *spread.Spread, p *pod) {
	p.edit.SetAnnotation(shared.AnnotationMatchedWorkloadSpread, s.Mark(p.subset, ""))
	if s.KeepMetadata {
		return
	}
	labels, annotations := s.Subsets[p.subset].Metadata()
	for key, value := range labels {
		if !spread.IsIdentity(key) && p.Labels[key] != value {
			p.edit.SetLabel(key, value)
		}
	}
	for key, value := range annotations {
		if p.Annotations[key] != value {
			p.edit.SetAnnotation(key, value)
		}
	}
}

// TemplateDecides is true for a pod without a subset that several fit, one of them with a patch.
func TemplateDecides(s *spread.Spread, pod *corev1.Pod, node *corev1.Node) bool {
	if _, marked := s.SubsetOf(pod); marked || node == nil || pod.DeletionTimestamp != nil || podstate.Finished(pod) {
		return false
	}
	fitting, patched := 0, false
	for i := range s.Subsets {
		if sub := &s.Subsets[i]; fits(sub.Required, node) && tolerated(pod, sub, node) {
			fitting, patched = fitting+1, patched || len(sub.Patch) > 0
		}
	}
	return fitting > 1 && patched
}

// best is the subset that fits a running pod best: by preferred terms, then one whose patch changes nothing, then one with room.
func best(s *spread.Spread, pod *corev1.Pod, node *corev1.Node, counts []int, replicas int) int {
	found, most := spread.None, int64(-1)
	for i := range s.Subsets {
		sub := &s.Subsets[i]
		if !fits(sub.Required, node) || !tolerated(pod, sub, node) {
			continue
		}
		score := preference(sub.Preferred, node) * 100
		if patched, err := sub.Patched(pod); len(sub.Patch) == 0 || err == nil && equality.Semantic.DeepEqual(patched, pod) {
			score += 10
		}
		if limit := s.Limit(i, replicas); limit < 0 || counts[i] < limit {
			score++
		}
		if score > most {
			found, most = i, score
		}
	}
	return found
}

func fits(term *corev1.NodeSelectorTerm, node *corev1.Node) bool {
	if term == nil || len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*term}})
	return err == nil && selector.Match(node)
}

// tolerated: a pod of the subset could be on a node with these taints. Those of the node's state say nothing about subsets.
func tolerated(pod *corev1.Pod, sub *spread.Subset, node *corev1.Node) bool {
	place := &corev1.Node{ObjectMeta: node.ObjectMeta}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			place.Spec.Taints = append(place.Spec.Taints, taint)
		}
	}
	return nodefit.Compile(&corev1.PodSpec{Tolerations: pod.Spec.Tolerations}, sub.Tolerations...).Fit(place).ShouldRun
}

func preference(terms []corev1.PreferredSchedulingTerm, node *corev1.Node) int64 {
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	if err != nil {
		return 0
	}
	return preferred.Score(node)
}

// costs is step 4. Pods of older versions leave in the opposite order of subsets: the first ones are filled first by the new.
func (d *Decision) costs(s *spread.Spread, seen Snapshot) {
	type group struct {
		version string
		subset  int
	}
	groups := map[group][]*pod{}
	for i := range d.pods {
		if p := &d.pods[i]; p.active {
			of := group{p.version, p.subset}
			groups[of] = append(groups[of], p)
		}
	}
	for of, pods := range groups {
		older := seen.Latest != "" && of.version != seen.Latest && of.version != spread.AnyVersion
		costsOf(s, seen, of.subset, older, pods)
	}
}

func costsOf(s *spread.Spread, seen Snapshot, i int, older bool, pods []*pod) {
	keep, rank := 0, i
	if i != spread.None {
		keep = len(pods)
		if limit := s.Limit(i, seen.Replicas); limit >= 0 {
			keep = min(keep, limit)
		}
		if older {
			rank = len(s.Subsets) - 1 - i
		}
	}
	if keep > 0 && keep < len(pods) {
		pods = healthiest(pods)
	}
	for at, p := range pods {
		cost := s.SurplusCost(rank)
		if at < keep {
			cost = s.Cost(rank)
		}
		if text := strconv.Itoa(cost); p.Annotations[shared.AnnotationPodDeletionCost] != text {
			p.edit.SetAnnotation(shared.AnnotationPodDeletionCost, text)
		}
	}
}

// healthiest sorts pods, those to be deleted last first, whatever their costs.
func healthiest(pods []*pod) []*pod {
	slices.SortFunc(pods, func(a, b *pod) int { return strings.Compare(a.Name, b.Name) })
	costless := make(map[*pod]*corev1.Pod, len(pods))
	for _, p := range pods {
		object := *p.Pod
		object.Annotations = maps.Clone(object.Annotations)
		delete(object.Annotations, shared.AnnotationPodDeletionCost)
		costless[p] = &object
	}
	ordered := podorder.ForDeletion(pods, pods, func(p *pod) podorder.Victim {
		ready := podstate.Ready(p.Pod)
		return podorder.Victim{Object: costless[p], Ready: ready, Available: ready}
	}, podorder.Spread{})
	slices.Reverse(ordered)
	return ordered
}
