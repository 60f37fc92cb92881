// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// simulation is one pod on a server, its kubelet, and a clock.
type simulation struct {
	t       *testing.T
	pod     *corev1.Pod
	now     time.Time
	o       Options
	started int
}

func start(t *testing.T, rev revision.Revision) *simulation {
	w := &simulation{t: t, now: time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)}
	w.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-x2k9d", UID: "u1", Generation: 1},
		Spec:       *rev.Template.Spec.DeepCopy(),
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 1},
	}
	w.pod.Labels = map[string]string{
		shared.LabelControllerRevisionHash: rev.Name, shared.LabelLifecycleState: "Normal", shared.LabelPodName: "shop-x2k9d", "mine": "stays",
	}
	maps.Copy(w.pod.Labels, rev.Template.Labels)
	w.pod.Annotations = maps.Clone(rev.Template.Annotations)
	for _, gate := range []corev1.PodConditionType{shared.GateInPlaceUpdateReady, shared.GateKruisePodReady} {
		w.pod.Spec.ReadinessGates = append(w.pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		w.condition(gate, corev1.ConditionTrue)
	}
	w.condition(corev1.ContainersReady, corev1.ConditionTrue)
	w.condition(corev1.PodReady, corev1.ConditionTrue)
	for _, container := range w.pod.Spec.Containers {
		w.restart(container.Name)
	}
	w.pass(time.Hour)
	return w
}

func (w *simulation) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *simulation) condition(conditionType corev1.PodConditionType, status corev1.ConditionStatus) {
	var e edit.Edit
	e.SetCondition(corev1.PodCondition{Type: conditionType, Status: status, LastTransitionTime: metav1.NewTime(w.now)})
	w.pod = e.Apply(w.pod)
}

// observe is the kubelet's first status after it saw the spec: nothing else has changed yet.
func (w *simulation) observe() { w.pod.Status.ObservedGeneration = w.pod.Generation }

// restart starts a container with the image of the spec.
func (w *simulation) restart(name string) *corev1.ContainerStatus {
	return w.restartAs(name, containerOf(w.pod.Spec.Containers, name).Image)
}

// restartAs starts a container with some image.
func (w *simulation) restartAs(name, image string) *corev1.ContainerStatus {
	status := restart.StatusOf(w.pod, name)
	if status == nil {
		w.pod.Status.ContainerStatuses = append(w.pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
		status = restart.StatusOf(w.pod, name)
	} else {
		status.RestartCount++
	}
	w.started++
	status.ContainerID = fmt.Sprintf("containerd://c%d", w.started)
	status.Image, status.ImageID = image, "id-of-"+image
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}}
	status.Ready = true
	status.Resources = containerOf(w.pod.Spec.Containers, name).Resources.DeepCopy()
	return status
}

// begin writes the first Edit of an update and returns the requests it took.
func (w *simulation) begin(from, to revision.Revision, grace time.Duration) []string {
	w.t.Helper()
	before := w.pod.DeepCopy()
	e, err := Move{w.pod, from, to, Compare(from.Template, to.Template, w.o), grace, true, w.o, w.now}.Begin()
	if err != nil {
		w.t.Fatal(err)
	}
	equal(w.t, before, w.pod)
	return w.write(e)
}

func (w *simulation) write(e edit.Edit) []string {
	var requests []string
	for _, request := range e.Requests(w.pod) {
		requests = append(requests, strings.TrimSuffix("pods/"+request.Subresource, "/"))
	}
	w.pod = e.Apply(w.pod)
	return requests
}

// advance writes what Continue says, if anything.
func (w *simulation) advance() bool {
	w.t.Helper()
	e, ok := w.next()
	if ok {
		w.write(e)
	}
	return ok
}

// next is what Continue says.
func (w *simulation) next() (edit.Edit, bool) {
	w.t.Helper()
	before := w.pod.DeepCopy()
	e, ok := Continue(w.pod, w.o, w.now)
	equal(w.t, before, w.pod)
	if !ok && !e.IsZero() {
		w.t.Errorf("Continue returns false and %+v", e)
	}
	return e, ok
}

// finish writes the end of an update as a planner does.
func (w *simulation) finish() []string {
	e := Finish(w.pod, w.now)
	e.Merge(lifecycle.Transition(&shared.Lifecycle{}, w.pod, shared.StateNormal, w.now))
	return w.write(e)
}

func (w *simulation) check() Status { return Check(w.pod, w.o, w.now) }

func (w *simulation) want(progress Progress, reason string) Status {
	w.t.Helper()
	s := w.check()
	if s.Progress != progress || s.Reason != reason {
		w.t.Errorf("got %+v, want %q %q", s, progress, reason)
	}
	if (s.Message == "") != (progress == None || progress == Done) {
		w.t.Errorf("progress %q has message %q", s.Progress, s.Message)
	}
	return s
}

func (w *simulation) gate() *corev1.PodCondition {
	return podstate.Condition(w.pod, shared.GateInPlaceUpdateReady)
}

func (w *simulation) images() string {
	var images []string
	for _, container := range w.pod.Spec.Containers {
		images = append(images, container.Image)
	}
	return strings.Join(images, " ")
}

func (w *simulation) state() shared.InPlaceUpdateState {
	w.t.Helper()
	r, found, err := readRun(w.pod)
	if err != nil || !found {
		w.t.Fatalf("state found %v: %v", found, err)
	}
	return r.InPlaceUpdateState
}

// rev is a revision of a shop with some changes to its template.
func rev(name string, changes ...templateChange) revision.Revision {
	t := template()
	join(changes...)(t)
	return revision.Revision{Name: name, Template: t}
}

func barrier(i, priority int) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[i].Env = append(t.Spec.Containers[i].Env, corev1.EnvVar{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "x-barrier"}, Key: fmt.Sprintf("p_%d", priority)},
		}})
	}
}

