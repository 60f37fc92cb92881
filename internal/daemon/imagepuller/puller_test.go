// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

const namespace = "kruise-daemon-config"

// daemon is a puller; the test makes its passes.
type daemon struct {
	t       *testing.T
	p       *puller
	client  client.Client
	runtime *critest.Runtime
	// lifetime is the daemon's, and end ends it.
	lifetime context.Context
	end      context.CancelFunc
}

func start(t *testing.T, c client.Client, runtime *critest.Runtime, pulls int) *daemon {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	p := newPuller(host.Host{
		Node: "n1", Namespace: namespace, Runtime: runtime, Events: events.NewFakeRecorder(100), Clock: clock.RealClock{}, MaxPulls: pulls,
		Metrics: host.NewMetrics(prometheus.NewRegistry()),
	}, c)
	t.Cleanup(end)
	return &daemon{t: t, p: p, client: c, runtime: runtime, lifetime: ctx, end: end}
}

// store is an API server with the node's list.
func store(t *testing.T, images map[string]v1beta1.ImageSpec, others ...client.Object) client.Client {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	list := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}, Spec: v1beta1.NodeImageSpec{Images: images}}
	return fake.NewClientBuilder().WithScheme(types).WithObjects(append(others, list)...).WithStatusSubresource(list).Build()
}

func tags(more ...v1beta1.ImageTagSpec) map[string]v1beta1.ImageSpec {
	return map[string]v1beta1.ImageSpec{"nginx": {Tags: more}}
}

func tag(name string, backoff int32) v1beta1.ImageTagSpec {
	return v1beta1.ImageTagSpec{
		Tag: name, ImagePullPolicy: v1beta1.PullIfNotPresent,
		PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(backoff), TimeoutSeconds: ptr.To(int32(60))},
	}
}

// A list without status gets all counters: the server refuses a status without them.
func TestAllCountersAreWritten(t *testing.T) {
	change, err := changeOf(&v1beta1.NodeImage{}, v1beta1.NodeImageStatus{Desired: 1, Pulling: 1})
	want := "map[desired:1 failed:0 pulling:1 succeeded:0 waiting:0]"
	if got := fmt.Sprint(change); err != nil || got != want {
		t.Errorf("error %v\n%s\nwant\n%s", err, got, want)
	}
}

// event is the next event. The test ends when there is none within ten seconds.
func (d *daemon) event() string {
	d.t.Helper()
	recorder, _ := d.p.Events.(*events.FakeRecorder)
	select {
	case event := <-recorder.Events:
		return event
	case <-time.After(10 * time.Second):
		d.t.Fatal("no event came")
		return ""
	}
}

