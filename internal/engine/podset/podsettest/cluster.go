// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// Move is something that happens to a pod without the controller.
type Move string

// Moves that bring pods forward. They happen sooner or later.
const (
	// Start: the pod is scheduled and its containers run.
	Start Move = "starts"
	// ObserveSpec: the kubelet sees the present spec; the containers still are the old ones.
	ObserveSpec Move = "is observed"
	// Restart: containers whose image changed are replaced.
	Restart Move = "restarts"
	// BecomeReady: all containers are ready, and the pod with them if its gates allow it.
	BecomeReady Move = "becomes ready"
	// SyncReady: the kubelet computes the Ready condition from containers and gates.
	SyncReady Move = "is synced"
	// FinishDeletion: a terminating pod without finalizers is gone.
	FinishDeletion Move = "is gone"
	// ReleaseHook: the user lets a pod go on that waits at a hook.
	ReleaseHook Move = "is released"
	// RestoreHook: the user puts the hook back on a pod that waits for it.
	RestoreHook Move = "is hooked"
	// PassTime: time passes for this pod.
	PassTime Move = "waits long enough"
	// CollectClaims: the garbage collector removes claims whose owner is gone.
	CollectClaims Move = "claims are collected"
	// GrowClaim: the storage gives a claim the size that it requests.
	GrowClaim Move = "grows"
)

// Faults. An exploration has a limited number of them.
const (
	// Crash: all containers fail and run again, not ready.
	Crash Move = "crashes"
	// DeletePod: somebody else deletes the pod.
	DeletePod Move = "is deleted by somebody"
	// Evict: the node ends the pod; its phase is Failed.
	Evict Move = "is evicted"
	// LoseContact: the node does not answer; whether the pod is ready is unknown.
	LoseContact Move = "is lost"
	// RequestDeletion: the user asks the workload to delete the pod.
	RequestDeletion Move = "is to be deleted"
)

// anyNode is where pods run as long as nodes play no role.
const anyNode = "node"

// Cluster says how the cluster around the workload behaves.
type Cluster struct {
	// Hooks are the workload's: a user answers at them.
	Hooks *shared.Lifecycle
	// Clock makes time pass as a move of its own; without it every wait is over at once.
	Clock bool
	// Prompt says that the kubelet is faster than every wait: with Clock, time passes for a pod only once its kubelet has seen the spec and restarted
	// what that calls for.
	Prompt bool
	// NeverReady are images with which a container runs and never becomes ready.
	NeverReady []string
	// Aliases are second names of images. A container that is made from one is reported under the image's first name.
	Aliases map[string]string
	// NotPulled are images that no node can get.
	NotPulled []string
	// Nodes are the names of the nodes that there can be, sorted; a state says which of them there are. When omitted, nodes play no role: every
	// pod runs on one that is always ready.
	Nodes []string
	// LeavesFailed says that the workload leaves failed pods to their garbage collector: at which revision they are does not matter.
	LeavesFailed bool
}

// moves are what can happen to the pod next. A nil result is a pod that is gone.
func (c Cluster) moves(pod *corev1.Pod) map[Move]*corev1.Pod {
	possible := map[Move]*corev1.Pod{}
	try := func(move Move, can bool, change func(*corev1.Pod)) {
		if can {
			changed := pod.DeepCopy()
			change(changed)
			possible[move] = changed
		}
	}
	hook := c.waitsAt(pod)
	terminating := pod.DeletionTimestamp != nil
	if terminating && len(pod.Finalizers) == 0 {
		possible[FinishDeletion] = nil
	}
	try(ReleaseHook, hook != nil && pod.Labels[shared.LabelLifecycleState] != string(shared.StateUpdated) && lifecycle.Hooked(hook, pod), func(p *corev1.Pod) { unhook(hook, p) })
	try(PassTime, c.Clock && hasTime(pod) && (!c.Prompt || !c.isBehind(pod)), elapse)
	if terminating {
		// Its finalizers may be those of a hook that nobody waits at any more.
		try(ReleaseHook, c.Hooks != nil && len(pod.Finalizers) > 0, func(p *corev1.Pod) { p.Finalizers = nil })
		return possible
	}
	try(RestoreHook, c.rehooks(pod), c.putBack)

	finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	started := len(pod.Status.ContainerStatuses) > 0
	try(DeletePod, true, func(p *corev1.Pod) { *p = *deleted(p) })
	try(RequestDeletion, pod.Labels[shared.LabelSpecifiedDelete] == "", func(p *corev1.Pod) { p.Labels[shared.LabelSpecifiedDelete] = "true" })
	if finished {
		return possible
	}
	try(Evict, started, evict)
	if !started {
		try(Start, true, c.start)
		return possible
	}
	observed := pod.Status.ObservedGeneration == pod.Generation
	try(ObserveSpec, !observed, func(p *corev1.Pod) { p.Status.ObservedGeneration = p.Generation })
	try(Restart, observed && c.mustRestart(pod), c.restart)
	try(BecomeReady, c.canBeReady(pod), becomeReady)
	try(SyncReady, c.outOfSync(pod), syncReady)
	running := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	try(Crash, running, crash)
	try(LoseContact, condition(pod, corev1.PodReady) == corev1.ConditionTrue, func(p *corev1.Pod) { setCondition(p, corev1.PodReady, corev1.ConditionUnknown) })
	return possible
}