func TestImageUpdate(t *testing.T) {
	from, to := rev("shop-7d9"), rev("shop-85c", image(0, "web:5"))
	w := start(t, from)
	w.want(None, "")

	if diff := cmp.Diff([]string{"pods/status", "pods"}, w.begin(from, to, 0)); diff != "" {
		t.Error(diff)
	}
	if w.images() != "web:5 log:1" || w.pod.Labels[shared.LabelControllerRevisionHash] != "shop-85c" || lifecycle.StateOf(w.pod) != shared.StateUpdating {
		t.Errorf("images %s, labels %v", w.images(), w.pod.Labels)
	}
	if c := w.gate(); c.Status != corev1.ConditionFalse || c.Reason != shared.ReasonStartInPlaceUpdate || !c.LastTransitionTime.Time.Equal(w.now) {
		t.Errorf("gate is %+v", c)
	}
	if podstate.Ready(w.pod) {
		t.Error("Ready should be False in the same write")
	}
	wantState := `{"revision":"shop-85c","updateTimestamp":"2026-01-01T11:00:00Z","lastContainerStatuses":{"web":{"imageID":"id-of-web:4"}},"updateImages":true,` +
		`"containerBatchesRecord":[{"timestamp":"2026-01-01T11:00:00Z","containers":["web"]}]}`
	if diff := cmp.Diff(wantState, w.pod.Annotations[shared.AnnotationInPlaceState]); diff != "" {
		t.Error(diff)
	}
	wantEvidence := `{"revision":"shop-85c","generation":2,"containers":{"web":{"containerID":"containerd://c1","image":"web:4","imageID":"id-of-web:4","specImage":"web:4"}}}`
	if diff := cmp.Diff(wantEvidence, w.pod.Annotations[shared.AnnotationInPlaceEvidence]); diff != "" {
		t.Error(diff)
	}

	w.want(Running, ReasonSpecNotObserved)
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
	if w.advance() {
		t.Error("there is nothing to continue")
	}
	if diff := cmp.Diff([]string{"pods/status"}, w.finish()); diff != "" {
		t.Error(diff)
	}
	w.want(None, "")
	if c := w.gate(); c.Status != corev1.ConditionTrue || c.Reason != "" || c.Message != "" {
		t.Errorf("gate is %+v", c)
	}
	if !Finish(w.pod, w.now).IsZero() {
		t.Error("finishing twice writes twice")
	}
	if podstate.Ready(w.pod) {
		t.Error("making the pod Ready again is the kubelet's")
	}
}

func TestGracePeriod(t *testing.T) {
	from := rev("shop-a", label("old", "x"))
	to := rev("shop-b", image(0, "web:5"), annotation("build", "77"))
	w := start(t, from)
	if diff := cmp.Diff([]string{"pods/status"}, w.begin(from, to, 15*time.Second)); diff != "" {
		t.Error(diff)
	}
	if w.images() != "web:4 log:1" || w.pod.Labels[shared.LabelControllerRevisionHash] != "shop-b" || w.pod.Annotations["build"] != "" {
		t.Errorf("the spec and metadata should wait: %s %v", w.images(), w.pod.Labels)
	}
	want := `{"revision":"shop-b","containerImages":{"web":"web:5"},"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsib2xkIjpudWxsfSwiYW5ub3RhdGlvbnMiOnsiYnVpbGQiOiI3NyJ9fX0=","graceSeconds":15}`
	if diff := cmp.Diff(want, w.pod.Annotations[shared.AnnotationInPlaceGrace]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`{"revision":"shop-b","updateTimestamp":"2026-01-01T11:00:00Z","lastContainerStatuses":null}`, w.pod.Annotations[shared.AnnotationInPlaceState]); diff != "" {
		t.Error(diff)
	}
	if s := w.want(Grace, ReasonGracePeriod); s.RecheckAfter != 15*time.Second {
		t.Errorf("recheck after %s", s.RecheckAfter)
	}
	w.pass(14 * time.Second)
	if w.advance() {
		t.Error("the period is not over")
	}
	w.pass(time.Second)
	if !w.advance() {
		t.Error("the period is over")
	}
	if _, ok := w.pod.Annotations[shared.AnnotationInPlaceGrace]; ok || w.images() != "web:5 log:1" || w.pod.Annotations["build"] != "77" || w.pod.Labels["old"] != "" {
		t.Errorf("images %s, labels %v, annotations %v", w.images(), w.pod.Labels, w.pod.Annotations)
	}
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
}

func TestTheGracePeriodIsNeverShorterThanAsked(t *testing.T) {
	from := rev("shop-a")
	w := start(t, from)
	w.pass(900 * time.Millisecond)
	w.begin(from, rev("shop-b", image(0, "web:5")), time.Second)
	w.pass(999 * time.Millisecond)
	if w.advance() {
		t.Error("the period is not over")
	}
	w.pass(101 * time.Millisecond)
	if !w.advance() {
		t.Error("the period is over")
	}
}

// Seen with a real kubelet: a status of its own that was under way wrote Ready=True over ours, and only its next one took it back.
func TestTheGracePeriodWaitsForAPodThatIsReadyInSpiteOfItsGate(t *testing.T) {
	from := rev("shop-a")
	begin := func() *simulation {
		w := start(t, from)
		w.begin(from, rev("shop-b", image(0, "web:5")), time.Second)
		w.condition(corev1.PodReady, corev1.ConditionTrue)
		w.pass(2 * time.Second)
		if w.advance() {
			t.Error("the pod is still sent requests")
		}
		return w
	}
	noticed := begin()
	noticed.condition(corev1.PodReady, corev1.ConditionFalse)
	if !noticed.advance() {
		t.Error("the period is over and the pod out of service")
	}
	never := begin()
	if s := never.want(Grace, ReasonGracePeriod); s.RecheckAfter != 9*time.Second {
		t.Errorf("recheck after %s", s.RecheckAfter)
	}
	never.pass(9 * time.Second)
	if !never.advance() {
		t.Error("the wait has no end")
	}
}

func TestGraceIsDroppedWhenTheLabelNamesAnotherRevision(t *testing.T) {
	from := rev("shop-a")
	w := start(t, from)
	w.begin(from, rev("shop-b", image(0, "web:5")), 15*time.Second)
	w.pod.Labels[shared.LabelControllerRevisionHash] = "shop-c"
	if !w.advance() || w.images() != "web:4 log:1" {
		t.Errorf("images %s", w.images())
	}
	w.want(Done, "")
}

func TestAnEmptyGraceAnnotationIsRemoved(t *testing.T) {
	from := rev("shop-a")
	for _, key := range []string{shared.AnnotationInPlaceGrace, shared.AnnotationInPlaceGraceLegacy} {
		w := start(t, from)
		w.pod.Annotations = map[string]string{key: ""}
		w.want(Grace, ReasonGracePeriod)
		if !w.advance() {
			t.Error("nothing was written")
		}
		if _, ok := w.pod.Annotations[key]; ok {
			t.Errorf("%s is still there", key)
		}
		w.want(None, "")
	}
}

func TestAThirdRevisionDuringTheGracePeriodLosesNothing(t *testing.T) {
	one := rev("shop-1")
	two := rev("shop-2", image(0, "web:5"), annotation("a", "2"))
	three := rev("shop-3", image(0, "web:5"), annotation("a", "2"), image(1, "log:2"))
	w := start(t, one)
	w.begin(one, two, 15*time.Second)
	w.pass(5 * time.Second)
	w.begin(two, three, 15*time.Second)
	w.pass(15 * time.Second)
	if !w.advance() || w.images() != "web:5 log:2" || w.pod.Annotations["a"] != "2" {
		t.Errorf("images %s, annotations %v", w.images(), w.pod.Annotations)
	}
	w.observe()
	w.restart("web")
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("log")
	w.want(Done, "")
}

