// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides where a PodProbeMarker needs lists, and reports its progress. It is pure.
package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// The steps of a PodProbeMarker.
const (
	// StepHold puts the finalizer on it, before a node is asked for anything.
	StepHold planning.Step = "Hold"
	// StepRelease takes the finalizer off, when no node works for it any more.
	StepRelease planning.Step = "Release"
	// StepAsk creates a node's missing list.
	StepAsk planning.Step = "AskNode"
)

const (
	// resultTimeout for the first result of a probe, beyond the probe's own time.
	resultTimeout = time.Minute
	// marking is the pause before looking again for results on pods.
	marking = 2 * time.Second
	// maxAsked limits the lists made, and pods marked, in one plan: more would exceed its time slice.
	maxAsked = 500
	// refusal is the patience with NodePodProbe's controller before reporting: the server may refuse its writes.
	refusal = 2 * time.Minute
	// asking is the pause between looks: no pass follows a probe left out of a list, or a condition on a pod.
	asking = 10 * time.Second
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1alpha1.GroupVersion().WithKind("PodProbeMarker") }

// KindNodePodProbe is the kind of the lists.
func KindNodePodProbe() schema.GroupVersionKind {
	return appsv1alpha1.GroupVersion().WithKind("NodePodProbe")
}

// Spec is a PodProbeMarker, parsed.
type Spec struct {
	// Object is the marker. Read-only.
	Object *appsv1alpha1.PodProbeMarker
	// Marker is nil if Invalid; otherwise ready to carry out.
	Marker  *probing.Marker
	Invalid error
}

// Parse reads a PodProbeMarker.
func Parse(object *appsv1alpha1.PodProbeMarker) *Spec {
	spec := &Spec{Object: object}
	spec.Marker, spec.Invalid = probing.Parse(object)
	return spec
}

// Snapshot is the input of a plan for a PodProbeMarker.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Off says why nothing is carried out: a gate, or a kind. Empty: it is.
	Off string
	// Nodes with chosen pods, sorted by name.
	Nodes []Node
	// Carried are the nodes with probes of the marker in their lists, sorted. They matter only while it is being deleted.
	Carried []string
	// Others are the other markers of the namespace.
	Others []*probing.Marker
	// Since is since when this generation of the marker is known.
	Since time.Time
	// Waits of the previous decision.
	Waits
	// Daemon is the node daemon's fault, for the status; empty: all is well, or nobody looked.
	Daemon string
}

// Waits are the times since work of NodePodProbe's controller is missing. The server's
// answers are in events of the NodePodProbes; the marker sees only the delay.
type Waits struct {
	// Behind, by node, since a list with room lacks the marker's probes, or still has those of a
	// deleted one. Marks on pods go first.
	Behind map[string]time.Time
	// Unmarked, by name, since a pod lacks its results.
	Unmarked map[string]time.Time
}

// note records the first time something is missing, and returns the time left before reporting it.
func note(waits *map[string]time.Time, before map[string]time.Time, name string, now time.Time) time.Duration {
	since, known := before[name]
	if !known {
		since = now
	}
	if *waits == nil {
		*waits = map[string]time.Time{}
	}
	(*waits)[name] = since
	return refusal - now.Sub(since)
}

// Node is a node with chosen pods.
type Node struct {
	Name string
	UID  types.UID
	// Virtual: it cannot have a node daemon.
	Virtual bool
	// Listed: it has a NodePodProbe. Full: some of the namespace's probes had no room there.
	Listed, Full bool
	// Pods are the chosen pods on it, sorted by name.
	Pods []Pod
}

// Pod is a chosen pod.
type Pod struct {
	// Object is the pod. Read-only.
	Object *corev1.Pod
	// Asked are keys of the marker's probes in the node's list.
	Asked []string
	// Results of the marker's probes, from the node.
	Results []appsv1alpha1.ContainerProbeState
}

// result returns the node's result of a probe; nil: none.
func (p *Pod) result(key string) *appsv1alpha1.ContainerProbeState {
	if i := slices.IndexFunc(p.Results, func(r appsv1alpha1.ContainerProbeState) bool { return r.Name == key }); i >= 0 {
		return &p.Results[i]
	}
	return nil
}

