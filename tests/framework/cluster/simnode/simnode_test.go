// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// TestNodes specifies simulated nodes. All cases share one cluster; each has its own
// namespace and nodes.
func TestNodes(t *testing.T) {
	cfg := cluster.StartForTest(t, cluster.Options{}).Config()
	cases := map[string]func(*testing.T, *rest.Config){
		"a pod starts in one write":                             testStart,
		"the scheduler finds the nodes":                         testScheduling,
		"slow steps are seen":                                   testDelays,
		"init containers and sidecars come first":               testInit,
		"ready follows the readiness gates":                     testGates,
		"ready follows the containers":                          testContainersReady,
		"a container restarts in place when its image changes":  testImageChange,
		"tags that share an image ID restart all the same":      testSameImageID,
		"an image that cannot be pulled":                        testUnpullable,
		"a new pod whose image cannot be pulled":                testUnpullableFromStart,
		"resources change in place":                             testResize,
		"resources that are refused":                            testResizeRefused,
		"resources whose change restarts the container":         testResizeRestart,
		"a container crashes while the annotation says so":      testCrashLoop,
		"a container is killed":                                 testKill,
		"pods of jobs complete":                                 testComplete,
		"pods of jobs fail":                                     testFail,
		"the node fails a pod":                                  testNodeFailsPod,
		"ephemeral containers run":                              testEphemeral,
		"a deleted pod ends and goes":                           testDelete,
		"a final phase that others write stays":                 testGivenPhase,
		"a node falls silent and comes back":                    testDown,
		"nodes come and go":                                     testAddRemove,
		"nodes send heartbeats":                                 testHeartbeat,
		"a node whose heartbeats were late is ready again":      testLateHeartbeat,
		"an annotation that cannot be understood":               testBadAnnotation,
		"a second start continues the pods and nothing is left": testRestart,
		"a start whose context ends":                            testEndedStart,
		"ephemeral containers end":                              testEphemeralEnd,
		"claims get volumes":                                    testClaims,
		"claims wait for their first consumer":                  testFirstConsumer,
		"claims grow":                                           testExpansion,
	}
	t.Run("they", func(t *testing.T) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, cfg)
			})
		}
	})
	nothingRuns(t)
}

func testStart(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	before := w.nodes.Writes()
	w.create("a", withContainer("aaa", "registry.example:5000/side"))
	pod := w.awaitReady("a")
	w.create("b")
	other := w.awaitReady("b")
	equal(t, "writes for two pods", w.nodes.Writes()-before, 2)

	equal(t, "phase", pod.Status.Phase, corev1.PodRunning)
	equal(t, "observed generation", pod.Status.ObservedGeneration, pod.Generation)
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		c := getCondition(pod, kind)
		if c == nil || c.Status != corev1.ConditionTrue || c.LastTransitionTime.IsZero() || c.ObservedGeneration != pod.Generation {
			t.Errorf("condition %s: got %+v", kind, c)
		}
	}
	if pod.Status.PodIP == "" || pod.Status.PodIP == other.Status.PodIP || len(pod.Status.PodIPs) != 1 {
		t.Errorf("pod addresses %v and %v", pod.Status.PodIPs, other.Status.PodIPs)
	}
	if pod.Status.HostIP == "" || pod.Status.HostIP != other.Status.HostIP || pod.Status.StartTime == nil {
		t.Errorf("host address %q and %q, start time %v", pod.Status.HostIP, other.Status.HostIP, pod.Status.StartTime)
	}
	equal(t, "first status by name", pod.Status.ContainerStatuses[0].Name, "aaa")
	main, side := status(pod, "main"), status(pod, "aaa")
	equal(t, "image", main.Image, "docker.io/library/web:1")
	equal(t, "image", side.Image, "registry.example:5000/side:latest")
	equal(t, "image ID", main.ImageID, simnode.DefaultImageID("web:1"))
	equal(t, "image ID on another pod", status(other, "main").ImageID, main.ImageID)
	if main.ContainerID == "" || main.ContainerID == side.ContainerID || main.ContainerID == status(other, "main").ContainerID {
		t.Errorf("container IDs are not unique: %q %q", main.ContainerID, side.ContainerID)
	}
	if !main.Ready || main.Started == nil || !*main.Started || main.State.Running == nil || main.State.Running.StartedAt.IsZero() {
		t.Errorf("container status %+v", main)
	}
}

