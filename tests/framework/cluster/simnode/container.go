// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons a kubelet gives for a waiting or ended container.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonConfigError  = "CreateContainerConfigError"
	reasonErrImagePull = "ErrImagePull"
	reasonPullBackOff  = "ImagePullBackOff"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonCompleted    = "Completed"
	reasonError        = "Error"
	reasonUnknown      = "ContainerStatusUnknown"
)

const exitKilled = 137

// role is the part a container plays in its pod.
type role int

const (
	roleMain role = iota
	roleInit
	roleSidecar // an init container with restart policy Always
	roleEphemeral
)

// container is one container of a simulated runtime.
type container struct {
	role role
	// status is the kubelet's report, exactly.
	status corev1.ContainerStatus
	// image is the reference in the spec when the container was last started, or tried to.
	image string
	// changed is when the state last changed. The status has whole seconds only.
	changed time.Time
	// shown: the present state has reached the API server.
	shown bool
	// restartSince is when a pending change of the image was observed; zero if there is
	// none.
	restartSince time.Time
	// restartShown: the API server shows the change as observed, with the old container
	// still running.
	restartShown bool
	// resizeSince is when pending resources were observed; zero if there are none.
	resizeSince time.Time
	resizeShown bool
	// resizePending is Deferred or Infeasible while the node refuses the change.
	resizePending string
	// backOff is the wait before a failing container's next start.
	backOff time.Duration
	// crashed: the annotation CrashLoop caused the last end.
	crashed bool
	// kill is the exit code a test ends the container with.
	kill *int32
}

func newContainer(r role, name, waiting string, now time.Time) *container {
	c := &container{role: r, changed: now, status: corev1.ContainerStatus{Name: name}}
	if r != roleEphemeral {
		c.status.Started = new(bool)
	}
	c.status.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	return c
}

func (c *container) running() bool { return c.status.State.Running != nil }
func (c *container) ended() bool   { return c.status.State.Terminated != nil }
func (c *container) begun() bool   { return c.status.ContainerID != "" }
func (c *container) waiting(reason string) bool {
	return c.status.State.Waiting != nil && c.status.State.Waiting.Reason == reason
}

// succeeded: the container ran to its end without a fault.
func (c *container) succeeded() bool { return c.ended() && c.status.State.Terminated.ExitCode == 0 }

// wait makes the container waiting. A reported end becomes the last state.
func (c *container) wait(now time.Time, reason, message string) {
	if c.ended() {
		c.status.LastTerminationState = c.status.State
	}
	c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	c.enter(now)
}

// exit ends a running container.
func (c *container) exit(now time.Time, code int32) {
	reason := reasonCompleted
	if code != 0 {
		reason = reasonError
	}
	c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: c.status.ContainerID,
		StartedAt: c.status.State.Running.StartedAt, FinishedAt: seconds(now),
	}}
	c.enter(now)
}

// halt ends the container with its pod, whatever it is doing.
func (c *container) halt(now time.Time, code int32) {
	switch {
	case c.running():
		c.exit(now, code)
	case c.ended():
	case c.status.LastTerminationState.Terminated != nil:
		c.status.State, c.status.LastTerminationState = c.status.LastTerminationState, corev1.ContainerState{}
		c.enter(now)
	default:
		// A container never created cannot be found either.
		c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitKilled, Reason: reasonUnknown,
			Message: "The container never ran before its pod ended",
		}}
		c.enter(now)
	}
	c.status.Ready = false
	c.restartSince, c.resizeSince, c.resizePending = time.Time{}, time.Time{}, ""
}

func (c *container) enter(now time.Time) {
	c.changed, c.shown = now, false
	if c.status.Started != nil {
		c.status.Started = new(bool)
	}
}

