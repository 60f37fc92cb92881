// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

const namespace = "shop"

// newSet is a set with this image for container agent, and with changes.
func newSet(image string, changes ...func(*appsv1beta1.SidecarSet)) *appsv1beta1.SidecarSet {
	set := &appsv1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: "logs", UID: "uid-logs", ResourceVersion: "5310", Generation: 3},
		Spec: appsv1beta1.SidecarSetSpec{
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			Containers: []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: image}}},
		},
	}
	for _, change := range changes {
		change(set)
	}
	sidecarspec.Default(&set.Spec)
	return set
}

func hot(set *appsv1beta1.SidecarSet) {
	set.Spec.Containers[0].UpgradeStrategy = appsv1beta1.SidecarUpgradeStrategy{UpgradeType: appsv1beta1.HotUpgrade, HotUpgradeEmptyImage: "idle:1"}
}

func strategy(change func(*appsv1beta1.SidecarSetUpdateStrategy)) func(*appsv1beta1.SidecarSet) {
	return func(set *appsv1beta1.SidecarSet) { change(&set.Spec.UpdateStrategy) }
}

func maxUnavailable(value string) func(*appsv1beta1.SidecarSet) {
	return strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) { s.MaxUnavailable = ptr.To(intstr.Parse(value)) })
}

func partition(value string) func(*appsv1beta1.SidecarSet) {
	return strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) { s.Partition = ptr.To(intstr.Parse(value)) })
}

func paused(set *appsv1beta1.SidecarSet) { set.Spec.UpdateStrategy.Paused = true }
func notUpdate(set *appsv1beta1.SidecarSet) {
	set.Spec.UpdateStrategy.Type = appsv1beta1.NotUpdateSidecarSetStrategyType
}

func hashesOf(t testing.TB, set *appsv1beta1.SidecarSet) sidecarspec.Hashes {
	t.Helper()
	hashes, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(&set.Spec, nil))
	if err != nil {
		t.Fatal(err)
	}
	return hashes
}

func parse(t testing.TB, set *appsv1beta1.SidecarSet) *plan.Spec {
	t.Helper()
	return plan.Parse(set, hashesOf(t, set))
}

// newPod is a new pod injected by the set.
func newPod(t testing.TB, name string, set *appsv1beta1.SidecarSet) *corev1.Pod {
	t.Helper()
	hashes := hashesOf(t, set)
	entry := func(hash string) string {
		text, err := json.Marshal(map[string]shared.SidecarSetUpgrade{set.Name: {SidecarSetHash: hash, SidecarSetName: set.Name, SidecarList: []string{"agent"}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: podsettest.UIDOf(name), ResourceVersion: "1", Generation: 1,
			Labels: map[string]string{"app": "shop"},
			Annotations: map[string]string{
				shared.AnnotationSidecarSetInjectedList:     set.Name,
				shared.AnnotationSidecarSetHash:             entry(hashes.Hash),
				shared.AnnotationSidecarSetHashWithoutImage: entry(hashes.WithoutImage),
			},
			CreationTimestamp: metav1.NewTime(podsettest.Long()),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
	}
	if len(set.Spec.Containers) == 0 {
		return pod
	}
	c := set.Spec.Containers[0]
	if c.UpgradeStrategy.UpgradeType != appsv1beta1.HotUpgrade {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "agent", Image: c.Image})
		return pod
	}
	pod.Spec.Containers = append(pod.Spec.Containers,
		corev1.Container{Name: "agent-1", Image: c.Image}, corev1.Container{Name: "agent-2", Image: c.UpgradeStrategy.HotUpgradeEmptyImage})
	for key, value := range map[string]string{
		"version.sidecarset.kruise.io/agent-1": "1", "versionalt.sidecarset.kruise.io/agent-1": "0",
		"version.sidecarset.kruise.io/agent-2": "0", "versionalt.sidecarset.kruise.io/agent-2": "1",
		shared.AnnotationSidecarSetWorkingContainer: `{"agent":"agent-1"}`,
	} {
		pod.Annotations[key] = value
	}
	return pod
}

// run lets the pod run, ready or not.
func run(pod *corev1.Pod, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	long := metav1.NewTime(podsettest.Long())
	pod.Spec.NodeName = "node"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, ObservedGeneration: pod.Generation, StartTime: &long,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: long}, {Type: corev1.ContainersReady, Status: status}},
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "id-of-" + c.Image, ContainerID: "sim://" + c.Name, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: long}},
		})
	}
	return pod
}

