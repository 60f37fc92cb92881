// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// carried is a pod after a plan.
func carried(t testing.TB, todo planning.Plan, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	for _, action := range todo.Actions {
		if podset.PodOf(action).Name == pod.Name {
			return podsettest.EditOf(action).Apply(pod)
		}
	}
	t.Fatalf("nothing is done to pod %s", pod.Name)
	return nil
}

// follows lets the kubelet run the images of a pod.
func follows(pod *corev1.Pod) *corev1.Pod {
	started := pod.DeepCopy()
	run(started, true)
	for i := range started.Status.ContainerStatuses {
		is := &started.Status.ContainerStatuses[i]
		was := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == is.Name })
		if was >= 0 && pod.Status.ContainerStatuses[was].Image != is.Image {
			is.ContainerID, is.RestartCount = "sim://"+is.Name+"/"+is.Image, 1
			is.State.Running.StartedAt = metav1.NewTime(podsettest.Now())
		}
	}
	started.Status.Conditions = append(started.Status.Conditions, slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
	})...)
	return started
}

// imagesOf are the images of a pod's containers, by name, in short.
func imagesOf(pod *corev1.Pod) string {
	var all []string
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Name+"="+c.Image)
	}
	return strings.Join(all, " ")
}

// wantMarks compares annotations of a pod; the keys leave out sidecarset.kruise.io.
func wantMarks(t *testing.T, pod *corev1.Pod, want map[string]string) {
	t.Helper()
	for key, value := range want {
		key = strings.Replace(key, "/", ".sidecarset.kruise.io/", 1)
		if got := pod.Annotations[key]; got != value {
			t.Errorf("annotation %s is %q, want %q", key, got, value)
		}
	}
}

// The containers of a pair tell from their versions who takes over from whom.
func TestVersionsSayWhichContainerOfAPairTakesOver(t *testing.T) {
	v1, v2 := newSet("mesh:v1", hot), newSet("mesh:v2", hot)
	pod := run(newPod(t, "p0", v1), true)
	wantMarks(t, pod, map[string]string{"version/agent-1": "1", "versionalt/agent-1": "0", "version/agent-2": "0", "versionalt/agent-2": "1"})

	todo, status := planFor(t, v2, pod)
	pod = carried(t, todo, pod)
	if got := imagesOf(pod); got != "main=main:1 agent-1=mesh:v1 agent-2=mesh:v2" || pod.Annotations[shared.AnnotationSidecarSetWorkingContainer] != `{"agent":"agent-2"}` {
		t.Errorf("images %s, working %s", got, pod.Annotations[shared.AnnotationSidecarSetWorkingContainer])
	}
	wantMarks(t, pod, map[string]string{"version/agent-1": "1", "versionalt/agent-1": "5310", "version/agent-2": "5310", "versionalt/agent-2": "1"})
	if status.ReadyPods != 1 {
		t.Errorf("before the change %d pods are ready", status.ReadyPods)
	}

	// The new one is ready. Until the other one is idle the pod uses up maxUnavailable.
	pod = follows(pod)
	todo, status = planFor(t, v2, pod)
	if status.UpdatedPods != 1 || status.ReadyPods != 0 {
		t.Errorf("while both run: %d updated, %d ready", status.UpdatedPods, status.ReadyPods)
	}
	pod = carried(t, todo, pod)
	if got := imagesOf(pod); got != "main=main:1 agent-1=idle:1 agent-2=mesh:v2" {
		t.Errorf("images %s", got)
	}
	wantMarks(t, pod, map[string]string{"version/agent-1": "0", "version/agent-2": "5310", "versionalt/agent-2": "0"})
	if todo, status = planFor(t, v2, follows(pod)); len(todo.Actions) > 0 || status.UpdatedReadyPods != 1 {
		t.Errorf("at the end: %d actions, status %+v", len(todo.Actions), status)
	}
}

// A rollback after the takeover restarts the earlier container: it no longer serves.
func TestAnUpgradeThatIsTakenBackAfterTheTakeoverRestartsTheEarlierContainer(t *testing.T) {
	v1, v2 := newSet("mesh:v1", hot), newSet("mesh:v2", hot)
	pod := run(newPod(t, "p0", v1), true)
	for i, step := range []struct {
		set    *appsv1beta1.SidecarSet
		images string
	}{
		{v2, "agent-1=mesh:v1 agent-2=mesh:v2"}, {v1, "agent-1=idle:1 agent-2=mesh:v2"}, {v1, "agent-1=mesh:v1 agent-2=mesh:v2"}, {v1, "agent-1=mesh:v1 agent-2=idle:1"},
	} {
		todo, _ := planFor(t, step.set, pod)
		pod = follows(carried(t, todo, pod))
		if got := imagesOf(pod); got != "main=main:1 "+step.images {
			t.Fatalf("step %d: images %s", i, got)
		}
	}
	if todo, status := planFor(t, v1, pod); len(todo.Actions) > 0 || status.UpdatedReadyPods != 1 {
		t.Errorf("at the end: %d actions, status %+v", len(todo.Actions), status)
	}
}

