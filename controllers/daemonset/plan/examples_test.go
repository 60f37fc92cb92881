// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

func TestScenarioPartition(t *testing.T) {
	w := newSimulation(t, nodeNames(10), maxUnavailable(3))
	w.when("another image with partition 4", image("2"), partition(4))
	w.expect("updated", w.at("2"), "n4 n5 n6 n7 n8 n9")
	w.expect("status", w.set.Status.UpdatedNumberScheduled, int32(6))
	w.expect("fewest available", w.minAvailable, 7)
	w.expect("reason", w.reason(), "PartitionReached")
	w.when("partition 0", partition(0))
	w.expect("updated", w.at("2"), "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9")
	w.Golden()
}

func TestPercentagesOfThePartitionAreRoundedDownAndThoseOfMaxUnavailableUp(t *testing.T) {
	w := newSimulation(t, nodeNames(7), maxUnavailable("30%"))
	w.rest(image("2"), partition("30%"))
	w.expect("updated", w.at("2"), "n2 n3 n4 n5 n6")
	w.expect("fewest available", w.minAvailable, 4)
}

func TestScenarioCanarySelector(t *testing.T) {
	w := newSimulation(t, nodeNames(6), label("n2", "lane", "canary"), label("n5", "lane", "canary"))
	w.when("another image for the lane canary", image("2"), updateSelector(map[string]string{"lane": "canary"}))
	w.expect("updated", w.at("2"), "n2 n5")
	w.expect("reason", w.reason(), "PartitionReached")
	w.when("n3 gets into the lane", label("n3", "lane", "canary"))
	w.expect("updated", w.at("2"), "n2 n3 n5")
	w.when("no selector", updateSelector(nil))
	w.expect("updated", w.at("2"), "n0 n1 n2 n3 n4 n5")
	w.Golden()
}

// A pod within minReadySeconds did not use up maxUnavailable, and the update took another node's pod beside it.
func TestAPodThatIsReadyAndNotYetAvailableUsesUpTheLimit(t *testing.T) {
	for young, want := range map[string]string{ // in the order of the update, behind another pod and before it
		"agent-n1a": " (3 pods wait: maxUnavailable 1 is used up by agent-n1a)",
		"agent-n2a": "Delete agent-n2a Outdated (2 pods wait: maxUnavailable 1 is used up by agent-n2a)",
	} {
		w := newSimulation(t, nodeNames(3), maxUnavailable(1), minReady(20))
		podstate.Condition(w.Pod(young), corev1.PodReady).LastTransitionTime = metav1.NewTime(w.Time)
		w.do(image("2"))
		w.Pass()
		w.expect(young, strings.Join(w.ActionLines(), ", ")+" ("+w.Plan.HeldMessages("")+")", want)
		w.rest()
		w.expect("updated", w.at("2"), "n0 n1 n2")
	}
}