func TestRollbackDuringTheGracePeriodWritesNoSpec(t *testing.T) {
	one, two := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	w := start(t, one)
	w.begin(one, two, 15*time.Second)
	back := rev("shop-1")
	if diff := cmp.Diff([]string{"pods"}, w.begin(two, back, 15*time.Second)); diff != "" {
		t.Error(diff)
	}
	if w.pod.Generation != 1 || w.images() != "web:4 log:1" {
		t.Errorf("generation %d, images %s", w.pod.Generation, w.images())
	}
	w.want(Done, "")
	w.finish()
	w.want(None, "")
}

func TestLaunchPriorities(t *testing.T) {
	from := rev("shop-1", barrier(0, 10), barrier(1, 30))
	to := rev("shop-2", barrier(0, 10), barrier(1, 30), image(0, "web:5"), image(1, "log:2"))
	w := start(t, from)
	w.begin(from, to, 0)
	if w.images() != "web:4 log:2" {
		t.Errorf("images %s", w.images())
	}
	state := w.state()
	if diff := cmp.Diff(map[string]string{"web": "web:5"}, state.NextContainerImages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&shared.InPlacePreCheck{ContainersRequiredReady: []string{"log"}}, state.PreCheckBeforeNext); diff != "" {
		t.Error(diff)
	}
	if !strings.HasSuffix(w.pod.Annotations[shared.AnnotationInPlaceState],
		`"updateImages":true,"nextContainerImages":{"web":"web:5"},"preCheckBeforeNext":{"containersRequiredReady":["log"]},"containerBatchesRecord":[{"timestamp":"2026-01-01T11:00:00Z","containers":["log"]}]}`) {
		t.Errorf("state is %s", w.pod.Annotations[shared.AnnotationInPlaceState])
	}
	w.observe()
	if w.advance() {
		t.Error("the first batch is not proven")
	}
	w.restart("log").Ready = false
	w.want(Running, ReasonContainerNotReady)
	if w.advance() {
		t.Error("the first batch is not ready")
	}
	restart.StatusOf(w.pod, "log").Ready = true
	w.want(Running, ReasonNextBatch)
	w.pass(10 * time.Second)

	if !w.advance() || w.images() != "web:5 log:2" {
		t.Errorf("images %s", w.images())
	}
	state = w.state()
	if len(state.ContainerBatchesRecord) != 2 || len(state.NextContainerImages) != 0 || state.PreCheckBeforeNext != nil || len(state.LastContainerStatuses) != 2 {
		t.Errorf("state is %+v", state)
	}
	w.want(Running, ReasonSpecNotObserved)
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
}

func TestContainersWithoutAPriorityGoFirst(t *testing.T) {
	from := rev("shop-1", barrier(0, -1))
	w := start(t, from)
	w.begin(from, rev("shop-2", barrier(0, -1), image(0, "web:5"), image(1, "log:2")), 0)
	if w.images() != "web:5 log:2" {
		t.Errorf("one without and the highest with a priority are one batch, got %s", w.images())
	}
}

