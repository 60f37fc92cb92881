// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// condition is "status reason" of a condition; "none" if it is not there.
func condition(status appsv1beta1.CloneSetStatus, kind appsv1beta1.CloneSetConditionType) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

func (w *simulation) condition(kind appsv1beta1.CloneSetConditionType) string {
	return condition(w.set.Status, kind)
}

func deadline(seconds int32) func(*simulation) {
	return func(w *simulation) { w.set.Spec.ProgressDeadlineSeconds = &seconds }
}

func TestStatusCountsPodsThatStay(t *testing.T) {
	w := newSimulation(t, 4, inPlace, partition(2), hooks(shared.Lifecycle{PreDelete: hook("hold")}))
	w.rest(image("2"))
	w.move("p04", podsettest.DeletePod)
	w.do(ask("p03"))
	w.move("p02", podsettest.Evict)
	s := w.snapshot()
	status, _ := Status(Parse(w.set, w.o), s, Plan(Parse(w.set, w.o), s), planning.Outcome{})
	w.expect("replicas", status.Replicas, int32(2))
	w.expect("ready", status.ReadyReplicas, int32(2))
	w.expect("expected", status.ExpectedUpdatedReplicas, int32(2))
	w.expect("current", status.CurrentRevision, "web-1")
	w.expect("selector", status.LabelSelector, "app=web")
	w.rest()
	w.do(func(w *simulation) { w.Pass() })
	w.expect("ready while one waits at its preDelete hook", w.set.Status.ReadyReplicas, int32(4))
	w.expect("available while one waits at its preDelete hook", w.set.Status.AvailableReplicas, int32(3))
}

// An autoscaler that reads the scale subresource would take "<none>" or "<error>" for a selector.
func TestASelectorThatCannotBeReadIsNoSelectorForAutoscalers(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"none": nil, "an empty one": {}, "a malformed one": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
	} {
		w := newSimulation(t, 1)
		w.set.Spec.Selector = selector
		s := w.snapshot()
		status, _ := Status(Parse(w.set, w.o), s, planning.Plan{}, planning.Outcome{})
		w.expect(name, status.LabelSelector, "")
	}
}

func TestCurrentRevisionIsKeptUntilAllReplicasAreUpdated(t *testing.T) {
	w := newSimulation(t, 3, inPlace, partition(2))
	w.rest(image("2"))
	s := w.snapshot()
	var updated []podset.Pod
	for _, pod := range s.Pods {
		if pod.Revision == s.Update.Name {
			updated = append(updated, pod)
		}
	}
	s.Pods = updated
	status, _ := Status(Parse(w.set, w.o), s, planning.Plan{}, planning.Outcome{})
	w.expect("current revision while the others are missing", status.CurrentRevision, "web-1")
	w.do(broken("3"), partition(0), maxUnavailable("100%"))
	w.rest(image("3"))
	w.expect("current revision of pods that are not ready", w.set.Status.CurrentRevision, "web-3")
}