// With a surge, a pod stayed for ever on a node that the new template does not tolerate.
func TestThePodOfANodeThatTheNewTemplateDoesNotTolerateGoes(t *testing.T) {
	tolerate := func(w *simulation) {
		w.set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	for name, strategy := range map[string][]func(*simulation){"surge": {maxSurge(1), maxUnavailable(0)}, "maxUnavailable": {maxUnavailable(1)}} {
		for _, prune := range []bool{false, true} {
			w := newSimulation(t, nodeNames(3), append(strategy, tolerate, taint("n1", "dedicated", corev1.TaintEffectNoSchedule))...)
			w.o.PruneIneligibleNodes = prune
			w.rest(image("2"), paused(true), func(w *simulation) { w.set.Spec.Template.Spec.Tolerations = nil })
			w.expect("while paused, "+name, w.at("1"), "n0 n1 n2")
			w.rest(paused(false))
			w.expectPods("n0b:2, n2b:2")
		}
	}
}

// A pod that did not end on a node that no longer matches held the update of all others.
func TestAnUpdateDoesNotWaitForThePodOfANodeThatShallHaveNone(t *testing.T) {
	w := newSimulation(t, nodeNames(3), maxUnavailable(1), label("n0", "lane", "x"), label("n1", "lane", "x"))
	w.rest(happens("n2", podsettest.LoseNode), nodeSelector(map[string]string{"lane": "x"}), image("2"))
	w.expect("updated", w.at("2"), "n0 n1")
	w.expect("message", w.message(), "Pods are on their way out: agent-n2a.")
}

func TestScenarioInPlace(t *testing.T) {
	w := newSimulation(t, nodeNames(6), inPlace, maxUnavailable(2))
	w.when("another image", image("2"))
	w.expectPods("n0a:2, n1a:2, n2a:2, n3a:2, n4a:2, n5a:2")
	w.expect("fewest available", w.minAvailable, 4)
	w.when("another variable, which cannot be changed in place", env("3"))
	w.expectPods("n0b:3, n1b:3, n2b:3, n3b:3, n4b:3, n5b:3")
	w.expect("fewest available", w.minAvailable, 4)
	w.Golden()
}

func TestPodsWithoutTheGateAreReplacedOnce(t *testing.T) {
	w := newSimulation(t, nodeNames(2), maxUnavailable(1))
	w.rest(inPlace, image("2"))
	w.expectPods("n0b:2, n1b:2")
	w.rest(image("3"))
	w.expectPods("n0b:3, n1b:3")
}

func TestScenarioSurge(t *testing.T) {
	w := newSimulation(t, nodeNames(5), maxSurge("40%"), maxUnavailable(0), minReady(10))
	w.when("another image", image("2"))
	w.expectPods("n0b:2, n1b:2, n2b:2, n3b:2, n4b:2")
	w.expect("fewest available", w.minAvailable, 5)
	w.expect("most nodes with two pods", w.maxSurging, 2)
	w.Golden()
}

// The kubelet of a node under pressure refused each new pod, and the next one came at once, many times a second.
func TestANodeThatRefusesThePodOfASurgeGetsTheNextOneWhenTheFailedOneIsGone(t *testing.T) {
	for name, old := range map[string]func(*simulation){"the old pod serves": func(*simulation) {}, "the old pod is broken": broken("1")} {
		w := newSimulation(t, nodeNames(1), maxSurge(1), maxUnavailable(0), old)
		w.do(image("2"))
		w.Pass()
		w.Pod("agent-n0b").Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "Pod was rejected: The node had condition: [DiskPressure]."}
		w.Pass()
		w.expect(name, strings.Join(w.ActionLines(), ", "), "Delete agent-n0b Finished")
		if len(w.Plan.Actions) != 1 || !w.Plan.Actions[0].ReplacesFailed {
			t.Errorf("%s: the deletion does not wait after many failures", name)
		}
		w.rest()
		w.expectPods("n0c:2")
	}
}

func TestPodsHeldAtTheirHookUseUpMaxSurge(t *testing.T) {
	w := newSimulation(t, nodeNames(3), preDelete, maxSurge(1))
	w.rest(image("2"))
	w.expectPods("n0a:1, n1a:1, n2a:1 preparingDelete, n2b:2")
	w.expect("message", w.message(), "2 pods wait: maxSurge 1 is used up by nodes that run two pods; agent-n2a waits: the preDelete hook is not released yet")
	w.Users = true
	w.rest()
	w.expectPods("n0b:2, n1b:2, n2b:2")
	w.expect("most nodes with two pods", w.maxSurging, 1)
}

func TestScenarioProgressiveCreation(t *testing.T) {
	w := newSimulation(t, nodeNames(8), partitionedScaling, partition(3))
	w.expect("pods", w.at("1"), "n0 n1 n2 n3 n4")
	w.expect("reason", w.reason(), "PartitionReached")
	w.expect("message names the limit", strings.Contains(w.message(), "partitionedScaling"), true)
	w.when("partition 1", partition(1))
	w.expect("pods", w.at("1"), "n0 n1 n2 n3 n4 n5 n6")
	w.when("partition 0", partition(0))
	w.expect("pods", w.at("1"), "n0 n1 n2 n3 n4 n5 n6 n7")
	w.expect("reason", w.reason(), "Complete")
	w.Golden()
}

func TestAPercentageLimitsTheFirstPodsToo(t *testing.T) {
	w := newSimulation(t, nodeNames(4), partitionedScaling, partition("50%"))
	w.expect("pods", w.at("1"), "n0 n1")
}