// mixed is a set with two pairs and an ordinary sidecar.
func mixed(agent, proxy, plain string) *appsv1beta1.SidecarSet {
	return newSet(agent, hot, func(set *appsv1beta1.SidecarSet) {
		pair := *set.Spec.Containers[0].DeepCopy()
		pair.Name, pair.Image, pair.UpgradeStrategy.HotUpgradeEmptyImage = "proxy", proxy, "idle:2"
		set.Spec.Containers = append(set.Spec.Containers, pair, appsv1beta1.SidecarContainer{Container: corev1.Container{Name: "plain", Image: plain}})
	})
}

// podOfMixed is a pod injected by it.
func podOfMixed(t testing.TB, set *appsv1beta1.SidecarSet) *corev1.Pod {
	pod := newPod(t, "p0", set)
	proxy, plain := set.Spec.Containers[1].Image, set.Spec.Containers[2].Image
	pod.Spec.Containers = append(pod.Spec.Containers,
		corev1.Container{Name: "proxy-1", Image: proxy}, corev1.Container{Name: "proxy-2", Image: "idle:2"}, corev1.Container{Name: "plain", Image: plain})
	for key, value := range map[string]string{"version": "1", "versionalt": "0"} {
		pod.Annotations[key+".sidecarset.kruise.io/proxy-1"] = value
		pod.Annotations[key+".sidecarset.kruise.io/proxy-2"] = map[string]string{"1": "0", "0": "1"}[value]
	}
	pod.Annotations[shared.AnnotationSidecarSetWorkingContainer] = `{"agent":"agent-1","other":"other-2","proxy":"proxy-1"}`
	return run(pod, true)
}

// OpenKruise's pairs of one set overwrote each other's
// annotations, and a set with pairs and others panicked.
func TestSeveralPairsOfAPodAreUpgradedTogether(t *testing.T) {
	pod := podOfMixed(t, mixed("a:v1", "p:v1", "c:v1"))
	for name, tc := range map[string]struct {
		set                         *appsv1beta1.SidecarSet
		images, working, afterwards string
	}{
		"all images": {
			set: mixed("a:v2", "p:v2", "c:v2"), images: "main=main:1 agent-1=a:v1 agent-2=a:v2 proxy-1=p:v1 proxy-2=p:v2 plain=c:v2",
			working: `{"agent":"agent-2","other":"other-2","proxy":"proxy-2"}`, afterwards: "main=main:1 agent-1=idle:1 agent-2=a:v2 proxy-1=idle:2 proxy-2=p:v2 plain=c:v2",
		},
		"that of one pair": {
			set: mixed("a:v1", "p:v2", "c:v1"), images: "main=main:1 agent-1=a:v1 agent-2=idle:1 proxy-1=p:v1 proxy-2=p:v2 plain=c:v1",
			working: `{"agent":"agent-1","other":"other-2","proxy":"proxy-2"}`, afterwards: "main=main:1 agent-1=a:v1 agent-2=idle:1 proxy-1=idle:2 proxy-2=p:v2 plain=c:v1",
		},
		"that of the one that is no pair": {
			set: mixed("a:v1", "p:v1", "c:v2"), images: "main=main:1 agent-1=a:v1 agent-2=idle:1 proxy-1=p:v1 proxy-2=idle:2 plain=c:v2",
			working: `{"agent":"agent-1","other":"other-2","proxy":"proxy-1"}`, afterwards: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			todo, _ := planFor(t, tc.set, pod)
			changed := carried(t, todo, pod)
			if got := imagesOf(changed); got != tc.images {
				t.Errorf("images %s", got)
			}
			if got := changed.Annotations[shared.AnnotationSidecarSetWorkingContainer]; got != tc.working {
				t.Errorf("working %s", got)
			}
			changed = follows(changed)
			todo, _ = planFor(t, tc.set, changed)
			if tc.afterwards != "" {
				changed = follows(carried(t, todo, changed))
				if got := imagesOf(changed); got != tc.afterwards {
					t.Errorf("afterwards images %s", got)
				}
				todo, _ = planFor(t, tc.set, changed)
			}
			if _, status := planFor(t, tc.set, changed); len(todo.Actions) > 0 || status.UpdatedReadyPods != 1 {
				t.Errorf("at the end: %d actions, status %+v", len(todo.Actions), status)
			}
		})
	}
}