// start creates and starts a new container from the spec, as a runtime does: with a new ID.
func (c *container) start(v *view, spec *corev1.Container) {
	if c.begun() {
		c.status.RestartCount++
	}
	if c.ended() {
		c.status.LastTerminationState = c.status.State
	}
	c.image = spec.Image
	c.restartSince, c.resizeSince, c.resizePending, c.kill = time.Time{}, time.Time{}, "", nil

	s := &c.status
	s.ContainerID = "containerd://" + digest(string(v.pod.UID), s.Name, fmt.Sprint(s.RestartCount))
	s.Image, s.ImageID = v.behavior.statusImage.of(s.Name), v.behavior.imageID.of(s.Name)
	if s.Image == "" {
		s.Image = statusImage(spec.Image)
	}
	if s.ImageID == "" {
		s.ImageID = v.options.ImageID(spec.Image)
	}
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(v.now)}}
	if c.role != roleEphemeral {
		s.AllocatedResources = spec.Resources.Requests.DeepCopy()
		s.Resources = reported(spec)
	}
	c.enter(v.now)
	if s.Started != nil {
		*s.Started = true
	}
}

// tryStart starts the container if its image can be pulled.
func (c *container) tryStart(v *view, spec *corev1.Container) {
	c.restartSince = time.Time{}
	if v.pullFails(spec) {
		c.image = spec.Image
		c.wait(v.now, reasonErrImagePull, fmt.Sprintf("failed to pull and unpack image %q: not found", statusImage(spec.Image)))
		if !c.begun() {
			c.status.Image = spec.Image
		}
		return
	}
	if missing := v.missing(spec); missing != "" {
		c.image = spec.Image
		c.wait(v.now, reasonConfigError, missing)
		return
	}
	c.start(v, spec)
}

// run takes a running or startable container to its present state.
//
// Several steps may be due at once. States observers must see (a change observed while the
// old container still runs; a container running before it completed) end the round; the
// next begins after the write.
func (c *container) run(v *view, spec *corev1.Container, mayStart time.Time) {
	c.changeImage(v, spec)
	c.changeResources(v, spec)
	for range 3 { // start, end, back-off: there is no longer chain
		if !c.advance(v, spec, mayStart) {
			break
		}
	}
	switch c.role {
	case roleInit:
		c.status.Ready = c.succeeded()
	case roleEphemeral: // never counts
	default:
		c.status.Ready = c.running() && v.due(c.changed, v.behavior.ready.of(spec.Name)) && !v.behavior.notReady.of(spec.Name)
	}
}

// advance makes one change of state; it is true if another may follow.
func (c *container) advance(v *view, spec *corev1.Container, mayStart time.Time) bool {
	b, name := &v.behavior, spec.Name
	crash := b.crash.of(name)
	switch {
	case c.waiting(reasonErrImagePull) || c.waiting(reasonPullBackOff):
		switch {
		case !c.restartSince.IsZero():
			return false
		case !v.pullFails(spec):
			c.start(v, spec)
			return true
		case c.waiting(reasonErrImagePull) && v.due(c.changed, v.options.BackOff):
			c.wait(v.now, reasonPullBackOff, fmt.Sprintf("Back-off pulling image %q", spec.Image))
		}
		return false

	case c.waiting(reasonConfigError) && v.missing(spec) != "":
		v.reached(v.now.Add(v.options.BackOff)) // the next look
		return false

	case c.waiting(reasonCrashLoop):
		healed := c.crashed && !crash // by the test: no reason to wait any longer
		if healed {
			c.backOff = 0
		} else if !v.due(c.changed, c.backOff) {
			return false
		}
		c.tryStart(v, spec)
		return true

	case c.running():
		code, ends := c.endsNow(v, spec, crash)
		if ends {
			c.exit(v.now, code)
		}
		return ends

	case c.ended():
		if c.role == roleEphemeral || !restarts(c.policy(v, spec), c.status.State.Terminated.ExitCode) {
			return false
		}
		if c.kill != nil { // a first failure is restarted without a wait
			c.tryStart(v, spec)
			return true
		}
		c.backOff = min(max(2*c.backOff, v.options.BackOff), v.options.MaxBackOff)
		c.wait(v.now, reasonCrashLoop, fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			c.backOff, name, v.pod.Name, v.pod.Namespace, v.pod.UID))
		return true

	default: // never started
		if !v.due(mayStart, b.startOf[name]) {
			return false
		}
		c.tryStart(v, spec)
		return true
	}
}

