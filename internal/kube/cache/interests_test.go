// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

func labeledPod(namespace, name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
	}
}

// at is a pod at a version.
func at(name string, resourceVersion int) *corev1.Pod {
	pod := labeledPod("shop", name, "web")
	pod.ResourceVersion = strconv.Itoa(resourceVersion)
	return pod
}

func app(t *testing.T, value string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse("app=" + value)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// watched is a cache of pods behind Interests, on a made-up server.
type watched struct {
	*Interests
	server   *fcache.FakeControllerSource
	informer toolscache.SharedIndexInformer
	// lists counts the reads.
	lists chan string
	// reading, if set, runs between a read's list and its way into the store.
	reading func()
}

func watchedPods(t *testing.T, pods ...*corev1.Pod) *watched {
	t.Helper()
	w := &watched{Interests: NewInterests(), server: fcache.NewFakeControllerSource(), lists: make(chan string, 100)}
	for _, pod := range pods {
		w.server.Add(pod)
	}
	w.list = func(_ context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
		w.lists <- namespace + "/" + options.LabelSelector
		return w.selected(namespace, options.LabelSelector)
	}
	lists := &toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			w.relay.listing()
			return w.server.List(options)
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			from, err := w.server.Watch(options)
			if err != nil {
				return nil, err
			}
			return w.relay.watch(from, options), nil
		},
	}
	w.informer = toolscache.NewSharedIndexInformer(noWatchList{lists}, &corev1.Pod{}, 0, toolscache.Indexers{})
	contents := ContentsFor().Keeping(w.Keeps)
	if err := w.informer.SetTransform(trimUnless(contents.needsPod, identity)); err != nil {
		t.Fatal(err)
	}
	w.show(w.informer.GetStore())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go w.informer.RunWithContext(ctx)
	go func() {
		defer close(ended)
		_ = w.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	if !toolscache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		t.Fatal("not filled")
	}
	return w
}

// noWatchList is a source that cannot stream its list.
type noWatchList struct{ *toolscache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func (w *watched) selected(namespace, selector string) (*corev1.PodList, error) {
	all, err := w.server.List(metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(all)
	if err != nil {
		return nil, err
	}
	list, err := meta.ListAccessor(all)
	if err != nil {
		return nil, err
	}
	wanted, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: list.GetResourceVersion()}}
	for _, item := range items {
		pod, ok := item.(*corev1.Pod)
		if ok && pod.Namespace == namespace && wanted.Matches(labels.Set(pod.Labels)) {
			page.Items = append(page.Items, *pod)
		}
	}
	if w.reading != nil {
		w.reading()
	}
	return page, nil
}