// The replaced containers of several pairs become idle in one write, once all sidecars are ready.
// With one never ready, a rollback still restarts the earlier container of a pair after its takeover.
func TestThePairsOfAPodAreResetTogether(t *testing.T) {
	v1, v2 := mixed("a:v1", "p:v1", "c:v1"), mixed("a:v2", "p:v2", "c:v2")
	unready := func(pod *corev1.Pod, containers ...string) *corev1.Pod {
		pod = pod.DeepCopy()
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			status.Ready = !slices.Contains(containers, status.Name)
		}
		return pod
	}
	todo, _ := planFor(t, v2, podOfMixed(t, v1))
	both := follows(carried(t, todo, podOfMixed(t, v1)))
	for _, container := range []string{"proxy-2", "plain"} {
		if todo, _ := planFor(t, v2, unready(both, container)); len(todo.Actions) > 0 {
			t.Errorf("%d actions while %s is not ready", len(todo.Actions), container)
		}
		back := unready(both, container)
		if todo, _ = planFor(t, v1, back); len(todo.Actions) != 1 {
			t.Fatalf("%d actions when it is taken back", len(todo.Actions))
		}
		if got := imagesOf(carried(t, todo, back)); !strings.Contains(got, "agent-1=idle:1 agent-2=a:v2") {
			t.Errorf("while %s is not ready, and it is taken back: images %s", container, got)
		}
	}
	// over ends the ordinary sidecar, never restarted in its pod.
	over := func(pod *corev1.Pod) *corev1.Pod {
		pod = unready(pod, "plain")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		for i := range pod.Status.ContainerStatuses {
			if pod.Status.ContainerStatuses[i].Name == "plain" {
				pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
			}
		}
		return pod
	}
	hotOnly := mixed("a:v2", "p:v2", "c:v1")
	todo, _ = planFor(t, hotOnly, podOfMixed(t, v1))
	ended := over(follows(carried(t, todo, podOfMixed(t, v1))))
	// Its other new image never runs.
	gone := over(podOfMixed(t, v1))
	todo, _ = planFor(t, v2, gone)
	changed := carried(t, todo, gone)
	statuses := slices.Clone(changed.Status.ContainerStatuses)
	changed = follows(changed)
	changed.Status.ContainerStatuses[len(statuses)-1] = statuses[len(statuses)-1]
	for name, tc := range map[string]struct {
		set *appsv1beta1.SidecarSet
		pod *corev1.Pod
	}{"all are ready": {v2, both}, "one has ended for good": {hotOnly, ended}, "one has ended for good, and is to have another image": {v2, changed}} {
		todo, _ := planFor(t, tc.set, tc.pod)
		if len(todo.Actions) != 1 {
			t.Fatalf("%s: %d actions", name, len(todo.Actions))
		}
		if got := imagesOf(carried(t, todo, tc.pod)); !strings.Contains(got, "agent-1=idle:1 agent-2=a:v2 proxy-1=idle:2 proxy-2=p:v2") {
			t.Errorf("%s: images %s", name, got)
		}
	}
}