func everyNamespace(string) bool { return true }

// planFor plans for pods, and returns the actions by pod, and the status.
func planFor(t testing.TB, set *appsv1beta1.SidecarSet, pods ...*corev1.Pod) (planning.Plan, appsv1beta1.SidecarSetStatus) {
	t.Helper()
	spec := parse(t, set)
	s := snapshot(spec, pods)
	todo := plan.Plan(spec, s)
	return todo, plan.Status(spec, s, todo, planning.Outcome{}, plan.Injection{})
}

// Once the other container serves, the replaced one becomes idle, and events report the server's answer.
func TestTheReplacedContainerOfAPairBecomesIdle(t *testing.T) {
	set := newSet("agent:v2", hot)
	pod := newPod(t, "a", set)
	pod.Spec.Containers[1].Image, pod.Spec.Containers[2].Image = "agent:v1", "agent:v2"
	pod.Annotations[shared.AnnotationSidecarSetWorkingContainer] = `{"agent":"agent-2"}`
	pod.Annotations["version.sidecarset.kruise.io/agent-2"] = "2"
	todo, _ := planFor(t, set, run(pod, true))
	if len(todo.Actions) != 1 || todo.Actions[0].Success.Reason != "ResetContainerSucceed" || todo.Actions[0].Failure.Reason != "ResetContainerFailed" {
		t.Errorf("%+v", todo.Actions)
	}
}

// Failed injection shows where scripts look, whatever the pods do.
func TestASetThatInjectsNothingSaysSo(t *testing.T) {
	noOwner := plan.Injection{Fault: "no owner", Stalled: true}
	deleting := func(set *appsv1beta1.SidecarSet) { set.DeletionTimestamp = ptr.To(metav1.Now()) }
	cases := map[string]struct {
		injection            plan.Injection
		change               func(*appsv1beta1.SidecarSet)
		pods                 func(*appsv1beta1.SidecarSet) []*corev1.Pod
		reconciling, stalled string
		events               []string
	}{
		"all is well": {reconciling: "False NoPods", stalled: "False NotStalled"},
		"it needs the user": {
			injection: noOwner, reconciling: "False NotInjected", stalled: "True NotInjected", events: []string{"InjectionFailed"},
		},
		"it is tried again": {injection: plan.Injection{Fault: "the server is busy"}, reconciling: "True NotInjected", stalled: "False NotStalled"},
		"pods that move come first, but for what needs the user": {
			injection: noOwner, reconciling: "True RollingOut", stalled: "True NotInjected", events: []string{"InjectionFailed"},
			pods: func(set *appsv1beta1.SidecarSet) []*corev1.Pod {
				old := newSet("agent:1")
				return []*corev1.Pod{run(newPod(t, "a", old), true)}
			},
		},
		"a set that goes injects nothing": {injection: noOwner, change: deleting, reconciling: "True Deleting", stalled: "False NotStalled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := newSet("agent:2")
			if tc.change != nil {
				tc.change(set)
			}
			var pods []*corev1.Pod
			if tc.pods != nil {
				pods = tc.pods(set)
			}
			spec := parse(t, set)
			s := snapshot(spec, pods)
			status := plan.Status(spec, s, plan.Plan(spec, s), planning.Outcome{}, tc.injection)
			var events []string
			for _, event := range plan.Events(spec, status) {
				events = append(events, event.Reason)
			}
			reconciling, stalled := condition(status, appsv1beta1.SidecarSetReconciling), condition(status, appsv1beta1.SidecarSetStalled)
			if reconciling != tc.reconciling || stalled != tc.stalled || !slices.Equal(events, tc.events) {
				t.Errorf("Reconciling %s, Stalled %s, events %v", reconciling, stalled, events)
			}
			spec.Set.Status = status
			if again := plan.Events(spec, status); len(again) > 0 {
				t.Errorf("said again: %v", again)
			}
		})
	}
}

