// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a node probes and how pods show the results. It is pure: the time is in the snapshot.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// The steps of a NodePodProbe.
const (
	// StepDelete deletes it because its node is gone, or is a virtual one.
	StepDelete planning.Step = "DeleteNodePodProbe"
	// StepAsk makes the list follow the PodProbeMarkers.
	StepAsk planning.Step = "AskNode"
	// StepMark writes results to a pod.
	StepMark planning.Step = "MarkPod"
)

// LabelFake keeps a NodePodProbe without a node as it is.
const LabelFake = "apps.kruise.io/fake-nodepodprobe"

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1alpha1.GroupVersion().WithKind("NodePodProbe") }

// Snapshot is the input of a plan for a NodePodProbe.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Node: a node of this name exists and can have a node daemon.
	Node bool
	// Off: PodProbeMarkers are switched off, and their effects stay.
	Off bool
	// Pods are the node's. Read-only.
	Pods []*corev1.Pod
	// Markers are the PodProbeMarkers of these pods' namespaces and of the list's, sorted by namespace and name.
	Markers []*probing.Marker
	// Selected are, by pod, the label keys controllers select by.
	Selected map[types.UID]sets.Set[string]
}

// Plan takes these steps:
//
//  1. without a node, delete the object, unless a label keeps it;
//  2. remove labels and annotations of unwanted probes from their pods, and only then the probes from the list:
//     nothing else tells that the pod was probed;
//  3. make the list what markers want of the present pods, in one write. Probes keep their places.
//     Those without room are left out, see probing.Fit: their labels and annotations go, as nothing is known any more,
//     and an annotation names their namespaces;
//  4. write results to each pod in one write. Remove labels and annotations of probes or policies
//     no longer in the marker.
func Plan(stored *appsv1alpha1.NodePodProbe, s Snapshot) planning.Plan {
	var p planning.Plan
	if stored.DeletionTimestamp != nil {
		return p
	}
	if _, fake := stored.Labels[LabelFake]; fake && !s.Node {
		return p
	}
	if !s.Node {
		p.Actions = append(p.Actions, planning.Action{Verb: planning.VerbDelete, Step: StepDelete, Kind: Kind(), Object: stored, Reason: "NodeGone"})
		return p
	}
	if s.Off {
		return p
	}
	before := map[string]*appsv1alpha1.PodProbe{}
	for i := range stored.Spec.PodProbes {
		before[stored.Spec.PodProbes[i].UID] = &stored.Spec.PodProbes[i]
	}
	results := map[string]*appsv1alpha1.PodProbeStatus{}
	for i := range stored.Status.PodProbeStatuses {
		results[stored.Status.PodProbeStatuses[i].UID] = &stored.Status.PodProbeStatuses[i]
	}
	pods := make([]podState, len(s.Pods))
	list := []appsv1alpha1.PodProbe{}
	for i, pod := range s.Pods {
		of := &pods[i]
		*of = s.look(pod, before[string(pod.UID)])
		if len(of.probes) > 0 {
			list = append(list, of.entry(before[string(pod.UID)]))
		}
	}
	order(list, stored)
	list, full := fit(stored, list, before)
	if len(full) > 0 {
		leaveOut(pods, list)
	}
	for i := range pods {
		mark(&p, &pods[i], results[string(pods[i].pod.UID)], s.Now)
	}
	ask(&p, stored, list, probing.LeftOut(full))
	return p
}

// podState is a pod and the probes it should have.
type podState struct {
	pod *corev1.Pod
	// selected are the label keys its controllers select by.
	selected sets.Set[string]
	// probes are the list's next content: wanted probes, and those still to be taken off the pod.
	probes []appsv1alpha1.ContainerProbe
	// wanted are those that markers want.
	wanted []source
	// leaving are probes of existing markers, unwanted now or left out.
	leaving []*appsv1alpha1.PodContainerProbe
}

type source struct {
	probe *appsv1alpha1.PodContainerProbe
	key   string
}

func (of *podState) staying() []*appsv1alpha1.PodContainerProbe {
	stay := make([]*appsv1alpha1.PodContainerProbe, len(of.wanted))
	for i := range of.wanted {
		stay[i] = of.wanted[i].probe
	}
	return stay
}