// With ordered starts, an image may wait for an earlier, unready container.
// After the user corrected that one, the serving container was taken for idle.
func TestTheContainerThatServesStaysWhileItsPairWaitsForOthers(t *testing.T) {
	set := func(agent, plain string) *appsv1beta1.SidecarSet {
		return newSet(agent, hot, func(set *appsv1beta1.SidecarSet) {
			set.Spec.Containers = append(set.Spec.Containers, appsv1beta1.SidecarContainer{Container: corev1.Container{Name: "plain", Image: plain}})
		})
	}
	start := func() *corev1.Pod {
		pod := newPod(t, "p0", set("a:v1", "c:v1"))
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "plain", Image: "c:v1"})
		for i, priority := range []string{"p_0", "p_-2", "p_-3", "p_-1"} {
			pod.Spec.Containers[i].Env = []corev1.EnvVar{{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "p0-barrier"}, Key: priority},
			}}}
		}
		return run(pod, true)
	}
	// kubelet runs the images of the pod, and leaves the other containers as they are.
	kubelet := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.ObservedGeneration = pod.Generation
		for i, c := range pod.Spec.Containers {
			is := &pod.Status.ContainerStatuses[i]
			if is.Ready = true; is.Image != c.Image {
				is.Image, is.ImageID, is.ContainerID = c.Image, "id-of-"+c.Image, "sim://"+c.Name+"/"+c.Image
				is.State.Running.StartedAt = metav1.NewTime(podsettest.Now())
			}
		}
		return pod
	}
	carry := func(pod *corev1.Pod, set *appsv1beta1.SidecarSet) *corev1.Pod {
		t.Helper()
		todo, _ := planFor(t, set, pod)
		return carried(t, todo, pod)
	}
	wantImages := func(pod *corev1.Pod, want string) {
		t.Helper()
		if got := imagesOf(pod); got != "main=main:1 "+want {
			t.Errorf("images %s, want %s", got, want)
		}
	}
	// The waiting one runs the empty image.
	for _, ready := range []bool{true, false} {
		pod := carry(start(), set("a:v2", "c:broken"))
		wantImages(pod, "agent-1=a:v1 agent-2=idle:1 plain=c:broken")
		pod.Status.ContainerStatuses[1].Ready = ready
		pod = carry(pod, set("a:v3", "c:v3"))
		wantImages(pod, "agent-1=a:v1 agent-2=idle:1 plain=c:v3")
		pod = carry(kubelet(pod), set("a:v3", "c:v3"))
		wantImages(pod, "agent-1=a:v1 agent-2=a:v3 plain=c:v3")
		pod = carry(kubelet(pod), set("a:v3", "c:v3"))
		wantImages(pod, "agent-1=idle:1 agent-2=a:v3 plain=c:v3")
	}
	// It runs an earlier image.
	pod := carry(start(), set("a:v2", "c:v1"))
	pod = carry(kubelet(pod), set("a:v3", "c:broken"))
	wantImages(pod, "agent-1=a:v1 agent-2=a:v2 plain=c:broken")
	pod = carry(pod, set("a:v4", "c:v4"))
	pod = carry(kubelet(pod), set("a:v4", "c:v4"))
	wantImages(pod, "agent-1=a:v4 agent-2=a:v2 plain=c:v4")
}

// A pod records its last update, not its first.
func TestAPodSaysWhichUpdateWasTheLast(t *testing.T) {
	pod := run(newPod(t, "p0", newSet("agent:v1")), true)
	for _, image := range []string{"agent:v2", "agent:v3"} {
		set := newSet(image)
		todo, _ := planFor(t, set, pod)
		pod = follows(carried(t, todo, pod))
		var state map[string]struct {
			Revision              string `json:"revision"`
			LastContainerStatuses map[string]struct {
				ImageID string `json:"imageID"`
			} `json:"lastContainerStatuses"`
		}
		text := pod.Annotations[shared.AnnotationSidecarSetInPlaceState]
		if err := json.Unmarshal([]byte(text), &state); err != nil || state["logs"].Revision != hashesOf(t, set).Hash {
			t.Errorf("after %s it says %s: %v", image, text, err)
		}
		was := map[string]string{"agent:v2": "id-of-agent:v1", "agent:v3": "id-of-agent:v2"}[image]
		if got := state["logs"].LastContainerStatuses["agent"].ImageID; got != was {
			t.Errorf("after %s the image was %q, want %q", image, got, was)
		}
	}
}

// A copy of a pod updated in place was "being updated" for ever:
// it carried the other's record, of a generation it never has.
func TestAPodCopiedFromAnUpdatedOneIsNotBeingUpdated(t *testing.T) {
	set := newSet("agent:v2")
	pod := run(newPod(t, "p0", newSet("agent:v1")), true)
	todo, _ := planFor(t, set, pod)
	updated := follows(carried(t, todo, pod))
	copied := updated.DeepCopy()
	copied.Name, copied.UID, copied.Generation = "copy", "uid-of-copy", 1
	run(copied, true)
	for i := range copied.Status.ContainerStatuses {
		copied.Status.ContainerStatuses[i].ContainerID += "/copy"
	}
	_, status := planFor(t, set, copied)
	if got := condition(status, appsv1beta1.SidecarSetReconciling); got != "False Complete" || status.ReadyPods != 1 {
		t.Errorf("the set is %q with %d ready pods: %+v", got, status.ReadyPods, status.Conditions)
	}
}