func TestWithoutProgressiveCreationEveryNodeGetsAPod(t *testing.T) {
	w := newSimulation(t, nodeNames(4), partition(3))
	w.expect("pods", w.at("1"), "n0 n1 n2 n3")
}

func TestScenarioHookBeforeDeletion(t *testing.T) {
	w := newSimulation(t, nodeNames(3), preDelete, maxUnavailable(1))
	w.when("another image", image("2"))
	w.expectPods("n0a:1, n1a:1, n2a:1 preparingDelete")
	w.when("the user releases the hook of n2", happens("agent-n2a", podsettest.ReleaseHook))
	w.expectPods("n0a:1, n1a:1 preparingDelete, n2b:2")
	w.when("the template goes back: there is no way back for the pod at its hook", image("1"))
	w.expect("n1", strings.Contains(w.pods(), "n1a:1 preparingDelete"), true)
	w.Users = true
	w.when("the user releases hooks")
	w.expect("updated", w.at("1"), "n0 n1 n2")
	w.Golden()
}

// The event about a pod that had waited at its preDelete hook did not say why it was replaced.
func TestWhyAPodIsReplacedIsSaidAfterItsPreDeleteHookToo(t *testing.T) {
	w := newSimulation(t, nodeNames(1), preDelete, inPlace, maxUnavailable(1))
	w.rest(image("2"), func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true })
	w.expectPods("n0a:1 preparingDelete")
	w.do(happens("agent-n0a", podsettest.ReleaseHook))
	const why = "because it cannot be updated in place: spec.template.spec.hostNetwork changed"
	for _, action := range w.plan().Actions {
		if action.Step == podset.StepDelete {
			w.expect("the event says why", strings.Contains(action.Success.Message, why), true)
			return
		}
	}
	t.Errorf("the pod is not deleted: %+v", w.plan().Actions)
}

// Pods from before updates in place were asked for lack the gate and are replaced. Only the condition said why, the event of the deletion did not.
func TestWhyAPodWithoutTheGateIsReplacedIsSaid(t *testing.T) {
	w := newSimulation(t, nodeNames(1), maxUnavailable(1))
	w.do(inPlace, image("2"))
	const why = "a pod without the readiness gate InPlaceUpdateReady would serve meanwhile"
	plan := w.plan()
	note, _ := plan.HeldFor(podset.ReasonReplaced)
	w.expect("the note says why", strings.Contains(note.Message, "although rollingUpdateType is InPlaceIfPossible: "+why), true)
	for _, action := range plan.Actions {
		if action.Step == podset.StepDelete {
			w.expect("the event says why", strings.Contains(action.Success.Message, "because it cannot be updated in place: "+why), true)
			return
		}
	}
	t.Errorf("the pod is not deleted: %+v", plan.Actions)
}

func TestBrokenOldPodsAreReplacedAtOnce(t *testing.T) {
	w := newSimulation(t, nodeNames(10), maxUnavailable(1))
	w.do(crash("agent-n0a", "agent-n3a", "agent-n6a", "agent-n8a"), image("2"))
	w.watch()
	w.Pass()
	going := 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp != nil {
			going++
		}
	}
	w.expect("deleted at once", going, 4)
	w.rest()
	w.expect("updated", w.at("2"), "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9")
	w.expect("fewest available", w.minAvailable, 6)
}

// A template that was stored without admission, with labels that the selector does not match: each pod was released as soon as it was there, and another one created.
func TestATemplateThatTheSelectorDoesNotMatchMakesNoPods(t *testing.T) {
	w := newSimulation(t, nodeNames(2), maxUnavailable(1))
	w.rest(func(w *simulation) { w.set.Spec.Template.Labels = map[string]string{"app": "other"} }, happens("agent-n1a", podsettest.DeletePod))
	w.expectPods("n0a:1")
	stalled := w.condition("Stalled")
	w.expect("stalled", stalled.Status == corev1.ConditionTrue && stalled.Reason == "InvalidSpec", true)
}