// look compares a pod's wanted probes with before, its place in the list.
func (s *Snapshot) look(pod *corev1.Pod, before *appsv1alpha1.PodProbe) podState {
	of := podState{pod: pod, selected: s.Selected[pod.UID]}
	if !probing.Active(pod) {
		return of
	}
	for _, marker := range s.Markers {
		if !marker.Chooses(pod) {
			continue
		}
		probes, _ := marker.Wanted(pod)
		for i := range probes {
			of.probes = append(of.probes, probes[i])
			if probe := find(marker, probes[i].Name); probe != nil {
				of.wanted = append(of.wanted, source{probe, probes[i].Name})
			}
		}
	}
	if before == nil {
		return of
	}
	var known []appsv1alpha1.ContainerProbe
	for i := range before.Probes {
		probe := s.find(pod.Namespace, before.Probes[i].Name)
		if probe != nil && !has(of.probes, before.Probes[i].Name) {
			of.leaving = append(of.leaving, probe)
			known = append(known, *before.Probes[i].DeepCopy())
		}
	}
	if !of.remember(edit.Edit{}).IsZero() {
		of.probes = append(of.probes, known...)
	}
	return of
}

// find returns the probe of a key; nil when its marker is gone, or has no such probe any more.
func (s *Snapshot) find(namespace, key string) *appsv1alpha1.PodContainerProbe {
	name, _, _ := probing.SplitKey(key)
	for _, marker := range s.Markers {
		if marker.Namespace == namespace && marker.Name == name {
			return find(marker, key)
		}
	}
	return nil
}