// A set of only init containers was complete with an image it could not pull.
func TestASidecarThatIsAnInitContainerCounts(t *testing.T) {
	set := newSet("agent:v1", func(s *appsv1beta1.SidecarSet) {
		s.Spec.InitContainers = []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "certs", Image: "gone:v1"}}}
		s.Spec.Containers = nil
	})
	pod := run(newPod(t, "p0", set), false)
	pod.Spec.InitContainers = []corev1.Container{{Name: "certs", Image: "gone:v1"}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = nil
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "certs", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	_, status := planFor(t, set, pod)
	if got := condition(status, appsv1beta1.SidecarSetStalled); got != "True ImagePullFailed" {
		t.Errorf("while the image cannot be pulled, Stalled is %q: %+v", got, status.Conditions)
	}
	pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	pod.Status.InitContainerStatuses[0].Ready = true
	_, status = planFor(t, set, pod)
	if got := condition(status, appsv1beta1.SidecarSetReconciling); got != "False Complete" {
		t.Errorf("when it has ended, Reconciling is %q: %+v", got, status.Conditions)
	}
}

// A paused set needed nothing from the user while an old sidecar kept crashing.
func TestAnOldSidecarThatCrashesIsSaidWhileTheSetIsPaused(t *testing.T) {
	pod := run(newPod(t, "p0", newSet("agent:v1")), false)
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "agent" })
	pod.Status.ContainerStatuses[i].RestartCount = 7
	pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	_, status := planFor(t, newSet("agent:v2", paused), pod)
	if got := condition(status, appsv1beta1.SidecarSetStalled); got != "True CrashLoop" {
		t.Errorf("Stalled is %q: %+v", got, status.Conditions)
	}
	// Another container does not concern the set.
	pod = run(newPod(t, "p0", newSet("agent:v1")), true)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.ContainerStatuses[0].Ready, pod.Status.ContainerStatuses[0].RestartCount = false, 7
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	_, status = planFor(t, newSet("agent:v2", paused), pod)
	if got := condition(status, appsv1beta1.SidecarSetStalled); got != "False NotStalled" {
		t.Errorf("while main crashes, Stalled is %q: %+v", got, status.Conditions)
	}
}

// With a label different on each pod, every pass took quadratic time.
func TestScatteringByALabelOfSinglePodsCostsTheSameForEachPod(t *testing.T) {
	set := newSet("agent:v2", maxUnavailable("100%"), strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
		s.ScatterStrategy = []shared.UpdateScatterTerm{{Key: "pod", Value: "*"}}
	}))
	perPod := map[int]uint64{}
	for _, n := range []int{100, 1600} {
		pods := injectedPods(t, newSet("agent:v1"), n, 0)
		for i := range pods {
			pods[i].Labels["pod"] = pods[i].Name
		}
		spec := parse(t, set)
		s := snapshot(spec, pods)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plan.Plan(spec, s)
		runtime.ReadMemStats(&after)
		perPod[n] = (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	if perPod[1600] > 2*perPod[100] {
		t.Errorf("of 100 pods each takes %d bytes, of 1600 %d", perPod[100], perPod[1600])
	}
}

// A very old pod has only hashes; the next write modernizes this set's entry alone.
func TestAVeryOldPodSaysItsHashInTodaysWayAfterAnUpdate(t *testing.T) {
	old, set := newSet("agent:v1"), newSet("agent:v2")
	pod := run(newPod(t, "p0", old), true)
	pod.Annotations[shared.AnnotationSidecarSetHash] = fmt.Sprintf(`{"logs":%q,"mesh":"abc"}`, hashesOf(t, old).Hash)
	pod.Annotations[shared.AnnotationSidecarSetHashWithoutImage] = fmt.Sprintf(`{"logs":%q,"mesh":"abc"}`, hashesOf(t, old).WithoutImage)
	todo, _ := planFor(t, set, pod)
	after := carried(t, todo, pod)
	for key, want := range map[string]string{
		shared.AnnotationSidecarSetHash: hashesOf(t, set).Hash, shared.AnnotationSidecarSetHashWithoutImage: hashesOf(t, set).WithoutImage,
	} {
		var said map[string]json.RawMessage
		var entry shared.SidecarSetUpgrade
		text := after.Annotations[key]
		if err := json.Unmarshal([]byte(text), &said); err != nil || json.Unmarshal(said["logs"], &entry) != nil || entry.SidecarSetHash != want || string(said["mesh"]) != `"abc"` {
			t.Errorf("it says %s", text)
		}
	}
	if todo, status := planFor(t, set, follows(after)); len(todo.Actions) > 0 || status.UpdatedReadyPods != 1 {
		t.Errorf("afterwards: %d actions, status %+v", len(todo.Actions), status)
	}
}

// Digest images are recognized by the kubelet's reported ID, whatever it calls the image.
func TestImagesThatAreDigestsReachAllPods(t *testing.T) {
	digest := func(of string) string { return "agent@sha256:" + strings.Repeat(of, 64) }
	before, after := newSet(digest("1")), newSet(digest("2"))
	pod := run(newPod(t, "p0", before), true)
	pod.Status.ContainerStatuses[1].ImageID = digest("1")
	todo, _ := planFor(t, after, pod)
	pod = carried(t, todo, pod)
	// The kubelet has seen nothing of it yet.
	if todo, status := planFor(t, after, pod); len(todo.Actions) > 0 || status.UpdatedPods != 1 || status.ReadyPods != 0 {
		t.Errorf("before the kubelet has seen it: %d actions, status %+v", len(todo.Actions), status)
	}
	pod = follows(pod)
	pod.Status.ContainerStatuses[1].Image, pod.Status.ContainerStatuses[1].ImageID = "docker.io/library/agent:latest", "docker.io/library/"+digest("2")
	if todo, status := planFor(t, after, pod); len(todo.Actions) > 0 || status.UpdatedReadyPods != 1 {
		t.Errorf("afterwards: %d actions, status %+v", len(todo.Actions), status)
	}
}

// An unmergeable annotation keeps its pod as it is, is reported, and holds up no other pod.
func TestAnAnnotationThatIsNoJSONKeepsOnlyItsPod(t *testing.T) {
	set := newSet("agent:v2", func(s *appsv1beta1.SidecarSet) {
		s.Spec.PatchPodMetadata = []appsv1beta1.SidecarSetPatchPodMetadata{{Annotations: map[string]string{"merged": `{"a":1}`}, PatchPolicy: appsv1beta1.SidecarSetMergePatchJSONPatchPolicy}}
	})
	pods := injectedPods(t, newSet("agent:v1"), 2, 0)
	pods[0].Annotations["merged"] = "{"
	for _, limit := range []string{"1", "2"} {
		maxUnavailable(limit)(set)
		if todo, _ := planFor(t, set, pods...); updated(todo) != "p1" {
			t.Errorf("with maxUnavailable %s updated are %q", limit, updated(todo))
		}
	}
	todo, _ := planFor(t, set, pods...)
	after := follows(carried(t, todo, pods[1]))
	_, status := planFor(t, set, pods[0], after)
	if got := condition(status, appsv1beta1.SidecarSetStalled); !strings.HasPrefix(got, "True") {
		t.Errorf("afterwards Stalled is %s: %+v", got, status.Conditions)
	}
	s := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == string(appsv1beta1.SidecarSetStalled) })
	if message := status.Conditions[s].Message; !strings.Contains(message, "annotation merged cannot be merged") || !strings.Contains(message, "p0") {
		t.Errorf("it says %q", message)
	}
}

