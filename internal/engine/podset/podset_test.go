// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// object is a running and ready pod with both gates, ready for a minute, changed by the options.
func object(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{shared.LabelLifecycleState: "Normal"}},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Image: "web:1"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}, {ConditionType: shared.GateKruisePodReady}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, shared.GateInPlaceUpdateReady, shared.GateKruisePodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now().Add(-time.Minute)),
		})
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func state(s shared.LifecycleState) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[shared.LabelLifecycleState] = string(s) }
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		c := podstate.Condition(pod, kind)
		c.Status, c.Message = status, message
	}
}

func notReady(pod *corev1.Pod) { condition(corev1.PodReady, corev1.ConditionFalse, "")(pod) }

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now()} }

func fresh(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodPending} }

func TestObserve(t *testing.T) {
	cases := map[string]struct {
		options   []func(*corev1.Pod)
		minReady  time.Duration
		available bool
		in        time.Duration
	}{
		"a ready pod":                            {available: true},
		"a ready pod, for long enough":           {minReady: time.Minute, available: true},
		"a ready pod, not for long enough":       {minReady: 90 * time.Second, in: 30 * time.Second},
		"a pod that is not ready":                {options: []func(*corev1.Pod){notReady}, minReady: 90 * time.Second},
		"a terminating pod":                      {options: []func(*corev1.Pod){deleted}},
		"a pod at a hook":                        {options: []func(*corev1.Pod){state(shared.StatePreparingDelete)}},
		"a pod without a lifecycle label":        {options: []func(*corev1.Pod){state("")}, available: true},
		"a pod that is out of service by a gate": {options: []func(*corev1.Pod){condition(shared.GateInPlaceUpdateReady, corev1.ConditionFalse, "")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Observe(object("web-0", tc.options...), Identity{Slot: "0"}, FactRules{Now: now(), MinReady: tc.minReady})
			if got.Available != tc.available || got.AvailableIn != tc.in {
				t.Errorf("available %v in %v, want %v in %v", got.Available, got.AvailableIn, tc.available, tc.in)
			}
		})
	}
}