// Decision is a plan with its findings.
type Decision struct {
	planning.Plan
	// Waits are for the next snapshot.
	Waits
	// Silent are the nodes with overdue results, sorted.
	Silent []string
	// matched counts chosen pods, waiting their probes without results, unasked those missing in lists.
	matched, waiting, unasked int
	// marking are pods without their results yet, virtual those on virtual nodes.
	marking, virtual []string
	// left are pods without room in their node's list. late are nodes overdue to list
	// probes or, for a deleted marker, to drop them. unmarked are pods overdue for results.
	left, late, unmarked []string
	// faults are permanent obstacles of probes, errors failed runs, each for the first pods.
	faults, errors []string
}

// Plan decides:
//
//  1. a marker being deleted loses its finalizer once no node probes for it; NodePodProbe's controller empties the lists;
//  2. a new marker gets its finalizer;
//  3. a node without a list gets one with the marker's probes. Existing lists follow by themselves. Virtual nodes are skipped.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{}
	if spec.Object.DeletionTimestamp != nil {
		if s.Off == "" && spec.Marker != nil && len(s.Carried) > 0 {
			for _, node := range s.Carried {
				d.awaitList(node, s)
			}
			return d
		}
		d.Unfinalize(StepRelease, Kind(), spec.Object, appsv1alpha1.FinalizerPodProbeMarker, string(StepRelease), planning.Event{})
		return d
	}
	if spec.Marker == nil || s.Off != "" {
		return d
	}
	held := slices.Contains(spec.Object.Finalizers, appsv1alpha1.FinalizerPodProbeMarker)
	if !held {
		d.hold(spec)
	}
	for _, key := range spec.Marker.Withheld {
		d.faults = append(d.faults, "markerPolicy has "+key+", which is reserved and not written")
	}
	own := ownMarks(spec.Marker, s.Others)
	for i := range s.Nodes {
		node := &s.Nodes[i]
		d.matched += len(node.Pods)
		if node.Virtual {
			for i := range node.Pods {
				d.virtual = append(d.virtual, node.Pods[i].Object.Name)
			}
			continue
		}
		probes := d.look(spec, node, own, s)
		if held && !node.Listed && len(probes) > 0 && len(d.Actions) < maxAsked {
			d.Actions = append(d.Actions, ask(node, probes))
		}
	}
	return d
}

// Releases reports whether the plan removes the finalizer.
func (d *Decision) Releases() bool {
	return slices.ContainsFunc(d.Actions, func(a planning.Action) bool { return a.Step == StepRelease })
}

// look notes the progress of a node's pods, and returns the probes due in its list. own comes from ownMarks.
func (d *Decision) look(spec *Spec, node *Node, own map[string]*appsv1alpha1.PodContainerProbe, s Snapshot) []appsv1alpha1.PodProbe {
	var list []appsv1alpha1.PodProbe
	unasked := 0
	for i := range node.Pods {
		pod := &node.Pods[i]
		probes, faults := spec.Marker.Wanted(pod.Object)
		for _, fault := range faults {
			d.faults = append(d.faults, fmt.Sprintf("pod %s, %s", pod.Object.Name, fault))
		}
		if len(probes) > 0 {
			list = append(list, appsv1alpha1.PodProbe{
				Name: pod.Object.Name, Namespace: pod.Object.Namespace, UID: string(pod.Object.UID), IP: pod.Object.Status.PodIP, Probes: probes,
			})
		}
		missing := d.results(node, pod, probes, own, s)
		if missing > 0 && node.Full {
			d.left = append(d.left, fmt.Sprintf("pod %s on node %s", pod.Object.Name, node.Name))
			continue
		}
		unasked += missing
	}
	d.unasked += unasked
	if unasked > 0 && node.Listed {
		d.awaitList(node.Name, s)
	}
	return list
}

// awaitList notes since when the list of a node is behind.
func (d *Decision) awaitList(node string, s Snapshot) {
	if left := note(&d.Behind, s.Behind, node, s.Now); left > 0 {
		d.Recheck(min(left, asking))
	} else {
		d.late = append(d.late, node)
	}
}

// awaitMarks notes when a pod first lacked its results.
func (d *Decision) awaitMarks(pod *corev1.Pod, s Snapshot) {
	d.marking = append(d.marking, pod.Name)
	if left := note(&d.Unmarked, s.Unmarked, pod.Name, s.Now); left > 0 {
		d.Recheck(marking)
	} else {
		d.unmarked = append(d.unmarked, pod.Name)
		d.Recheck(asking)
	}
}

