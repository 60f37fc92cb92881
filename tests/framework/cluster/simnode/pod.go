// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is one look at a pod: its spec, its behavior, and the time. A round collects the
// time of the next look in it.
type view struct {
	pod      *corev1.Pod
	behavior behavior
	options  *Options
	now      time.Time
	wake     time.Time // zero: only a change of the pod matters
	// data reads a ConfigMap of the pod's namespace; nil if it does not exist or is
	// unreadable.
	data func(name string) map[string]string
}

// missing names, as a kubelet does, the first part of ConfigMaps a container lacks; empty
// if there is none.
func (v *view) missing(spec *corev1.Container) string {
	for _, env := range spec.Env {
		if env.ValueFrom == nil || env.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		ref := env.ValueFrom.ConfigMapKeyRef
		if ref.Optional != nil && *ref.Optional || v.data == nil {
			continue
		}
		data := v.data(ref.Name)
		if data == nil {
			return fmt.Sprintf("configmap %q not found", ref.Name)
		}
		if _, found := data[ref.Key]; !found {
			return fmt.Sprintf("couldn't find key %s in ConfigMap %s/%s", ref.Key, v.pod.Namespace, ref.Name)
		}
	}
	return ""
}

// reached is true once t has come. Otherwise the next look is at t at the latest.
func (v *view) reached(t time.Time) bool {
	if !v.now.Before(t) {
		return true
	}
	if v.wake.IsZero() || t.Before(v.wake) {
		v.wake = t
	}
	return false
}

// due is reached for a time d after from; never for Never.
func (v *view) due(from time.Time, d time.Duration) bool {
	return d != Never && v.reached(from.Add(d))
}

// again asks for another round as soon as this one is written.
func (v *view) again() { v.wake = v.now }

func (v *view) pullFails(spec *corev1.Container) bool {
	return v.behavior.pullFails.of(spec.Name) || unpullable(spec.Image)
}

// simulation is a node's knowledge of one of its pods. As in a kubelet, this memory is the
// truth and the status its report: overwritten fields come back with the next write. The
// one exception is a final phase.
type simulation struct {
	uid     types.UID
	hostIP  string
	podIP   string
	started metav1.Time
	// begun is started to the nanosecond.
	begun time.Time
	// sandboxAt is when the pod got its network, and its address with it; zero before.
	sandboxAt time.Time
	// initDone is when the last init container was through; zero before.
	initDone time.Time

	init, main, ephemeral []*container

	// phase is Succeeded or Failed when the pod has come to its end.
	phase           corev1.PodPhase
	reason, message string
	// given is the final phase somebody else has written, and givenSeen when the node
	// learned of it.
	given     corev1.PodPhase
	givenSeen time.Time
	// deletionSeen is when the node learned of the pod's deletion.
	deletionSeen time.Time
	// stopped: all of a deleted pod has ended, so the object may go.
	stopped bool

	lastGood *behavior
}

// newSimulation takes up a pod. One from an earlier simulator of this node continues from
// its status, as a kubelet continues from its runtime.
func newSimulation(pod *corev1.Pod, hostIP, podIP string, now time.Time) *simulation {
	s := &simulation{uid: pod.UID, hostIP: hostIP, podIP: podIP, started: seconds(now), begun: now}
	waiting := reasonCreating
	if len(pod.Spec.InitContainers) > 0 {
		waiting = reasonInitializing
	}
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		r := roleInit
		if spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			r = roleSidecar
		}
		s.init = append(s.init, resume(newContainer(r, spec.Name, waiting, now), spec, pod.Status.InitContainerStatuses))
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		s.main = append(s.main, resume(newContainer(roleMain, spec.Name, waiting, now), spec, pod.Status.ContainerStatuses))
	}
	s.adoptEphemeral(pod, now)

	if pod.Status.StartTime != nil {
		s.started, s.begun = *pod.Status.StartTime, pod.Status.StartTime.Time
	}
	if pod.Status.PodIP != "" {
		s.sandboxAt = s.begun
	}
	if slices.ContainsFunc(s.main, (*container).begun) {
		s.initDone = s.started.Time
	}
	if terminal(pod.Status.Phase) {
		s.phase, s.reason, s.message = pod.Status.Phase, pod.Status.Reason, pod.Status.Message
	}
	return s
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// resume continues a container from its last report.
func resume(c *container, spec *corev1.Container, reports []corev1.ContainerStatus) *container {
	i := slices.IndexFunc(reports, func(r corev1.ContainerStatus) bool { return r.Name == c.status.Name })
	if i < 0 || reports[i].ContainerID == "" {
		return c
	}
	reports[i].DeepCopyInto(&c.status)
	c.shown = true
	c.image = c.status.Image
	if statusImage(spec.Image) == c.image {
		c.image = spec.Image
	}
	switch state := c.status.State; {
	case state.Running != nil:
		c.changed = state.Running.StartedAt.Time
	case state.Terminated != nil:
		c.changed = state.Terminated.FinishedAt.Time
	case c.waiting(reasonCrashLoop):
		c.crashed = true
	case c.waiting(reasonErrImagePull), c.waiting(reasonPullBackOff):
		c.image = spec.Image
	}
	return c
}

// adoptEphemeral takes up ephemeral containers at any time and any place of the list: a
// strategic merge patch puts new ones first.
func (s *simulation) adoptEphemeral(pod *corev1.Pod, now time.Time) {
	for i := range pod.Spec.EphemeralContainers {
		spec := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if slices.ContainsFunc(s.ephemeral, func(c *container) bool { return c.status.Name == spec.Name }) {
			continue
		}
		c := newContainer(roleEphemeral, spec.Name, reasonCreating, now)
		s.ephemeral = append(s.ephemeral, resume(c, &spec, pod.Status.EphemeralContainerStatuses))
	}
}