// until makes passes until the status is as wanted.
func (d *daemon) until(what string, ok func(v1beta1.NodeImageStatus) bool) v1beta1.NodeImageStatus {
	d.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		d.p.Writes.SetLimit(rate.Inf) // the test does not wait for the spacing of writes
		if _, err := d.p.Reconcile(d.lifetime, reconcile.Request{NamespacedName: client.ObjectKey{Name: "n1"}}); err != nil {
			d.t.Fatal(err)
		}
		list := &v1beta1.NodeImage{}
		if err := d.client.Get(d.t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
			d.t.Fatal(err)
		}
		if ok(list.Status) {
			return list.Status
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s: the status is %+v", what, list.Status)
		}
		select {
		case <-d.p.Changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ended(n int32) func(v1beta1.NodeImageStatus) bool {
	return func(s v1beta1.NodeImageStatus) bool { return s.Succeeded+s.Failed == n }
}

const nginx = "docker.io/library/nginx:"

// A node with containerd whose kubelet uses CRI-O: pods cannot use images in containerd.
func TestAnImageIsPulledByTheRuntimeOfThePods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", ContainerID: "cri-o://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	first, second := &critest.Runtime{}, &critest.Runtime{Name: "cri-o"}
	d := start(t, store(t, tags(tag("1", 0)), pod), first, 1)
	d.p.Runtime = critest.Several{Runtime: first, Others: []*critest.Runtime{second}}
	d.until("it is pulled", ended(1))
	if len(first.Calls()) != 0 || second.Pulls(nginx+"1") != 1 {
		t.Errorf("containerd was asked for %v, CRI-O for %v", first.Calls(), second.Calls())
	}
}

func TestAnImageIsPulledOnce(t *testing.T) {
	runtime := &critest.Runtime{}
	c := store(t, tags(tag("1", 0)))
	d := start(t, c, runtime, 1)
	status := d.until("it is pulled", ended(1))
	if event := d.event(); !strings.HasPrefix(event, "Normal PullImageSucceed nginx:1 was pulled in ") {
		t.Errorf("event %q", event)
	}
	got := status.ImageStatuses["nginx"].Tags[0]
	if got.Phase != v1beta1.ImagePhaseSucceeded || got.Progress != 100 || got.CompletionTime == nil || got.ImageID != "nginx@sha256:"+nginx+"1" {
		t.Errorf("status %+v", got)
	}
	d.end()
	again := start(t, c, runtime, 1)
	again.until("nothing is to be done", ended(1))
	if n := runtime.Pulls(nginx + "1"); n != 1 {
		t.Errorf("pulled %d times, also by the daemon that came after, want once", n)
	}
}

func TestAnImageThatIsThereIsLeftAlone(t *testing.T) {
	runtime := &critest.Runtime{}
	runtime.AddImage(nginx + "1")
	always := tag("1", 0)
	d := start(t, store(t, tags(always)), runtime, 1)
	d.until("it is there", ended(1))
	if n := runtime.Pulls(nginx + "1"); n != 0 {
		t.Errorf("pulled %d times", n)
	}
	always.ImagePullPolicy = v1beta1.PullAlways
	d = start(t, store(t, tags(always)), runtime, 1)
	d.until("the registry was asked", ended(1))
	if n := runtime.Pulls(nginx + "1"); n != 1 {
		t.Errorf("with Always, pulled %d times, want once", n)
	}
}

// Pulled, present, failed and running pulls are counted.
func TestPullsAreMeasured(t *testing.T) {
	release := make(chan struct{})
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, pull cri.Pull) error {
		if pull.Image == nginx+"bad" {
			return errors.New("denied")
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	runtime.AddImage(nginx + "there")
	registry := prometheus.NewRegistry()
	d := start(t, store(t, tags(tag("slow", 0), tag("there", 0), tag("bad", 0))), runtime, 3)
	d.p.Metrics = host.NewMetrics(registry)
	values := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, family := range families {
			for _, one := range family.GetMetric() {
				name := strings.TrimPrefix(family.GetName(), "kruise_daemon_")
				for _, label := range one.GetLabel() {
					name += " " + label.GetValue()
				}
				all[name] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
		return all
	}
	d.until("one is being pulled", func(s v1beta1.NodeImageStatus) bool {
		return s.Succeeded == 1 && s.Failed == 1 && values()["pulls_in_flight"] == 1
	})
	close(release)
	d.until("all have ended", ended(3))
	want := map[string]float64{
		"pulls_total pulled": 1, "pulls_total present": 1, "pulls_total failed": 1, "pull_duration_seconds": 1, "pulls_in_flight": 0,
	}
	d.until("none is under way", func(v1beta1.NodeImageStatus) bool { return cmp.Equal(want, values()) })
}

func TestNoMoreThanMayBeArePulledAtOnce(t *testing.T) {
	release := make(chan struct{})
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	d := start(t, store(t, tags(tag("1", 0), tag("2", 0), tag("3", 0), tag("4", 0), tag("5", 0))), runtime, 2)
	d.until("two are pulled and three wait", func(s v1beta1.NodeImageStatus) bool {
		return s.Pulling == 2 && s.Waiting == 3 && runtime.MaxPulls() == 2 // the runtime is asked a moment after the status says so
	})
	close(release)
	d.until("all are pulled", ended(5))
	if most := runtime.MaxPulls(); most != 2 {
		t.Errorf("%d were pulled at the same time, want 2", most)
	}
}

// Three jobs of one namespace with a silent registry kept the images of all others waiting,
// on every node.
func TestASlowRegistryOfOneNamespaceHoldsUpNobodyElse(t *testing.T) {
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, pull cri.Pull) error {
		if strings.Contains(pull.Image, "slow") {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	var all []v1beta1.ImageTagSpec
	for i := range 9 {
		slow := tag(fmt.Sprint("slow", i), 0)
		slow.OwnerReferences = []corev1.ObjectReference{{Namespace: "a"}}
		all = append(all, slow)
	}
	quick := tag("quick", 0)
	quick.OwnerReferences = []corev1.ObjectReference{{Namespace: "b"}}
	d := start(t, store(t, tags(append(all, quick)...)), runtime, 3)
	d.until("the other namespace has its image", func(s v1beta1.NodeImageStatus) bool { return s.Succeeded == 1 && s.Pulling == 3 })
}

// A failed pull kept its slot while it waited for its next try.
func TestAPullThatWaitsForItsNextTryHasNoSlot(t *testing.T) {
	runtime := &critest.Runtime{OnPull: func(_ context.Context, pull cri.Pull) error {
		if strings.Contains(pull.Image, "broken") {
			return errors.New("denied")
		}
		return nil
	}}
	d := start(t, store(t, tags(tag("broken1", 20), tag("broken2", 20), tag("good", 0))), runtime, 1)
	d.until("the good one is there", func(s v1beta1.NodeImageStatus) bool { return s.Succeeded == 1 && s.Failed == 0 })
}

// One namespace's pull secrets and sandbox served all others' pulls of the repository.
func TestAPullHasTheCredentialsOfItsNamespaceAlone(t *testing.T) {
	copied := func(name, of, user string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{image.AnnotationSource: of + "/reg"}},
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"docker.io":{"username":"` + user + `","password":"p"}}}`)},
		}
	}
	var mutex sync.Mutex
	var seen []string
	runtime := &critest.Runtime{OnPull: func(_ context.Context, pull cri.Pull) error {
		user := "nobody"
		if pull.Credentials != nil {
			user = pull.Credentials.Username
		}
		mutex.Lock()
		defer mutex.Unlock()
		seen = append(seen, fmt.Sprint(user, pull.Labels["of"]))
		if pull.Credentials == nil {
			return errors.New("denied")
		}
		return nil
	}}
	of := func(ns string) v1beta1.ImageSpec {
		asked := tag("1", 0)
		asked.ImagePullPolicy = v1beta1.PullAlways
		entry := v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{asked}, SandboxConfig: &v1beta1.SandboxConfig{Labels: map[string]string{"of": ns}}}
		for _, name := range []string{"copy-a", "copy-b"} {
			entry.PullSecrets = append(entry.PullSecrets, v1beta1.ImagePullSecret{Namespace: namespace, Name: name})
		}
		return entry
	}
	shared := of("a")
	byHand := tag("byhand", 0)
	byHand.OwnerReferences = nil
	shared.Tags[0].OwnerReferences = []corev1.ObjectReference{{Namespace: "a"}}
	shared.Tags = append(shared.Tags, byHand)
	c := store(t, map[string]v1beta1.ImageSpec{"nginx": shared}, copied("copy-a", "a", "anna"), copied("copy-b", "b", "ben"))
	list := &v1beta1.NodeImage{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
		t.Fatal(err)
	}
	list.Spec.NamespacedImages = map[string]v1beta1.ImageSpec{"b/nginx": of("b"), "c/nginx": of("c")}
	if err := c.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	status := start(t, c, runtime, 3).until("all have ended", ended(4))
	slices.Sort(seen)
	if diff := cmp.Diff([]string{"annaa", "benb", "nobodya", "nobodyc"}, seen); diff != "" {
		t.Errorf("pulled with:\n%s", diff)
	}
	phase := func(of v1beta1.ImageStatus, tag string) v1beta1.ImagePullPhase { return image.Answer(of, tag).Phase }
	succeeded, failed := v1beta1.ImagePhaseSucceeded, v1beta1.ImagePhaseFailed
	if a := status.ImageStatuses["nginx"]; phase(a, "1") != succeeded || phase(a, "byhand") != failed {
		t.Errorf("%+v", a)
	}
	if s := status.NamespacedImageStatuses; phase(s["b/nginx"], "1") != succeeded || phase(s["c/nginx"], "1") != failed {
		t.Errorf("%+v", s)
	}
}

func TestAPullThatFailsIsTriedAgain(t *testing.T) {
	runtime := &critest.Runtime{OnPull: func(context.Context, cri.Pull) error { return errors.New("denied") }}
	d := start(t, store(t, tags(tag("1", 1))), runtime, 1)
	status := d.until("it is given up", ended(1))
	if got := status.ImageStatuses["nginx"].Tags[0]; got.Phase != v1beta1.ImagePhaseFailed || got.Message != "denied" || status.Failed != 1 {
		t.Errorf("status %+v", status)
	}
	if event := d.event(); !strings.Contains(event, "PullImageFailed") || !strings.Contains(event, "denied") {
		t.Errorf("event %q", event)
	}
	if n := runtime.Pulls(nginx + "1"); n != 2 {
		t.Errorf("%d tries, want 2 with backoffLimit 1", n)
	}
}

func TestATryEndsAfterItsTimeout(t *testing.T) {
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error { <-ctx.Done(); return ctx.Err() }}
	slow := tag("1", 0)
	slow.PullPolicy.TimeoutSeconds = ptr.To(int32(1))
	d := start(t, store(t, tags(slow)), runtime, 1)
	status := d.until("it is given up", ended(1))
	if got := status.ImageStatuses["nginx"].Tags[0].Message; status.Failed != 1 || got != "the image was not there after 1s" {
		t.Errorf("status %+v", status)
	}
}

// While the container runtime does not answer, tags wait and use up no try.
func TestARuntimeThatIsDownUsesUpNoTry(t *testing.T) {
	runtime := &critest.Runtime{}
	runtime.SetDown(true)
	d := start(t, store(t, tags(tag("1", 0))), runtime, 1)
	status := d.until("it waits for the runtime", func(s v1beta1.NodeImageStatus) bool {
		tags := s.ImageStatuses["nginx"].Tags
		return len(tags) == 1 && tags[0].Phase == v1beta1.ImagePhaseWaiting && tags[0].Message != ""
	})
	if status.Waiting != 1 || status.Failed != 0 {
		t.Errorf("status %+v", status)
	}
	runtime.SetDown(false)
	if status := d.until("it is pulled when the runtime is back", ended(1)); status.Succeeded != 1 {
		t.Errorf("status %+v", status)
	}
}

// It used to stay Waiting, with the error of the absent runtime, until it was there.
func TestATagIsPulledVisiblyWhenTheRuntimeIsBack(t *testing.T) {
	release := make(chan struct{})
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	runtime.SetDown(true)
	d := start(t, store(t, tags(tag("1", 0))), runtime, 1)
	now := clocktesting.NewFakeClock(time.Now())
	d.p.Clock = now
	of := func(s v1beta1.NodeImageStatus) v1beta1.ImageTagStatus {
		now.Step(time.Second)
		if tags := s.ImageStatuses["nginx"].Tags; len(tags) == 1 {
			return tags[0]
		}
		return v1beta1.ImageTagStatus{}
	}
	d.until("it waits for the runtime", func(s v1beta1.NodeImageStatus) bool {
		tag := of(s)
		return tag.Phase == v1beta1.ImagePhaseWaiting && tag.Message != ""
	})
	runtime.SetDown(false)
	d.until("it is pulled", func(s v1beta1.NodeImageStatus) bool {
		tag := of(s)
		return tag.Phase == v1beta1.ImagePhasePulling && tag.Message == ""
	})
	close(release)
	if status := d.until("it is there", ended(1)); status.Succeeded != 1 {
		t.Errorf("status %+v", status)
	}
}

// A daemon killed again and again would never reach a deadline begun by itself.
func TestADeadlineBeginsWithTheFirstDaemonThatPulls(t *testing.T) {
	limited := tag("1", 0)
	limited.PullPolicy.ActiveDeadlineSeconds = ptr.To[int64](60)
	for what, tc := range map[string]struct {
		before time.Duration
		failed int32
	}{
		"it is over":     {before: 61 * time.Second, failed: 1},
		"it is not over": {before: 10 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			runtime := &critest.Runtime{}
			c := store(t, tags(limited))
			list := &v1beta1.NodeImage{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
				t.Fatal(err)
			}
			list.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"nginx": {Tags: []v1beta1.ImageTagStatus{
				{Tag: "1", Phase: v1beta1.ImagePhasePulling, StartTime: stamp(time.Now().Add(-tc.before))},
			}}}
			if err := c.Status().Update(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			status := start(t, c, runtime, 1).until("it is over", ended(1))
			if message := status.ImageStatuses["nginx"].Tags[0].Message; status.Failed != tc.failed || tc.failed == 1 && message != errDeadline.Error() {
				t.Errorf("status %+v", status)
			}
			if n := int32(runtime.Pulls(nginx + "1")); n != 1-tc.failed {
				t.Errorf("%d pulls", n)
			}
		})
	}
}

// A daemon restarted after its node's clock was set back exceeded the deadline by as much.
func TestADeadlineDoesNotBeginInTheFuture(t *testing.T) {
	limited := tag("1", 0)
	limited.PullPolicy.ActiveDeadlineSeconds = ptr.To[int64](1)
	c := store(t, tags(limited))
	list := &v1beta1.NodeImage{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
		t.Fatal(err)
	}
	list.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"nginx": {Tags: []v1beta1.ImageTagStatus{
		{Tag: "1", Phase: v1beta1.ImagePhasePulling, StartTime: stamp(time.Now().Add(2 * time.Minute))},
	}}}
	if err := c.Status().Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error { <-ctx.Done(); return ctx.Err() }}
	status := start(t, c, runtime, 1).until("it is over", ended(1))
	if message := status.ImageStatuses["nginx"].Tags[0].Message; status.Failed != 1 || message != "the image was not there after 1s" {
		t.Errorf("status %+v", status)
	}
}

// The second job came when the pull was under way already. It has failed on the node as the first one has.
func TestAJobThatJoinsAPullHearsOfItsEnd(t *testing.T) {
	release := make(chan struct{})
	runtime := &critest.Runtime{OnPull: func(context.Context, cri.Pull) error { <-release; return errors.New("denied") }}
	owned := tag("1", 0)
	owned.OwnerReferences = []corev1.ObjectReference{{Kind: "ImagePullJob", Name: "a", UID: "a"}}
	c := store(t, tags(owned))
	d := start(t, c, runtime, 1)
	d.until("it is pulled", func(s v1beta1.NodeImageStatus) bool { return s.Pulling == 1 })
	list := &v1beta1.NodeImage{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
		t.Fatal(err)
	}
	owners := &list.Spec.Images["nginx"].Tags[0].OwnerReferences
	*owners = append(*owners, corev1.ObjectReference{Kind: "ImagePullJob", Name: "b", UID: "b"})
	if err := c.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if _, err := d.p.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	close(release)
	d.until("it is given up", ended(1))
	recorder, _ := d.p.Events.(*events.FakeRecorder)
	if n := len(recorder.Events); n != 3 {
		t.Errorf("%d events, want one for the list and one for each job", n)
	}
}

// A tag is removed and asked for again. Reports of its first round are void, although both
// have the same number.
func TestWhatAnEarlierRoundSaysIsNotBelieved(t *testing.T) {
	at := key{image.Place{Repository: "nginx"}, "1"}
	former, now := &work{}, &work{}
	p := &puller{rounds: map[key]*work{at: now}}
	for _, round := range []*work{former, now} {
		p.note(task{key: at, round: round}, func(s *v1beta1.ImageTagStatus) { s.Progress++ })
	}
	if former.status.Progress != 0 || now.status.Progress != 1 {
		t.Errorf("the former round says %d, the new one %d", former.status.Progress, now.status.Progress)
	}
}

func TestMessagesAreOneShortLine(t *testing.T) {
	if got := short("denied\nnot found\r\n", 100); got != "denied; not found" {
		t.Errorf("%q", got)
	}
	if got := short("añb", 2); got != "a" {
		t.Errorf("cut within a letter: %q", got)
	}
}

func TestATagThatIsTakenOutIsNotPulledOn(t *testing.T) {
	stopped := make(chan struct{})
	runtime := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error { <-ctx.Done(); close(stopped); return ctx.Err() }}
	c := store(t, tags(tag("1", 5)))
	d := start(t, c, runtime, 1)
	d.until("it is pulled", func(s v1beta1.NodeImageStatus) bool { return s.Pulling == 1 })
	list := &v1beta1.NodeImage{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
		t.Fatal(err)
	}
	list.Spec.Images = nil
	if err := c.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	d.until("it is forgotten", func(s v1beta1.NodeImageStatus) bool { return s.Desired == 0 && len(s.ImageStatuses) == 0 })
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the pull goes on")
	}
}

func TestSecretsOfTheOwnNamespaceAreTriedInTurn(t *testing.T) {
	config := func(user string) []byte {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":pass"))
		return []byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"` + auth + `"},"other.example":{"auth":"` + auth + `"}}}`)
	}
	secret := func(ns, name, user string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{corev1.DockerConfigJsonKey: config(user)}}
	}
	var users []string
	runtime := &critest.Runtime{OnPull: func(_ context.Context, p cri.Pull) error {
		users = append(users, p.Credentials.Username)
		if p.Credentials.Username != "good" {
			return errors.New("denied")
		}
		return nil
	}}
	images := tags(tag("1", 0))
	entry := images["nginx"]
	entry.PullSecrets = []v1beta1.ImagePullSecret{
		{Namespace: namespace, Name: "bad"}, {Namespace: "users", Name: "stolen"}, {Namespace: namespace, Name: "gone"}, {Namespace: namespace, Name: "good"},
	}
	images["nginx"] = entry
	d := start(t, store(t, images, secret(namespace, "bad", "bad"), secret(namespace, "good", "good"), secret("users", "stolen", "stolen")), runtime, 1)
	if status := d.until("it is pulled", ended(1)); status.Succeeded != 1 {
		t.Errorf("status %+v", status)
	}
	if diff := cmp.Diff([]string{"bad", "good"}, users); diff != "" {
		t.Errorf("tried:\n%s", diff)
	}
}

