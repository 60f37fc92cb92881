// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

const image2 = "docker.io/library/web:2"

func testDelays(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{Delays: simnode.Delays{Start: simnode.Never}})
	w.create("a", annotated(simnode.ReadyDelay, "never"))
	pod := w.await("a", "is taken up", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "ContainerCreating") })
	equal(t, "phase", pod.Status.Phase, corev1.PodPending)
	equal(t, "address", pod.Status.PodIP, "")
	equal(t, "start time is set", pod.Status.StartTime != nil, true)
	equal(t, "network", hasCondition(pod, corev1.PodReadyToStartContainers, corev1.ConditionFalse, ""), true)
	equal(t, "initialized", hasCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, ""), true)

	w.annotate("a", simnode.StartDelay, "0s")
	pod = w.await("a", "runs", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	equal(t, "ready", isReady(pod), false)
	w.annotate("a", simnode.ReadyDelay, "1ms")
	w.awaitReady("a")

	// Delays end without anything else happening.
	w.create("b", annotated(simnode.StartDelay, "50ms", simnode.ReadyDelay, "50ms"))
	w.awaitReady("b")
}

func testInit(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	always := corev1.ContainerRestartPolicyAlways
	inits := func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "first", Image: "setup:1"},
			{Name: "proxy", Image: "proxy:1", RestartPolicy: &always},
			{Name: "second", Image: "setup:2"},
		}
	}
	w.create("a", inits, annotated(simnode.InitDelay, "second=never"))
	pod := w.await("a", "runs the second init container", func(pod *corev1.Pod) bool { return status(pod, "second").State.Running != nil })
	equal(t, "phase", pod.Status.Phase, corev1.PodPending)
	equal(t, "first has completed", status(pod, "first").State.Terminated != nil && status(pod, "first").Ready, true)
	equal(t, "proxy is ready", status(pod, "proxy").Ready, true)
	equal(t, "main waits", waitsFor(pod, "main", "PodInitializing"), true)
	equal(t, "initialized", getCondition(pod, corev1.PodInitialized).Message, "containers with incomplete status: [second]")
	w.annotate("a", simnode.InitDelay, "")
	pod = w.awaitReady("a")
	equal(t, "initialized", hasCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, ""), true)

	// A sidecar counts for readiness, and its image can change in place.
	w.annotate("a", simnode.NotReady, "proxy")
	pod = w.await("a", "is not ready", func(pod *corev1.Pod) bool { return !isReady(pod) })
	equal(t, "message", getCondition(pod, corev1.ContainersReady).Message, "containers with unready status: [proxy]")
	w.annotate("a", simnode.NotReady, "")
	w.awaitReady("a")
	w.patch("a", object{"spec": object{"initContainers": []object{{"name": "proxy", "image": "web:2"}}}})
	pod = w.await("a", "has a new proxy", func(pod *corev1.Pod) bool { return status(pod, "proxy").Image == image2 })
	equal(t, "restarts", status(pod, "proxy").RestartCount, 1)
	equal(t, "restarts of main", status(pod, "main").RestartCount, 0)

	w.create("failing", inits, restartPolicy(corev1.RestartPolicyNever), annotated(simnode.ExitCode, "first=3"))
	pod = w.await("failing", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	equal(t, "exit code", status(pod, "first").State.Terminated.ExitCode, 3)

	w.create("crashing", inits, annotated(simnode.CrashLoop, "first"))
	w.await("crashing", "repeats its init container", func(pod *corev1.Pod) bool { return waitsFor(pod, "first", "CrashLoopBackOff") })
	w.annotate("crashing", simnode.CrashLoop, "")
	w.awaitReady("crashing")
}