func TestAThirdRevisionBetweenBatchesLosesNothing(t *testing.T) {
	one := rev("shop-1", barrier(0, 10), barrier(1, 30))
	two := rev("shop-2", barrier(0, 10), barrier(1, 30), image(0, "web:5"), image(1, "log:2"))
	three := rev("shop-3", barrier(0, 10), barrier(1, 30), image(0, "web:5"), image(1, "log:3"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.observe()
	w.begin(two, three, 0)
	if w.images() != "web:4 log:3" {
		t.Errorf("images %s", w.images())
	}
	w.observe()
	w.restart("log")
	if w.pass(time.Minute); !w.advance() || w.images() != "web:5 log:3" {
		t.Errorf("images %s", w.images())
	}
}

func TestAContainerThatIsStillRestartingStaysPartOfTheNextUpdate(t *testing.T) {
	one := rev("shop-1")
	two := rev("shop-2", image(0, "web:5"))
	three := rev("shop-3", image(0, "web:5"), image(1, "log:2"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.begin(two, three, 0)
	w.observe()
	w.restart("log")
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
}

func TestMetadataThatArrivesWhileAContainerRestartsDoesNotEndItsUpdate(t *testing.T) {
	one, two := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.begin(two, rev("shop-3", image(0, "web:5"), label("tier", "b")), 0)
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
}

func TestTheContainerOfTheRevisionBetweenIsNotTakenForTheNewOne(t *testing.T) {
	one, two, three := rev("shop-1"), rev("shop-2", image(0, "web:5")), rev("shop-3", image(0, "web:6"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.begin(two, three, 0)
	w.restartAs("web", "web:5")
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.pass(time.Second)
	w.restart("web")
	w.want(Done, "")
}

func TestRollbackBeforeTheKubeletActedWaitsForNoRestart(t *testing.T) {
	one, two := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.begin(two, rev("shop-1"), 0)
	w.want(Running, ReasonSpecNotObserved)
	w.observe()
	w.want(Done, "")
}

func TestRollbackOfAnImageThatCannotBePulled(t *testing.T) {
	one, two := rev("shop-1"), rev("shop-2", image(0, "web:broken"))
	w := start(t, one)
	w.begin(one, two, 0)
	w.observe()
	restart.StatusOf(w.pod, "web").State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	w.want(Running, ReasonContainerNotRestarted)
	w.begin(two, rev("shop-1"), 0)
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	if s := w.want(Running, ReasonContainerNotRestarted); s.RecheckAfter != 5*time.Second {
		t.Errorf("recheck after %s", s.RecheckAfter)
	}
	w.pass(5 * time.Second)
	w.want(Done, "")
}

func TestTwoTagsOfOneImage(t *testing.T) {
	from, to := rev("shop-1"), rev("shop-2", image(0, "web:same"))
	begun := func() *simulation {
		w := start(t, from)
		w.begin(from, to, 0)
		w.observe()
		return w
	}
	t.Run("the runtime reports the new name: done at once", func(t *testing.T) {
		w := begun()
		w.t = t
		w.restart("web").ImageID = "id-of-web:4"
		w.want(Done, "")
	})
	t.Run("the runtime goes on reporting the old name: done after five seconds", func(t *testing.T) {
		w := begun()
		w.t = t
		w.restartAs("web", "web:4")
		w.pass(2 * time.Second)
		if s := w.want(Running, ReasonContainerNotRestarted); s.RecheckAfter != 3*time.Second {
			t.Errorf("recheck after %s", s.RecheckAfter)
		}
		w.pass(3 * time.Second)
		w.want(Done, "")
	})
	t.Run("the node daemon says that the container is of the new spec: done at once", func(t *testing.T) {
		w := begun()
		w.t = t
		status := w.restartAs("web", "web:4")
		w.pod.Annotations[shared.AnnotationRuntimeContainersMeta] = fmt.Sprintf(
			`{"containers":[{"name":"web","containerID":%q,"restartCount":1,"hashes":{"plainHash":%d}}]}`,
			status.ContainerID, plainHash(&corev1.Container{Name: "web", Image: "web:same"}))
		w.want(Done, "")
	})
	t.Run("an older server without a report: it hangs, as it always did", func(t *testing.T) {
		w := begun()
		w.t = t
		w.pod.Status.ObservedGeneration = 0
		w.restartAs("web", "web:4")
		w.pass(time.Hour)
		w.want(Running, ReasonContainerNotRestarted)
	})
}

// A user saw the next pods of a rollout begin to stop while the old containers of those before were still stopping.
func TestAContainerThatIsStillStoppingIsNotDone(t *testing.T) {
	one, two := rev("shop-1"), rev("shop-2", image(0, "web:same"))
	// done says after which time, if nothing else happens, the container counts as updated.
	done := func(t *testing.T, w *simulation, want time.Duration) {
		t.Helper()
		if s := w.want(Running, ReasonContainerNotRestarted); s.RecheckAfter != want {
			t.Errorf("checked again after %v, want %v: %s", s.RecheckAfter, want, s.Message)
		}
		w.pass(want - time.Second)
		w.want(Running, ReasonContainerNotRestarted)
		w.pass(time.Second)
		w.want(Done, "")
	}
	begun := func(t *testing.T, termination int64) *simulation {
		w := start(t, one)
		w.pod.Spec.TerminationGracePeriodSeconds = &termination
		return w
	}
	// back is a pod that went to another tag of its image, which the runtime goes on reporting by the first one, and is sent back.
	back := func(t *testing.T) *simulation {
		w := begun(t, 60)
		w.begin(one, two, 0)
		w.observe()
		w.restartAs("web", "web:4")
		w.pass(time.Minute)
		w.finish()
		w.want(None, "")
		w.begin(two, one, 0)
		w.observe()
		return w
	}
	t.Run("it goes back to the first of two tags", func(t *testing.T) {
		w := back(t)
		w.pass(10 * time.Second)
		w.want(Running, ReasonContainerNotRestarted)
		w.pass(20 * time.Second)
		w.restart("web")
		done(t, w, 5*time.Second)
	})
	t.Run("it never restarts, because it was made from this image", func(t *testing.T) {
		done(t, back(t), 65*time.Second)
	})
	t.Run("its termination grace period is longer than a duration can be", func(t *testing.T) {
		w := back(t)
		w.pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](math.MaxInt64)
		w.pass(24 * time.Hour)
		w.want(Running, ReasonContainerNotRestarted)
	})
	t.Run("no termination grace period is named", func(t *testing.T) {
		w := back(t)
		w.pod.Spec.TerminationGracePeriodSeconds = nil
		done(t, w, 35*time.Second)
	})
	t.Run("it is that of the update between, and runs its image", func(t *testing.T) {
		w := begun(t, 60)
		w.begin(one, rev("shop-2", image(0, "web:5")), 0)
		w.observe()
		w.begin(rev("shop-2", image(0, "web:5")), rev("shop-3", image(0, "web:6")), 0)
		w.pass(30 * time.Second)
		w.restartAs("web", "web:5")
		w.observe()
		w.pass(10 * time.Second)
		done(t, w, 55*time.Second)
	})
	t.Run("it is another one than was noted, and started before the edit", func(t *testing.T) {
		w := begun(t, 60)
		w.begin(one, two, 0)
		w.observe()
		w.restartAs("web", "web:4").State.Running.StartedAt = metav1.NewTime(w.now.Add(-time.Minute))
		w.pass(10 * time.Second)
		done(t, w, 55*time.Second)
	})
	t.Run("each container counts from its own batch", func(t *testing.T) {
		first, second := rev("shop-1", barrier(0, 2), barrier(1, 1)), rev("shop-2", barrier(0, 2), barrier(1, 1), image(0, "web:same"), image(1, "log:same"))
		w := start(t, first)
		w.begin(first, second, 0)
		w.observe()
		w.restartAs("web", "web:4")
		w.pass(5 * time.Second)
		if !w.advance() {
			t.Fatal("the second batch does not begin")
		}
		w.observe()
		w.restartAs("log", "log:1")
		done(t, w, 5*time.Second)
	})
}

func TestACrashBeforeTheKubeletSawTheEditIsNotTheUpdate(t *testing.T) {
	from, to := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	w := start(t, from)
	w.begin(from, to, 0)
	w.restartAs("web", "web:4")
	w.pass(time.Minute)
	w.want(Running, ReasonSpecNotObserved)
	w.restartAs("web", "web:4")
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.pass(time.Second)
	w.restart("web")
	w.want(Done, "")
}

func TestARestartedContainerThatDoesNotRunIsNotDone(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	w.begin(from, rev("shop-2", image(0, "web:5")), 0)
	w.observe()
	w.restart("web").State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	w.want(Running, ReasonContainerNotRestarted)
	w.pod.Status.ContainerStatuses = nil
	w.want(Running, ReasonContainerNotRestarted)
}

// A container that has ended in a pod that does not start it again, as that of a Job, never runs the new image: what comes after it does not wait for that.
func TestAContainerThatIsOverIsNotWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		policy corev1.RestartPolicy
		code   int32
		over   bool
	}{
		{corev1.RestartPolicyNever, 1, true}, {corev1.RestartPolicyOnFailure, 0, true}, {corev1.RestartPolicyOnFailure, 1, false}, {corev1.RestartPolicyAlways, 0, false},
	} {
		from := rev("shop-1", barrier(0, 5), barrier(1, 1))
		w := start(t, from)
		w.pod.Spec.RestartPolicy = tc.policy
		w.begin(from, rev("shop-2", barrier(0, 5), barrier(1, 1), image(0, "web:5"), image(1, "log:5")), 0)
		status := restart.StatusOf(w.pod, "web")
		status.Ready, status.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}}
		w.want(Running, ReasonSpecNotObserved)
		w.observe()
		if !tc.over {
			w.want(Running, ReasonContainerNotRestarted)
			continue
		}
		w.want(Running, ReasonNextBatch)
		if !w.advance() {
			t.Fatal("the next batch does not begin")
		}
		w.observe()
		w.want(Running, ReasonContainerNotRestarted)
		w.restart("log")
		w.want(Done, "")
	}
}

func TestUpdatesWithoutObservedGeneration(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	w.pod.Status.ObservedGeneration = 0
	w.begin(from, rev("shop-2", image(0, "web:5")), 0)
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
}

func TestMetadataOnly(t *testing.T) {
	from := rev("shop-a", annotation("drop", "1"), annotation("keep", "1"), label("tier", "a"))
	to := rev("shop-b", annotation("keep", "1"), annotation("build", "77"), label("tier", "b"),
		label(shared.LabelPodName, "not-yours"), func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"example.io/new"} })
	from.Template.Finalizers = []string{"example.io/old"}
	w := start(t, from)
	w.pod.Annotations["users"] = "stays"
	w.pod.Finalizers = []string{"example.io/old", "example.io/users"}
	w.pod.Labels[shared.LabelPodTemplateHash] = "a"
	before := w.pod.DeepCopy()
	if diff := cmp.Diff([]string{"pods"}, w.begin(from, to, time.Minute)); diff != "" {
		t.Error(diff)
	}
	wantLabels := maps.Clone(before.Labels)
	wantLabels["tier"], wantLabels[shared.LabelControllerRevisionHash], wantLabels[shared.LabelPodTemplateHash] = "b", "shop-b", "b"
	if diff := cmp.Diff(wantLabels, w.pod.Labels); diff != "" {
		t.Error(diff)
	}
	wantAnnotations := map[string]string{
		"keep": "1", "build": "77", "users": "stays",
		shared.AnnotationInPlaceState: `{"revision":"shop-b","updateTimestamp":"2026-01-01T11:00:00Z","lastContainerStatuses":null}`,
	}
	if diff := cmp.Diff(wantAnnotations, w.pod.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"example.io/users", "example.io/new"}, w.pod.Finalizers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Status, w.pod.Status); diff != "" || w.pod.Generation != 1 {
		t.Errorf("the pod should stay in service: %s", diff)
	}
	w.want(None, "")
}