func TestABadImageStopsAtTheLimit(t *testing.T) {
	for name, limit := range map[string]func(*simulation){"maxUnavailable": maxUnavailable(2), "maxSurge": maxSurge(2)} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, nodeNames(5), limit)
			w.rest(broken("2"), image("2"))
			w.expect("at the bad image", w.at("2"), "n3 n4")
			w.expect("reconciling", w.reason(), "RollingOut")
			w.rest(image("3"))
			w.expect("mended", w.at("3"), "n0 n1 n2 n3 n4")
			w.expect("all are available", w.availableNodes(), 5)
		})
	}
}

func TestScenarioNodesComeAndGo(t *testing.T) {
	w := newSimulation(t, nodeNames(3), maxUnavailable(1))
	w.when("n1 is cordoned: a daemon stays, and is updated", happens("n1", podsettest.CordonNode), image("2"))
	w.expect("updated", w.at("2"), "n0 n1 n2")
	w.when("n1 leaves", happens("n1", podsettest.RemoveNode))
	w.expect("pods", w.at("2"), "n0 n2")
	w.when("n1 joins again", happens("n1", podsettest.AddNode))
	w.expect("pods", w.at("2"), "n0 n1 n2")
	w.when("n2 is not ready: its pod stays", happens("n2", podsettest.LoseNode))
	w.expect("pods", w.at("2"), "n0 n1 n2")
	w.expect("reason", w.reason(), "PodsNotAvailable")
	w.when("n2 is ready again", happens("n2", podsettest.RecoverNode))
	w.expect("reason", w.reason(), "Complete")
	w.when("n0 gets a taint that keeps new pods away", taint("n0", "gpu", corev1.TaintEffectNoSchedule))
	w.expect("pods", w.at("2"), "n0 n1 n2")
	w.expect("misscheduled", w.set.Status.NumberMisscheduled, int32(1))
	w.when("n0 gets a taint that lets no pod stay", taint("n0", "gone", corev1.TaintEffectNoExecute))
	w.expect("pods", w.at("2"), "n1 n2")
	w.when("n0 has no taint any more", untaint("n0"))
	w.expect("pods", w.at("2"), "n0 n1 n2")
	w.Golden()
}

func TestScenarioNodeIsRecreatedInMidRollout(t *testing.T) {
	w := newSimulation(t, nodeNames(3), inPlace, maxUnavailable(1))
	w.Note("another image")
	w.do(image("2"))
	w.Pass()
	w.when("n2 is re-created under its name", happens("n2", podsettest.RecreateNode))
	w.expect("updated", w.at("2"), "n0 n1 n2")
	w.expect("reason", w.reason(), "Complete")
	w.Golden()
}

func TestScenarioNarrowedNodeSelector(t *testing.T) {
	w := newSimulation(t, nodeNames(4), label("n1", "disk", "ssd"), label("n3", "disk", "ssd"))
	w.when("only nodes with an ssd, and another image", nodeSelector(map[string]string{"disk": "ssd"}), image("2"))
	w.expectPods("n1b:2, n3b:2")
	w.when("no node has one", label("n1", "disk", "hdd"), label("n3", "disk", "hdd"))
	w.expectPods("")
	w.expect("reason", w.reason(), "NoNode")
	w.Golden()
}

func TestScenarioPausedAndOnDelete(t *testing.T) {
	w := newSimulation(t, nodeNames(3), maxUnavailable(1))
	w.Note("another image")
	w.do(image("2"))
	w.Pass()
	w.when("paused", paused(true))
	w.expect("updated", w.at("2"), "n2")
	w.expect("reason", w.reason(), "Paused")
	w.when("a pod is deleted: its successor is at the new revision", happens("agent-n0a", podsettest.DeletePod))
	w.expect("updated", w.at("2"), "n0 n2")
	w.when("OnDelete", onDelete)
	w.expect("updated", w.at("2"), "n0 n2")
	w.expect("reason", w.reason(), "OnDelete")
	w.when("the last one is deleted", happens("agent-n1a", podsettest.DeletePod))
	w.expect("reason", w.reason(), "Complete")
	w.Golden()
}