func testContainersReady(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", withContainer("side", "side:1"), annotated(simnode.NotReady, "side"))
	pod := w.await("a", "runs", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		c := getCondition(pod, kind)
		equal(t, "reason", c.Reason, "ContainersNotReady")
		equal(t, "message", c.Message, "containers with unready status: [side]")
	}
	equal(t, "main", status(pod, "main").Ready, true)
	w.annotate("a", simnode.NotReady, "")
	pod = w.awaitReady("a")
	c := getCondition(pod, corev1.PodReady)
	equal(t, "reason and message when ready", c.Reason+c.Message, "")

	since := c.LastTransitionTime
	w.setImage("a", "main", "web:2")
	pod = w.await("a", "runs the new image", func(pod *corev1.Pod) bool { return status(pod, "main").Image == image2 })
	equal(t, "transition time while the status stays", getCondition(pod, corev1.PodReady).LastTransitionTime.Equal(&since), true)
}

func testSameImageID(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", annotated(simnode.ImageID, "sha256:one", simnode.StatusImage, "docker.io/library/web:1"))
	old := status(w.awaitReady("a"), "main")
	equal(t, "image ID", old.ImageID, "sha256:one")
	w.setImage("a", "main", "web:2")
	is := status(w.await("a", "restarts", func(pod *corev1.Pod) bool { return status(pod, "main").RestartCount == 1 }), "main")
	equal(t, "image ID", is.ImageID, old.ImageID)
	equal(t, "image", is.Image, old.Image)
	if is.ContainerID == old.ContainerID {
		t.Error("the container ID is the same")
	}
}

func testUnpullable(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{BackOff: 50 * time.Millisecond})
	w.create("a", withContainer("side", "side:1"))
	old := w.awaitReady("a")
	versions := w.history("a")
	w.setImage("a", "main", "web:unpullable")
	failing := w.await("a", "cannot pull", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "ImagePullBackOff") })
	seen := versions(failing)
	if len(seen) != 5 {
		t.Fatalf("got %d versions, want 5: before, spec changed, observed, ErrImagePull, ImagePullBackOff", len(seen))
	}
	equal(t, "observed with the old container running", status(seen[2], "main").State.Running != nil && isReady(seen[2]) &&
		seen[2].Status.ObservedGeneration == seen[2].Generation, true)
	equal(t, "first reason", waitsFor(seen[3], "main", "ErrImagePull"), true)

	was, is := status(old, "main"), status(failing, "main")
	equal(t, "container ID", is.ContainerID, was.ContainerID)
	equal(t, "image", is.Image, was.Image)
	equal(t, "image ID", is.ImageID, was.ImageID)
	equal(t, "restarts", is.RestartCount, 0)
	equal(t, "last state is the stopped container", is.LastTerminationState.Terminated.ContainerID, was.ContainerID)
	equal(t, "phase", failing.Status.Phase, corev1.PodRunning)
	equal(t, "ready", hasCondition(failing, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), true)
	equal(t, "the other container", status(failing, "side").ContainerID, status(old, "side").ContainerID)

	w.setImage("a", "main", "web:2")
	healed := w.awaitReady("a")
	equal(t, "restarts after healing", status(healed, "main").RestartCount, 1)
	equal(t, "image after healing", status(healed, "main").Image, image2)

	w.annotate("a", simnode.ImagePullFails, "main")
	w.setImage("a", "main", "web:3")
	w.await("a", "cannot pull", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "ImagePullBackOff") })
	w.annotate("a", simnode.ImagePullFails, "")
	equal(t, "image", status(w.awaitReady("a"), "main").Image, "docker.io/library/web:3")
}

func testUnpullableFromStart(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{BackOff: 50 * time.Millisecond})
	w.create("a", annotated(simnode.ImagePullFails, "true"))
	pod := w.await("a", "cannot pull", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "ImagePullBackOff") })
	equal(t, "phase", pod.Status.Phase, corev1.PodPending)
	equal(t, "container ID", status(pod, "main").ContainerID, "")
	equal(t, "image ID", status(pod, "main").ImageID, "")
	w.annotate("a", simnode.ImagePullFails, "")
	equal(t, "restarts", status(w.awaitReady("a"), "main").RestartCount, 0)
}

func cpu(requests, limits string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(requests)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limits)},
	}
}