func TestMetadataOnlyEndsAWaitAtTheHook(t *testing.T) {
	from := rev("shop-a")
	w := start(t, from)
	w.pod.Labels[shared.LabelLifecycleState] = string(shared.StatePreparingUpdate)
	w.begin(from, rev("shop-b", label("tier", "b")), 0)
	if lifecycle.StateOf(w.pod) != shared.StateUpdating {
		t.Errorf("state is %s", lifecycle.StateOf(w.pod))
	}
	w.want(Done, "")
}

func TestResources(t *testing.T) {
	sized := func(cpu, memory string) templateChange {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
			}
		}
	}
	from, to := rev("shop-1", sized("100m", "64Mi")), rev("shop-2", sized("200m", "64Mi"))
	apply := func(w *simulation) {
		for i := range w.pod.Spec.Containers {
			w.pod.Status.ContainerStatuses[i].Resources = w.pod.Spec.Containers[i].Resources.DeepCopy()
		}
	}
	t.Run("only the changed quantity is resized, and the pod stays in service", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		e, err := Move{w.pod, from, to, Compare(from.Template, to.Template, w.o), time.Minute, true, w.o, w.now}.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"pods"}, w.write(e)); diff != "" {
			t.Error(diff)
		}
		w.want(Grace, ReasonGracePeriod)
		e, _ = w.next()
		want := map[string]corev1.ResourceRequirements{"web": {Requests: corev1.ResourceList{"cpu": resource.MustParse("200m")}}}
		if diff := cmp.Diff(want, e.Resources, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"pods/resize", "pods"}, w.write(e)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(`{"revision":"shop-2","generation":2}`, w.pod.Annotations[shared.AnnotationInPlaceEvidence]); diff != "" {
			t.Error(diff)
		}
		if w.gate().Status != corev1.ConditionTrue || !podstate.Ready(w.pod) {
			t.Error("nothing restarts, so the pod should stay in service")
		}
		w.want(Running, ReasonSpecNotObserved)
		w.observe()
		w.want(Running, ReasonResizing)
		apply(w)
		w.want(Done, "")
		w.finish()
		w.want(None, "")
	})
	t.Run("without a lifecycle label it is watched too", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		delete(w.pod.Labels, shared.LabelLifecycleState)
		e, err := Move{w.pod, from, to, Compare(from.Template, to.Template, w.o), 0, false, w.o, w.now}.Begin()
		if err != nil {
			t.Fatal(err)
		}
		w.write(e)
		w.advance()
		w.observe()
		w.want(Running, ReasonResizing)
		apply(w)
		w.want(None, "")
	})
	t.Run("a container that restarts for it takes the pod out of service", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		w.pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
		if diff := cmp.Diff([]string{"pods/status"}, w.begin(from, to, 0)); diff != "" {
			t.Error(diff)
		}
		if w.gate().Status != corev1.ConditionFalse {
			t.Error("the pod should be out of service")
		}
		e, _ := w.next()
		if diff := cmp.Diff([]string{"pods/resize", "pods"}, w.write(e)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a restart policy for the other resource does not", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		w.pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
		w.begin(from, to, 0)
		if w.gate().Status != corev1.ConditionTrue {
			t.Error("the pod should be in service")
		}
	})
	t.Run("the generation counts the resize and the image", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		w.begin(from, rev("shop-2", sized("200m", "64Mi"), image(0, "web:5")), 0)
		w.advance()
		if w.pod.Generation != 3 || !strings.Contains(w.pod.Annotations[shared.AnnotationInPlaceEvidence], `"generation":3`) {
			t.Errorf("generation %d, evidence %s", w.pod.Generation, w.pod.Annotations[shared.AnnotationInPlaceEvidence])
		}
	})
	for reason, want := range map[string]string{corev1.PodReasonDeferred: ReasonResizeDeferred, corev1.PodReasonInfeasible: ReasonResizeInfeasible} {
		t.Run("a resize that the node answers with "+reason+" is blocked", func(t *testing.T) {
			w := start(t, from)
			w.o.Resources = true
			w.begin(from, to, 0)
			w.advance()
			w.observe()
			var e edit.Edit
			e.SetCondition(corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "Node didn't have enough resource: cpu"})
			w.write(e)
			if s := w.want(Blocked, want); !strings.HasSuffix(s.Message, ": Node didn't have enough resource: cpu") {
				t.Errorf("message %q", s.Message)
			}
			older := w.pod
			w.pod = w.pod.DeepCopy()
			w.pod.Status.Conditions = slices.DeleteFunc(w.pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
			w.pod.Status.Resize = corev1.PodResizeStatus(reason) //nolint:staticcheck // what older servers write
			w.want(Blocked, want)
			w.pod = older
		})
	}
	t.Run("a limit below the memory in use waits, and says so", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		w.begin(from, to, 0)
		w.advance()
		w.observe()
		var e edit.Edit
		e.SetCondition(corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: "memory in use"})
		w.write(e)
		if s := w.want(Running, ReasonResizing); !strings.HasSuffix(s.Message, ": memory in use") {
			t.Errorf("message %q", s.Message)
		}
	})
	t.Run("a later batch of resources alone is begun", func(t *testing.T) {
		one := rev("shop-1", sized("100m", "64Mi"), barrier(0, 1), barrier(1, 2))
		two := rev("shop-2", sized("200m", "64Mi"), barrier(0, 1), barrier(1, 2), image(1, "log:2"))
		w := start(t, one)
		w.o.Resources = true
		w.begin(one, two, 0)
		w.advance()
		if got := containerOf(w.pod.Spec.Containers, "web").Resources.Requests.Cpu().String(); got != "100m" {
			t.Errorf("cpu is %s", got)
		}
		w.observe()
		w.restart("log")
		w.want(Running, ReasonNextBatch)
		if !w.advance() {
			t.Error("nothing was begun")
		}
		if got := containerOf(w.pod.Spec.Containers, "web").Resources.Requests.Cpu().String(); got != "200m" {
			t.Errorf("cpu is %s", got)
		}
		w.observe()
		w.want(Running, ReasonResizing)
		apply(w)
		w.want(Done, "")
	})
	t.Run("an attempt that died after the resize is taken up again", func(t *testing.T) {
		w := start(t, from)
		w.o.Resources = true
		w.begin(from, to, 0)
		e, _ := w.next()
		w.write(edit.Edit{Resources: e.Resources})
		e, _ = w.next()
		if diff := cmp.Diff([]string{"pods"}, w.write(e)); diff != "" {
			t.Error(diff)
		}
		w.observe()
		w.want(Running, ReasonResizing)
		apply(w)
		w.want(Done, "")
	})
	// The server took the resize and refused the image, and then the template was changed: the pod kept the new resources under another revision.
	for name, last := range map[string]revision.Revision{
		"goes back": from, "has other images and the resources of before": rev("shop-3", sized("100m", "64Mi"), image(0, "web:6")),
	} {
		t.Run("a pod whose image was refused after its resize follows a template that "+name, func(t *testing.T) {
			w := start(t, from)
			w.o.Resources = true
			next := rev("shop-2", sized("200m", "64Mi"), image(0, "web:5"))
			e, err := Move{w.pod, from, next, Compare(from.Template, next.Template, w.o), 0, true, w.o, w.now}.Begin()
			if err != nil {
				t.Fatal(err)
			}
			for ok := true; ok && len(e.Resources) == 0; e, ok = w.next() {
				w.write(e)
			}
			w.write(edit.Edit{Conditions: e.Conditions, Resources: e.Resources})
			at := from
			if w.pod.Labels[shared.LabelControllerRevisionHash] == next.Name {
				at = next
			}
			if at.Name != last.Name {
				w.begin(at, last, 0)
				w.advance()
			}
			if got := containerOf(w.pod.Spec.Containers, "web").Resources.Requests.Cpu().String(); got != "100m" {
				t.Errorf("the pod is at %s, and its cpu is %s", w.pod.Labels[shared.LabelControllerRevisionHash], got)
			}
		})
	}
	t.Run("a limit without a request takes its request along", func(t *testing.T) {
		limited := func(cpu string) templateChange {
			return func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
			}
		}
		one := rev("shop-1", limited("1"))
		w := start(t, one)
		w.o.Resources = true
		w.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		w.begin(one, rev("shop-2", limited("2")), 0)
		w.advance()
		if got := w.pod.Spec.Containers[0].Resources; got.Requests.Cpu().String() != "2" || got.Limits.Cpu().String() != "2" {
			t.Errorf("resources are %+v", got)
		}
	})
}