func TestCountsOf(t *testing.T) {
	observe := func(name, revision string, options ...func(*corev1.Pod)) Pod {
		return Observe(object(name, options...), Identity{Revision: revision}, FactRules{Now: now()})
	}
	s := Snapshot{
		Current: revision.Revision{Name: "old"}, Update: revision.Revision{Name: "new"},
		Pods: []Pod{
			observe("a", "old"),
			observe("b", "old", deleted),
			observe("c", "new"),
			observe("d", "new", state(shared.StatePreparingDelete)),
			observe("e", "new", notReady),
			observe("f", "other"),
			observe("in its grace period, without the gate", "new", state(shared.StateUpdating), func(pod *corev1.Pod) {
				pod.Spec.ReadinessGates = nil
				pod.Annotations = map[string]string{shared.AnnotationInPlaceGrace: `{"revision":"new","graceSeconds":10}`}
			}),
			observe("never stored", "new", func(pod *corev1.Pod) { pod.Status.Phase = "" }),
		},
	}
	want := Counts{Replicas: 7, Ready: 6, Available: 3, Current: 1, Updated: 4, UpdatedReady: 2, UpdatedAvailable: 1}
	if diff := cmp.Diff(want, CountsOf(&s)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestLimitSelect(t *testing.T) {
	pod := func(name string, available bool, in time.Duration) *Pod {
		return &Pod{Object: object(name), Slot: planning.Slot(name), Available: available, AvailableIn: in}
	}
	up := func(name string) *Pod { return pod(name, true, 0) }
	down := func(name string) *Pod { return pod(name, false, 0) }
	soon := func(name string) *Pod { return pod(name, false, time.Second) }
	cases := map[string]struct {
		max      int
		used     []string
		pods     []*Pod
		admitted []string
		waiting  []string
	}{
		"available pods go in order while there is room":         {max: 2, pods: []*Pod{up("c"), up("b"), up("a")}, admitted: []string{"b", "c"}, waiting: []string{"a"}},
		"an outage elsewhere uses up the limit":                  {max: 1, used: []string{"x"}, pods: []*Pod{up("a")}, waiting: []string{"a"}},
		"pods that serve nobody go although there is no room":    {max: 1, used: []string{"x", "a", "b"}, pods: []*Pod{down("a"), down("b")}, admitted: []string{"a", "b"}},
		"they go before available pods, wherever they stand":     {max: 1, used: []string{"a"}, pods: []*Pod{up("b"), down("a")}, admitted: []string{"a"}, waiting: []string{"b"}},
		"and count themselves":                                   {max: 2, pods: []*Pod{up("c"), up("b"), down("a")}, admitted: []string{"a", "c"}, waiting: []string{"b"}},
		"pods that have just become ready keep to the limit":     {max: 1, used: []string{"a", "b"}, pods: []*Pod{soon("a"), soon("b")}, waiting: []string{"a", "b"}},
		"one that is nearly available goes within the limit":     {max: 1, used: []string{"a"}, pods: []*Pod{soon("a"), up("b")}, admitted: []string{"a"}, waiting: []string{"b"}},
		"nothing overtakes an available pod that has to wait":    {max: 1, used: []string{"a"}, pods: []*Pod{up("b"), soon("a")}, waiting: []string{"a", "b"}},
		"counting a pod twice does not use up the limit further": {max: 2, used: []string{"a", "a"}, pods: []*Pod{up("b")}, admitted: []string{"b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limit := Limit{Name: "maxUnavailable", Max: tc.max}
			for _, used := range tc.used {
				limit.UseName(used)
			}
			admitted, waiting := limit.Select(tc.pods, func(*Pod) bool { return false })
			if diff := cmp.Diff(tc.admitted, names(admitted), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.waiting, names(waiting), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitNote(t *testing.T) {
	cases := map[string]struct {
		max    int
		extra  int
		used   []string
		others int
		want   string
	}{
		"a surge makes room": {
			max: 3, extra: 2, used: []string{"web-1", "web-2", "web-3"},
			want: "3 pods wait: maxUnavailable 1, and 2 more for pods above replicas, is used up by web-1, web-2, web-3",
		},
		"the first of them are named": {
			max: 2, used: []string{"web-10", "web-9", "web-2", "web-1"}, want: "3 pods wait: maxUnavailable 2 is used up by web-1, web-2, web-9 and 1 more",
		},
		"a missing pod":                 {max: 1, others: 1, want: "3 pods wait: maxUnavailable 1 is used up by 1 pod that does not exist"},
		"some of them missing":          {max: 3, used: []string{"web-1"}, others: 2, want: "3 pods wait: maxUnavailable 3 is used up by web-1 and 2 pods that do not exist"},
		"a limit of no pods":            {want: "3 pods wait: maxUnavailable is 0"},
		"a limit below what is missing": {others: 2, want: "3 pods wait: maxUnavailable 0 is used up by 2 pods that do not exist"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limit := Limit{Name: "maxUnavailable", Max: tc.max, Extra: tc.extra}
			for _, used := range tc.used {
				limit.UseName(used)
			}
			limit.UseOthers(tc.others)
			if got := limit.Note("MaxUnavailable", 3, nil).Message; got != tc.want {
				t.Errorf("message is %q, want %q", got, tc.want)
			}
		})
	}
}

// A workload over all namespaces may have pods of one name in several of them.
func TestPodsOfOneNameInTwoNamespaces(t *testing.T) {
	in := func(namespace string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Namespace = namespace } }
	pods := []Pod{
		Observe(object("web-0", in("a"), state(shared.StateUpdating)), Identity{}, FactRules{Now: now()}),
		Observe(object("web-0", in("b"), state(shared.StateUpdating)), Identity{}, FactRules{Now: now()}),
	}
	pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: pods}, spec: &Spec{}}
	pass.Remove(&pods[0], "Outdated")
	pass.Settle(SettleRules{})
	if plan := pass.Plan(); len(plan.Actions) != 2 || plan.Actions[0].Object.GetNamespace() != "b" || plan.Actions[1].Step != StepDelete {
		t.Errorf("planned %+v, want one deleted and the other one settled", plan.Actions)
	}

	limit := Limit{Name: "maxUnavailable", Max: 2}
	limit.Use(&pods[0])
	if !limit.Room() {
		t.Error("one pod uses up a limit of two")
	}
	limit.Use(&pods[1])
	if limit.Room() {
		t.Error("two pods of one name count as one")
	}
	if got, want := limit.Note("MaxUnavailable", 1, nil).Message, "1 pod waits: maxUnavailable 2 is used up by a/web-0, b/web-0"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestEquipKeepsTheOrderOfGates(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateKruisePodReady}, {ConditionType: "own"}}}}
	SetIdentity(pod, "shop", "web-0", metav1.OwnerReference{Name: "web"}, UpdateGates()...)
	want := []corev1.PodReadinessGate{{ConditionType: shared.GateKruisePodReady}, {ConditionType: "own"}, {ConditionType: shared.GateInPlaceUpdateReady}}
	if diff := cmp.Diff(want, pod.Spec.ReadinessGates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}

func TestSettle(t *testing.T) {
	hook := &shared.LifecycleHook{FinalizersHandler: []string{"example.io/hook"}}
	hooked := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.io/hook"} }
	all := &shared.Lifecycle{PreNormal: hook, InPlaceUpdate: hook, PreDelete: hook}
	cases := map[string]struct {
		pod   []func(*corev1.Pod)
		hooks *shared.Lifecycle
		admit bool
		keep  bool
		state string // the lifecycle state to be written; "" for none
		why   string // the reason of the action; "" for no action
		fresh bool
		held  string
	}{
		"a pod at rest is left alone":                           {},
		"a new pod gets its conditions, whatever happens to it": {pod: []func(*corev1.Pod){fresh}, why: ReasonInitialize, fresh: true},
		"a new pod that is admitted gets both in one edit":      {pod: []func(*corev1.Pod){fresh, state(shared.StatePreparingNormal)}, admit: true, state: "Normal", why: ReasonHook},
		"a new pod waits for its preNormal hook":                {pod: []func(*corev1.Pod){state(shared.StatePreparingNormal)}, hooks: all, held: ReasonHook},
		"a terminating pod is left alone":                       {pod: []func(*corev1.Pod){fresh, deleted}},
		"an update that is done ends":                           {pod: []func(*corev1.Pod){state(shared.StateUpdating)}, state: "Normal", why: ReasonInPlaceFinished},
		"an update that is done waits for its hook":             {pod: []func(*corev1.Pod){state(shared.StateUpdating)}, hooks: all, state: "Updated", why: ReasonInPlaceFinished},
		"an update that is done under its hook needs no wait":   {pod: []func(*corev1.Pod){state(shared.StateUpdating), hooked}, hooks: all, state: "Normal", why: ReasonInPlaceFinished},
		"hooks without one for updates need no wait":            {pod: []func(*corev1.Pod){state(shared.StateUpdating)}, hooks: &shared.Lifecycle{}, state: "Normal", why: ReasonInPlaceFinished},
		"an updated pod waits for its hook":                     {pod: []func(*corev1.Pod){state(shared.StateUpdated)}, hooks: all, held: ReasonHook},
		"an updated pod that is hooked again is normal":         {pod: []func(*corev1.Pod){state(shared.StateUpdated), hooked}, hooks: all, state: "Normal", why: ReasonHook},
		"an updated pod whose hook is gone is normal":           {pod: []func(*corev1.Pod){state(shared.StateUpdated)}, state: "Normal", why: ReasonHook},
		"an update that nobody wants any more is called off":    {pod: []func(*corev1.Pod){state(shared.StatePreparingUpdate), hooked}, hooks: all, state: "Normal", why: ReasonHook},
		"and waits for its hook when it was released already":   {pod: []func(*corev1.Pod){state(shared.StatePreparingUpdate)}, hooks: all, state: "Updated", why: ReasonHook},
		"an update that is still wanted is kept":                {pod: []func(*corev1.Pod){state(shared.StatePreparingUpdate), hooked}, hooks: all, keep: true},
		"a deletion that nobody wants any more is called off":   {pod: []func(*corev1.Pod){state(shared.StatePreparingDelete), hooked}, hooks: all, admit: true, state: "Normal", why: ReasonHook},
		"and the pod waits for its preNormal hook":              {pod: []func(*corev1.Pod){state(shared.StatePreparingDelete), hooked}, hooks: all, state: "PreparingNormal", why: ReasonHook},
		"a deletion that is still wanted is kept":               {pod: []func(*corev1.Pod){state(shared.StatePreparingDelete), hooked}, hooks: all, keep: true},
		"a hold that a hook left behind is given up": {
			pod: []func(*corev1.Pod){condition(shared.GateKruisePodReady, corev1.ConditionFalse, `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`)}, why: ReasonHook,
		},
		"a hold of somebody else is left alone": {
			pod: []func(*corev1.Pod){condition(shared.GateKruisePodReady, corev1.ConditionFalse, `[{"userAgent":"Other","key":"x"}]`)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := Observe(object("web-0", tc.pod...), Identity{Slot: "0"}, FactRules{Now: now()})
			pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: []Pod{pod}}, spec: &Spec{Lifecycle: ptr.Deref(tc.hooks, shared.Lifecycle{})}}
			if tc.keep {
				pass.Keep(&pod)
			}
			pass.Settle(SettleRules{Admit: func(*Pod) bool { return tc.admit }})
			plan := pass.Plan()
			if tc.why == "" {
				if len(plan.Actions) > 0 {
					t.Fatalf("planned %+v", plan.Actions)
				}
			} else if len(plan.Actions) != 1 {
				t.Fatalf("planned %d actions, want one", len(plan.Actions))
			} else {
				action := plan.Actions[0]
				var written string
				if value := action.Change.(edit.Edit).Labels[shared.LabelLifecycleState]; value != nil {
					written = *value
				}
				if written != tc.state || action.Reason != tc.why || action.Change.(edit.Edit).Fresh != tc.fresh {
					t.Errorf("state %q, reason %s, fresh %v; want %q, %s, %v", written, action.Reason, action.Change.(edit.Edit).Fresh, tc.state, tc.why, tc.fresh)
				}
			}
			var held string
			if len(plan.Held) > 0 {
				held = plan.Held[0].Reason
			}
			if held != tc.held {
				t.Errorf("held %q, want %q", held, tc.held)
			}
		})
	}
}