// results notes a pod's results, and counts the probes missing in its node's list.
func (d *Decision) results(
	node *Node, pod *Pod, probes []appsv1alpha1.ContainerProbe, own map[string]*appsv1alpha1.PodContainerProbe, s Snapshot,
) (missing int) {
	var said []probing.Result
	for i := range probes {
		probe := &probes[i]
		result := pod.result(probe.Name)
		switch {
		case !slices.Contains(pod.Asked, probe.Name):
			missing++
			continue
		case result == nil || result.State == "" && result.Error == "":
			d.waiting++
			if left := limit(&probe.Probe) - s.Now.Sub(since(pod.Object, s.Since)); left > 0 {
				d.Recheck(left)
			} else if !slices.Contains(d.Silent, node.Name) {
				d.Silent = append(d.Silent, node.Name)
			}
			continue
		case result.Error != "":
			_, name, _ := probing.SplitKey(probe.Name)
			d.errors = append(d.errors, fmt.Sprintf("pod %s, probe %s: %s", pod.Object.Name, name, result.Error))
		}
		if of := own[probe.Name]; of != nil {
			said = append(said, probing.Result{Probe: of, State: result})
		}
	}
	if !probing.Changes(pod.Object, said, s.Now).IsZero() {
		d.awaitMarks(pod.Object, s)
	}
	return missing
}

// ownMarks returns a marker's probes by key, empty if they share a condition, label or annotation
// with another probe. It is computed once for all pods: comparing for each would dominate a pass.
func ownMarks(m *probing.Marker, others []*probing.Marker) map[string]*appsv1alpha1.PodContainerProbe {
	writers := map[string]int{}
	for _, marker := range append(others, m) {
		for i := range marker.Probes {
			for what := range probing.Writes(&marker.Probes[i]) {
				writers[what]++
			}
		}
	}
	own := make(map[string]*appsv1alpha1.PodContainerProbe, len(m.Probes))
	for i := range m.Probes {
		p := &m.Probes[i]
		for what := range probing.Writes(p) {
			if writers[what] > 1 {
				p = &appsv1alpha1.PodContainerProbe{Name: p.Name}
			}
		}
		own[probing.Key(m.Name, p.Name)] = p
	}
	return own
}

// since is since when a probe of the pod could have had a result.
func since(pod *corev1.Pod, known time.Time) time.Time {
	if c := podstate.Condition(pod, corev1.PodInitialized); c != nil && c.LastTransitionTime.After(known) {
		return c.LastTransitionTime.Time
	}
	return known
}

// limit is how long the first result of a probe may take, a week at most.
func limit(p *corev1.Probe) time.Duration {
	const longest = 7 * 24 * time.Hour
	tries := float64(max(p.SuccessThreshold, p.FailureThreshold, 1))
	seconds := float64(p.InitialDelaySeconds) + tries*(float64(p.PeriodSeconds)+float64(p.TimeoutSeconds))
	return resultTimeout + time.Duration(min(seconds, longest.Seconds()))*time.Second
}

// hold puts the finalizer on the marker.
func (d *Decision) hold(spec *Spec) {
	finalizers := append(slices.Clone(spec.Object.Finalizers), appsv1alpha1.FinalizerPodProbeMarker)
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepHold, Kind: Kind(), Object: spec.Object, Reason: string(StepHold),
		Change: planning.MetadataPatch(spec.Object, map[string]any{"finalizers": finalizers}),
	})
}

// ask creates a node's list with as many probes as fit. The node owns it.
func ask(node *Node, probes []appsv1alpha1.PodProbe) planning.Action {
	probes, full := probing.Fit(probes, func(*appsv1alpha1.PodProbe, string) bool { return false })
	var annotations map[string]string
	if len(full) > 0 {
		annotations = map[string]string{appsv1alpha1.AnnotationProbesLeftOut: probing.LeftOut(full)}
	}
	return planning.Action{
		Verb: planning.VerbCreate, Step: StepAsk, Kind: KindNodePodProbe(), Slot: planning.Slot(node.Name), Reason: "Probes", KeepExisting: true,
		Object: &appsv1alpha1.NodePodProbe{
			ObjectMeta: metav1.ObjectMeta{
				Name:            node.Name,
				Annotations:     annotations,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
			},
			Spec: appsv1alpha1.NodePodProbeSpec{PodProbes: probes},
		},
		Failure: planning.Event{Warning: true, Reason: "FailedCreate", Message: "Asking node " + node.Name + " to probe its pods"},
	}
}