func TestAPodWithoutTheGateIsUpdatedToo(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	w.pod.Spec.ReadinessGates = nil
	w.pod.Status.Conditions = slices.DeleteFunc(w.pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == shared.GateInPlaceUpdateReady })
	if diff := cmp.Diff([]string{"pods"}, w.begin(from, rev("shop-2", image(0, "web:5")), 0)); diff != "" {
		t.Error(diff)
	}
	if !podstate.Ready(w.pod) {
		t.Error("without the gate, readiness is the kubelet's alone")
	}
	w.observe()
	w.want(Running, ReasonContainerNotRestarted)
	w.restart("web")
	w.want(Done, "")
	if diff := cmp.Diff([]string{"pods/status"}, w.finish()); diff == "" {
		t.Error("without the gate there is no condition to write")
	}
	w.want(None, "")
}

func TestDyingBetweenTheConditionsAndTheEdit(t *testing.T) {
	from, to := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	died := func() *simulation {
		w := start(t, from)
		e, err := Move{w.pod, from, to, Compare(from.Template, to.Template, w.o), 0, true, w.o, w.now}.Begin()
		if err != nil {
			t.Fatal(err)
		}
		w.write(edit.Edit{Conditions: e.Conditions})
		return w
	}
	t.Run("the update is begun again", func(t *testing.T) {
		w := died()
		since := w.gate().LastTransitionTime
		w.pass(time.Minute)
		w.begin(from, to, 0)
		if w.images() != "web:5 log:1" || !w.gate().LastTransitionTime.Equal(&since) {
			t.Errorf("images %s, out of service since %s", w.images(), w.gate().LastTransitionTime)
		}
	})
	t.Run("or the pod is put back in service", func(t *testing.T) {
		w := died()
		w.want(Done, "")
		w.finish()
		w.want(None, "")
	})
}

// Anybody who may edit a pod can write such an annotation. It kept the operator busy for minutes, and took gigabytes, in each pass.
func TestAQuantityInAnAnnotationThatTakesMinutesToReadBlocksThePodAlone(t *testing.T) {
	const huge = `{"main":{"limits":{"cpu":"1e-30000000"}}}`
	from, to := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	for key, raw := range map[string]string{
		shared.AnnotationInPlaceState:       `{"revision":"shop-2","nextContainerResources":` + huge + `}`,
		shared.AnnotationInPlaceStateLegacy: `{"unknown":1,"nextContainerResources":` + huge + `}`,
		shared.AnnotationInPlaceGrace:       `{"revision":"shop-2","containerResources":` + huge + `}`,
	} {
		w := start(t, from)
		w.begin(from, to, 0)
		delete(w.pod.Annotations, shared.AnnotationInPlaceState)
		w.pod.Annotations[key] = raw
		s := w.want(Blocked, ReasonMalformed)
		if !strings.Contains(s.Message, "main.limits.cpu: quantity \"1e-30000000\" has too many digits") {
			t.Errorf("%s: %s", key, s.Message)
		}
	}
}