// Settling a pod must not undo, or write beside, what the pass has planned for it.
func TestSettleLeavesTakenPodsAlone(t *testing.T) {
	pods := []Pod{Observe(object("web-0", state(shared.StateUpdating)), Identity{Slot: "0"}, FactRules{Now: now()})}
	pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: pods}, spec: &Spec{}}
	pass.Remove(&pods[0], "Outdated")
	pass.Settle(SettleRules{})
	if plan := pass.Plan(); len(plan.Actions) != 1 || plan.Actions[0].Step != StepDelete {
		t.Errorf("planned %+v, want the deletion alone", plan.Actions)
	}
}

func TestRemoveTiesADeletionOfAnAvailablePodToItsVersion(t *testing.T) {
	pods := []Pod{
		Observe(object("web-0"), Identity{}, FactRules{Now: now()}),
		Observe(object("web-1", notReady), Identity{}, FactRules{Now: now()}),
	}
	pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: pods}, spec: &Spec{}}
	pass.Remove(&pods[0], "ScaleIn")
	pass.Remove(&pods[1], "ScaleIn")
	plan := pass.Plan()
	if !plan.Actions[0].ExactVersion || plan.Actions[1].ExactVersion {
		t.Errorf("exact version: %v and %v, want it for the available pod alone", plan.Actions[0].ExactVersion, plan.Actions[1].ExactVersion)
	}
}