func withCPU(requests, limits string, policy corev1.ResourceResizeRestartPolicy) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources = cpu(requests, limits)
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: policy}}
	}
}

func (w *fixture) resize(name, requests, limits string) {
	w.Helper()
	w.patch(name, object{"spec": object{"containers": []object{{"name": "main", "resources": cpu(requests, limits)}}}}, "resize")
}

func hasResources(pod *corev1.Pod, want corev1.ResourceRequirements) bool {
	is := status(pod, "main").Resources
	return is != nil && equality.Semantic.DeepEqual(*is, want)
}

func testResize(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", withCPU("100m", "200m", corev1.NotRequired))
	old := w.awaitReady("a")
	equal(t, "resources", hasResources(old, cpu("100m", "200m")), true)

	before := w.nodes.Writes()
	w.resize("a", "150m", "300m")
	pod := w.await("a", "has the new resources", func(pod *corev1.Pod) bool { return hasResources(pod, cpu("150m", "300m")) })
	equal(t, "observed generation", pod.Status.ObservedGeneration, pod.Generation)
	equal(t, "container", status(pod, "main").ContainerID, status(old, "main").ContainerID)
	equal(t, "ready", isReady(pod), true)
	allocated := status(pod, "main").AllocatedResources
	equal(t, "allocated", allocated.Cpu().String(), "150m")
	w.create("b")
	w.awaitReady("b")
	equal(t, "writes for one change and one pod", w.nodes.Writes()-before, 2)

	w.annotate("a", simnode.ResizeDelay, "never")
	w.resize("a", "160m", "320m")
	pod = w.await("a", "changes its resources", func(pod *corev1.Pod) bool {
		return hasCondition(pod, corev1.PodResizeInProgress, corev1.ConditionTrue, "")
	})
	equal(t, "resources while changing", hasResources(pod, cpu("150m", "300m")), true)
	allocated = status(pod, "main").AllocatedResources
	equal(t, "allocated while changing", allocated.Cpu().String(), "160m")
	w.resize("a", "170m", "340m")
	w.annotate("a", simnode.ResizeDelay, "")
	w.await("a", "has the newest resources", func(pod *corev1.Pod) bool {
		return hasResources(pod, cpu("170m", "340m")) && getCondition(pod, corev1.PodResizeInProgress) == nil
	})
}

func testResizeRefused(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", withCPU("100m", "200m", corev1.NotRequired), annotated(simnode.Resize, simnode.ResizeInfeasible))
	w.awaitReady("a")
	w.resize("a", "150m", "300m")
	refused := func(reason string) func(pod *corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			return hasCondition(pod, corev1.PodResizePending, corev1.ConditionTrue, reason) &&
				pod.Status.ObservedGeneration == pod.Generation && hasResources(pod, cpu("100m", "200m"))
		}
	}
	w.await("a", "refuses", refused("Infeasible"))
	w.annotate("a", simnode.Resize, simnode.ResizeDeferred)
	w.await("a", "puts it off", refused("Deferred"))
	w.annotate("a", simnode.Resize, "")
	w.await("a", "has the new resources", func(pod *corev1.Pod) bool {
		return hasResources(pod, cpu("150m", "300m")) && getCondition(pod, corev1.PodResizePending) == nil
	})
}

func testResizeRestart(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", withCPU("100m", "200m", corev1.RestartContainer))
	old := w.awaitReady("a")
	w.resize("a", "150m", "300m")
	pod := w.await("a", "has the new resources", func(pod *corev1.Pod) bool { return hasResources(pod, cpu("150m", "300m")) })
	equal(t, "restarts", status(pod, "main").RestartCount, 1)
	equal(t, "the container is another", status(pod, "main").ContainerID != status(old, "main").ContainerID, true)
	equal(t, "image ID", status(pod, "main").ImageID, status(old, "main").ImageID)
}