// An event names pods without the sidecars, and another one after a time without such pods.
func TestPodsWithoutSidecarsAreNamedInAnEvent(t *testing.T) {
	spec := parse(t, newSet("agent:1"))
	s := snapshot(spec, nil)
	says := func(pods string) (appsv1beta1.SidecarSetStatus, []planning.Event) {
		var injection plan.Injection
		if pods != "" {
			injection.Without = conditions.New(appsv1beta1.SidecarSetPodsWithoutSidecar, true, appsv1beta1.ReasonCreatedWithout, pods)
		}
		status := plan.Status(spec, s, plan.Plan(spec, s), planning.Outcome{}, injection)
		return status, plan.Events(spec, status)
	}
	for _, step := range []struct {
		pods string
		want int
	}{{"2: shop/a, shop/b", 1}, {"1: shop/b", 0}, {"", 0}, {"1: shop/b", 1}} {
		status, events := says(step.pods)
		if len(events) != step.want || step.want > 0 && (events[0].Reason != "PodsWithoutSidecar" || !events[0].Warning || events[0].Message != step.pods) {
			t.Errorf("%s: %+v", step.pods, events)
		}
		spec.Set.Status = status
	}
}

func snapshot(spec *plan.Spec, pods []*corev1.Pod) plan.Snapshot {
	s := plan.Snapshot{Now: podsettest.Now(), Pods: new(plan.Known).Pods(spec, pods, everyNamespace, podsettest.Now())}
	s.Update.Name = "logs-2"
	return s
}