// whole are the names of the stored pods kept whole.
func (w *watched) whole() []string {
	names := []string{}
	for _, stored := range w.informer.GetStore().List() {
		if pod, ok := stored.(*corev1.Pod); ok && len(pod.Spec.Containers) > 0 {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

func (w *watched) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("%s: never; whole are %v", what, w.whole())
	}
}

func TestTheCacheKeepsPodsOfInterestWholeAndOnlyThose(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"), labeledPod("shop", "db-0", "db"), labeledPod("bank", "web-0", "web"))
	if w.Complete("Budget/a") {
		t.Error("complete without an interest")
	}
	if got := w.whole(); len(got) > 0 {
		t.Errorf("%v are whole before anybody asks", got)
	}
	if w.Set("Budget/a", "shop", app(t, "web")) {
		t.Error("complete before the pods were read")
	}
	w.until(t, "the view is complete", func() bool { return w.Complete("Budget/a") })
	if diff := cmp.Diff([]string{"shop/web-0"}, w.whole()); diff != "" {
		t.Errorf("whole pods (-want +got):\n%s", diff)
	}
	w.server.Add(labeledPod("shop", "web-1", "web"))
	w.until(t, "a new pod that matches is whole", func() bool { return len(w.whole()) == 2 })
	if !w.Set("Budget/a", "shop", app(t, "web")) || len(w.lists) != 1 {
		t.Errorf("the same selector again: %d reads", len(w.lists))
	}
}

func TestOnlyNewSelectorsAreRead(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"), labeledPod("shop", "db-0", "db"))
	w.Set("Budget/a", "shop", app(t, "web"))
	w.until(t, "the first is complete", func() bool { return w.Complete("Budget/a") })
	if w.Set("Budget/a", "shop", app(t, "web"), app(t, "db")) {
		t.Error("complete, though a selector is new")
	}
	w.until(t, "the second is complete", func() bool { return w.Complete("Budget/a") })
	if !w.Set("Budget/a", "shop", app(t, "db")) {
		t.Error("a narrower interest is incomplete")
	}
	close(w.lists)
	var reads []string
	for read := range w.lists {
		reads = append(reads, read)
	}
	if diff := cmp.Diff([]string{"shop/app=web", "shop/app=db"}, reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

func TestASelectorReplacedByAnotherIsIncomplete(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"), labeledPod("shop", "db-0", "db"))
	w.Set("Budget/a", "shop", app(t, "web"))
	if w.Set("Budget/a", "shop", app(t, "db")) {
		t.Error("complete at once")
	}
	w.until(t, "the new one is complete", func() bool { return w.Complete("Budget/a") })
	if pod := w.shows("shop", "db-0"); pod == nil || len(pod.Spec.Containers) == 0 {
		t.Error("complete, but the pod is trimmed")
	}
}

func TestForgottenPodsAreTrimmedAtTheirNextEvent(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"))
	w.Set("Budget/a", "shop", app(t, "web"))
	w.Set("Spread/a", "shop", labels.Everything())
	for _, owner := range []string{"Budget/a", "Spread/a"} {
		w.until(t, owner+" is complete", func() bool { return w.Complete(owner) })
		w.Forget(owner)
	}
	if w.Complete("Budget/a") || len(w.of) != 0 || len(w.in) != 0 {
		t.Errorf("left: %v, %v", w.of, w.in)
	}
	w.server.Modify(labeledPod("shop", "web-0", "web"))
	w.until(t, "the pod is trimmed", func() bool { return len(w.whole()) == 0 })
}

func TestWhatHappensDuringAReadWins(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"), labeledPod("shop", "web-1", "web"), labeledPod("shop", "web-2", "web"))
	newer := labeledPod("shop", "web-0", "web")
	newer.Spec.NodeName = "newer"
	shown := func() bool {
		pod := w.shows("shop", "web-0")
		return pod != nil && pod.Spec.NodeName == "newer" && w.shows("shop", "web-1") == nil
	}
	w.reading = func() {
		w.reading = nil
		w.server.Modify(newer)
		w.server.Delete(labeledPod("shop", "web-1", "web"))
		w.until(t, "the events are in the store", shown)
	}
	w.Set("Budget/a", "shop", app(t, "web"))
	w.until(t, "the view is complete", func() bool { return w.Complete("Budget/a") })
	if !shown() || len(w.whole()) != 2 {
		t.Errorf("the read brought back an older state; whole are %v", w.whole())
	}
}

func TestAFailedReadIsTriedAgain(t *testing.T) {
	w := watchedPods(t, labeledPod("shop", "web-0", "web"))
	list, tries := w.list, 0
	w.list = func(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
		if tries++; tries == 1 {
			return nil, errors.New("not now")
		}
		return list(ctx, namespace, options)
	}
	w.Set("Budget/a", "shop", app(t, "web"))
	w.until(t, "the view is complete", func() bool { return w.Complete("Budget/a") })
	if tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

func TestNothingOlderPassesTheRelay(t *testing.T) {
	type step struct {
		event watch.EventType
		// read, instead of an event, is the version of a list with the pod.
		read int
		at   int
		want bool
	}
	for name, steps := range map[string][]step{
		"an event newer than the read":       {{event: watch.Modified, at: 7, want: true}, {read: 9, at: 5}, {event: watch.Modified, at: 8, want: true}},
		"the event of the read itself":       {{event: watch.Modified, at: 5, want: true}, {read: 9, at: 5, want: true}, {event: watch.Modified, at: 5}},
		"a deletion before the read arrives": {{event: watch.Deleted, at: 7, want: true}, {read: 9, at: 5}},
		"events the read was ahead of":       {{read: 9, at: 8, want: true}, {event: watch.Modified, at: 6}, {event: watch.Deleted, at: 7}, {event: watch.Modified, at: 10, want: true}},
		"two reads in a row":                 {{read: 9, at: 8, want: true}, {read: 12, at: 11, want: true}, {event: watch.Modified, at: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelay()
			of := r.begin("shop")
			for n, step := range steps {
				if step.read == 0 {
					if got := r.passes(watch.Event{Type: step.event, Object: at("web-0", step.at)}); got != step.want {
						t.Errorf("step %d: passes %t", n, got)
					}
					continue
				}
				page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(step.read)}, Items: []corev1.Pod{*at("web-0", step.at)}}
				pods, err := r.current(offer{reading: of, page: page})
				if err != nil || (len(pods) == 1) != step.want {
					t.Errorf("step %d: %d pods pass, error %v", n, len(pods), err)
				}
			}
		})
	}
}

func TestTheRelayForgetsANamespaceOnceTheWatchIsPastTheRead(t *testing.T) {
	r := newRelay()
	of := r.begin("shop")
	if _, err := r.current(offer{reading: of, page: &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}}); err != nil {
		t.Fatal(err)
	}
	r.end("shop")
	for version, want := range map[int]int{8: 1, 9: 0} {
		elsewhere := at("other", version)
		elsewhere.Namespace = "bank"
		if version == 9 {
			r.passes(watch.Event{Type: watch.Bookmark, Object: at("", 8)})
		}
		r.passes(watch.Event{Type: watch.Modified, Object: elsewhere})
		if version == 9 && len(r.by) != want {
			t.Errorf("at %d: %d namespaces", version, len(r.by))
		}
	}
}

func TestAReadIsGivenUpWhenTheInformerListsAnew(t *testing.T) {
	r := newRelay()
	of := r.begin("shop")
	r.listing()
	if _, err := r.current(offer{reading: of, page: &corev1.PodList{}}); !errors.Is(err, errListedAnew) {
		t.Errorf("error %v", err)
	}
	err := r.await(t.Context(), of, &corev1.PodList{Items: []corev1.Pod{*at("web-0", 5)}}, func(string, string) *corev1.Pod { return nil })
	if !errors.Is(err, errListedAnew) {
		t.Errorf("error %v of what awaits the store", err)
	}
}

// An informer that took a read pod's version for its own would skip events after a broken
// watch, or see old ones again.
func TestAWatchKeepsItsPositionAfterARead(t *testing.T) {
	r := newRelay()
	from := watch.NewFake()
	to := r.watch(from, metav1.ListOptions{SendInitialEvents: new(true)})
	t.Cleanup(to.Stop)
	of := r.begin("shop")
	offered := make(chan error, 1)
	go func() {
		offered <- r.offer(t.Context(), of, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "40"}, Items: []corev1.Pod{*at("web-0", 30)}})
	}()
	initial := at("", 20)
	initial.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	go func() {
		from.Add(at("web-1", 10))
		from.Action(watch.Bookmark, initial)
	}()
	type seen struct {
		Type    watch.EventType
		Version string
	}
	want := []seen{{watch.Added, "10"}, {watch.Bookmark, "20"}, {watch.Modified, "30"}, {watch.Bookmark, "20"}}
	var got []seen
	for range want {
		e := <-to.ResultChan()
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("a %T", e.Object)
		}
		got = append(got, seen{e.Type, pod.ResourceVersion})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if err := <-offered; err != nil {
		t.Error(err)
	}
}
