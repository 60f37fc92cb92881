// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// ConditionTerminated is True on a pod whose phase was decided by its main containers alone.
	ConditionTerminated corev1.PodConditionType = "SidecarTerminated"
	// messageTerminated is the message of that condition.
	messageTerminated = "Terminated by Sidecar Terminator"

	// longest is how long a request may take beyond the pod's grace period, in seconds.
	longest = 120
	// timeToLive is how long a request is kept after its end, in seconds. When sidecars run after that, there is another one.
	timeToLive = 30
	// longestGrace is how long sidecars have to stop, in seconds, whatever grace period their pod asks for.
	longestGrace = 300
	// defaultGrace is the grace period of pods that say nothing, in seconds.
	defaultGrace = 30
)

// Snapshot is what is known of a pod that is due.
type Snapshot struct {
	Now time.Time
	// Pod is the pod.
	Pod *corev1.Pod
	// Virtual says that its node is a virtual one.
	Virtual bool
	// Request is the request of this pod; nil when there is none.
	Request *appsv1beta1.ContainerRecreateRequest
}

// Decision is what is to be done for a pod, all of it.
type Decision struct {
	// Images are the new images by container.
	Images map[string]string
	// Phase is the phase that the pod gets, with the condition SidecarTerminated; empty leaves it.
	Phase corev1.PodPhase
	// Create is a request to be created; nil for none.
	Create *appsv1beta1.ContainerRecreateRequest
	// Taken says that the request cannot be created: somebody else has one of its name.
	Taken bool
	// Stopped are the names of the containers that this stops, for the event.
	Stopped []string
}

// RequestName is the name of the request for a pod.
func RequestName(pod *corev1.Pod) string { return restart.TerminationPrefix + string(pod.UID) }

// Plan says what to do. The phase is written last: a pod that has ended uses no quota any more, so nothing of it may run on.
//
//  1. nothing for a pod that is not due;
//  2. on a virtual node sidecars get the image that ends at once; nothing else is known there;
//  3. sidecars that run are stopped by a request to the daemon of the node, in a bounded time. Nothing else is done until they have ended;
//  4. the pod gets its phase by the containers whose exit codes count when others have ended, as the pod or the request says. Under OnFailure a
//     sidecar that has crashed and waits for its next start is one of the others, whatever its mark says: it might wait, or go on, for ever;
//  5. under OnFailure a sidecar that was stopped, has ended with another code than 0 and was started again would go on for ever: the pod gets
//     its phase, too. The kubelet stops what is left, and another request bounds the time for that;
//  6. a phase that the kubelet overwrote, because it reported the pod before it saw the phase, is written again, request or not. One that the
//     kubelet took from an exit code that does not count is corrected.
func Plan(s Snapshot) Decision {
	var d Decision
	if !Due(s.Pod) {
		return d
	}
	if s.Virtual {
		d.exchange(s.Pod)
		return d
	}
	running, crashed := unfinished(s.Pod)
	own := s.Request != nil && ours(s.Request, s.Pod)
	ended := misjudged(s.Pod) || len(running) == 0 && crashed || own && allStopped(s, running)
	again := own && startedAgain(s, running)
	switch {
	case misjudged(s.Pod), !over(s.Pod) && (ended || again || decided(s.Pod)):
		d.Phase = outcome(s.Pod)
	case s.Request == nil && len(running) > 0:
		d.request(s.Pod, running)
	case s.Request != nil && !own && len(running) > 0:
		d.Taken = true
	}
	return d
}

// ours says that the operator has made a request: others may use its name, and even its owner, but with longer times.
func ours(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	strategy, ttl := r.Spec.Strategy, r.Spec.TTLSecondsAfterFinished
	return metav1.IsControlledBy(r, pod) && ttl != nil && *ttl <= timeToLive && strategy != nil &&
		(strategy.TerminationGracePeriodSeconds == nil || *strategy.TerminationGracePeriodSeconds <= longestGrace)
}

// unfinished are the sidecars for the daemon that have not ended, and whether there are others that have crashed and wait for their next start.
func unfinished(pod *corev1.Pod) (running []string, crashed bool) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		switch {
		case !jobsidecar.ByDaemon(c) || jobsidecar.Terminated(pod, c.Name) != nil:
		case waitsForRestart(pod, c.Name):
			crashed = true
		default:
			running = append(running, c.Name)
		}
	}
	return running, crashed
}

// allStopped says that the request has stopped all sidecars that the pod still shows as running, and that none of their exit codes counts.
func allStopped(s Snapshot, running []string) bool {
	return len(running) > 0 && !slices.ContainsFunc(running, func(name string) bool {
		status := restart.StatusOf(s.Pod, name)
		return status == nil || !ignored(s.Pod, name) || !slices.ContainsFunc(s.Request.Status.ContainerRecreateStates,
			func(state appsv1beta1.ContainerRecreateRequestContainerRecreateState) bool {
				return state.Name == name && state.IsKilled && state.ContainerID == status.ContainerID
			})
	})
}

func ignored(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name && jobsidecar.Ignored(&c) })
}

// waitsForRestart says that a container does not run, has failed before, and would be started again.
func waitsForRestart(pod *corev1.Pod, name string) bool {
	status := restart.StatusOf(pod, name)
	if pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || status == nil || status.State.Waiting == nil {
		return false
	}
	last := status.LastTerminationState.Terminated
	return last != nil && last.ExitCode != 0
}

// exchange gives the sidecars of a virtual node the images that end at once.
func (d *Decision) exchange(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if exit := jobsidecar.Image(c); exit != "" && exit != c.Image && jobsidecar.Terminated(pod, c.Name) == nil {
			if d.Images == nil {
				d.Images = map[string]string{}
			}
			d.Images[c.Name] = exit
			d.Stopped = append(d.Stopped, c.Name)
		}
	}
}

func (d *Decision) request(pod *corev1.Pod, containers []string) {
	grace := min(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, defaultGrace), longestGrace)
	r := &appsv1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: RequestName(pod),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	r.Spec = appsv1beta1.ContainerRecreateRequestSpec{
		PodName: pod.Name,
		Strategy: &appsv1beta1.ContainerRecreateRequestStrategy{
			ForceRecreate: true, FailurePolicy: appsv1beta1.RecreateIgnore, TerminationGracePeriodSeconds: &grace,
		},
		ActiveDeadlineSeconds:   ptr.To(grace + longest),
		TTLSecondsAfterFinished: ptr.To[int32](timeToLive),
	}
	for _, name := range containers {
		r.Spec.Containers = append(r.Spec.Containers, appsv1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	d.Create, d.Stopped = r, containers
}

// decided says that the pod was given its phase once.
func decided(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, ConditionTerminated)
	return c != nil && c.Status == corev1.ConditionTrue
}

// startedAgain says that a sidecar was stopped by the request, which is over, and runs again.
func startedAgain(s Snapshot, running []string) bool {
	if !restart.Over(s.Request) || s.Pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	for _, state := range s.Request.Status.ContainerRecreateStates {
		for _, name := range running {
			if status := restart.StatusOf(s.Pod, name); state.Name == name && state.IsKilled && status != nil && status.ContainerID != state.ContainerID {
				return true
			}
		}
	}
	return false
}

// Terminated is the condition that comes with a phase.
func Terminated(now time.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type: ConditionTerminated, Status: corev1.ConditionTrue, Message: messageTerminated, LastTransitionTime: podstate.Time(now),
	}
}