// updated returns the updated pods of a plan, sorted.
func updated(p planning.Plan) string {
	var names []string
	for _, action := range p.Actions {
		if action.Reason == podset.ReasonInPlaceUpdate {
			names = append(names, podset.PodOf(action).Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func condition(status appsv1beta1.SidecarSetStatus, kind appsv1beta1.SidecarSetConditionType) string {
	c, ok := conditions.Find(plan.Conditions(&status), kind)
	if !ok {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// injectedPods are running pods injected by the set; the last ones are not ready.
func injectedPods(t testing.TB, set *appsv1beta1.SidecarSet, ready, notReady int) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i := range ready + notReady {
		pods = append(pods, run(newPod(t, fmt.Sprintf("p%d", i), set), i < ready))
	}
	return pods
}

func TestWhichPodsAreUpdated(t *testing.T) {
	old := newSet("agent:v1")
	label := func(pods []*corev1.Pod, i int, key, value string) []*corev1.Pod {
		pods[i].Labels[key] = value
		return pods
	}
	cases := map[string]struct {
		set  *appsv1beta1.SidecarSet
		pods []*corev1.Pod
		want string
		// reconciling and stalled are status and reason of the conditions.
		reconciling, stalled string
	}{
		"pods at the present spec stay": {
			set: old, pods: injectedPods(t, old, 2, 0), reconciling: "False Complete", stalled: "False NotStalled",
		},
		"one at a time": {
			set: newSet("agent:v2"), pods: injectedPods(t, old, 3, 0), want: "p0", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"as many as maxUnavailable says, rounded up": {
			set: newSet("agent:v2", maxUnavailable("25%")), pods: injectedPods(t, old, 5, 0), want: "p0 p1", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"pods that are not ready come first and cost nothing": {
			set: newSet("agent:v2"), pods: injectedPods(t, old, 2, 2), want: "p0 p2 p3", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"pods that are not ready move although maxUnavailable is 0": {
			set: newSet("agent:v2", maxUnavailable("0")), pods: injectedPods(t, old, 2, 1), want: "p2", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"pods that are ready stay when maxUnavailable is 0, which needs the user, also beside a partition": {
			set: newSet("agent:v2", maxUnavailable("0"), partition("2")), pods: injectedPods(t, old, 3, 0), reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero",
		},
		"pods that are ready stay when maxUnavailable is 0%, which needs the user": {
			set: newSet("agent:v2", maxUnavailable("0%")), pods: injectedPods(t, old, 2, 0), reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero",
		},
		"an updated pod that is not ready uses up the limit": {
			set: newSet("agent:v2"), pods: append(injectedPods(t, old, 2, 0), run(newPod(t, "p9", newSet("agent:v2")), false)),
			reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"the partition keeps the last ones": {
			set: newSet("agent:v2", partition("2"), maxUnavailable("10")), pods: injectedPods(t, old, 5, 0), want: "p0 p1 p2", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"a partition in percent is rounded up": {
			set: newSet("agent:v2", partition("50%"), maxUnavailable("10")), pods: injectedPods(t, old, 5, 0), want: "p0 p1", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"99% of two pods still moves one": {
			set: newSet("agent:v2", partition("99%"), maxUnavailable("10")), pods: injectedPods(t, old, 2, 0), want: "p0", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"a partition of all keeps all": {
			set: newSet("agent:v2", partition("100%")), pods: injectedPods(t, old, 2, 0), reconciling: "False PartitionReached", stalled: "False NotStalled",
		},
		"paused": {
			set: newSet("agent:v2", paused), pods: injectedPods(t, old, 2, 1), reconciling: "False Paused", stalled: "False NotStalled",
		},
		"NotUpdate": {
			set: newSet("agent:v2", notUpdate), pods: injectedPods(t, old, 2, 0), reconciling: "False NotUpdate", stalled: "False NotStalled",
		},
		"only what the selector selects": {
			set: newSet("agent:v2", strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
				s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"gray": "yes"}}
			})),
			pods: label(injectedPods(t, old, 2, 0), 1, "gray", "yes"), want: "p1", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"nothing that the selector selects is left": {
			set: newSet("agent:v2", strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
				s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"gray": "yes"}}
			})),
			pods: injectedPods(t, old, 2, 0), reconciling: "False NotSelected", stalled: "False NotStalled",
		},
		"by priority": {
			set: newSet("agent:v2", strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
				s.PriorityStrategy = &shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{
					{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}},
				}}
			})),
			pods: label(injectedPods(t, old, 3, 0), 2, "tier", "test"), want: "p2", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"scattered, the last one of many values comes last": {
			set: newSet("agent:v2", maxUnavailable("3"), strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
				s.ScatterStrategy = []shared.UpdateScatterTerm{{Key: "zone", Value: "*"}}
			})),
			pods: label(label(injectedPods(t, old, 4, 0), 0, "zone", "a"), 1, "zone", "a"), want: "p0 p2 p3", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"a difference in more than images keeps pods as they are": {
			set: newSet("agent:v2", func(s *appsv1beta1.SidecarSet) { s.Spec.Containers[0].Args = []string{"-v"} }), pods: injectedPods(t, old, 2, 0),
			reconciling: "False MoreThanImagesChanged", stalled: "True MoreThanImagesChanged",
		},
		"pods that cannot be updated are those that the partition keeps": {
			set:  newSet("agent:v2", partition("1"), maxUnavailable("5")),
			pods: append(injectedPods(t, old, 2, 0), run(newPod(t, "p9", newSet("agent:v1", func(s *appsv1beta1.SidecarSet) { s.Spec.Containers[0].Args = []string{"-v"} })), true)),
			want: "p0 p1", reconciling: "True RollingOut", stalled: "False NotStalled",
		},
		"a limit of 0 needs the user, also where the partition keeps pods that cannot be updated": {
			set:         newSet("agent:v2", partition("1"), maxUnavailable("0")),
			pods:        append(injectedPods(t, old, 2, 0), run(newPod(t, "p9", newSet("agent:v1", func(s *appsv1beta1.SidecarSet) { s.Spec.Containers[0].Args = []string{"-v"} })), true)),
			reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero",
		},
		"paused, and none is selected": {
			set: newSet("agent:v2", paused, strategy(func(s *appsv1beta1.SidecarSetUpdateStrategy) {
				s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"gray": "yes"}}
			})),
			pods: injectedPods(t, old, 2, 0), reconciling: "False NotSelected", stalled: "False NotStalled",
		},
		"no pod": {set: newSet("agent:v2"), reconciling: "False NoPods", stalled: "False NotStalled"},
		"a spec that cannot be parsed": {
			set: newSet("agent:v2", partition("many")), pods: injectedPods(t, old, 2, 0), reconciling: "False InvalidSpec", stalled: "True InvalidSpec",
		},
		"a set that is being deleted": {
			set: newSet("agent:v2", func(s *appsv1beta1.SidecarSet) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), pods: injectedPods(t, old, 2, 0),
			reconciling: "True Deleting", stalled: "False NotStalled",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			todo, status := planFor(t, tc.set, tc.pods...)
			if got := updated(todo); got != tc.want {
				t.Errorf("updated: %q, want %q", got, tc.want)
			}
			if got := condition(status, appsv1beta1.SidecarSetReconciling); got != tc.reconciling {
				t.Errorf("Reconciling: %s, want %s", got, tc.reconciling)
			}
			if got := condition(status, appsv1beta1.SidecarSetStalled); got != tc.stalled {
				t.Errorf("Stalled: %s, want %s", got, tc.stalled)
			}
		})
	}
}