func TestConditionsSayWhatTheSetIsAt(t *testing.T) {
	const stalled, reconciling, available = appsv1beta1.CloneSetStalled, appsv1beta1.CloneSetReconciling, appsv1beta1.CloneSetAvailable
	cases := map[string]struct {
		before, change []func(*simulation)
		want           map[appsv1beta1.CloneSetConditionType]string
	}{
		"everything is done": {
			want: map[appsv1beta1.CloneSetConditionType]string{reconciling: "False Complete", stalled: "False NotStalled", available: "True EnoughPodsAvailable"},
		},
		"the partition is reached": {
			change: []func(*simulation){partition(2), image("2")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False PartitionReached"},
		},
		"updates are paused": {
			change: []func(*simulation){paused(true), image("2")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False Paused"},
		},
		"updates are paused that cannot be made in place": {
			change: []func(*simulation){inPlaceOnly, paused(true), image("2"), withVariable},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False Paused", stalled: "False NotStalled", appsv1beta1.CloneSetFailedUpdate: "none"},
		},
		"pods move when their user deletes them": {
			change: []func(*simulation){onDelete, image("2")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False OnDelete"},
		},
		"an update does not become available": {
			change: []func(*simulation){maxUnavailable(1), broken("2"), image("2")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True RollingOut", available: "True EnoughPodsAvailable"},
		},
		"a surge waits for its pods": {
			change: []func(*simulation){maxUnavailable(0), maxSurge(1), broken("2"), image("2")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True RollingOut"},
		},
		"a scale in waits for its hook": {
			before: []func(*simulation){hooks(shared.Lifecycle{PreDelete: hook("hold")})},
			change: []func(*simulation){replicas(2)},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True Scaling"},
		},
		"too few pods are available": {
			change: []func(*simulation){maxUnavailable(1), crash("p01", "p02")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True PodsNotAvailable", available: "False TooFewPodsAvailable"},
		},
		"growing is limited": {
			change: []func(*simulation){image("2"), broken("2"), partition(3), replicas(9), scaleMaxUnavailable(1)},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True Scaling"},
		},
		"no pod may be unavailable, and none may surge": {
			change: []func(*simulation){maxUnavailable(0), image("2")},
			want: map[appsv1beta1.CloneSetConditionType]string{
				reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero", available: "True EnoughPodsAvailable",
			},
		},
		"no pod may be unavailable, and the surge rests while updates are paused": {
			change: []func(*simulation){maxUnavailable(0), maxSurge(1), paused(true), ask("p01")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero"},
		},
		"no pod may be unavailable, and there are none to move": {
			change: []func(*simulation){maxUnavailable(0)},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False Complete", stalled: "False NotStalled"},
		},
		"growing is limited to no pod": {
			change: []func(*simulation){replicas(9), scaleMaxUnavailable(0)},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False MaxUnavailableZero", stalled: "True MaxUnavailableZero"},
		},
		"a field cannot be read": {
			change: []func(*simulation){func(w *simulation) { w.set.Spec.ScaleStrategy.MaxUnavailable = value("many") }},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "False InvalidSpec", stalled: "True InvalidSpec"},
		},
		"an update in place is impossible": {
			change: []func(*simulation){inPlaceOnly, image("2"), func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true }},
			want: map[appsv1beta1.CloneSetConditionType]string{
				reconciling: "False InPlaceImpossible", stalled: "True InPlaceImpossible", appsv1beta1.CloneSetFailedUpdate: "True InPlaceImpossible",
			},
		},
		"a deletion waits for its hook": {
			before: []func(*simulation){hooks(shared.Lifecycle{PreDelete: hook("hold")})},
			change: []func(*simulation){ask("p01")},
			want:   map[appsv1beta1.CloneSetConditionType]string{reconciling: "True RollingOut"},
		},
		"a field has no effect": {
			change: []func(*simulation){func(w *simulation) {
				w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr.To(int32(5))}
			}},
			want: map[appsv1beta1.CloneSetConditionType]string{appsv1beta1.CloneSetFieldsIgnored: "True FeatureGateOff"},
		},
		"so has an annotation": {
			change: []func(*simulation){func(w *simulation) {
				w.set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "5"}
			}},
			want: map[appsv1beta1.CloneSetConditionType]string{appsv1beta1.CloneSetFieldsIgnored: "True FeatureGateOff"},
		},
		"with its gate a field has an effect": {
			change: []func(*simulation){func(w *simulation) {
				w.o.PreDownloadImages = true
				w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr.To(int32(5))}
			}},
			want: map[appsv1beta1.CloneSetConditionType]string{appsv1beta1.CloneSetFieldsIgnored: "none"},
		},
		"with its gate, what cannot be read has none": {
			change: []func(*simulation){func(w *simulation) {
				w.o.PreDownloadImages = true
				w.set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "5%"}
			}},
			want: map[appsv1beta1.CloneSetConditionType]string{appsv1beta1.CloneSetFieldsIgnored: "True Unreadable"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, tc.before...)
			w.rest(tc.change...)
			for kind, want := range tc.want {
				w.expect(string(kind), w.condition(kind), want)
			}
			again := w.set.Status.DeepCopy()
			w.Pass()
			if len(w.Plan.Actions) == 0 && condition(*again, reconciling) != w.condition(reconciling) {
				t.Errorf("the condition does not stay still: %q, then %q", condition(*again, reconciling), w.condition(reconciling))
			}
		})
	}
}