func testGates(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", gated("One", "Two"))
	pod := w.await("a", "runs, gates absent", func(pod *corev1.Pod) bool {
		return hasCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady")
	})
	if !hasCondition(pod, corev1.ContainersReady, corev1.ConditionTrue, "") || getCondition(pod, "One") != nil {
		t.Errorf("conditions: %s", describe(pod))
	}
	equal(t, "message", getCondition(pod, corev1.PodReady).Message,
		`corresponding condition of pod readiness gate "One" does not exist., corresponding condition of pod readiness gate "Two" does not exist.`)

	w.setCondition("a", "One", corev1.ConditionTrue)
	w.setCondition("a", "Two", corev1.ConditionFalse)
	const message = `the status of pod readiness gate "Two" is not "True", but False`
	w.await("a", "names the gate that is False", func(pod *corev1.Pod) bool {
		return getCondition(pod, corev1.PodReady).Message == message
	})
	w.setCondition("a", "Two", corev1.ConditionTrue)
	w.awaitReady("a")

	// A controller closing a gate writes Ready too, to be quick. The kubelet has nothing to
	// add.
	writes := w.nodes.Writes()
	w.patch("a", object{"status": object{"conditions": []object{
		{"type": "Two", "status": "False", "lastTransitionTime": metav1.Now()},
		{
			"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": message,
			"lastTransitionTime": metav1.Now(),
		},
	}}}, "status")
	w.create("b") // ready after the nodes have seen the change of a
	w.awaitReady("b")
	equal(t, "writes after the controller's own", w.nodes.Writes()-writes, 1)

	w.setCondition("a", "Two", corev1.ConditionTrue)
	pod = w.awaitReady("a")
	equal(t, "restarts", status(pod, "main").RestartCount, 0)

	// Another kubelet has more to say.
	w.create("c", gated("Two"), annotated(simnode.ReportGates, "true"))
	w.setCondition("c", "Two", corev1.ConditionTrue)
	w.awaitReady("c")
	w.patch("c", object{"status": object{"conditions": []object{
		{"type": "Two", "status": "False", "lastTransitionTime": metav1.Now()},
		{
			"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": message,
			"lastTransitionTime": metav1.Now(),
		},
	}}}, "status")
	w.await("c", "has the kubelet's own words", func(pod *corev1.Pod) bool {
		return getCondition(pod, corev1.PodReady).Message == message+", as the node sees it"
	})
}

func testImageChange(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", withContainer("side", "side:1"))
	old := w.awaitReady("a")
	versions := w.history("a")
	w.setImage("a", "main", "web:2")
	last := w.await("a", "runs the new image", func(pod *corev1.Pod) bool {
		return status(pod, "main").Image == "docker.io/library/web:2" && isReady(pod)
	})
	seen := versions(last)
	if len(seen) != 4 {
		t.Fatalf("got %d versions of the pod, want 4: before, spec changed, observed, restarted", len(seen))
	}
	changed, observed, restarted := seen[1], seen[2], seen[3]

	equal(t, "(a) generation", changed.Generation, old.Generation+1)
	equal(t, "(a) observed generation", changed.Status.ObservedGeneration, old.Generation)

	equal(t, "(b) observed generation", observed.Status.ObservedGeneration, changed.Generation)
	equal(t, "(b) observed generation of Ready", getCondition(observed, corev1.PodReady).ObservedGeneration, changed.Generation)
	equal(t, "(b) container", status(observed, "main").ContainerID, status(old, "main").ContainerID)
	equal(t, "(b) image", status(observed, "main").Image, "docker.io/library/web:1")
	equal(t, "(b) ready", isReady(observed), true)

	was, is := status(old, "main"), status(restarted, "main")
	equal(t, "(c) restarts", is.RestartCount, was.RestartCount+1)
	equal(t, "(c) image", is.Image, "docker.io/library/web:2")
	equal(t, "(c) image ID", is.ImageID, simnode.DefaultImageID("web:2"))
	equal(t, "(c) running", is.State.Running != nil, true)
	if is.ContainerID == was.ContainerID {
		t.Errorf("(c) the container kept its ID")
	}
	if last := is.LastTerminationState.Terminated; last == nil || last.ContainerID != was.ContainerID || last.FinishedAt.IsZero() {
		t.Errorf("(c) last state %+v", is.LastTerminationState)
	}
	equal(t, "(c) the other container", status(restarted, "side").ContainerID, status(old, "side").ContainerID)
	equal(t, "(c) its restarts", status(restarted, "side").RestartCount, 0)
	equal(t, "(c) address", restarted.Status.PodIP, old.Status.PodIP)
}

func testDelete(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/watch"} })
	w.awaitReady("a")
	w.delete("a", 30)
	pod := w.await("a", "has ended", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	equal(t, "container has ended", status(pod, "main").State.Terminated != nil, true)
	equal(t, "ready", isReady(pod), false)
	w.patch("a", object{"metadata": object{"$deleteFromPrimitiveList/finalizers": []string{"example.com/watch"}}})
	w.awaitGone("a")

	w.create("hanging", annotated(simnode.HangTerminate, "true"))
	w.create("slow", annotated(simnode.TerminateDelay, "1h"))
	w.awaitReady("hanging")
	w.awaitReady("slow")
	w.delete("hanging", 1)
	w.delete("slow", 1)
	w.awaitGone("slow") // no longer than its grace period
	pod = w.get("hanging")
	equal(t, "phase while hanging", pod.Status.Phase, corev1.PodRunning)
	w.annotate("hanging", simnode.HangTerminate, "")
	w.awaitGone("hanging")

	// The same name again is another pod.
	w.create("a")
	w.awaitReady("a")
	w.delete("a", 0)
	w.awaitGone("a")
}
