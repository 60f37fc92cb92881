// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// view is a cache with informers in the given state.
type view struct {
	cache.Cache
	server   client.Reader
	informer *controllertest.FakeInformer
	watched  int
	err      error
}

func (v *view) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	v.watched++
	return v.informer, v.err
}

func (v *view) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return v.server.List(ctx, list, options...)
}

// simulation is a workload on a fake server.
type simulation struct {
	t      *testing.T
	of     *workload.Pass
	view   *view
	server *testutil.Client
	events *events.FakeRecorder
	clock  *testingclock.FakeClock
	set    *v1beta1.StatefulSet
	image.Workload
}

func newSimulation(t *testing.T, containers int) *simulation {
	t.Helper()
	w := &simulation{
		t: t, events: events.NewFakeRecorder(1000), clock: testingclock.NewFakeClock(time.Unix(1000, 0)),
		set: testutil.StatefulSet("web").UID("set").Obj(),
	}
	w.set.Generation = 1
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	kind := v1beta1.GroupVersion().WithKind("StatefulSet")
	w.Workload = image.Workload{
		Spec: &podset.Spec{
			Namespace: w.set.Namespace, Owner: *metav1.NewControllerRef(w.set, kind),
			LabelSelector: w.set.Spec.Selector, Replicas: 10, PodUpdatePolicy: shared.InPlaceIfPossible,
		},
		MaxUnavailable: 1,
		Settings:       image.Settings{Parallelism: 1, TimeoutSeconds: 300},
		Current:        w.revision("old", "v1", containers), Update: w.revision("new", "v2", containers),
	}
	w.server = testutil.NewClient(known, nil, w.Current.Object, w.Update.Object)
	w.view = &view{server: w.server, informer: controllertest.NewFakeInformer(controllertest.Synced)}
	w.of = &workload.Pass{Stored: &unstructured.Unstructured{}, Memory: &workload.Memory{}, Base: workload.New("test", kind, workload.Dependencies{
		Client: w.server, Cache: w.view, Live: w.server, Recorder: w.events, Clock: w.clock, WriteTimeout: time.Second,
	})}
	return w
}

func (w *simulation) revision(hash, tag string, containers int) revision.Revision {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for i := range containers {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%02d", i), Image: "web:" + tag})
	}
	return revision.Revision{Name: "web-" + hash, Template: template, Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.set.Namespace, Name: "web-" + hash, Labels: map[string]string{shared.LabelRevisionHash: hash},
	}}}
}

// report is a pass's result, with less of the condition.
type report struct {
	Reason, Message string
	RecheckAfter    time.Duration
}