func TestFailuresAreTakenBackOnTheNextSuccess(t *testing.T) {
	w := newSimulation(t, 3)
	s := w.snapshot()
	status := func(plan planning.Plan, failures ...planning.Failure) appsv1beta1.CloneSetStatus {
		status, _ := Status(Parse(w.set, w.o), s, plan, planning.Outcome{Failures: failures})
		return status
	}
	const scale, update = appsv1beta1.CloneSetFailedScale, appsv1beta1.CloneSetFailedUpdate
	w.set.Status = status(planning.Plan{}, planning.Failure{Step: podset.StepCreate, Slot: "p09", Message: "exceeded quota"})
	w.expect("a refused creation", w.condition(scale), "True RequestFailed")
	w.expect("update", w.condition(update), "none")
	outdated := planning.Plan{Actions: []planning.Action{{Step: podset.StepDelete, Slot: "p01", Reason: podset.ReasonOutdated}}}
	w.set.Status = status(outdated, planning.Failure{Step: podset.StepDelete, Slot: "p01", Message: "denied"})
	w.expect("the creation succeeded", w.condition(scale), "none")
	w.expect("a refused replacement", w.condition(update), "True RequestFailed")
	w.set.Status = status(planning.Plan{})
	w.expect("everything succeeded", w.condition(update), "none")
}

func TestASetWhosePodsAreRefusedForTheirTemplateIsStalled(t *testing.T) {
	w := newSimulation(t, 1, faulty)
	s := w.snapshot()
	refused := planning.Outcome{Failures: []planning.Failure{{Step: podset.StepCreate, Slot: "p09", Message: "Invalid"}}}
	status, _ := Status(Parse(w.set, w.o), s, planning.Plan{}, refused)
	w.expect("stalled", condition(status, appsv1beta1.CloneSetStalled), "True InvalidTemplate")
	w.expect("reconciling", condition(status, appsv1beta1.CloneSetReconciling), "False InvalidTemplate")
	w.expect("template", condition(status, appsv1beta1.CloneSetTemplateInvalid), "True InvalidTemplate")
}

func TestProgressDeadline(t *testing.T) {
	const progressing = appsv1beta1.CloneSetProgressing
	w := newSimulation(t, 3, inPlace, maxUnavailable(1), broken("2"), deadline(60))
	w.expect("at rest", w.condition(progressing), "True CloneSetAvailable")

	// at is the status that the same simulation has after some seconds.
	at := func(seconds int) (string, time.Duration) {
		s := w.snapshot()
		s.Now = s.Now.Add(time.Duration(seconds) * time.Second)
		status, recheck := Status(Parse(w.set, w.o), s, Plan(Parse(w.set, w.o), s), planning.Outcome{})
		w.set.Status = status
		return condition(status, progressing), recheck
	}
	expect := func(seconds int, want string) {
		t.Helper()
		got, recheck := at(seconds)
		w.expect("after the time", got, want)
		if running := want == "True "+appsv1beta1.ReasonCloneSetUpdated; running != (recheck > 0) {
			t.Errorf("after %d s the next look is in %s", seconds, recheck)
		}
	}
	w.rest(image("2"))
	expect(60, "True CloneSetUpdated")
	expect(61, "False ProgressDeadlineExceeded")
	w.rest(image("3"), broken("3"))
	expect(0, "True CloneSetUpdated")
	w.rest(image("1"))
	w.expect("rolled back", w.condition(progressing), "True CloneSetAvailable")

	w.rest(image("4"), partition(2))
	w.expect("the partition is reached", w.condition(progressing), "True ProgressPartitionAvailable")
	w.rest(paused(true), partition(0))
	w.expect("paused", w.condition(progressing), "True CloneSetPaused")
	w.do(paused(false))
	expect(1000, "True CloneSetUpdated")
	w.do(deadline(math.MaxInt32))
	w.Pass()
	w.expect("without a deadline", w.condition(progressing), "none")
}