func TestBurstLimitsCreationsDeletionsAndEdits(t *testing.T) {
	w := newSimulation(t, nodeNames(7), inPlace, burst("20%"), maxUnavailable(5))
	count := func() map[string]int {
		n := map[string]int{}
		for _, action := range w.plan().Actions {
			n[string(action.Step)]++
		}
		return n
	}
	w.do(image("2"))
	w.expect("edits at a time", count()["Edit"], 1)
	w.do(env("3"))
	w.expect("deletions at a time", count()["Delete"], 1)
	w.Pods = nil
	w.expect("creations at a time", count()["Create"], 1)
	w.do(burst(3))
	w.expect("creations at a time", count()["Create"], 3)
	w.expect("held", w.plan().Held[0].Message, "4 pods wait: burstReplicas is 3")
	w.expect("recheck", w.plan().RecheckAfter > 0, true)
}

func TestAFailedPodIsReplacedWithAWarning(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	w.do(happens("agent-n1a", podsettest.Evict))
	plan := w.plan()
	if len(plan.Actions) != 1 || plan.Actions[0].Success.Reason != "FailedDaemonPod" || !plan.Actions[0].Success.Warning ||
		plan.Actions[0].Failure.Reason != "FailedDelete" || plan.Actions[0].ReplacesFailed {
		t.Errorf("planned %+v", plan.Actions)
	}
	w.rest()
	w.expectPods("n0a:1, n1b:1")
}

// TestAPodThatFailsAgainAndAgainDoesNotHoldTheUpdate has a pod whose deletion may have to wait for up to 15 minutes, as others of its node have failed
// before, and a burst of one deletion.
func TestAPodThatFailsAgainAndAgainDoesNotHoldTheUpdate(t *testing.T) {
	w := newSimulation(t, nodeNames(4), burst(1), maxUnavailable(2))
	w.do(happens("agent-n0a", podsettest.Evict), image("2"))
	plan := w.plan()
	if len(plan.Actions) != 1 || plan.Actions[0].Slot != "n3" {
		t.Errorf("planned %+v", plan.Actions)
	}
	w.rest()
	w.expect("updated", w.at("2"), "n0 n1 n2 n3")
}

func TestAPodThatEndedWithoutAFailureIsNotCalledFailed(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	w.Pod("agent-n1a").Status.Phase = corev1.PodSucceeded
	plan := w.plan()
	if len(plan.Actions) != 1 || plan.Actions[0].Success.Reason != "SuccessfulDelete" || plan.Actions[0].Success.Warning || !plan.Actions[0].ReplacesFailed {
		t.Errorf("planned %+v", plan.Actions)
	}
}

func TestASecondPodOfANodeGoes(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	second := w.Pod("agent-n1a").DeepCopy()
	second.Name, second.UID = "agent-n1x", "second"
	second.CreationTimestamp.Time = second.CreationTimestamp.Add(time.Minute)
	w.Pods = append(w.Pods, second)
	w.rest()
	w.expectPods("n0a:1, n1a:1")
}

func TestAPodOfANodeThatIsGoneIsDeletedOnlyWhileItIsNotBound(t *testing.T) {
	w := newSimulation(t, nodeNames(3), func(w *simulation) { w.Held["agent-n2a"] = true })
	w.do(happens("n1", podsettest.RemoveNode), happens("n2", podsettest.RemoveNode))
	w.Pass()
	w.expect("n1, which was bound", w.Pod("agent-n1a").DeletionTimestamp == nil, true)
	w.expect("n2, which was not", w.Pod("agent-n2a").DeletionTimestamp != nil, true)
}

func TestBindingPodsToNodes(t *testing.T) {
	w := newSimulation(t, nodeNames(1), func(w *simulation) { w.o.AssignNodes = true })
	spec := w.Pods[0].Spec
	w.expect("node", spec.NodeName, "n0")
	w.expect("scheduler", spec.SchedulerName, "kubernetes.io/daemonset-controller")
}

func TestNewPods(t *testing.T) {
	w := newSimulation(t, nodeNames(1), func(w *simulation) { w.Held["agent-n0a"] = true })
	pod := w.Pods[0]
	w.expect("node", podsettest.NodeOf(pod), "n0")
	w.expect("bound by the operator", pod.Spec.NodeName, "")
	w.expect("tolerations", len(pod.Spec.Tolerations), 6)
	w.expect("image pull policy is left to the server", string(pod.Spec.Containers[0].ImagePullPolicy), "")
	w.expect("gates", len(pod.Spec.ReadinessGates), 1)
	w.expect("generateName", pod.GenerateName, "agent-")
}