// Do makes a move happen to a pod of the state, or to a node.
func Do[W any](w *State[W], c Cluster, name string, move Move) error {
	if move.isNodeFault() || move == RecoverNode {
		return doNode(w, c, nodeMove{name, move})
	}
	pod := w.Pod(name)
	if pod == nil {
		return fmt.Errorf("pod %s %s, but there is none", name, move)
	}
	changed, can := podMoves(c, w, pod)[move]
	if !can {
		return fmt.Errorf("%s cannot happen to: %s", move, Describe(pod))
	}
	if changed == nil {
		w.remove(name)
	} else {
		w.put(c.normalize(changed))
	}
	return nil
}

func (m Move) isFault() bool {
	return m == Crash || m == DeletePod || m == Evict || m == LoseContact || m == RequestDeletion || m.isNodeFault()
}

func (c Cluster) start(pod *corev1.Pod) {
	now := metav1.NewTime(Now())
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = anyNode // the caller names another one where nodes play a role
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &now
	pod.Status.ObservedGeneration = pod.Generation
	setCondition(pod, corev1.PodScheduled, corev1.ConditionTrue)
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse)
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
	for i := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name}
		c.run(&status, pod.Spec.Containers[i].Image)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
}

// run starts a container with an image, or lets it wait if there is no such image.
func (c Cluster) run(status *corev1.ContainerStatus, image string) {
	status.Ready = false
	if slices.Contains(c.NotPulled, image) {
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		if status.Image == "" {
			status.Image = image
		}
		return
	}
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(Now())}}
	status.Image = cmp.Or(c.Aliases[image], image)
	status.ImageID, status.ContainerID = "id-of-"+status.Image, containerNow(status.Name)+madeFromMark+image
}

func containerNow(name string) string    { return "sim://" + name + "-now" }
func containerBefore(name string) string { return "sim://" + name + "-before" }

// madeFromMark comes before the image in a container's ID.
const madeFromMark = "#"

// madeFrom is the image that the container was made from; the status may name it otherwise.
func madeFrom(status *corev1.ContainerStatus) string {
	if _, image, found := strings.Cut(status.ContainerID, madeFromMark); found {
		return image
	}
	return status.Image
}

// forget makes the present container of this name the one before, wherever the pod remembers it.
func forget(pod *corev1.Pod, name string) {
	for key, value := range pod.Annotations {
		pod.Annotations[key] = strings.ReplaceAll(value, containerNow(name), containerBefore(name))
	}
}

// isBehind says that the kubelet has not yet done what the spec calls for.
func (c Cluster) isBehind(pod *corev1.Pod) bool {
	return pod.Status.ObservedGeneration != pod.Generation || c.mustRestart(pod)
}

func (c Cluster) mustRestart(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if c.mustRestartContainer(&pod.Spec.Containers[i], pod) {
			return true
		}
	}
	return false
}

func (c Cluster) mustRestartContainer(container *corev1.Container, pod *corev1.Pod) bool {
	status := restart.StatusOf(pod, container.Name)
	if status == nil {
		return false
	}
	if status.State.Waiting != nil {
		return !slices.Contains(c.NotPulled, container.Image)
	}
	return madeFrom(status) != container.Image
}