// Somebody creates the Secret when the first try has failed without it, or another job with credentials shares the pull.
func TestASecretThatComesLaterIsTried(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "late"}, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: []byte(`{"auths":{"docker.io":{"username":"me","password":"secret"}}}`),
	}}
	runtime := &critest.Runtime{OnPull: func(_ context.Context, p cri.Pull) error {
		if p.Credentials == nil {
			return errors.New("denied")
		}
		return nil
	}}
	c := store(t, tags(tag("1", 2)), secret)
	d := start(t, c, runtime, 1)
	d.until("it was tried", func(s v1beta1.NodeImageStatus) bool {
		tags := s.ImageStatuses["nginx"].Tags
		return len(tags) == 1 && tags[0].Message == "denied"
	})
	list := &v1beta1.NodeImage{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
		t.Fatal(err)
	}
	entry := list.Spec.Images["nginx"]
	entry.PullSecrets = []v1beta1.ImagePullSecret{{Namespace: namespace, Name: "late"}}
	list.Spec.Images["nginx"] = entry
	if err := c.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if status := d.until("it is over", ended(1)); status.Succeeded != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestCredentialsMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		key, host, repository string
		want                  bool
	}{
		"Docker Hub by its old address": {"https://index.docker.io/v1/", "docker.io", "library/nginx", true},
		"a host with a port":            {"registry.example:5000", "registry.example:5000", "app", true},
		"another port":                  {"registry.example:5000", "registry.example", "app", false},
		"a path":                        {"registry.example/team", "registry.example", "team/app", true},
		"half of a path":                {"registry.example/te", "registry.example", "team/app", false},
		"a pattern":                     {"*.example", "registry.example", "app", true},
		"a pattern is one label":        {"*.example", "a.b.example", "app", false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := matchesRegistry(tc.key, tc.host, tc.repository); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
