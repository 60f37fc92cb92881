// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which nodes a PodProbeMarker needs lists on, and says how far its probes are. It is pure: the time is in the snapshot.
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
	// StepAsk makes the list of a node that has none.
	StepAsk planning.Step = "AskNode"
)

const (
	// resultTimeout is how long the first result of a probe may take, beyond what the probe itself takes.
	resultTimeout = time.Minute
	// marking is when to look again whether results have reached their pods.
	marking = 2 * time.Second
	// maxAsked is how many lists one plan makes, and how many pods it marks: more could not be written in its time slice.
	maxAsked = 500
	// refusal is how long what the controller of NodePodProbes does may take before the marker says so: the server may refuse it.
	refusal = 2 * time.Minute
	// asking is when to look again meanwhile: neither a probe that was left out of a list nor a pod that gets its condition triggers a pass.
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
	// Marker is what to carry out; nil when Invalid says why that is not possible.
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
	// Nodes are those on which there are pods that the marker chooses, sorted by name.
	Nodes []Node
	// Carried are the nodes whose NodePodProbes have probes of the marker, sorted. They matter only while the marker is being deleted.
	Carried []string
	// Others are the other markers of the namespace.
	Others []*probing.Marker
	// Since is since when this generation of the marker is known.
	Since time.Time
	// Waits are those of the decision before.
	Waits
	// Daemon says what is known of the node daemon; empty when all is well with it, or nobody had a reason to look.
	Daemon string
	// OverdueNodes are what OverdueNodes returned when the daemon was looked at.
	OverdueNodes []string
}

// Waits are since when something is missing that the controller of NodePodProbes does. The answers of the server to its writes are in events of the
// NodePodProbes; the marker knows only that nothing happens.
type Waits struct {
	// Unasked is since when lists are known to be without probes of the marker that will have room there, by node.
	Unasked map[string]time.Time
	// Unmarked is since when pods are known to be without what their results say, by name.
	Unmarked map[string]time.Time
	// Unreleased is since when lists are known to have probes of a marker that is being deleted, by node. They leave the list after the marks of the
	// marker have left the pods.
	Unreleased map[string]time.Time
}

// note notes in waits that something is missing, since the time that was noted before or since now, and returns how long until that is
// reported.
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

// Node is a node with pods that the marker chooses.
type Node struct {
	Name string
	UID  types.UID
	// Virtual says that there is no node daemon on it, and cannot be.
	Virtual bool
	// Listed says that it has a NodePodProbe, Full that probes of the marker's namespace were left out of that.
	Listed, Full bool
	// Pods are the chosen pods on it, sorted by name.
	Pods []Pod
}

// Pod is a pod that the marker chooses.
type Pod struct {
	// Object is the pod. Read-only.
	Object *corev1.Pod
	// Asked are the keys of the marker's probes that the list of the node has for it.
	Asked []string
	// Results are what the node says of the marker's probes.
	Results []appsv1alpha1.ContainerProbeState
}

// result is what the node says of a probe; nil when it says nothing.
func (p *Pod) result(key string) *appsv1alpha1.ContainerProbeState {
	if i := slices.IndexFunc(p.Results, func(r appsv1alpha1.ContainerProbeState) bool { return r.Name == key }); i >= 0 {
		return &p.Results[i]
	}
	return nil
}

// Decision is a plan, and what it found.
type Decision struct {
	planning.Plan
	// Waits are for the next snapshot.
	Waits
	// matched is how many pods are chosen, waiting how many of their probes have no result yet, unasked those that nodes were not asked for.
	matched, waiting, unasked int
	// marking are pods that do not carry their results yet, virtual those on virtual nodes.
	marking, virtual []string
	// left are pods on nodes whose lists have no room for all probes, late the nodes whose lists should have them by now, or, of a marker that is
	// being deleted, should have them no more. unmarked are pods that should carry their results by now.
	left, late, unmarked []string
	// faults say why probes cannot be carried out at all, errors why they could not be carried out, each for the first pods.
	faults, errors []string
}