// pass runs one pass with the stored update revision, of a set with a condition about
// images already.
func (w *simulation) pass() report {
	w.t.Helper()
	if err := w.server.Get(w.t.Context(), client.ObjectKeyFromObject(w.Update.Object), w.Update.Object); err != nil {
		w.t.Fatal(err)
	}
	before := []any{map[string]any{"type": "Available"}, map[string]any{"type": "ImagePreDownload", "reason": "Before"}}
	w.of.Stored.Object = map[string]any{"status": map[string]any{"conditions": before}}
	pass := *w.of
	conditions := pass.PullImages(w.t.Context(), w.set, &w.Workload)
	result, err := pass.Finish(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r := report{RecheckAfter: result.RequeueAfter}
	if len(conditions) > 1 || len(conditions) == 1 && conditions[0].Type != "ImagePreDownload" {
		w.t.Errorf("the conditions are %+v", conditions)
	}
	if len(conditions) > 0 {
		r.Reason, r.Message = conditions[0].Reason, conditions[0].Message
	}
	return r
}

func (w *simulation) stored() []string {
	w.t.Helper()
	list := &v1beta1.ImagePullJobList{}
	if err := w.server.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, job := range list.Items {
		names = append(names, job.Name)
	}
	slices.Sort(names)
	return names
}

// writes are the server's requests since the last call.
func (w *simulation) writes(from int) []string {
	var writes []string
	for _, write := range w.server.Writes()[from:] {
		writes = append(writes, write.Verb+" "+write.Object.GetName())
	}
	return writes
}

func (w *simulation) event() string {
	select {
	case event := <-w.events.Events:
		return event
	default:
		return ""
	}
}

func TestARolloutHasItsJobs(t *testing.T) {
	w := newSimulation(t, 1)
	said := w.pass()
	if said.Reason != "NoNodeDaemon" || !strings.Contains(said.Message, "The rollout does not wait") || said.RecheckAfter != 0 {
		t.Errorf("the report is %+v", said)
	}
	if diff := cmp.Diff([]string{"web-new-c00"}, w.stored()); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	job := &v1beta1.ImagePullJob{}
	if err := w.server.Get(t.Context(), client.ObjectKey{Namespace: w.set.Namespace, Name: "web-new-c00"}, job); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(job, w.set) || job.Spec.Image != "web:v2" {
		t.Errorf("the job is %+v", job)
	}
	if got := w.event(); got != "Normal CreatedImagePullJob created ImagePullJob web-new-c00 for image web:v2" {
		t.Errorf("the event is %q", got)
	}

	// The second pass knows from the revision that it is done, even with a stale cache.
	before := len(w.server.Writes())
	if again := w.pass(); again != said {
		t.Errorf("the second report is %+v", again)
	}
	if got := w.writes(before); got != nil {
		t.Errorf("the second pass wrote %v", got)
	}
	if got := w.Update.Object.Labels[shared.LabelPreDownloadCreated]; got != "true" {
		t.Errorf("the revision says %q", got)
	}

	// After the rollout they go.
	w.Current = w.Update
	if got := w.pass(); got != (report{}) {
		t.Errorf("after the rollout the report is %+v", got)
	}
	if got := w.stored(); got != nil {
		t.Errorf("after the rollout there are %v", got)
	}
}

// kruise 1419: of images A, B, A and B the second B was not pulled ahead.
func TestAnImageThatComesBackIsPulledAheadAgain(t *testing.T) {
	w := newSimulation(t, 1)
	w.Revisions = map[string]revision.Revision{w.Current.Name: w.Current, w.Update.Name: w.Update}
	for _, want := range []string{"web-new-c00", "web-old-c00", "web-new-c00"} {
		w.pass()
		if diff := cmp.Diff([]string{want}, w.stored()); diff != "" {
			t.Fatalf("jobs (-want +got):\n%s", diff)
		}
		before := w.Current
		w.Current = w.Update
		w.pass()
		w.Update = before
	}
}

func TestJobsAreWrittenAFewAtATime(t *testing.T) {
	w := newSimulation(t, 12)
	said := w.pass()
	if got := len(w.stored()); got != 10 || said.RecheckAfter == 0 {
		t.Errorf("after a pass there are %d jobs, and the report is %+v", got, said)
	}
	for range 3 {
		said = w.pass()
	}
	if got := len(w.stored()); got != 12 || said.RecheckAfter != 0 || w.Update.Object.Labels[shared.LabelPreDownloadCreated] != "true" {
		t.Errorf("in the end there are %d jobs, the report is %+v and the revision has %v", got, said, w.Update.Object.Labels)
	}
	w.Current = w.Update
	if said := w.pass(); len(w.stored()) != 2 || said.RecheckAfter == 0 {
		t.Errorf("after the rollout and a pass there are %v, and the report is %+v", w.stored(), said)
	}
	if said := w.pass(); len(w.stored()) != 0 || said.RecheckAfter != 0 {
		t.Errorf("after another one there are %v, and the report is %+v", w.stored(), said)
	}
}

func TestASlowServerGetsNoMoreRequests(t *testing.T) {
	w := newSimulation(t, 3)
	w.server.SetFault(func(_ context.Context, _ testutil.Write, forward func() error) error {
		w.clock.Step(2 * time.Second)
		return forward()
	})
	if said := w.pass(); len(w.stored()) != 1 || said.RecheckAfter == 0 {
		t.Errorf("the pass wrote %v and reports %+v", w.stored(), said)
	}
}

// Somebody's job of the name pulled something else, and the set reported its images as
// pulled.
func TestAJobOfSomebodyElseIsNotUsed(t *testing.T) {
	w := newSimulation(t, 1)
	foreign := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.set.Namespace, Name: "web-new-c00"}}
	if err := w.server.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	const why = "creating ImagePullJob web-new-c00: there is one of this name that does not belong to the workload"
	if said, event := w.pass(), w.event(); said.Reason != "RequestFailed" || !strings.Contains(said.Message, why) || !strings.Contains(event, why) {
		t.Errorf("the report is %+v, the event %q", said, event)
	}
	// It stays as it is. When it has gone, the set has its own.
	w.Current, w.Update = w.Update, w.Current
	w.pass()
	w.Current, w.Update = w.Update, w.Current
	if got := w.stored(); len(got) != 1 {
		t.Errorf("the jobs are %v", got)
	}
	if err := w.server.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(time.Minute)
	if said := w.pass(); said.Reason != "NoNodeDaemon" || w.event() == "" {
		t.Errorf("then the report is %+v", said)
	}
}

