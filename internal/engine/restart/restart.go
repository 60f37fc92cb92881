// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// lookAgain is when to look at containers again although nothing was heard: a new instance shows in the runtime before it does in the pod.
	lookAgain = 3 * time.Second
	// minGrace is the shortest time for a container to stop.
	minGrace = 2 * time.Second
	// defaultGrace is for requests without admission.
	defaultGrace = 30 * time.Second
)

// TerminationPrefix begins the names of requests for sidecars of finished jobs; the UID of the pod
// follows.
const TerminationPrefix = "sidecar-termination-"

// Terminates says that the job of the request's pod is finished. Its containers are to end, not to come
// back.
func Terminates(r *appsv1beta1.ContainerRecreateRequest) bool {
	owner := metav1.GetControllerOfNoCopy(r)
	return owner != nil && owner.Kind == "Pod" && r.Name == TerminationPrefix+string(owner.UID)
}

// Instance is the newest instance of a container, as the runtime knows it.
type Instance struct {
	// ID has the name of the runtime before it, as in the status of pods.
	ID string
	// Running and Exited are its state; neither before its start.
	Running, Exited bool
	// Started is when it was started; zero before.
	Started time.Time
	// ExitCode is an ended instance's.
	ExitCode int32
}

// Snapshot is the node's knowledge of a pod.
type Snapshot struct {
	Now time.Time
	// Known is when the daemon learned of the request, and Held when it learned that the pod is out
	// of service, see HeldSince. Both are times of Now's clock. Times in the request are of other
	// clocks, and may differ by minutes.
	Known, Held time.Time
	// Runtime is the name of the node's container runtime.
	Runtime string
	// Pod is the pod as the API server shows it.
	Pod *corev1.Pod
	// Instances are the newest ones by the name of their container.
	Instances map[string]Instance
}

// Kill is the order to stop an instance.
type Kill struct {
	// Container is its spec in the request: name, hook and ports.
	Container appsv1beta1.ContainerRecreateRequestContainer
	// ID is the instance's, with the name of the runtime.
	ID string
	// Grace is how long its hook and it itself have together.
	Grace time.Duration
}

// Decision is what to do for a request.
type Decision struct {
	// Status is the wanted status, Changed a difference from the present one. Nothing else is done
	// before it is written.
	Status  *appsv1beta1.ContainerRecreateRequestStatus
	Changed bool
	// Kill is what to stop; nil for nothing.
	Kill *Kill
	// RecheckAfter is when to look again although nothing was heard. Zero: only an event changes the answer.
	RecheckAfter time.Duration
}

// Plan decides about the current request:
//
//  1. nothing when it is over, past its deadline, or its pod is gone: the operator completes it;
//  2. IDs of another runtime complete it;
//  3. it begins;
//  4. with an unready grace period, it waits for the pod to be out of service, and for that period;
//  5. it looks at the containers in their order. A failed one ends the request, or is passed over.
//     The instance to stop is noted first, and stopped after that write. With orderedRecreate
//     nothing behind an unready one is looked at;
//  6. it is completed when all containers have succeeded or failed.
func Plan(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) Decision {
	d := Decision{Status: r.Status.DeepCopy()}
	if Over(r) || overdue(r, s) || !isAbout(r, s.Pod) {
		return d
	}
	if other := foreignID(r, s.Runtime); other != "" {
		d.complete(s.Now)
		d.Status.Message = fmt.Sprintf("failed to find runtime service: container ID %q is not one of %s", other, s.Runtime)
		d.Status.ContainerRecreateStates = nil
		d.Changed = true
		return d
	}
	d.Status.Phase = appsv1beta1.RecreateRecreating
	if grace := strategy(r).UnreadyGracePeriodSeconds; grace != nil {
		begun := HeldSince(r)
		if begun.IsZero() {
			d.Changed = r.Status.Phase != d.Status.Phase
			return d
		}
		if left := s.left(planning.Seconds(*grace), begun, s.Held); left > 0 {
			d.Changed = r.Status.Phase != d.Status.Phase
			d.RecheckAfter = left
			return d
		}
	}
	d.containers(r, s)
	d.Changed = !equality.Semantic.DeepEqual(&r.Status, d.Status)
	if d.Changed {
		d.Kill = nil
	}
	return d
}

// NotStopped is the status of a request after a failed stop.
func NotStopped(r *appsv1beta1.ContainerRecreateRequest, container string, cause error) *appsv1beta1.ContainerRecreateRequestStatus {
	status := r.Status.DeepCopy()
	for i := range status.ContainerRecreateStates {
		if state := &status.ContainerRecreateStates[i]; state.Name == container {
			state.Phase = appsv1beta1.RecreateFailed
			state.Message = "kill container error: " + cause.Error()
		}
	}
	return status
}