// One wave after the other.
func TestWavesOfAnUpdate(t *testing.T) {
	old, now := newSet("agent:v1"), newSet("agent:v2")
	of := func(old, updated, notReady []string) []*corev1.Pod {
		var pods []*corev1.Pod
		for _, name := range old {
			pods = append(pods, run(newPod(t, name, newSet("agent:v1")), true))
		}
		for _, name := range updated {
			pods = append(pods, run(newPod(t, name, now), true))
		}
		for _, name := range notReady {
			pods = append(pods, run(newPod(t, name, now), false))
		}
		return pods
	}
	names := func(from, to int) []string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf("p%d", i))
		}
		return all
	}
	limits := []func(*appsv1beta1.SidecarSet){partition("3"), maxUnavailable("25%")}
	for name, tc := range map[string]struct {
		set  *appsv1beta1.SidecarSet
		pods []*corev1.Pod
		want int
	}{
		"the first wave is of three":              {newSet("agent:v2", limits...), of(names(0, 10), nil, nil), 3},
		"one that is not ready leaves room for 2": {newSet("agent:v2", limits...), of(names(3, 10), names(0, 2), names(2, 3)), 2},
		"seven are all":                           {newSet("agent:v2", limits...), of(names(7, 10), names(0, 7), nil), 0},
		"the partition goes":                      {newSet("agent:v2", partition("0"), maxUnavailable("25%")), of(names(7, 10), names(0, 7), nil), 3},
		"two that crash, and one that is healthy": {newSet("agent:v2"), injectedPods(t, old, 2, 2), 3},
	} {
		t.Run(name, func(t *testing.T) {
			todo, status := planFor(t, tc.set, tc.pods...)
			if got := len(todo.Actions); got != tc.want {
				t.Errorf("%d pods move, want %d", got, tc.want)
			}
			if tc.want == 0 && (status.UpdatedPods != 7 || condition(status, appsv1beta1.SidecarSetReconciling) != "False PartitionReached") {
				t.Errorf("status %+v", status)
			}
		})
	}
}