func TestWhichPodsCount(t *testing.T) {
	set := newSet("agent:v1")
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := run(newPod(t, "p0", set), true)
		change(p)
		return p
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a ready one":               {pod(func(*corev1.Pod) {}), "1 matched, 1 updated, 1 ready, 1 both"},
		"one that is not ready":     {run(newPod(t, "p0", set), false), "1 matched, 1 updated, 0 ready, 0 both"},
		"an old one":                {run(newPod(t, "p0", newSet("agent:v0")), true), "1 matched, 0 updated, 1 ready, 0 both"},
		"one that is terminating":   {pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: podsettest.Now()} }), "0 matched, 0 updated, 0 ready, 0 both"},
		"one that has finished":     {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "0 matched, 0 updated, 0 ready, 0 both"},
		"one without the labels":    {pod(func(p *corev1.Pod) { p.Labels = nil }), "0 matched, 0 updated, 0 ready, 0 both"},
		"one without the container": {pod(func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }), "0 matched, 0 updated, 0 ready, 0 both"},
		"one with the hash alone, as long ago": {pod(func(p *corev1.Pod) {
			p.Annotations[shared.AnnotationSidecarSetHash] = `{"logs":"` + hashesOf(t, set).Hash + `"}`
		}), "1 matched, 1 updated, 1 ready, 1 both"},
		"one whose hash cannot be decoded": {pod(func(p *corev1.Pod) { p.Annotations[shared.AnnotationSidecarSetHash] = "]" }), "1 matched, 0 updated, 1 ready, 0 both"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, s := planFor(t, newSet("agent:v1", paused), tc.pod)
			if got := fmt.Sprintf("%d matched, %d updated, %d ready, %d both", s.MatchedPods, s.UpdatedPods, s.ReadyPods, s.UpdatedReadyPods); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// On a virtual node another image ends a sidecar. It must stay.
func TestAnImageByWhichASidecarEndsStays(t *testing.T) {
	exits := func(set *appsv1beta1.SidecarSet) {
		set.Spec.Containers[0].Env = []corev1.EnvVar{{Name: jobsidecar.EnvTerminateImage, Value: "exit0:v1"}}
	}
	job := func(mainDone bool) *corev1.Pod {
		pod := newPod(t, "p0", newSet("agent:v1", exits))
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[1].Env = newSet("agent:v1", exits).Spec.Containers[0].Env
		run(pod, true)
		if mainDone {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
		return pod
	}
	exchanged := job(true)
	exchanged.Spec.Containers[1].Image = "exit0:v1"
	set := newSet("agent:v2", exits)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a job at work is updated":            {job(false), "p0"},
		"one whose main container is done":    {job(true), ""},
		"one whose sidecar has the new image": {exchanged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			todo, status := planFor(t, set, tc.pod)
			if got := updated(todo); got != tc.want {
				t.Errorf("updated are %q, want %q", got, tc.want)
			}
			if tc.want == "" && (len(todo.Actions) > 0 || status.MatchedPods != 0) {
				t.Errorf("%d actions, %d pods are counted; want none", len(todo.Actions), status.MatchedPods)
			}
		})
	}
}