// written: the present report has reached the API server.
func (s *simulation) written() {
	for _, c := range s.all() {
		c.shown = true
		c.restartShown = !c.restartSince.IsZero()
		c.resizeShown = !c.resizeSince.IsZero()
	}
}

// round takes the pod to its state at v.now, or to the next state observers must see.
func (s *simulation) round(v *view) {
	if v.pod.DeletionTimestamp != nil {
		s.terminate(v)
		return
	}
	if s.phase != "" {
		return
	}
	if s.given != "" || terminal(v.pod.Status.Phase) {
		s.obey(v)
		return
	}
	if s.failsAsWhole(v) {
		s.end(v.now, corev1.PodFailed, exitKilled)
		return
	}
	if s.sandboxAt.IsZero() {
		if !v.due(s.begun, v.behavior.start) {
			return
		}
		s.sandboxAt = v.now
	}
	s.adoptEphemeral(v.pod, v.now)
	if s.runInit(v) {
		for i, c := range s.main {
			c.run(v, &v.pod.Spec.Containers[i], s.initDone)
		}
	}
	for i := range v.pod.Spec.EphemeralContainers {
		spec := corev1.Container(v.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		for _, c := range s.ephemeral {
			if c.status.Name == spec.Name {
				c.run(v, &spec, v.now)
			}
		}
	}
	if phase := s.outcome(); phase != "" {
		s.end(v.now, phase, 0)
	}
}

// runInit runs the init containers in sequence; it is true once the main containers may
// run. Sidecars keep running beside them; once all are through, a failing sidecar no longer
// holds back the rest.
func (s *simulation) runInit(v *view) bool {
	through := !s.initDone.IsZero()
	mayStart := s.sandboxAt
	for i, c := range s.init {
		if through && c.role == roleInit {
			continue
		}
		c.run(v, &v.pod.Spec.InitContainers[i], mayStart)
		passed := c.succeeded() || c.role == roleSidecar && c.running()
		if !through && !passed {
			return false
		}
		mayStart = c.changed
	}
	if !through {
		s.initDone = v.now
	}
	return true
}

// outcome is the phase of a pod with finally ended containers; empty for others. Restarted
// containers have left the ended state already.
func (s *simulation) outcome() corev1.PodPhase {
	for _, c := range s.init {
		if c.role == roleInit && c.ended() && !c.succeeded() {
			return corev1.PodFailed
		}
	}
	switch {
	case !every(s.main, (*container).ended):
		return ""
	case every(s.main, (*container).succeeded):
		return corev1.PodSucceeded
	default:
		return corev1.PodFailed
	}
}

// failsAsWhole is true if the node itself ends the pod now, and notes why.
func (s *simulation) failsAsWhole(v *view) bool {
	if v.due(s.begun, v.behavior.failAfter) {
		s.reason, s.message = "Evicted", "The annotation "+FailAfter+" asks for it"
		return true
	}
	if limit := v.pod.Spec.ActiveDeadlineSeconds; limit != nil && v.due(s.begun, time.Duration(*limit)*time.Second) {
		s.reason, s.message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		return true
	}
	return false
}

// end brings the pod to its final phase. Containers still running end with the given code.
func (s *simulation) end(now time.Time, phase corev1.PodPhase, code int32) {
	for _, c := range s.all() {
		c.halt(now, code)
	}
	s.phase = phase
}

// terminate keeps a deleted pod until its time is over and then ends it.
func (s *simulation) terminate(v *view) {
	if s.deletionSeen.IsZero() {
		s.deletionSeen = v.now
	}
	if !v.graceOver(s.deletionSeen, v.pod.DeletionGracePeriodSeconds) {
		return
	}
	s.stopped = true
	if s.phase != "" {
		return
	}
	s.end(v.now, s.given, v.stopCode())
	if s.phase == "" {
		s.phase = s.outcome()
	}
}

// obey ends a pod with somebody else's final phase. Like a kubelet, the node takes it as
// final, stops the running containers, and keeps the phase whatever their ends.
func (s *simulation) obey(v *view) {
	if s.given == "" {
		s.given, s.givenSeen = v.pod.Status.Phase, v.now
		s.reason, s.message = v.pod.Status.Reason, v.pod.Status.Message
	}
	if v.graceOver(s.givenSeen, v.pod.Spec.TerminationGracePeriodSeconds) {
		s.end(v.now, s.given, v.stopCode())
	}
}

// graceOver is true if containers told to stop at a time have stopped.
func (v *view) graceOver(since time.Time, grace *int64) bool {
	if v.behavior.hangTerminate {
		return false
	}
	wait := v.behavior.terminate
	if grace != nil {
		wait = min(wait, time.Duration(*grace)*time.Second)
	}
	return v.due(since, wait)
}

// stopCode is the exit code of stopped containers.
func (v *view) stopCode() int32 {
	if set := v.behavior.exitCode.fallback; set != nil {
		return *set
	}
	return 0
}

// kill ends a running container, as if its process had ended by itself with the code.
func (s *simulation) kill(name string, code int32) bool {
	for _, c := range s.all() {
		if c.status.Name == name && c.running() {
			c.kill = &code
			return true
		}
	}
	return false
}

func (s *simulation) all() []*container { return slices.Concat(s.init, s.main, s.ephemeral) }

func every(list []*container, holds func(*container) bool) bool {
	return !slices.ContainsFunc(list, func(c *container) bool { return !holds(c) })
}

// refuse keeps the containers from starting and tells why.
func (s *simulation) refuse(now time.Time, message string) {
	for _, c := range s.main {
		if !c.begun() && !c.waiting(reasonConfigError) {
			c.wait(now, reasonConfigError, message)
		}
	}
}