func TestMalformedAnnotations(t *testing.T) {
	from, to := rev("shop-1"), rev("shop-2", image(0, "web:5"))
	for _, raw := range []string{"", "{", "[]", `"x"`, "null", `{"revision":5}`, `{"updateTimestamp":"yesterday"}`, `{"lastContainerStatuses":[]}`} {
		t.Run("state "+raw, func(t *testing.T) {
			w := start(t, from)
			w.pod.Annotations = map[string]string{shared.AnnotationInPlaceState: raw}
			w.want(None, "")
			w.begin(from, to, 0)
			w.pod.Annotations[shared.AnnotationInPlaceState] = raw
			if raw != "null" {
				w.want(Blocked, ReasonMalformed)
			}
			if w.advance() {
				t.Error("nothing can be continued")
			}
			w.begin(to, rev("shop-3", image(0, "web:5"), image(1, "log:2")), 0)
			if w.images() != "web:5 log:2" {
				t.Errorf("images %s", w.images())
			}
		})
		t.Run("grace "+raw, func(t *testing.T) {
			w := start(t, from)
			w.begin(from, to, time.Minute)
			w.pod.Annotations[shared.AnnotationInPlaceGrace] = raw
			if raw != "" && raw != "null" && raw != `{"updateTimestamp":"yesterday"}` && raw != `{"lastContainerStatuses":[]}` {
				w.want(Blocked, ReasonMalformed)
				w.begin(to, rev("shop-3", image(0, "web:5"), image(1, "log:2")), 0)
				if w.images() != "web:5 log:2" {
					t.Errorf("the next revision should find what was lost, got %s", w.images())
				}
			} else {
				w.want(Grace, ReasonGracePeriod)
				w.advance()
			}
		})
		t.Run("evidence and report "+raw, func(t *testing.T) {
			w := start(t, from)
			w.begin(from, to, 0)
			w.pod.Annotations[shared.AnnotationInPlaceEvidence] = raw
			w.pod.Annotations[shared.AnnotationRuntimeContainersMeta] = raw
			w.observe()
			w.want(Running, ReasonContainerNotRestarted)
			w.restart("web")
			w.want(Done, "")
		})
	}
	// Such a pod was out of service for ever, and said that its grace period is not over.
	t.Run("metadata in the grace annotation", func(t *testing.T) {
		w := start(t, from)
		w.begin(from, to, time.Minute)
		w.pod.Annotations[shared.AnnotationInPlaceGrace] = `{"revision":"shop-2","containerImages":{"web":"web:5"},"metaDataPatch":"e30","graceSeconds":60}`
		w.want(Blocked, ReasonMalformed)
		w.pod.Annotations[shared.AnnotationInPlaceGrace] = `{"revision":"shop-2","containerImages":{"web":"web:5"},"metaDataPatch":"W10=","graceSeconds":60}`
		w.want(Blocked, ReasonMalformed)
		w.begin(to, rev("shop-3", image(0, "web:5"), image(1, "log:2")), 0)
		if w.images() != "web:5 log:2" {
			t.Errorf("the next revision should find what was lost, got %s", w.images())
		}
	})
	t.Run("a state that is lost during the grace period is made again", func(t *testing.T) {
		w := start(t, from)
		w.begin(from, to, time.Minute)
		w.pod.Annotations[shared.AnnotationInPlaceState] = "{"
		w.pass(time.Minute)
		if !w.advance() || w.images() != "web:5 log:1" || w.state().Revision != "shop-2" {
			t.Errorf("images %s", w.images())
		}
	})
}

// Whatever is in the annotations of a pod, looking at it and moving on end without a panic, and a next revision gets through.
func FuzzAnnotations(f *testing.F) {
	for _, raw := range []string{"", "null", "{}", `{"revision":"shop-2"}`, `{"revision":"shop-2","nextContainerImages":{"web":"web:5","gone":"x"}}`,
		`{"revision":"shop-2","containerImages":{"gone":"x"},"containerResources":{"web":{"requests":{"cpu":"1"}}},"metaDataPatch":"e30="}`,
		`{"revision":"shop-2","containers":{"web":{}}}`, `{"containers":[{"name":"web","containerID":"containerd://c1","hashes":{"plainHash":-1}}]}`,
		`{"revision":"shop-2","nextContainerResources":{"gone":{}},"nextContainerRefMetadata":{"web":{"creationTimestamp":null,"labels":{"a":"b"}}}}`,
	} {
		f.Add(raw, raw, raw, raw)
		f.Add(raw, "", raw, raw)
	}
	f.Fuzz(func(t *testing.T, state, grace, evidence, report string) {
		from, to := rev("shop-2"), rev("shop-3", image(0, "web:5"))
		w := start(t, from)
		w.pod.Labels[shared.LabelLifecycleState] = string(shared.StateUpdating)
		w.pod.Annotations = map[string]string{
			shared.AnnotationInPlaceState: state, shared.AnnotationInPlaceEvidence: evidence, shared.AnnotationRuntimeContainersMeta: report,
		}
		if grace != "" {
			w.pod.Annotations[shared.AnnotationInPlaceGrace] = grace
		}
		for _, o := range []Options{{}, {Resources: true, EnvFromMetadata: true}} {
			w.o = o
			w.check()
			w.advance()
			w.finish()
		}
		w.begin(from, to, 0)
		if w.images() != "web:5 log:1" {
			t.Errorf("images are %s", w.images())
		}
	})
}

func TestLegacyStateAnnotation(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	w.pod.Annotations = map[string]string{shared.AnnotationInPlaceStateLegacy: `{"revision":"shop-1","updateTimestamp":"2025-01-01T00:00:00Z","lastContainerStatuses":{"web":{"imageID":"id-of-web:3"}},` +
		`"nextContainerRefMetadata":{"log":{"creationTimestamp":null,"labels":{"k":"v"}}}}`}
	w.want(Running, ReasonNextBatch)
	w.begin(from, rev("shop-2", image(0, "web:5")), 0)
	if _, ok := w.pod.Annotations[shared.AnnotationInPlaceStateLegacy]; ok {
		t.Error("the older annotation should go")
	}
}

func TestBeginRefuses(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	refused := func(to revision.Revision, part string) {
		t.Helper()
		if _, err := (Move{w.pod, from, to, Compare(from.Template, to.Template, w.o), 0, true, w.o, w.now}).Begin(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v", err)
		}
	}
	refused(rev("shop-2", func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }), "spec.template.spec.hostNetwork changed")
	refused(revision.Revision{Name: "gone"}, "no longer recorded")
	w.pod.Spec.Containers = w.pod.Spec.Containers[:1]
	refused(rev("shop-2", image(1, "log:2")), "the pod has no container log")
	w.pod.Labels[shared.LabelLifecycleState] = string(shared.StatePreparingDelete)
	refused(rev("shop-2", image(0, "web:5")), "preDelete")
}

func TestShortHash(t *testing.T) {
	from := rev("agent-1")
	w := start(t, from)
	w.o.ShortHash = true
	w.begin(from, rev("agent-2b", image(0, "web:5")), time.Second)
	if w.pod.Labels[shared.LabelControllerRevisionHash] != "2b" || w.state().Revision != "2b" {
		t.Errorf("label %s, state %+v", w.pod.Labels[shared.LabelControllerRevisionHash], w.state())
	}
	w.pass(time.Second)
	if !w.advance() || w.images() != "web:5 log:1" {
		t.Errorf("images %s", w.images())
	}
}

func TestAnImageThatTheContainerHasAlreadyIsNotWritten(t *testing.T) {
	from := rev("shop-1")
	w := start(t, from)
	w.pod.Spec.Containers[0].Image = "web:5"
	if diff := cmp.Diff([]string{"pods"}, w.begin(from, rev("shop-2", image(0, "web:5")), 0)); diff != "" {
		t.Error(diff)
	}
	w.want(None, "")
}