// A pod newly matching updateStrategy.selector is updated; one no longer matching stays.
func TestAPodWhoseLabelsChangeIsUpdated(t *testing.T) {
	set := newSet("agent:v2", strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"gray": "yes"}}
	}))
	spec, pod := parse(t, set), run(newPod(t, "p0", newSet("agent:v1")), true)
	var known plan.Known
	for i, gray := range []string{"no", "yes", "no"} {
		pod.Labels["gray"], pod.ResourceVersion = gray, fmt.Sprint(i+1)
		s := snapshot(spec, nil)
		s.Pods = known.Pods(spec, []*corev1.Pod{pod}, everyNamespace, s.Now)
		want := map[string]string{"yes": "p0"}[gray]
		if got := updated(plan.Plan(spec, s)); got != want {
			t.Errorf("with gray=%s updated are %q, want %q", gray, got, want)
		}
	}
}

// A Job's pod with an ended container never becomes ready again: others do not wait for it.
func TestAPodWhoseContainerHasEndedForGoodHoldsUpNoOther(t *testing.T) {
	v1, v2 := newSet("agent:v1"), newSet("agent:v2", maxUnavailable("1"))
	for name, tc := range map[string]struct {
		policy corev1.RestartPolicy
		// own is the restart policy of the container itself.
		own   *corev1.ContainerRestartPolicy
		ended string
		code  int32
		waits bool
	}{
		"the sidecar of a Job":                                  {policy: corev1.RestartPolicyNever, ended: "agent"},
		"the sidecar of a Job, with an error":                   {policy: corev1.RestartPolicyNever, ended: "agent", code: 1},
		"the main container of a Job":                           {policy: corev1.RestartPolicyNever, ended: "main"},
		"the sidecar of a Job that retries":                     {policy: corev1.RestartPolicyOnFailure, ended: "agent"},
		"the sidecar of a Job that retries, with an error":      {policy: corev1.RestartPolicyOnFailure, ended: "agent", code: 1, waits: true},
		"a sidecar that is restarted":                           {policy: corev1.RestartPolicyAlways, ended: "agent", waits: true},
		"a sidecar with a policy of its own":                    {policy: corev1.RestartPolicyAlways, own: ptr.To(corev1.ContainerRestartPolicyNever), ended: "agent"},
		"a sidecar of a Job that its own policy has restarted":  {policy: corev1.RestartPolicyNever, own: ptr.To(corev1.ContainerRestartPolicyAlways), ended: "agent", waits: true},
		"no container, and so the pod of the Job is as any one": {policy: corev1.RestartPolicyNever, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := run(newPod(t, "job", v1), false)
			job.Spec.RestartPolicy = tc.policy
			for i := range job.Spec.Containers {
				if c := &job.Spec.Containers[i]; c.Name == tc.ended {
					c.RestartPolicy = tc.own
					job.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}}
				}
			}
			pods := []*corev1.Pod{job, run(newPod(t, "p1", v1), true), run(newPod(t, "p2", v1), true)}
			changed := func() string {
				todo, _ := planFor(t, v2, pods...)
				var names []string
				for _, action := range todo.Actions {
					names = append(names, podset.PodOf(action).Name)
				}
				slices.Sort(names)
				return strings.Join(names, " ")
			}
			if got := changed(); got != "job p1" && got != "job p2" {
				t.Fatalf("changed are %s", got)
			}
			todo, _ := planFor(t, v2, pods...)
			pods[0] = carried(t, todo, job)
			pods[0].Status.ObservedGeneration = pods[0].Generation
			if got := changed(); (got == "") != tc.waits {
				t.Errorf("once the pod of the Job has its image, changed are %q", got)
			}
			for i := range pods[1:] {
				pod := run(newPod(t, pods[i+1].Name, v2), true)
				pods[i+1] = pod
			}
			_, status := planFor(t, v2, pods...)
			c, _ := conditions.Find(plan.Conditions(&status), appsv1beta1.SidecarSetReconciling)
			if (c.Reason == appsv1beta1.ReasonComplete) == tc.waits || status.MatchedPods != 3 || status.ReadyPods != 2 {
				t.Errorf("in the end: %+v, status %+v", c, status)
			}
		})
	}
}