func testCrashLoop(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{BackOff: 20 * time.Millisecond, MaxBackOff: 100 * time.Millisecond})
	w.create("a", withContainer("side", "side:1"))
	w.awaitReady("a")
	w.annotate("a", simnode.CrashLoop, "main")
	pod := w.await("a", "has crashed thrice", func(pod *corev1.Pod) bool {
		return waitsFor(pod, "main", "CrashLoopBackOff") && status(pod, "main").RestartCount >= 2
	})
	equal(t, "phase", pod.Status.Phase, corev1.PodRunning)
	equal(t, "ready", hasCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), true)
	equal(t, "exit code", status(pod, "main").LastTerminationState.Terminated.ExitCode, 1)
	equal(t, "the other container", status(pod, "side").RestartCount, 0)
	contains(t, "message", status(pod, "main").State.Waiting.Message, "restarting failed container=main")
	w.annotate("a", simnode.CrashLoop, "")
	w.awaitReady("a")

	// A container running for a while before it crashes is seen running; a new image ends
	// the back-off.
	w.create("b", annotated(simnode.CrashLoop, "true", simnode.CrashAfter, "100ms", simnode.ExitCode, "7"))
	w.await("b", "runs", isReady)
	pod = w.await("b", "crashes", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "CrashLoopBackOff") })
	equal(t, "exit code", status(pod, "main").LastTerminationState.Terminated.ExitCode, 7)
	w.setImage("b", "main", "web:2")
	w.await("b", "has the new image", func(pod *corev1.Pod) bool { return status(pod, "main").Image == image2 })
}

func testKill(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a")
	old := w.awaitReady("a")
	if err := w.nodes.KillContainer(w.namespace, "a", "main", 137); err != nil {
		t.Fatal(err)
	}
	pod := w.await("a", "has restarted", func(pod *corev1.Pod) bool { return status(pod, "main").RestartCount == 1 && isReady(pod) })
	equal(t, "exit code", status(pod, "main").LastTerminationState.Terminated.ExitCode, 137)
	equal(t, "the container is another", status(pod, "main").ContainerID != status(old, "main").ContainerID, true)
	if err := w.nodes.KillContainer(w.namespace, "a", "other", 1); err == nil {
		t.Error("killing an unknown container: got no error")
	}
	if err := w.nodes.KillContainer(w.namespace, "b", "main", 1); err == nil {
		t.Error("killing a container of an unknown pod: got no error")
	}
}