func TestEnvironmentFromMetadata(t *testing.T) {
	reads := func(i int, key string) templateChange {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[i].Env = append(t.Spec.Containers[i].Env, corev1.EnvVar{Name: "READS_" + strings.ToUpper(key), ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + key + "']"},
			}})
		}
	}
	base := []templateChange{barrier(0, 10), barrier(1, 30), reads(1, "zone")}
	from := rev("shop-1", append(base, label("release", "r1"), label("zone", "a"), label("tier", "a"))...)
	to := rev("shop-2", append(base, label("release", "r2"), label("zone", "b"), label("tier", "b"))...)
	w := start(t, from)
	w.o.EnvFromMetadata = true
	w.begin(from, to, 0)
	if w.pod.Labels["zone"] != "b" || w.pod.Labels["tier"] != "b" || w.pod.Labels["release"] != "r1" {
		t.Errorf("only what the first batch and nobody reads should be written: %v", w.pod.Labels)
	}
	if w.gate().Status != corev1.ConditionFalse {
		t.Error("the container restarts, so the pod should be out of service")
	}
	state := w.state()
	if diff := cmp.Diff(map[string]metav1.ObjectMeta{"web": {Labels: map[string]string{"release": "r2"}}}, state.NextContainerRefMetadata); diff != "" || !state.UpdateEnvFromMetadata {
		t.Errorf("state %+v: %s", state, diff)
	}
	w.want(Running, ReasonNodeDaemon)
	report := func() {
		var entries []string
		for i := range w.pod.Spec.Containers {
			c := &w.pod.Spec.Containers[i]
			entries = append(entries, fmt.Sprintf(`{"name":%q,"containerID":%q,"hashes":{"plainHash":%d,"extractedEnvFromMetadataHash":%d}}`,
				c.Name, restart.StatusOf(w.pod, c.Name).ContainerID, plainHash(c), environmentHash(w.pod, c)))
		}
		w.pod.Annotations[shared.AnnotationRuntimeContainersMeta] = `{"containers":[` + strings.Join(entries, ",") + `]}`
	}
	w.restart("log")
	report()
	w.want(Running, ReasonNextBatch)
	if !w.advance() || w.pod.Labels["release"] != "r2" {
		t.Errorf("labels %v", w.pod.Labels)
	}
	w.want(Running, ReasonNodeDaemon)
	w.restart("web")
	report()
	w.want(Done, "")
}

func TestContainersThatShareAKeyRestartTogether(t *testing.T) {
	meta := func(keys ...string) metav1.ObjectMeta {
		labels := map[string]string{}
		for _, key := range keys {
			labels[key] = "v"
		}
		return metav1.ObjectMeta{Labels: labels}
	}
	pod := &corev1.Pod{}
	for i, name := range []string{"a", "b", "c", "d"} {
		template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name}}}}
		barrier(0, -i)(template)
		pod.Spec.Containers = append(pod.Spec.Containers, template.Spec.Containers...)
	}
	c := change{refs: map[string]metav1.ObjectMeta{"a": meta("x"), "b": meta("y"), "c": meta("x", "z"), "d": meta("z")}}
	batch, later := c.split(pod)
	if diff := cmp.Diff([]string{"a", "c", "d"}, batch.containers()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b"}, later.containers()); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnprovenEnvironmentIsNotForgottenByTheNextUpdate(t *testing.T) {
	waiting := fixtures(t)[envWaiting]
	asTemplate := func(changes ...templateChange) *corev1.PodTemplateSpec {
		out := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: waiting.DeepCopy().Spec.Containers}}
		out.Labels = map[string]string{"app": "web", "release": "r2"}
		join(changes...)(out)
		return out
	}
	now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	from, to := revision.Revision{Name: "web-5875b4cdfb", Template: asTemplate()}, revision.Revision{Name: "web-next", Template: asTemplate(label("tier", "b"))}
	e, err := Move{waiting, from, to, Compare(from.Template, to.Template, Options{}), 0, true, Options{}, now}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if s := Check(e.Apply(waiting), Options{}, now); s.Progress != Blocked || s.Reason != ReasonNodeDaemon {
		t.Errorf("got %+v", s)
	}

	// A container that an edit of ours replaces starts with the new metadata: no report is needed.
	to.Template = asTemplate(image(0, "example/web:v3"))
	e, err = Move{waiting, from, to, Compare(from.Template, to.Template, Options{}), 0, true, Options{}, now}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	w := &simulation{t: t, pod: e.Apply(waiting), now: now}
	w.observe()
	w.want(Blocked, ReasonNodeDaemon)
	w.restart("web")
	w.want(Done, "")
}

func TestRuns(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	cases := map[string]struct {
		image, imageID, wanted string
		want                   bool
	}{
		"the same text":                               {"web:1", "", "web:1", true},
		"another tag":                                 {"web:1", "", "web:2", false},
		"no tag is latest":                            {"web:latest", "", "web", true},
		"the default registry may be left out":        {"docker.io/library/web:1", "", "web:1", true},
		"a port is not a tag":                         {"reg.example:5000/web:latest", "", "reg.example:5000/web", true},
		"a port is not a tag of another image either": {"reg.example:5000/web:1", "", "reg.example:5000/web", false},
		"another registry":                            {"a.example/web:1", "", "b.example/web:1", false},
		"a digest is found in the image ID":           {"web:1", "docker.io/library/web@" + digest, "web@" + digest, true},
		"a digest is found in the image":              {"docker.io/library/web@" + digest, "", "web:1@" + digest, true},
		"another digest":                              {"web:1", "web@sha256:ff", "web@" + digest, false},
		"an image ID instead of a name says nothing":  {"sha256:0123", "sha256:0123", "web:1", false},
		"a wanted image that is not a reference":      {"web:1", "", "Web Server", false},
		"a reported image that is not a reference":    {"???", "", "web:1", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := runs(tc.image, tc.imageID, tc.wanted); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestLaunchPriority(t *testing.T) {
	for _, env := range []corev1.EnvVar{
		{Name: shared.EnvLaunchPriority, Value: "p_1"},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{}},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "p_x"}}},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "7"}}},
	} {
		if n, ok := launch.Priority(&corev1.Container{Env: []corev1.EnvVar{env}}); ok {
			t.Errorf("%+v has priority %d", env, n)
		}
	}
	pod := fixtures(t)["container-launch-priority_ordered-n62zh"]
	first, _ := launch.Priority(containerOf(pod.Spec.Containers, "first"))
	second, ok := launch.Priority(containerOf(pod.Spec.Containers, "second"))
	if !ok || first <= second {
		t.Errorf("first has %d, second %d", first, second)
	}
}

func equal(t *testing.T, before, after any) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the input was changed: %s", diff)
	}
}