// endsNow is true if the running container ends now, and has its exit code.
func (c *container) endsNow(v *view, spec *corev1.Container, crash bool) (int32, bool) {
	b, name := &v.behavior, spec.Name
	c.crashed = false
	code := int32(0)
	after, set := b.complete.of(name), b.exitCode.of(name)
	if c.role == roleEphemeral {
		after, set = b.ephemeral, b.ephemeralCode
	}
	if set != nil {
		code = *set
	}
	switch {
	case c.kill != nil:
		return *c.kill, true
	case crash && v.due(c.changed, b.crashAfter.of(name)):
		c.crashed = true
		return max(code, 1), true
	case c.role == roleInit:
		return code, v.due(c.changed, b.init.of(name))
	case c.role != roleSidecar && v.due(c.changed, after):
		// Observers must be able to see it running first.
		if !c.shown {
			v.again()
		}
		return code, c.shown
	}
	return 0, false
}

func (c *container) policy(v *view, spec *corev1.Container) corev1.RestartPolicy {
	switch {
	case c.role == roleSidecar:
		return corev1.RestartPolicyAlways
	case c.role == roleInit && v.pod.Spec.RestartPolicy == corev1.RestartPolicyAlways:
		return corev1.RestartPolicyOnFailure
	default:
		return v.pod.Spec.RestartPolicy
	}
}

func restarts(policy corev1.RestartPolicy, code int32) bool {
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// changeImage restarts a container with a changed image. The change is first reported with
// the old container still running; a later round replaces the container, in one status
// write.
func (c *container) changeImage(v *view, spec *corev1.Container) {
	if c.image == "" || c.image == spec.Image || c.ended() || c.role == roleInit || c.role == roleEphemeral {
		c.restartSince = time.Time{}
		return
	}
	if c.restartSince.IsZero() {
		c.restartSince, c.restartShown = v.now, false
	}
	if !v.due(c.restartSince, v.behavior.restart.of(spec.Name)) {
		return
	}
	if !c.restartShown {
		v.again()
		return
	}
	if c.running() {
		c.exit(v.now, 0)
	}
	c.backOff = 0 // a back-off belongs to the old image
	c.tryStart(v, spec)
}

// changeResources follows a change of the container's resources: refused, under way, or done.
func (c *container) changeResources(v *view, spec *corev1.Container) {
	c.resizePending = ""
	if !c.running() || c.role == roleInit || c.role == roleEphemeral ||
		equality.Semantic.DeepEqual(reported(spec), c.status.Resources) {
		c.resizeSince = time.Time{}
		return
	}
	switch v.behavior.resize {
	case ResizeDeferred:
		c.resizeSince, c.resizePending = time.Time{}, corev1.PodReasonDeferred
		return
	case ResizeInfeasible:
		c.resizeSince, c.resizePending = time.Time{}, corev1.PodReasonInfeasible
		return
	}
	if c.resizeSince.IsZero() {
		c.resizeSince, c.resizeShown = v.now, false
	}
	c.status.AllocatedResources = spec.Resources.Requests.DeepCopy()
	if !v.due(c.resizeSince, v.behavior.resizeDelay) {
		return
	}
	if !resizeRestarts(spec, c.status.Resources) {
		c.resizeSince = time.Time{}
		c.status.Resources = reported(spec)
		return
	}
	if !c.resizeShown {
		v.again()
		return
	}
	c.exit(v.now, 0)
	c.start(v, spec)
}

// resizeRestarts is true if a changed resource asks for a restart of its container.
func resizeRestarts(spec *corev1.Container, old *corev1.ResourceRequirements) bool {
	if old == nil {
		return false
	}
	for _, policy := range spec.ResizePolicy {
		if policy.RestartPolicy != corev1.RestartContainer {
			continue
		}
		name := policy.ResourceName
		if !sameQuantity(spec.Resources.Requests, old.Requests, name) || !sameQuantity(spec.Resources.Limits, old.Limits, name) {
			return true
		}
	}
	return false
}

func sameQuantity(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}

// reported is the status's form of a container's resources.
func reported(spec *corev1.Container) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Limits: spec.Resources.Limits.DeepCopy(), Requests: spec.Resources.Requests.DeepCopy()}
}

// seconds cuts a time to the API's precision, so a status read back equals the one written.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