func testComplete(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("job", restartPolicy(corev1.RestartPolicyNever), annotated(simnode.StartDelay, "never"))
	w.await("job", "is taken up", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "ContainerCreating") })
	versions := w.history("job")
	w.annotate("job", simnode.StartDelay, "")
	pod := w.await("job", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	seen := versions(pod)
	if len(seen) != 4 {
		t.Fatalf("got %d versions, want 4: waiting, annotation removed, running, succeeded", len(seen))
	}
	equal(t, "seen running", seen[2].Status.Phase == corev1.PodRunning && isReady(seen[2]), true)
	equal(t, "exit code", status(pod, "main").State.Terminated.ExitCode, 0)
	equal(t, "reason", status(pod, "main").State.Terminated.Reason, "Completed")
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		equal(t, "ready", hasCondition(pod, kind, corev1.ConditionFalse, "PodCompleted"), true)
	}
	equal(t, "initialized", hasCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, "PodCompleted"), true)
	if pod.Status.PodIP == "" {
		t.Error("the address is gone")
	}

	// One container ends, the other keeps the pod running until it ends too.
	w.create("a", restartPolicy(corev1.RestartPolicyOnFailure), withContainer("side", "side:1"),
		annotated(simnode.CompleteAfter, "side=never"))
	pod = w.await("a", "main has completed", func(pod *corev1.Pod) bool { return status(pod, "main").State.Terminated != nil })
	equal(t, "phase", pod.Status.Phase, corev1.PodRunning)
	equal(t, "ready", hasCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), true)
	w.annotate("a", simnode.CompleteAfter, "")
	w.await("a", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

func testFail(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{BackOff: 20 * time.Millisecond})
	w.create("never", restartPolicy(corev1.RestartPolicyNever), annotated(simnode.ExitCode, "42"))
	pod := w.await("never", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	equal(t, "exit code", status(pod, "main").State.Terminated.ExitCode, 42)
	equal(t, "ready", hasCondition(pod, corev1.PodReady, corev1.ConditionFalse, "PodFailed"), true)

	w.create("retried", restartPolicy(corev1.RestartPolicyOnFailure), annotated(simnode.ExitCode, "42"))
	w.await("retried", "is restarted", func(pod *corev1.Pod) bool { return status(pod, "main").RestartCount >= 2 })
	w.annotate("retried", simnode.ExitCode, "0")
	w.await("retried", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

func testNodeFailsPod(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a")
	w.awaitReady("a")
	w.annotate("a", simnode.FailAfter, "0s")
	pod := w.await("a", "is evicted", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	equal(t, "reason", pod.Status.Reason, "Evicted")
	equal(t, "container has ended", status(pod, "main").State.Terminated != nil, true)

	w.create("late", func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(1)) })
	pod = w.await("late", "is over its deadline", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	equal(t, "reason", pod.Status.Reason, "DeadlineExceeded")
}

func testGivenPhase(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", restartPolicy(corev1.RestartPolicyNever), annotated(simnode.CompleteAfter, "never", simnode.TerminateDelay, "100ms", simnode.ExitCode, "3"))
	w.await("a", "runs", func(pod *corev1.Pod) bool {
		return status(pod, "main").State.Running != nil
	})
	seen := w.history("a")
	w.patch("a", object{"status": object{"phase": corev1.PodSucceeded}}, "status")
	pod := w.await("a", "is stopped", func(pod *corev1.Pod) bool { return status(pod, "main").State.Terminated != nil })
	equal(t, "exit code", status(pod, "main").State.Terminated.ExitCode, 3)
	given := false
	for _, pod := range seen(pod) {
		given = given || pod.Status.Phase == corev1.PodSucceeded
		if given {
			equal(t, "phase", pod.Status.Phase, corev1.PodSucceeded)
		}
	}
	equal(t, "the phase was given", given, true)
}

func testEphemeral(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a")
	w.awaitReady("a")
	pod := w.patch("a", object{"spec": object{"ephemeralContainers": []object{{"name": "debug", "image": "busybox:1"}}}}, "ephemeralcontainers")
	generation := pod.Generation
	pod = w.await("a", "shows the container", func(pod *corev1.Pod) bool { return status(pod, "debug").State.Running != nil })
	equal(t, "image", status(pod, "debug").Image, "docker.io/library/busybox:1")
	equal(t, "observed generation", pod.Status.ObservedGeneration, generation)
	equal(t, "ready", isReady(pod), true)
	if err := w.nodes.KillContainer(w.namespace, "a", "debug", 0); err != nil {
		t.Fatal(err)
	}
	pod = w.await("a", "the container has ended", func(pod *corev1.Pod) bool { return status(pod, "debug").State.Terminated != nil })
	equal(t, "ready", isReady(pod), true)
}

func testEphemeralEnd(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", annotated(simnode.EphemeralAfter, "0s", simnode.EphemeralCode, "3"))
	w.awaitReady("a")
	w.patch("a", object{"spec": object{"ephemeralContainers": []object{{"name": "debug", "image": "busybox:1"}}}}, "ephemeralcontainers")
	pod := w.await("a", "the container has ended", func(pod *corev1.Pod) bool { return status(pod, "debug").State.Terminated != nil })
	equal(t, "exit code", status(pod, "debug").State.Terminated.ExitCode, 3)
	equal(t, "restarts", status(pod, "debug").RestartCount, 0)
	equal(t, "ready", isReady(pod), true)
	w.patch("a", object{"spec": object{"ephemeralContainers": []object{{"name": "another", "image": "busybox:1"}}}}, "ephemeralcontainers")
	pod = w.await("a", "a second container has ended", func(pod *corev1.Pod) bool { return status(pod, "another").State.Terminated != nil })
	equal(t, "exit code of the first", status(pod, "debug").State.Terminated.ExitCode, 3)
}