func TestProgressRestartsTheDeadline(t *testing.T) {
	w := newSimulation(t, 3, deadline(60))
	began := metav1.NewTime(podsettest.Now().Add(-50 * time.Second))
	w.set.Status.UpdatedReplicas, w.set.Status.UpdateRevision = 1, "web-2"
	w.set.Status.Conditions = []appsv1beta1.CloneSetCondition{{
		Type: appsv1beta1.CloneSetProgressing, Status: corev1.ConditionTrue, Reason: appsv1beta1.ReasonCloneSetUpdated, LastUpdateTime: began, LastTransitionTime: began,
	}}
	w.do(image("2"))
	s := w.snapshot()
	s.Pods[0].Revision, s.Pods[1].Revision = "web-2", "web-2"
	status, recheck := Status(Parse(w.set, w.o), s, planning.Plan{}, planning.Outcome{})
	w.expect("last progress", status.Conditions[0].LastUpdateTime.Time.Equal(podsettest.Now()), true)
	w.expect("next look", recheck, 61*time.Second)
	w.expect("transition", status.Conditions[0].LastTransitionTime, began)
}

func TestGrowingThatIsLimitedIsAnnouncedOnce(t *testing.T) {
	w := newSimulation(t, 2)
	w.do(replicas(12), scaleMaxUnavailable(1))
	s := w.snapshot()
	plan := Plan(Parse(w.set, w.o), s)
	status, _ := Status(Parse(w.set, w.o), s, plan, planning.Outcome{})
	first, again := Events(Parse(w.set, w.o), status, planning.Plan{}, plan), Events(Parse(w.set, w.o), status, plan, plan)
	if len(first) != 1 || first[0].Reason != "ScaleUpLimited" || len(again) != 0 {
		t.Errorf("announced %v, then %v", first, again)
	}
}

// "web-p02 of 3 pods exist" for ever: whoever asked why had to find the failed pods, which the set no longer counts.
func TestTheCauseOfPodsThatTheNodeRefusesIsSaid(t *testing.T) {
	refuse := func(id string) func(*simulation) {
		return change(id, func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
		})
	}
	w := newSimulation(t, 3)
	w.do(refuse("p02"), refuse("p03"))
	w.Pass()
	message := func() string {
		i := slices.IndexFunc(w.set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == appsv1beta1.CloneSetReconciling })
		return w.set.Status.Conditions[i].Message
	}
	if want := "web-p02, web-p03: it has failed: OutOfcpu: Node didn't have enough resource: cpu; "; !strings.HasPrefix(message(), want) {
		t.Errorf("the message is %q, want it to begin with %q", message(), want)
	}
	w.rest()
	w.expect("with others in their place", w.condition(appsv1beta1.CloneSetReconciling), "False Complete")
	if strings.Contains(message(), "OutOfcpu") {
		t.Errorf("at rest the message still says %q", message())
	}
	w.do(image("2"))
	w.Pass()
	if strings.Contains(message(), "OutOfcpu") {
		t.Errorf("about an update, the message speaks of pods of the revision before: %q", message())
	}
}