// containers is steps 5 and 6.
func (d *Decision) containers(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) {
	how := strategy(r)
	states := make([]appsv1beta1.ContainerRecreateRequestContainerRecreateState, len(r.Spec.Containers))
	for i := range r.Spec.Containers {
		states[i] = d.look(r, &r.Spec.Containers[i], s)
	}
	d.Status.ContainerRecreateStates = states
	d.Status.ContainerStatusSnapshot = newInstances(r, s.Pod)

	over, failed := 0, false
	for i := range states {
		switch states[i].Phase {
		case appsv1beta1.RecreateSucceeded:
			over++
		case appsv1beta1.RecreateFailed:
			over++
			failed = failed || how.FailurePolicy != appsv1beta1.RecreateIgnore
		}
	}
	if failed || over == len(states) {
		d.RecheckAfter = 0
		d.complete(s.Now)
		return
	}
	d.recheck(lookAgain)
	for i := range states {
		switch {
		case states[i].Phase == appsv1beta1.RecreatePending:
			d.stop(r, i, s)
			return
		case states[i].Phase == appsv1beta1.RecreateRecreating && how.OrderedRecreate:
			return
		}
	}
}

// look says how far one container is.
func (d *Decision) look(
	r *appsv1beta1.ContainerRecreateRequest, c *appsv1beta1.ContainerRecreateRequestContainer, s Snapshot,
) appsv1beta1.ContainerRecreateRequestContainerRecreateState {
	state := stateOf(r, c.Name)
	if state.Phase == appsv1beta1.RecreateSucceeded || state.Phase == appsv1beta1.RecreateFailed {
		return state
	}
	state.Phase, state.Message = appsv1beta1.RecreatePending, ""
	instance, found := s.Instances[c.Name]
	replaced := found && replaced(r, c, state.ContainerID, instance)
	if found {
		state.IsKilled = state.ContainerID != "" && (replaced || instance.Exited)
	}
	switch policy := staysDown(s.Pod, c.Name, instance); {
	case policy != "":
		state.Message = fmt.Sprintf("the container has ended with code %d, and restartPolicy %s does not start it again", instance.ExitCode, policy)
		return down(r, state)
	case !instance.Running && podstate.Finished(s.Pod):
		// As by eviction: the pod stays as an object, whatever its restart policy, and so may its containers.
		state.Message = fmt.Sprintf("the pod has ended (%s), and does not start the container again", s.Pod.Status.Phase)
		return down(r, state)
	case !found:
		state.Message = "not found container on Node"
		return state
	case instance.Exited:
		state.Phase = appsv1beta1.RecreateRecreating
		return state
	case !replaced:
		return state
	}
	state.Phase = appsv1beta1.RecreateRecreating
	if !instance.Running || !ready(s.Pod, c.Name, instance.ID) {
		state.Message = "the new instance is not ready"
		return state
	}
	if left := instance.Started.Add(time.Duration(strategy(r).MinStartedSeconds) * time.Second).Sub(s.Now); left > 0 {
		d.recheck(left)
		state.Message = "the new instance has not run for minStartedSeconds"
		return state
	}
	state.Phase = appsv1beta1.RecreateSucceeded
	return state
}

// down is the state of a container without a next start. A request for sidecars of a finished job
// asks for that; any other has failed, with the message of the state.
func down(
	r *appsv1beta1.ContainerRecreateRequest, state appsv1beta1.ContainerRecreateRequestContainerRecreateState,
) appsv1beta1.ContainerRecreateRequestContainerRecreateState {
	state.Phase = appsv1beta1.RecreateFailed
	if Terminates(r) {
		state.Phase, state.Message = appsv1beta1.RecreateSucceeded, ""
	}
	return state
}

// stop notes the instance to stop, and orders it. An unstarted one cannot be stopped yet: the
// runtime takes the order and does nothing.
func (d *Decision) stop(r *appsv1beta1.ContainerRecreateRequest, i int, s Snapshot) {
	c := r.Spec.Containers[i]
	instance := s.Instances[c.Name]
	if !instance.Running && !instance.Exited {
		return
	}
	d.Status.ContainerRecreateStates[i].ContainerID = instance.ID
	d.Kill = &Kill{Container: c, ID: instance.ID, Grace: grace(r)}
}

func (d *Decision) complete(now time.Time) {
	d.Status.Phase = appsv1beta1.RecreateCompleted
	at := podstate.Time(now)
	d.Status.CompletionTime = &at
}

func (d *Decision) recheck(after time.Duration) {
	if d.RecheckAfter == 0 || after < d.RecheckAfter {
		d.RecheckAfter = after
	}
}

// replaced says that the newest instance is a successor of the noted one, or else of the
// creation's. With forceRecreate nothing counts before the first stop.
func replaced(
	r *appsv1beta1.ContainerRecreateRequest, c *appsv1beta1.ContainerRecreateRequestContainer, noted string, instance Instance,
) bool {
	switch {
	case noted != "":
		return instance.ID != noted
	case strategy(r).ForceRecreate || c.StatusContext == nil:
		return false
	}
	return instance.ID != c.StatusContext.ContainerID
}