// Plan says what to do now:
//
//  1. a marker that is being deleted loses its finalizer when no node probes for it any more; the controller of NodePodProbes removes its probes
//     from the lists;
//  2. a new marker gets its finalizer;
//  3. a node that has no list yet gets one, with the probes of this marker. Lists that there are follow by themselves. Virtual nodes are skipped.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{}
	held := slices.Contains(spec.Object.Finalizers, appsv1alpha1.FinalizerPodProbeMarker)
	if spec.Object.DeletionTimestamp != nil {
		if s.Off == "" && spec.Marker != nil {
			d.awaitRelease(s)
		}
		if held && len(d.Actions) == 0 && len(d.Unreleased) == 0 {
			d.finalize(spec, StepRelease, slices.DeleteFunc(slices.Clone(spec.Object.Finalizers), func(f string) bool { return f == appsv1alpha1.FinalizerPodProbeMarker }))
		}
		return d
	}
	if spec.Marker == nil || s.Off != "" {
		return d
	}
	if !held {
		d.finalize(spec, StepHold, append(slices.Clone(spec.Object.Finalizers), appsv1alpha1.FinalizerPodProbeMarker))
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

// Releases says that the plan takes the finalizer off the marker.
func (d *Decision) Releases() bool {
	return slices.ContainsFunc(d.Actions, func(a planning.Action) bool { return a.Step == StepRelease })
}

// look notes how far the pods of a node are, and returns what their list has to have of this marker. own are what ownMarks returns.
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
		missing := d.results(pod, probes, own, s)
		if missing > 0 && node.Full {
			d.left = append(d.left, fmt.Sprintf("pod %s on node %s", pod.Object.Name, node.Name))
			continue
		}
		unasked += missing
	}
	d.unasked += unasked
	if unasked > 0 && node.Listed {
		d.awaitList(node, s)
	}
	return list
}

// awaitList notes since when the list of a node is without probes.
func (d *Decision) awaitList(node *Node, s Snapshot) {
	if left := note(&d.Unasked, s.Unasked, node.Name, s.Now); left > 0 {
		d.Recheck(min(left, asking))
	} else {
		d.late = append(d.late, node.Name)
	}
}

// awaitMarks notes since when a pod is without what its results say.
func (d *Decision) awaitMarks(pod *corev1.Pod, s Snapshot) {
	d.marking = append(d.marking, pod.Name)
	if left := note(&d.Unmarked, s.Unmarked, pod.Name, s.Now); left > 0 {
		d.Recheck(marking)
	} else {
		d.unmarked = append(d.unmarked, pod.Name)
		d.Recheck(asking)
	}
}

// awaitRelease notes since when lists have probes of a marker that is being deleted. A list that loses them triggers a pass over the marker.
func (d *Decision) awaitRelease(s Snapshot) {
	for _, node := range s.Carried {
		if left := note(&d.Unreleased, s.Unreleased, node, s.Now); left > 0 {
			d.Recheck(left)
		} else {
			d.late = append(d.late, node)
		}
	}
}

// results notes what is known of the probes of a pod, and returns how many of them the list of its node does not have.
func (d *Decision) results(pod *Pod, probes []appsv1alpha1.ContainerProbe, own map[string]*appsv1alpha1.PodContainerProbe, s Snapshot) (missing int) {
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

// ownMarks are the probes of a marker by key, without what others may write otherwise: one that shares its condition, a label or an annotation with a
// probe of another marker, or with another of its own, is empty. It is the same for all pods, and comparing all probes for each of them would be the
// most of a pass.
func ownMarks(m *probing.Marker, others []*probing.Marker) map[string]*appsv1alpha1.PodContainerProbe {
	own := make(map[string]*appsv1alpha1.PodContainerProbe, len(m.Probes))
	for i := range m.Probes {
		p := &m.Probes[i]
		shares := func(other appsv1alpha1.PodContainerProbe) bool { return probing.Share(p, &other) }
		taken := slices.ContainsFunc(others, func(o *probing.Marker) bool { return slices.ContainsFunc(o.Probes, shares) }) ||
			slices.ContainsFunc(m.Probes, func(o appsv1alpha1.PodContainerProbe) bool { return o.Name != p.Name && shares(o) })
		if taken {
			p = &appsv1alpha1.PodContainerProbe{Name: p.Name}
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

// OverdueNodes are the nodes that should have said something of a probe by now, and have not, sorted.
func OverdueNodes(spec *Spec, s Snapshot) []string {
	if spec.Marker == nil || spec.Object.DeletionTimestamp != nil || s.Off != "" {
		return nil
	}
	var silent []string
	for i := range s.Nodes {
		if node := &s.Nodes[i]; !node.Virtual && slices.ContainsFunc(node.Pods, func(p Pod) bool { return isSilent(spec, &p, s) }) {
			silent = append(silent, node.Name)
		}
	}
	return silent
}

func isSilent(spec *Spec, pod *Pod, s Snapshot) bool {
	probes, _ := spec.Marker.Wanted(pod.Object)
	return slices.ContainsFunc(probes, func(p appsv1alpha1.ContainerProbe) bool {
		result := pod.result(p.Name)
		return slices.Contains(pod.Asked, p.Name) && (result == nil || result.State == "" && result.Error == "") &&
			s.Now.Sub(since(pod.Object, s.Since)) >= limit(&p.Probe)
	})
}

// finalize makes these the finalizers of the marker.
func (d *Decision) finalize(spec *Spec, step planning.Step, finalizers []string) {
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: step, Kind: Kind(), Object: spec.Object, Reason: string(step),
		Change: planning.MetadataPatch(spec.Object, map[string]any{"finalizers": finalizers}),
	})
}

// ask makes the list of a node, with as many of the probes as it has room for. It goes with its node.
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