// One write, or two with a new condition; others' writes stay.
func TestWhatIsWrittenToAPod(t *testing.T) {
	set := newSet("agent:v2", func(s *appsv1beta1.SidecarSet) {
		s.Spec.PatchPodMetadata = []appsv1beta1.SidecarSetPatchPodMetadata{
			{Annotations: map[string]string{"kept": "new", "added": "new"}, PatchPolicy: appsv1beta1.SidecarSetRetainPatchPolicy},
			{Annotations: map[string]string{"replaced": "new"}, PatchPolicy: appsv1beta1.SidecarSetOverwritePatchPolicy},
			{Annotations: map[string]string{"merged": `{"a":1}`}, PatchPolicy: appsv1beta1.SidecarSetMergePatchJSONPatchPolicy},
			// A set may not write the pods' own records. A stored one may try.
			{Annotations: map[string]string{shared.AnnotationSidecarSetHash: "{}", shared.AnnotationSidecarSetInPlaceState: "{}"}, PatchPolicy: appsv1beta1.SidecarSetOverwritePatchPolicy},
		}
	})
	pod := run(newPod(t, "p0", newSet("agent:v1")), true)
	for key, value := range map[string]string{"kept": "old", "replaced": "old", "merged": `{"b":9007199254740993}`} {
		pod.Annotations[key] = value
	}
	pod.Annotations[shared.AnnotationSidecarSetHash] = strings.TrimSuffix(pod.Annotations[shared.AnnotationSidecarSetHash], "}") + `,"mesh":"other"}`
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: shared.SidecarSetUpgradable, Status: corev1.ConditionTrue, Message: `{"mesh":true}`})
	before := pod.DeepCopy()

	todo, _ := planFor(t, set, pod)
	if len(todo.Actions) != 1 {
		t.Fatalf("%d actions", len(todo.Actions))
	}
	a := todo.Actions[0]
	if a.Success.Reason != "SuccessfulUpdatePodInPlace" || a.Success.Warning || a.Failure.Reason != "FailedUpdatePodInPlace" || !a.Failure.Warning {
		t.Errorf("told %+v, or %+v", a.Success, a.Failure)
	}
	requests := todo.Actions[0].Change.Requests(pod)
	var where []string
	for _, r := range requests {
		where = append(where, r.Subresource)
		body, err := r.Body(planning.Version{ResourceVersion: "77"})
		if err != nil || len(where) == 1 && !strings.Contains(string(body), `"resourceVersion":"77"`) {
			t.Errorf("the first write is not tied to the version of the pod: %s %v", body, err)
		}
	}
	if got := strings.Join(where, ","); got != "status," {
		t.Errorf("requests to %q, want one to the status, for the condition, and one to the pod", got)
	}
	after := podsettest.EditOf(todo.Actions[0]).Apply(pod)
	if after.Spec.Containers[1].Image != "agent:v2" || after.Spec.Containers[0].Image != "main:1" {
		t.Errorf("images: %v", after.Spec.Containers)
	}
	for key, want := range map[string]string{"kept": "old", "added": "new", "replaced": "new", "merged": `{"a":1,"b":9007199254740993}`} {
		if got := after.Annotations[key]; got != want {
			t.Errorf("annotation %s is %s, want %s", key, got, want)
		}
	}
	if got := after.Annotations[shared.AnnotationSidecarSetInPlaceState]; !strings.Contains(got, "logs") {
		t.Errorf("the state of the update is %s", got)
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal([]byte(after.Annotations[shared.AnnotationSidecarSetHash]), &said); err != nil || string(said["mesh"]) != `"other"` {
		t.Errorf("what the pod says of sets: %s %v", after.Annotations[shared.AnnotationSidecarSetHash], err)
	}
	var entry shared.SidecarSetUpgrade
	if err := json.Unmarshal(said["logs"], &entry); err != nil || entry.SidecarSetHash != hashesOf(t, set).Hash || entry.ControllerRevision != "logs-2" ||
		!slices.Equal(entry.SidecarList, []string{"agent"}) {
		t.Errorf("what the pod says of the set: %s %v", said["logs"], err)
	}
	if c := after.Status.Conditions[2]; c.Message != `{"logs":true,"mesh":true}` || c.Reason != "AllSidecarsetUpgradable" {
		t.Errorf("condition %+v", c)
	}
	if before.Annotations[shared.AnnotationSidecarSetHashWithoutImage] != after.Annotations[shared.AnnotationSidecarSetHashWithoutImage] {
		t.Error("the hash without images was written")
	}
	// The next update needs one request.
	after.Status.ObservedGeneration = after.Generation
	after.Status.ContainerStatuses[1].Image, after.Status.ContainerStatuses[1].ContainerID = "agent:v2", "sim://another"
	todo, _ = planFor(t, newSet("agent:v3"), after)
	if len(todo.Actions) != 1 || len(todo.Actions[0].Change.Requests(after)) != 1 {
		t.Errorf("the next update takes %d actions", len(todo.Actions))
	}
}

