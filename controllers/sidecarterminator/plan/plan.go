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
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// ConditionTerminated is True on a pod whose main containers alone decided its phase.
	ConditionTerminated corev1.PodConditionType = "SidecarTerminated"
	// messageTerminated goes with ConditionTerminated.
	messageTerminated = "Terminated by Sidecar Terminator"

	// longest is how long a request may take beyond the pod's grace period, in seconds.
	longest = 120
	// timeToLive keeps an ended request, in seconds. Sidecars still running then get another.
	timeToLive = 30
	// longestGrace is how long sidecars have to stop, in seconds, whatever grace period their pod asks for.
	longestGrace = 300
	// defaultGrace is the default grace period of pods, in seconds.
	defaultGrace = 30
)

// Snapshot is the observed state of a due pod.
type Snapshot struct {
	Now time.Time
	// Pod is the pod.
	Pod *corev1.Pod
	// Virtual: the pod is on a virtual node.
	Virtual bool
	// Request is the request of this pod; nil when there is none.
	Request *appsv1beta1.ContainerRecreateRequest
}

// Decision holds all actions for a pod.
type Decision struct {
	// Images are the new images by container.
	Images map[string]string
	// Phase is the pod's new phase, written with the condition SidecarTerminated; empty leaves it.
	Phase corev1.PodPhase
	// Create is a request to be created; nil for none.
	Create *appsv1beta1.ContainerRecreateRequest
	// Taken: the request's name is taken by somebody else.
	Taken bool
	// Stopped names the containers to stop, for the event.
	Stopped []string
}

// RequestName is the name of the request for a pod.
func RequestName(pod *corev1.Pod) string { return restart.TerminationPrefix + string(pod.UID) }

// Plan writes the phase last: an ended pod uses no quota, so nothing of it may still run.
//
//  1. do nothing for a pod not yet due;
//  2. on a virtual node, give sidecars the image that ends at once; no request works there;
//  3. stop running sidecars by a request to the node's daemon, in bounded time, and wait for their end;
//  4. set the phase by the containers with counting exit codes, once the others have ended by the pod or the request.
//     Under OnFailure a crashed sidecar awaiting its restart is one of the others, marked or not: it could go on for ever;
//  5. under OnFailure a stopped sidecar with a nonzero code restarts for ever: set the pod's phase, too.
//     The kubelet stops the rest, and another request bounds the time;
//  6. write the phase again if the kubelet's older report overwrote it, request or not.
//     Correct a phase the kubelet took from an exit code that does not count.
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
	case misjudged(s.Pod), !podstate.Finished(s.Pod) && (ended || again || decided(s.Pod)):
		d.Phase = outcome(s.Pod)
	case s.Request == nil && len(running) > 0:
		d.request(s.Pod, running)
	case s.Request != nil && !own && len(running) > 0:
		d.Taken = true
	}
	return d
}

// ours tells the operator's request from others: those may use its name and owner, with longer times.
func ours(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	strategy, ttl := r.Spec.Strategy, r.Spec.TTLSecondsAfterFinished
	return metav1.IsControlledBy(r, pod) && ttl != nil && *ttl <= timeToLive && strategy != nil &&
		(strategy.TerminationGracePeriodSeconds == nil || *strategy.TerminationGracePeriodSeconds <= longestGrace)
}

// unfinished returns the daemon's sidecars still to end, and if others have crashed and await a restart.
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

// allStopped: the request stopped every sidecar still shown as running, and none of their exit codes counts.
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

// waitsForRestart: a container has failed, does not run and would be restarted.
func waitsForRestart(pod *corev1.Pod, name string) bool {
	status := restart.StatusOf(pod, name)
	if pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || status == nil || status.State.Waiting == nil {
		return false
	}
	last := status.LastTerminationState.Terminated
	return last != nil && last.ExitCode != 0
}

// exchange gives sidecars on a virtual node the images that end at once.
func (d *Decision) exchange(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if exit := jobsidecar.Image(c); exit != "" && exit != c.Image && jobsidecar.Terminated(pod, c.Name) == nil {
			lazy.Put(&d.Images, c.Name, exit)
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

// decided: the pod was given its phase before.
func decided(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, ConditionTerminated)
	return c != nil && c.Status == corev1.ConditionTrue
}

// startedAgain: a sidecar stopped by the finished request runs again.
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

// Terminated is the condition set with a phase.
func Terminated(now time.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type: ConditionTerminated, Status: corev1.ConditionTrue, Message: messageTerminated, LastTransitionTime: podstate.Time(now),
	}
}