func TestAnUpdateIsHeldForAFaultyTemplate(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	w.rest(image("2"), func(w *simulation) { w.fault = "spec.template.spec.containers[0].image: Required value" })
	w.expectPods("n0a:1, n1a:1")
	stalled := w.condition("Stalled")
	w.expect("stalled", stalled.Status == corev1.ConditionTrue && stalled.Reason == "InvalidTemplate", true)
}

// A lost pod is replaced at the template before; no other pod moves.
func TestATemplateThatCannotBeRecordedStopsOnlyTheUpdate(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	w.set.Generation++
	w.rest(image("2"), happens("agent-n1a", podsettest.DeletePod), func(w *simulation) { w.unrecorded = "creating revision agent-2: exceeded quota" })
	w.expectPods("n0a:1, n1b:1")
	w.expect("failed", w.condition("FailedUpdate").Reason, "RequestFailed")
	w.expect("observed generation", w.set.Status.ObservedGeneration, w.set.Generation)
	w.expect("updated", w.set.Status.UpdatedNumberScheduled, int32(0))
	w.expect("update revision", w.set.Status.UpdateRevision, "2")
	w.unrecorded = ""
	w.rest()
	w.expectPods("n0b:2, n1c:2")
	w.expect("observed generation", w.set.Status.ObservedGeneration, w.set.Generation)
}

func TestIneligibleNodesUseUpTheLimitUnlessTheyArePruned(t *testing.T) {
	for prune, want := range map[bool]string{false: "", true: "n1"} {
		w := newSimulation(t, nodeNames(3), func(w *simulation) { w.o.PruneIneligibleNodes = prune }, maxUnavailable(1))
		w.do(taint("n2", "gone", corev1.TaintEffectNoExecute), image("2"), crash("agent-n2a"))
		w.Pass() // n2 loses its pod, and its kubelet does not answer.
		w.Note("n2 keeps its pod terminating")
		updating := ""
		for _, pod := range w.Pods {
			if pod.DeletionTimestamp != nil && pod.Name != "agent-n2a" {
				updating = podsettest.NodeOf(pod)
			}
		}
		w.expect("updating at the same time", updating, want)
	}
}

// refusedAt says that the server has refused the pods of these nodes, whose next try is far away.
func refusedAt(nodes ...string) planning.Retries {
	return func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, key.Step == podset.StepCreate && key.Namespace == "shop" && slices.Contains(nodes, key.Name)
	}
}

// created are the nodes for which a plan creates pods, in its order.
func created(plan planning.Plan) string {
	var nodes []string
	for _, action := range plan.Actions {
		if action.Step == podset.StepCreate {
			nodes = append(nodes, string(action.Slot))
		}
	}
	return strings.Join(nodes, " ")
}

// A node whose new pod the server always refused used up maxSurge, burstReplicas, or what the partition lets be created. The others waited for ever.
func TestANodeWhosePodIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	cases := map[string]struct {
		change          []func(*simulation)
		missing         int
		refused         []string
		want, otherwise string
	}{
		"maxSurge":              {change: []func(*simulation){maxSurge(1), image("2")}, refused: []string{"n2"}, want: "n2 n1", otherwise: "n2"},
		"maxSurge, all refused": {change: []func(*simulation){maxSurge(1), image("2")}, refused: nodeNames(3), want: "n2 n1 n0", otherwise: "n2"},
		"burstReplicas":         {change: []func(*simulation){burst(1)}, missing: 3, refused: []string{"n3"}, want: "n3 n4", otherwise: "n3"},
		"partitionedScaling": {
			change: []func(*simulation){partitionedScaling, partition(5), image("2")}, missing: 3, refused: []string{"n3"}, want: "n3 n4", otherwise: "n3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, nodeNames(3))
			w.do(tc.change...)
			for i := range tc.missing {
				w.Nodes = append(w.Nodes, podsettest.NewNode(fmt.Sprint("n", 3+i)))
			}
			s := w.seen()
			w.expect("created", created(Plan(w.spec(), s)), tc.otherwise)
			s.Retries = refusedAt(tc.refused...)
			w.expect("created after the refusal", created(Plan(w.spec(), s)), tc.want)
		})
	}
}