// The cache may lack the set's own new job.
func TestAJobOfTheSetThatTheCacheDoesNotShowIsAsGood(t *testing.T) {
	w := newSimulation(t, 1)
	w.server.SetFault(func(_ context.Context, write testutil.Write, forward func() error) error {
		if err := forward(); err != nil || write.Object.GetName() != "web-new-c00" {
			return err
		}
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "imagepulljobs"}, "web-new-c00")
	})
	if said := w.pass(); said.Reason != "NoNodeDaemon" {
		t.Errorf("the report is %+v", said)
	}
}

func TestARevisionThatIsNotWorthItSaysSo(t *testing.T) {
	w := newSimulation(t, 1)
	w.Replicas = 3
	said := w.pass()
	w.pass()
	if said.Reason != "NotUseful" || w.Update.Object.Labels[shared.LabelPreDownloadIgnored] != "true" || len(w.server.Writes()) != 1 {
		t.Errorf("the report is %+v, the labels are %v, the writes %v", said, w.Update.Object.Labels, w.writes(0))
	}
	w.Replicas = 10
	w.pass()
	w.pass()
	want := map[string]string{shared.LabelRevisionHash: "new", shared.LabelPreDownloadCreated: "true"}
	if diff := cmp.Diff(want, w.Update.Object.Labels); diff != "" {
		t.Errorf("labels of a set that has grown (-want +got):\n%s", diff)
	}
}

func TestAFailureIsReportedAndTriedAgainLater(t *testing.T) {
	w := newSimulation(t, 1)
	w.server.SetFault(func(context.Context, testutil.Write, func() error) error { return errors.New("no such kind") })
	said := w.pass()
	want := report{
		Reason:       "RequestFailed",
		Message:      "Images are not pulled ahead of updates: creating ImagePullJob web-new-c00: no such kind",
		RecheckAfter: 30 * time.Second,
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got := w.event(); got != "Normal FailedCreateImagePullJob creating ImagePullJob web-new-c00: no such kind" {
		t.Errorf("the event is %q", got)
	}

	// Until then nothing is asked of the server, whatever triggers a pass.
	w.clock.Step(10 * time.Second)
	want.RecheckAfter = 20 * time.Second
	if diff := cmp.Diff(want, w.pass()); diff != "" || len(w.server.Writes()) != 1 {
		t.Errorf("after 10 s there are %d writes; report (-want +got):\n%s", len(w.server.Writes()), diff)
	}
	w.clock.Step(20 * time.Second)
	w.server.SetFault(nil)
	if said := w.pass(); said.Reason != "NoNodeDaemon" || len(w.stored()) != 1 {
		t.Errorf("after 30 s the report is %+v", said)
	}
}

func TestAFailureOfARolloutThatIsOverIsForgotten(t *testing.T) {
	w := newSimulation(t, 1)
	w.server.SetFault(func(context.Context, testutil.Write, func() error) error { return errors.New("no") })
	w.pass()
	w.Current = w.Update
	if got := w.pass(); got != (report{}) || len(w.server.Writes()) != 1 {
		t.Errorf("the report is %+v after %v", got, w.writes(0))
	}
}

func TestAChangedSpecIsTriedAtOnce(t *testing.T) {
	w := newSimulation(t, 1)
	w.server.SetFault(func(context.Context, testutil.Write, func() error) error { return errors.New("no") })
	w.pass()
	w.server.SetFault(nil)
	w.set.Generation++
	if said := w.pass(); said.Reason != "NoNodeDaemon" {
		t.Errorf("the report is %+v", said)
	}
}

func TestWithoutTheKindOnlyTheReportSaysSo(t *testing.T) {
	w := newSimulation(t, 1)
	w.view.err = errors.New("no matches for kind")
	if said := w.pass(); said.Reason != "RequestFailed" || !strings.Contains(said.Message, "watching ImagePullJob: no matches for kind") {
		t.Errorf("the report is %+v", said)
	}
	w.view.err = nil
	w.clock.Step(time.Minute)
	if said := w.pass(); said.Reason != "NoNodeDaemon" {
		t.Errorf("once it is served the report is %+v", said)
	}
	if w.pass(); w.view.watched != 2 {
		t.Errorf("the kind was watched %d times", w.view.watched)
	}
}

func TestACacheThatIsNotFilledIsWaitedFor(t *testing.T) {
	w := newSimulation(t, 1)
	w.view.informer = controllertest.NewFakeInformer()
	if said := w.pass(); said.Reason != "Before" || said.RecheckAfter == 0 || len(w.server.Writes()) != 0 {
		t.Errorf("the report is %+v, the writes %v", said, w.writes(0))
	}
}