// An admission policy had rewritten the new pod's image. The update wrote the spec's, impossible to pull.
func TestASidecarWhoseImageWasRewrittenIsNotUpdated(t *testing.T) {
	for name, tc := range map[string]struct {
		image  string
		edited bool
		moves  bool
	}{
		"it is that of its revision":      {image: "agent:1", moves: true},
		"it was rewritten":                {image: "mirror/agent:1"},
		"it was rewritten to the new one": {image: "agent:2", moves: true},
		"an edit of ours has written it":  {image: "agent:1", edited: true, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(t, "p1", newSet("agent:1"))
			pod.Annotations[shared.AnnotationSidecarSetHash] = strings.Replace(pod.Annotations[shared.AnnotationSidecarSetHash], `"sidecarSetName"`, `"controllerRevision":"logs-1","sidecarSetName"`, 1)
			pod.Spec.Containers[1].Image = tc.image
			run(pod, true)
			if tc.edited {
				first, _ := planFor(t, newSet("agent:1b"), pod)
				pod = follows(carried(t, first, pod))
			}
			spec := parse(t, newSet("agent:2"))
			spec.Recorded = map[string]map[string]string{"logs-1": {"agent": "agent:1"}}
			s := snapshot(spec, []*corev1.Pod{pod})
			todo := plan.Plan(spec, s)
			note, _ := todo.HeldFor("NotUpgradable")
			moves := slices.ContainsFunc(todo.Actions, func(a planning.Action) bool { return a.Reason == podset.ReasonInPlaceUpdate })
			if moves != tc.moves || strings.Contains(note.Message, "its revision says agent:1") == tc.moves {
				t.Errorf("moves: %v, %q", moves, note.Message)
			}
		})
	}
}

// Running pods kept their old volumes, init containers and pull secrets, and no condition said so.
func TestPodsThatKeepFormerVolumesAreNamed(t *testing.T) {
	const note = "spec.volumes: 1 pod keeps what an earlier spec said until recreated, such as shop/p1"
	revisions := func(t *testing.T, names ...string) *corev1.Pod {
		pod := newPod(t, "p1", newSet("agent:1"))
		for i, key := range []string{shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage}[:len(names)] {
			pod.Annotations[key] = strings.Replace(pod.Annotations[key], `"sidecarSetName"`, `"controllerRevision":"`+names[i]+`","sidecarSetName"`, 1)
		}
		return run(pod, true)
	}
	for name, tc := range map[string]struct {
		created []string // the revisions that the pod names beside its hashes
		kept    map[string]string
		set     *appsv1beta1.SidecarSet
		want    string
	}{
		"the volumes are those of the spec": {created: []string{"logs-1"}, set: newSet("agent:1")},
		"the pod names no revision":         {kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:1")},
		"they changed":                      {created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:1"), want: note},
		"the image changed, too":            {created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:2"), want: note},
		"an update has hidden the revision": {created: []string{"logs-2", "logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:1"), want: note},
		"they are those of the pod again":   {created: []string{"logs-2", "logs-1"}, kept: map[string]string{"logs-2": "spec.volumes"}, set: newSet("agent:1")},
		"updates are paused":                {created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:2", paused), want: note},
		"the user wants no updates":         {created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"}, set: newSet("agent:1", notUpdate)},
		"new pods get an earlier revision, too": {
			created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"},
			set: newSet("agent:1", func(s *appsv1beta1.SidecarSet) {
				s.Spec.InjectionStrategy.Revision = &appsv1beta1.SidecarSetInjectRevision{RevisionName: ptr.To("logs-1")}
			}),
		},
		"the sidecars differ in more than images": {
			created: []string{"logs-1"}, kept: map[string]string{"logs-1": "spec.volumes"},
			set: newSet("agent:1", func(s *appsv1beta1.SidecarSet) { s.Spec.Containers[0].Args = []string{"-v"} }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := revisions(t, tc.created...)
			status := func() string {
				spec := parse(t, tc.set)
				spec.Kept = tc.kept
				s := snapshot(spec, []*corev1.Pod{pod})
				todo := plan.Plan(spec, s)
				got, _ := conditions.Find(plan.Conditions(ptr.To(plan.Status(spec, s, todo, planning.Outcome{}, plan.Injection{}))), appsv1beta1.SidecarSetFieldsIgnored)
				if slices.ContainsFunc(todo.Actions, func(a planning.Action) bool { return a.Reason == podset.ReasonInPlaceUpdate }) {
					pod = carried(t, todo, pod)
				}
				return got.Message
			}
			for _, when := range []string{"before an update", "after it"} {
				if got := status(); got != tc.want {
					t.Errorf("%s: %q, want %q", when, got, tc.want)
				}
			}
			if len(tc.created) > 0 && !plan.MayHaveRevision(pod, tc.created[len(tc.created)-1]) {
				t.Error("the revision of the pod's creation may be deleted")
			}
		})
	}
}