// A pod whose change the server always refused used up maxUnavailable. The others waited for ever.
func TestAPodThatIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	w := newSimulation(t, nodeNames(3), maxUnavailable(1))
	w.do(image("2"))
	s := w.seen()
	refused := planning.RetryKey{Step: podset.StepDelete, Namespace: "shop", Name: "agent-n2a"}
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, key == refused
	}
	var deleted []string
	plan := Plan(w.spec(), s)
	for _, action := range plan.Actions {
		deleted = append(deleted, action.Object.GetName())
	}
	w.expect("pods that move", strings.Join(deleted, " "), "agent-n1a agent-n2a")
	w.expect("the refused one is not tried", plan.Aside[refused] && len(plan.Aside) == 1, true)
}

// A pod whose deletion the server always refused used up burstReplicas. Failed pods of other nodes stayed, and so did pods of nodes that should have none.
func TestADeletionThatIsRefusedLeavesBurstReplicasToOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		change []func(*simulation)
		want   string
	}{
		"a failed pod stays":                 {[]func(*simulation){happens("agent-n0a", podsettest.Evict), image("2")}, "agent-n2a agent-n0a"},
		"a node keeps what it must not have": {[]func(*simulation){taint("n2", "gone", corev1.TaintEffectNoExecute), taint("n3", "gone", corev1.TaintEffectNoExecute)}, "agent-n2a agent-n3a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, nodeNames(4), maxUnavailable(1), burst(1))
			w.do(tc.change...)
			s := w.seen()
			refused := planning.RetryKey{Step: podset.StepDelete, Namespace: "shop", Name: "agent-n2a"}
			s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
				return planning.Retry{Wait: time.Hour}, key == refused
			}
			var deleted []string
			plan := Plan(w.spec(), s)
			for _, action := range plan.Actions {
				if action.Step == podset.StepDelete {
					deleted = append(deleted, action.Object.GetName())
				}
			}
			w.expect("pods that are deleted", strings.Join(deleted, " "), tc.want)
			w.expect("the refused one is not tried", plan.Aside[refused], true)
		})
	}
}

// An update in place takes several requests. When the one that takes the pod out of service has succeeded and a later one fails, the pod must not leave its
// place: as many pods more would be out of service at once as requests fail.
func TestAPodThatIsOutOfServiceKeepsItsPlaceWhenItsUpdateFails(t *testing.T) {
	w := newSimulation(t, nodeNames(3), inPlace, maxUnavailable(1))
	w.do(image("2"))
	s := w.seen()
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Slot == "n2" {
			pod.Available, pod.AvailableIn = false, 0
		}
	}
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, key == planning.RetryKey{Step: podset.StepEdit, Namespace: "shop", Name: "agent-n2a"}
	}
	var edited []string
	plan := Plan(w.spec(), s)
	for _, action := range plan.Actions {
		edited = append(edited, action.Object.GetName())
	}
	w.expect("pods that move", strings.Join(edited, " "), "agent-n2a")
	w.expect("keys that yield", len(plan.Aside), 0)
}

// A pod of a node that should have none, whose deletion the server always refused, used up burstReplicas. The others waited for ever.
func TestAPodWhoseDeletionIsRefusedTakesNoneOfBurstReplicas(t *testing.T) {
	w := newSimulation(t, nodeNames(3), burst(1))
	w.do(taint("n0", "gone", corev1.TaintEffectNoExecute), taint("n1", "gone", corev1.TaintEffectNoExecute))
	s := w.seen()
	deleted := func() string {
		var pods []string
		for _, action := range Plan(w.spec(), s).Actions {
			pods = append(pods, action.Object.GetName())
		}
		return strings.Join(pods, " ")
	}
	w.expect("deleted at first", deleted(), "agent-n0a")
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, key == planning.RetryKey{Step: podset.StepDelete, Namespace: "shop", Name: "agent-n0a"}
	}
	w.expect("deleted after the refusal", deleted(), "agent-n0a agent-n1a")
}