func find(marker *probing.Marker, key string) *appsv1alpha1.PodContainerProbe {
	_, name, _ := probing.SplitKey(key)
	i := slices.IndexFunc(marker.Probes, func(p appsv1alpha1.PodContainerProbe) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &marker.Probes[i]
}

// entry is the pod's place in the list, in its present order.
func (of *podState) entry(before *appsv1alpha1.PodProbe) appsv1alpha1.PodProbe {
	entry := appsv1alpha1.PodProbe{
		Name: of.pod.Name, Namespace: of.pod.Namespace, UID: string(of.pod.UID), IP: of.pod.Status.PodIP, Probes: of.probes,
	}
	if before == nil {
		return entry
	}
	if entry.IP == "" {
		entry.IP = before.IP
	}
	place := func(p appsv1alpha1.ContainerProbe) int {
		i := slices.IndexFunc(before.Probes, func(b appsv1alpha1.ContainerProbe) bool { return b.Name == p.Name })
		if i < 0 {
			return len(before.Probes)
		}
		return i
	}
	slices.SortStableFunc(entry.Probes, func(a, b appsv1alpha1.ContainerProbe) int { return place(a) - place(b) })
	return entry
}

// order sorts the pods: old ones keep their places, new ones follow by namespace and name.
func order(list []appsv1alpha1.PodProbe, stored *appsv1alpha1.NodePodProbe) {
	places := map[string]int{}
	for i := range stored.Spec.PodProbes {
		places[stored.Spec.PodProbes[i].UID] = i - len(stored.Spec.PodProbes)
	}
	slices.SortFunc(list, func(a, b appsv1alpha1.PodProbe) int {
		return cmp.Or(places[a.UID]-places[b.UID], strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// fit cuts a list to the limits, and returns the namespaces that lost probes. A stored list already has room.
func fit(stored *appsv1alpha1.NodePodProbe, list []appsv1alpha1.PodProbe, before map[string]*appsv1alpha1.PodProbe) ([]appsv1alpha1.PodProbe, []string) {
	if stored.Annotations[appsv1alpha1.AnnotationProbesLeftOut] == "" && same(list, stored.Spec.PodProbes) {
		return list, nil
	}
	return probing.Fit(list, func(pod *appsv1alpha1.PodProbe, probe string) bool {
		had := before[pod.UID]
		return had != nil && has(had.Probes, probe)
	})
}

// same compares lists after defaults. The daemon fills in the kubelet's defaults, so lists OpenKruise wrote
// without them are not rewritten.
func same(a, b []appsv1alpha1.PodProbe) bool {
	return slices.EqualFunc(a, b, func(x, y appsv1alpha1.PodProbe) bool {
		probes := slices.EqualFunc(x.Probes, y.Probes, sameProbe)
		x.Probes, y.Probes = nil, nil
		return probes && equality.Semantic.DeepEqual(x, y)
	})
}

func sameProbe(a, b appsv1alpha1.ContainerProbe) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a, b = *a.DeepCopy(), *b.DeepCopy()
	probing.Default(&a.Probe)
	probing.Default(&b.Probe)
	return equality.Semantic.DeepEqual(a, b)
}

func has(probes []appsv1alpha1.ContainerProbe, key string) bool {
	return slices.ContainsFunc(probes, func(p appsv1alpha1.ContainerProbe) bool { return p.Name == key })
}

// leaveOut removes probes outside the list from their pods, even if they never were in it: that may have been forgotten.
func leaveOut(pods []podState, list []appsv1alpha1.PodProbe) {
	fitting := map[string][]appsv1alpha1.ContainerProbe{}
	for i := range list {
		fitting[list[i].UID] = list[i].Probes
	}
	for i := range pods {
		of := &pods[i]
		probes := fitting[string(of.pod.UID)]
		var stay []source
		for _, w := range of.wanted {
			if has(probes, w.key) {
				stay = append(stay, w)
			} else {
				of.leaving = append(of.leaving, w.probe)
			}
		}
		of.wanted = stay
	}
}

// ask sets the list to the wanted probes, and returns the namespaces that lost some.
func ask(p *planning.Plan, stored *appsv1alpha1.NodePodProbe, list []appsv1alpha1.PodProbe, left string) {
	metadata := map[string]any{}
	said := stored.Annotations[appsv1alpha1.AnnotationProbesLeftOut]
	if said == left && same(list, stored.Spec.PodProbes) {
		return
	}
	switch {
	case said == left:
	case left == "":
		metadata["annotations"] = map[string]any{appsv1alpha1.AnnotationProbesLeftOut: nil}
	default:
		metadata["annotations"] = map[string]any{appsv1alpha1.AnnotationProbesLeftOut: left}
	}
	p.Actions = append(p.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepAsk, Kind: Kind(), Object: stored, Reason: "Probes",
		Change:  planning.MergePatch(stored, map[string]any{"metadata": metadata, "spec": map[string]any{"podProbes": list}}),
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Asking the node to probe its pods"},
	})
}

// remember completes an edit of an active pod. A label its controller selects by stays, or the pod
// would be lost to it.
func (of *podState) remember(change edit.Edit) edit.Edit {
	selected := func(key string, _ *string) bool { return of.selected.Has(key) }
	maps.DeleteFunc(change.Labels, selected)
	change = probing.Remember(of.pod, change, of.leaving, of.staying())
	maps.DeleteFunc(change.Labels, selected)
	return change
}

// mark writes results to a pod and removes the unwanted. A pod that is over keeps what it has.
func mark(p *planning.Plan, of *podState, results *appsv1alpha1.PodProbeStatus, now time.Time) {
	if !probing.Active(of.pod) {
		return
	}
	var said []probing.Result
	if results != nil {
		for i := range of.wanted {
			w := &of.wanted[i]
			at := slices.IndexFunc(results.ProbeStates, func(r appsv1alpha1.ContainerProbeState) bool { return r.Name == w.key })
			if at >= 0 {
				said = append(said, probing.Result{Probe: w.probe, State: &results.ProbeStates[at]})
			}
		}
	}
	change := of.remember(probing.Changes(of.pod, said, now))
	if change.IsZero() {
		return
	}
	action := podset.EditPod(planning.Slot(of.pod.Namespace+"/"+of.pod.Name), of.pod, change, "ProbeResult")
	action.Step = StepMark
	action.Failure = planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Writing the results of probes to pod " + of.pod.Namespace + "/" + of.pod.Name}
	p.Actions = append(p.Actions, action)
}