func TestWay(t *testing.T) {
	template := func(image, env string) *corev1.PodTemplateSpec {
		t := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
		if env != "" {
			t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: env}}
		}
		return t
	}
	target := revision.Revision{Name: "new", Template: template("web:2", "")}
	pass := Draft{spec: &Spec{}, Snapshot: &Snapshot{Revisions: map[string]revision.Revision{
		"image": {Name: "image", Template: template("web:1", "")},
		"env":   {Name: "env", Template: template("web:1", "x")},
		"new":   target,
	}}}
	live := func(image string) *corev1.Pod { return &corev1.Pod{Spec: template(image, "").Spec} }
	cases := map[string]struct {
		from   string
		policy shared.PodUpdatePolicy
		want   UpdateMethod
	}{
		"a pod at the target":                          {"new", shared.InPlaceIfPossible, MethodNone},
		"an image rewritten at creation, if possible":  {"mirrored", shared.InPlaceIfPossible, MethodReplace},
		"an image rewritten at creation, in place":     {"mirrored", shared.InPlaceOnly, MethodRefused},
		"an image, if possible":                        {"image", shared.InPlaceIfPossible, MethodInPlace},
		"an image, recreate":                           {"image", shared.RecreatePods, MethodReplace},
		"an image, by default":                         {"image", "", MethodReplace},
		"a variable, if possible":                      {"env", shared.InPlaceIfPossible, MethodReplace},
		"a variable, only in place":                    {"env", shared.InPlaceOnly, MethodRefused},
		"a revision that is gone, if possible":         {"gone", shared.InPlaceIfPossible, MethodReplace},
		"a revision that is gone, only in place":       {"gone", shared.InPlaceOnly, MethodRefused},
		"a pod without a revision, if possible":        {"", shared.InPlaceIfPossible, MethodReplace},
		"a pod at the target that may not be replaced": {"new", shared.InPlaceOnly, MethodNone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &Pod{Revision: tc.from, Object: live("web:1")}
			if tc.from == "mirrored" {
				pod = &Pod{Revision: "image", Object: live("mirror/web:1")}
			}
			pass.spec.PodUpdatePolicy = tc.policy
			got, why := pass.UpdateMethod(pod, Rollout{Target: target})
			notInPlace := got == MethodRefused || got == MethodReplace && tc.policy == shared.InPlaceIfPossible
			if got != tc.want || notInPlace != (why != "") {
				t.Errorf("method %q (%s), want %q", got, why, tc.want)
			}
		})
	}
}

// Pods of a DaemonSet that were evicted three times were said to fail again and again, and came back minutes later.
func TestReplacingAnEvictedPodIsNoFailure(t *testing.T) {
	cases := map[string]struct {
		reason, container string
		slowed            bool
	}{
		"the program failed":        {container: "sim://a", slowed: true},
		"the pod was evicted":       {reason: "Evicted", container: "sim://a"},
		"the node refused the pod":  {reason: "NodeShutdown", slowed: true},
		"the node preempted others": {reason: "Preempting", container: "sim://a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := object("web", func(pod *corev1.Pod) {
				pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: tc.reason, ContainerStatuses: []corev1.ContainerStatus{{ContainerID: tc.container}}}
			})
			if got := DeletePod("n1", pod, ReasonFinished).ReplacesFailed; got != tc.slowed {
				t.Errorf("counts as a failure: %v, want %v", got, tc.slowed)
			}
		})
	}
}

// A job that failed in an init container named the pod and no cause.
func TestTheCauseOfAPodThatFailedInAnInitContainerIsNamed(t *testing.T) {
	pod := object("scan-1", func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"},
		}}}
	})
	if got, want := Failed(pod), "scan-1 (container setup: Error, exit code 3)"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}