func TestPodsThatCannotBeUpdatedSayIt(t *testing.T) {
	old := newSet("agent:v1")
	other := newSet("agent:v2", func(s *appsv1beta1.SidecarSet) { s.Spec.Containers[0].Args = []string{"-v"} })
	pod := run(newPod(t, "p0", old), true)
	todo, status := planFor(t, other, pod)
	if len(todo.Actions) != 1 || len(podsettest.EditOf(todo.Actions[0]).Images) > 0 {
		t.Fatalf("actions: %+v", todo.Actions)
	}
	if got := condition(status, appsv1beta1.SidecarSetNotUpgradablePods); got != "True MoreThanImagesChanged" {
		t.Errorf("condition %q", got)
	}
	told := podsettest.EditOf(todo.Actions[0]).Apply(pod)
	if c := told.Status.Conditions[len(told.Status.Conditions)-1]; c.Status != corev1.ConditionFalse || c.Message != `{"logs":false}` || c.Reason != "UpdateImmutableField" {
		t.Errorf("condition of the pod: %+v", c)
	}
	if todo, _ := planFor(t, other, told); len(todo.Actions) > 0 {
		t.Errorf("it is told again: %+v", todo.Actions)
	}
	// The user takes the change back.
	todo, _ = planFor(t, old, told)
	if len(todo.Actions) != 1 || podsettest.EditOf(todo.Actions[0]).Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("taken back: %+v", todo.Actions)
	}
}

// A budget protects a pod: the others go first, then it
// is tried again. If most are refused, not all are tried.
func TestAPodThatTheServerDoesNotLetChangeHoldsUpNoOther(t *testing.T) {
	for name, tc := range map[string]struct {
		refused []planning.Slot
		pods    int
		limit   string
		want    string
	}{
		"nothing is refused":         {pods: 3, limit: "1", want: "p0"},
		"the next one comes":         {refused: []planning.Slot{"shop/p0"}, pods: 3, limit: "1", want: "p1"},
		"it comes last":              {refused: []planning.Slot{"shop/p0"}, pods: 3, limit: "2", want: "p1 p2"},
		"it is tried when it is due": {refused: []planning.Slot{"shop/p0"}, pods: 3, limit: "3", want: "p0 p1 p2"},
		"most are refused":           {refused: []planning.Slot{"shop/p0", "shop/p1"}, pods: 3, limit: "1", want: "p0"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := parse(t, newSet("agent:v2", maxUnavailable(tc.limit)))
			s := snapshot(spec, injectedPods(t, newSet("agent:v1"), tc.pods, 0))
			var known plan.Known
			for _, slot := range tc.refused {
				known.Carried(planning.Outcome{Failures: []planning.Failure{{Step: podset.StepEdit, Slot: slot, Refused: true}}}, s.Now)
			}
			s.Refused = known.Refused(s.Now)
			if got := updated(plan.Plan(spec, s)); got != tc.want {
				t.Errorf("updated are %q, want %q", got, tc.want)
			}
			s.Refused = known.Refused(s.Now.Add(time.Minute))
			if got := updated(plan.Plan(spec, s)); !strings.HasPrefix(got, "p0") {
				t.Errorf("a minute later %q", got)
			}
		})
	}
}