func (c Cluster) restart(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		if c.mustRestartContainer(&pod.Spec.Containers[i], pod) {
			forget(pod, pod.Spec.Containers[i].Name)
			c.run(restart.StatusOf(pod, pod.Spec.Containers[i].Name), pod.Spec.Containers[i].Image)
		}
	}
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse)
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
}

func crash(pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.State.Running != nil {
			forget(pod, status.Name)
			status.Ready = false
			status.State.Running.StartedAt = metav1.NewTime(Now())
		}
	}
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse)
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
}

func (c Cluster) canBeReady(pod *corev1.Pod) bool {
	all := true
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.State.Running == nil || slices.Contains(c.NeverReady, status.Image) {
			return false
		}
		all = all && status.Ready
	}
	return !all || condition(pod, corev1.ContainersReady) != corev1.ConditionTrue
}

func becomeReady(pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = true
	}
	setCondition(pod, corev1.ContainersReady, corev1.ConditionTrue)
	syncReady(pod)
}

// outOfSync says that the Ready condition is not what the kubelet would write.
func (c Cluster) outOfSync(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady) != wantedReady(pod)
}

func syncReady(pod *corev1.Pod) { setCondition(pod, corev1.PodReady, wantedReady(pod)) }

func wantedReady(pod *corev1.Pod) corev1.ConditionStatus {
	if condition(pod, corev1.ContainersReady) != corev1.ConditionTrue {
		return corev1.ConditionFalse
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if condition(pod, gate.ConditionType) != corev1.ConditionTrue {
			return corev1.ConditionFalse
		}
	}
	return corev1.ConditionTrue
}

func evict(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Reason = "Evicted"
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = false
		pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	}
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse)
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
}

// waitsAt is the hook that the pod's state is about, or nil.
func (c Cluster) waitsAt(pod *corev1.Pod) *shared.LifecycleHook {
	if c.Hooks == nil {
		return nil
	}
	switch lifecycle.StateOf(pod) {
	case shared.StatePreparingNormal:
		return c.Hooks.PreNormal
	case shared.StatePreparingUpdate, shared.StateUpdated:
		return c.Hooks.InPlaceUpdate
	case shared.StatePreparingDelete:
		return c.Hooks.PreDelete
	default:
		return nil
	}
}

// rehooks says that the user should put a hook on the pod: it waits for that, or it is back in service and has to be protected
// again.
func (c Cluster) rehooks(pod *corev1.Pod) bool {
	if c.Hooks == nil {
		return false
	}
	for _, hook := range c.due(pod) {
		if !lifecycle.AllHooked(hook, pod) {
			return true
		}
	}
	return false
}

func (c Cluster) putBack(pod *corev1.Pod) {
	for _, hook := range c.due(pod) {
		maps.Copy(pod.Labels, hook.LabelsHandler)
		for _, finalizer := range hook.FinalizersHandler {
			if !slices.Contains(pod.Finalizers, finalizer) {
				pod.Finalizers = append(pod.Finalizers, finalizer)
			}
		}
	}
}

// due are the hooks that a pod in its state should have.
func (c Cluster) due(pod *corev1.Pod) []*shared.LifecycleHook {
	var due []*shared.LifecycleHook
	add := func(hook *shared.LifecycleHook) {
		if hook != nil {
			due = append(due, hook)
		}
	}
	switch lifecycle.StateOf(pod) {
	case shared.StatePreparingNormal:
		add(c.Hooks.PreNormal)
	case shared.StateUpdated:
		add(c.Hooks.InPlaceUpdate)
	case shared.StateNormal, "":
		add(c.Hooks.InPlaceUpdate)
		add(c.Hooks.PreDelete)
	}
	return due
}

func unhook(hook *shared.LifecycleHook, pod *corev1.Pod) {
	for key := range hook.LabelsHandler {
		delete(pod.Labels, key)
	}
	pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return slices.Contains(hook.FinalizersHandler, f) })
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return pod.Status.Conditions[i].Status
		}
	}
	return ""
}

// setCondition writes a condition as the kubelet does.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			if c.Status != status {
				*c = corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(Now())}
			}
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(Now())})
}