// The event about a pod that had waited at its preDelete hook did not say why it was replaced.
// A rollout stopped at an image that starts and never becomes ready, and the condition said no more than who uses up maxUnavailable.
func TestAPodThatIsNotReadyIsNamedWithWhatItWaitsFor(t *testing.T) {
	w := newSimulation(t, 3, inPlace, maxUnavailable(1), broken("2"))
	w.rest(image("2"))
	c, _ := conditions.Find(conditions.From(w.set.Status.Conditions), string(appsv1beta1.CloneSetReconciling))
	if want := "web-p01: container main: it runs and is not ready; 2 pods wait: maxUnavailable 1 is used up by web-p01"; c.Message != want {
		t.Errorf("Reconciling says %q, want %q", c.Message, want)
	}
	w.expect("stalled", w.condition(appsv1beta1.CloneSetStalled), "False NotStalled")
}

func TestWhyAPodIsReplacedIsSaidAfterItsPreDeleteHookToo(t *testing.T) {
	const why = "spec.template.spec.hostNetwork changed: only image, resources and metadata can change in place"
	hooked := func(w *simulation) {
		w.set.Spec.Lifecycle = &shared.Lifecycle{PreDelete: &shared.LifecycleHook{LabelsHandler: map[string]string{"hook": "yes"}}}
		w.set.Spec.Template.Labels["hook"] = "yes"
	}
	w := newSimulation(t, 1, inPlace, maxUnavailable(1), hooked)
	w.do(image("2"), func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true })
	w.Pass()
	i := slices.IndexFunc(w.Pods, func(pod *corev1.Pod) bool {
		return pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete)
	})
	if i < 0 {
		t.Fatal("no pod waits at its hook")
	}
	w.Pass()
	at := slices.IndexFunc(w.set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == appsv1beta1.CloneSetReconciling })
	if got := w.set.Status.Conditions[at].Message; !strings.Contains(got, "pods are replaced although podUpdatePolicy is InPlaceIfPossible: "+why) {
		t.Errorf("while it waits, the condition says %q", got)
	}
	delete(w.Pods[i].Labels, "hook")
	w.Pass()
	for _, action := range w.Plan.Actions {
		if action.Step == podset.StepDelete {
			if !strings.HasSuffix(action.Success.Message, "successful, because it cannot be updated in place: "+why) {
				t.Errorf("the event is %+v", action.Success)
			}
			return
		}
	}
	t.Errorf("the pod is not deleted: %+v", w.Plan.Actions)
}

// Pods were replaced although updates in place were asked for, and only a comparison by hand told why.
func TestWhyAPodIsReplacedIsInTheEventAndTheCondition(t *testing.T) {
	const why = "spec.template.spec.hostNetwork changed: only image, resources and metadata can change in place"
	w := newSimulation(t, 3, inPlace, maxUnavailable(1))
	w.do(image("2"), func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true })
	w.Pass()
	replaced := 0
	for _, action := range w.Plan.Actions {
		if action.Step != podset.StepDelete {
			continue
		}
		replaced++
		if action.Success.Reason != "SuccessfulUpdatePodReCreate" || !strings.HasSuffix(action.Success.Message, "successful, because it cannot be updated in place: "+why) {
			t.Errorf("the event is %+v", action.Success)
		}
	}
	if replaced != 1 {
		t.Errorf("%d pods are replaced, want one", replaced)
	}
	i := slices.IndexFunc(w.set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == appsv1beta1.CloneSetReconciling })
	if got := w.set.Status.Conditions[i].Message; !strings.Contains(got, "pods are replaced although podUpdatePolicy is InPlaceIfPossible: "+why) {
		t.Errorf("the condition says %q", got)
	}
	for name, quiet := range map[string]*simulation{
		"what can be made in place":         newSimulation(t, 3, inPlace),
		"what was asked to be made so":      newSimulation(t, 3),
		"what does not move while it waits": newSimulation(t, 3, inPlace, paused(true)),
	} {
		quiet.do(image("2"))
		if name != "what can be made in place" {
			quiet.do(func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true })
		}
		quiet.Plan = Plan(Parse(quiet.set, quiet.o), quiet.snapshot())
		if held := quiet.held(); strings.Contains(held, podset.ReasonReplaced) {
			t.Errorf("of %s it is said as well: %s", name, held)
		}
	}
}