// A quota refuses the spec's revision: no pod is updated, begun work ends, and the status says why.
func TestASpecThatIsNotRecordedStopsOnlyUpdates(t *testing.T) {
	pod := run(newPod(t, "p0", newSet("agent:v1", hot)), true)
	todo, _ := planFor(t, newSet("agent:v2", hot), pod)
	midway := follows(carried(t, todo, pod))
	set := newSet("agent:v3", hot)
	set.Status.LatestRevision = "logs-of-v2"
	spec := parse(t, set)
	s := snapshot(spec, []*corev1.Pod{midway, run(newPod(t, "p1", newSet("agent:v2", hot)), true)})
	s.Unrecorded, s.Update.Name = "a quota refuses the revision", ""
	todo = plan.Plan(spec, s)
	if len(todo.Actions) != 1 {
		t.Fatalf("it does %+v", todo.Actions)
	}
	if got := imagesOf(carried(t, todo, midway)); got != "main=main:1 agent-1=idle:1 agent-2=agent:v2" {
		t.Errorf("images %s", got)
	}
	for _, want := range []string{"True RequestFailed", "False RequestFailed"} {
		set.Status = plan.Status(spec, s, todo, planning.Outcome{}, plan.Injection{})
		if got := condition(set.Status, appsv1beta1.SidecarSetReconciling); got != want {
			t.Errorf("Reconciling is %s, want %s", got, want)
		}
		s.Now = s.Now.Add(30 * time.Second)
	}
	if c, _ := conditions.Find(plan.Conditions(&set.Status), appsv1beta1.SidecarSetFailedUpdate); c.Message != s.Unrecorded || set.Status.LatestRevision != "" {
		t.Errorf("%+v, latest revision %q", c, set.Status.LatestRevision)
	}
}

// A request always refused shows where scripts look, and in time needs the user.
func TestAPodThatTheServerDoesNotLetChangeStallsTheSet(t *testing.T) {
	set := newSet("agent:v2")
	pods := injectedPods(t, newSet("agent:v1"), 1, 0)
	outcome := planning.Outcome{Failures: []planning.Failure{{Step: podset.StepEdit, Slot: "shop/p0", Refused: true, Message: "denied by somebody"}}}
	for _, after := range []struct {
		time                 time.Duration
		reconciling, stalled string
	}{{0, "True RequestFailed", "False NotStalled"}, {29 * time.Second, "True RequestFailed", "False NotStalled"}, {30 * time.Second, "False RequestFailed", "True RequestFailed"}} {
		spec := parse(t, set)
		s := snapshot(spec, pods)
		s.Now = s.Now.Add(after.time)
		set.Status = plan.Status(spec, s, plan.Plan(spec, s), outcome, plan.Injection{})
		reconciling, stalled := condition(set.Status, appsv1beta1.SidecarSetReconciling), condition(set.Status, appsv1beta1.SidecarSetStalled)
		if reconciling != after.reconciling || stalled != after.stalled {
			t.Errorf("after %s: Reconciling %s, Stalled %s", after.time, reconciling, stalled)
		}
		if c, _ := conditions.Find(plan.Conditions(&set.Status), appsv1beta1.SidecarSetReconciling); !strings.Contains(c.Message, "changing pod shop/p0: denied by somebody") {
			t.Errorf("message %q", c.Message)
		}
	}
	// Others come first, and it waits.
	spec := parse(t, set)
	s := snapshot(spec, pods)
	s.Refused = map[planning.Slot]string{"shop/p0": "denied by somebody"}
	waits := plan.Status(spec, s, plan.Plan(spec, s), planning.Outcome{}, plan.Injection{})
	if got := condition(waits, appsv1beta1.SidecarSetReconciling); got != "True RequestFailed" {
		t.Errorf("while it waits: Reconciling %s", got)
	}
	// It is let through.
	spec = parse(t, set)
	s = snapshot(spec, pods)
	if got := condition(plan.Status(spec, s, plan.Plan(spec, s), planning.Outcome{}, plan.Injection{}), appsv1beta1.SidecarSetReconciling); got != "True RollingOut" {
		t.Errorf("afterwards: Reconciling %s", got)
	}
}
