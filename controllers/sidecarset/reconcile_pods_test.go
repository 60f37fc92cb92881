// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// images are the wanted images of the existing pods' sidecars.
func (s *shell) images() map[string]string {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.server.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for _, pod := range pods.Items {
		all[pod.Name] = pod.Spec.Containers[1].Image
	}
	return all
}

// change changes the stored set as its user does.
func (s *shell) change(do func(*appsv1beta1.SidecarSet)) {
	s.t.Helper()
	set := s.stored("logs")
	do(set)
	set.Generation++
	if err := s.server.Update(s.t.Context(), set); err != nil {
		s.t.Fatal(err)
	}
}

// A quota or another's broken webhook refused the revision: the set got
// no passes, and pods amid a hot upgrade kept both containers at work.
func TestAHotUpgradeEndsWhileTheServerRefusesTheNextRevision(t *testing.T) {
	for says, answer := range map[string]*apierrors.StatusError{
		"exceeded quota":         apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "logs", errors.New("exceeded quota")),
		"failed calling webhook": apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(says, func(t *testing.T) { hotUpgradeWhileRefused(t, answer, says) })
	}
}

func hotUpgradeWhileRefused(t *testing.T, answer error, says string) {
	t.Helper()
	hot := func(image string) *appsv1beta1.SidecarSet {
		set := newSet()
		set.Spec.Containers[0].Image = image
		set.Spec.Containers[0].UpgradeStrategy = appsv1beta1.SidecarUpgradeStrategy{UpgradeType: appsv1beta1.HotUpgrade, HotUpgradeEmptyImage: "idle:1"}
		return set
	}
	pod := newPod(t, "a", "shop", hot("agent:2"))
	for i, name := range []string{"agent-1", "agent-2"} {
		container, status := pod.Spec.Containers[1], pod.Status.ContainerStatuses[1]
		container.Name, container.Image = name, fmt.Sprintf("agent:%d", i+1)
		status.Name, status.Image, status.ImageID = name, container.Image, container.Image
		pod.Spec.Containers, pod.Status.ContainerStatuses = append(pod.Spec.Containers, container), append(pod.Status.ContainerStatuses, status)
		pod.Annotations[shared.AnnotationSidecarSetVersionPrefix+name] = strconv.Itoa(i + 1)
	}
	pod.Spec.Containers, pod.Status.ContainerStatuses = slices.Delete(pod.Spec.Containers, 1, 2), slices.Delete(pod.Status.ContainerStatuses, 1, 2)
	pod.Annotations[shared.AnnotationSidecarSetWorkingContainer] = `{"agent":"agent-2"}`

	s := newShell(t, "kruise-system", hot("agent:3"), pod)
	tries := 0
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if _, is := w.Object.(*appsv1.ControllerRevision); is {
			tries++
			return answer
		}
		return forward()
	})
	for range 8 {
		s.Remembered(s.stored("logs")).Pace = pacing.Pace{}
		_, _ = s.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "logs"}}) // The refusal is an error, so that it is tried again.
	}
	if got := s.images()["a"]; got != "idle:1" {
		t.Errorf("the replaced container has %s", got)
	}
	if tries != 1 && apierrors.IsForbidden(answer) {
		t.Errorf("the server was asked %d times within seconds", tries)
	}
	set := s.stored("logs")
	c, ok := conditions.Find(plan.Conditions(&set.Status), appsv1beta1.SidecarSetFailedUpdate)
	if !ok || !strings.Contains(c.Message, says) || set.Status.MatchedPods != 1 || set.Status.UpdatedPods != 0 {
		t.Errorf("status %+v", set.Status)
	}

	s.server.SetFault(nil)
	s.change(func(*appsv1beta1.SidecarSet) {})
	s.passes("logs")
	if got := s.images()["a"]; got != "agent:3" || s.stored("logs").Status.LatestRevision == "" {
		t.Errorf("then it has %s", got)
	}
}

// OpenKruise panicked when a pod went amid a pass, and took its update to be under way for ever.
func TestAPodThatGoesAmidAPassHoldsUpNoOther(t *testing.T) {
	for name, fault := range map[string]func(schema.GroupResource, string) error{
		"it is gone": func(of schema.GroupResource, name string) error { return apierrors.NewNotFound(of, name) },
		"another is newer": func(of schema.GroupResource, name string) error {
			return apierrors.NewConflict(of, name, errors.New("changed"))
		},
		"nobody knows that": func(schema.GroupResource, string) error {
			return apierrors.NewServerTimeout(schema.GroupResource{Resource: "pods"}, "patch", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, set := newSet(), newSet()
			set.Spec.Containers[0].Image = "agent:2"
			s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", old), newPod(t, "b", "shop", old))
			gone := false
			s.server.SetFault(func(ctx context.Context, w testutil.Write, forward func() error) error {
				if w.Object.GetName() != "a" || w.Object.GetNamespace() != "shop" || gone {
					return forward()
				}
				gone = true
				if err := s.server.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}); err != nil {
					return err
				}
				return fault(schema.GroupResource{Resource: "pods"}, "a")
			})
			s.passes("logs")
			if got := s.images(); !gone || len(got) != 1 || got["b"] != "agent:2" {
				t.Errorf("tried: %v, the sidecars run %v", gone, got)
			}
			status := s.stored("logs").Status
			if c, found := conditions.Find(plan.Conditions(&status), appsv1beta1.SidecarSetFailedUpdate); found {
				t.Errorf("it says %+v", c)
			}
		})
	}
}

// Going back revives the earlier revision with the highest number, so its pods are not outdated.
func TestGoingBackTakesTheEarlierRevisionUpAgain(t *testing.T) {
	set := newSet()
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", set))
	s.passes("logs")
	first := s.stored("logs").Status.LatestRevision
	s.change(func(set *appsv1beta1.SidecarSet) {
		set.Spec.UpdateStrategy.Paused, set.Spec.Containers[0].Image = true, "agent:2"
	})
	s.passes("logs")
	second := s.stored("logs").Status.LatestRevision
	s.change(func(set *appsv1beta1.SidecarSet) {
		set.Spec.UpdateStrategy.Paused, set.Spec.Containers[0].Image = false, "agent:1"
	})
	s.passes("logs")
	if back := s.stored("logs").Status; back.LatestRevision != first || first == second || back.UpdatedPods != 1 {
		t.Errorf("revisions %s, %s and %s, %d pods updated", first, second, back.LatestRevision, back.UpdatedPods)
	}
	number := func(name string) int64 {
		revision := &appsv1.ControllerRevision{}
		if err := s.server.Get(t.Context(), types.NamespacedName{Namespace: "kruise-system", Name: name}, revision); err != nil {
			t.Fatal(err)
		}
		return revision.Revision
	}
	if number(first) <= number(second) {
		t.Errorf("the revisions have the numbers %d and %d", number(first), number(second))
	}
	for _, write := range s.server.Writes() {
		if write.Object.GetName() == "a" {
			t.Errorf("the pod was written: %s", write.Verb)
		}
	}
}

// A change of volumes, secrets, pod metadata or plain init
// containers makes a revision, but changes no hash and no pod.
func TestWhatIsNoSidecarMakesARevisionAndChangesNoPod(t *testing.T) {
	for name, change := range map[string]func(*appsv1beta1.SidecarSetSpec){
		"a volume": func(s *appsv1beta1.SidecarSetSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} },
		"a secret": func(s *appsv1beta1.SidecarSetSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
		"an init container": func(s *appsv1beta1.SidecarSetSpec) {
			s.InitContainers = []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "i", Image: "i"}}}
		},
		"metadata": func(s *appsv1beta1.SidecarSetSpec) {
			s.PatchPodMetadata = []appsv1beta1.SidecarSetPatchPodMetadata{{Annotations: map[string]string{"a": "b"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet()
			s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", set))
			s.passes("logs")
			before := s.stored("logs")
			s.change(func(set *appsv1beta1.SidecarSet) { change(&set.Spec) })
			s.passes("logs")
			after := s.stored("logs")
			if after.Status.LatestRevision == before.Status.LatestRevision || after.Annotations[shared.AnnotationSidecarSetHash] != before.Annotations[shared.AnnotationSidecarSetHash] {
				t.Errorf("revision %s, before %s; hash %s", after.Status.LatestRevision, before.Status.LatestRevision, after.Annotations[shared.AnnotationSidecarSetHash])
			}
			if after.Status.UpdatedPods != 1 {
				t.Errorf("status %+v", after.Status)
			}
			for _, write := range s.server.Writes() {
				if write.Object.GetName() == "a" {
					t.Errorf("the pod was written: %s", write.Verb)
				}
			}
		})
	}
}

// Pods keep their sidecars when the set goes, and nothing of them is written meanwhile.
func TestADeletedSetLeavesPodsAsTheyAre(t *testing.T) {
	old, set := newSet(), newSet()
	set.Spec.Containers[0].Image = "agent:2"
	set.DeletionTimestamp, set.Finalizers = ptr.To(metav1.Now()), []string{"example.com/of-somebody"}
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", old))
	s.passes("logs")
	for _, write := range s.writes() {
		if !strings.HasPrefix(write, "patch SidecarSet logs status") {
			t.Errorf("written: %s", write)
		}
	}
	if got := s.images()["a"]; got != "agent:1" {
		t.Errorf("the sidecar runs %s", got)
	}
}

// With NotUpdate, OpenKruise's status went stale on a deleted pod, until the spec changed.
func TestADeletedPodIsNotCountedAnyMore(t *testing.T) {
	set := newSet()
	set.Spec.UpdateStrategy.Type = appsv1beta1.NotUpdateSidecarSetStrategyType
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", set), newPod(t, "b", "shop", set))
	s.passes("logs")
	if got := s.stored("logs").Status.MatchedPods; got != 2 {
		t.Fatalf("%d pods are matched", got)
	}
	pod := newPod(t, "b", "shop", set)
	if err := s.server.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got, want := s.injected(t.Context(), pod), (types.NamespacedName{Name: "logs"}); len(got) != 1 || got[0] != want {
		t.Errorf("a pod that goes enqueues %v", got)
	}
	// Counters alone are written at most once in a while.
	var status appsv1beta1.SidecarSetStatus
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && status.MatchedPods != 1; {
		s.passes("logs")
		status = s.stored("logs").Status
	}
	if status.MatchedPods != 1 || status.UpdatedPods != 1 {
		t.Errorf("%d pods are matched, %d updated", status.MatchedPods, status.UpdatedPods)
	}
}

// Annotations of the set and its revision serve others: if the server refuses
// them, or somebody removes them, updates, status and injection go on.
func TestAnnotationsThatCannotBeKeptStopNothing(t *testing.T) {
	refuse := func(context.Context, *shell, testutil.Write, func() error) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "sidecarsets"}, "logs", errors.New("a policy of others refuses it"))
	}
	fail := func(context.Context, *shell, testutil.Write, func() error) error {
		return apierrors.NewInternalError(errors.New("a policy of others refuses it: failed calling webhook"))
	}
	for name, tc := range map[string]struct {
		kind string
		do   func(context.Context, *shell, testutil.Write, func() error) error
		told bool
	}{
		"a webhook for the hashes is broken":  {kind: "SidecarSet", do: fail, told: true},
		"a webhook for the version is broken": {kind: "ControllerRevision", do: fail, told: true},
		"the hashes are refused":              {kind: "SidecarSet", do: refuse, told: true},
		"the version is refused":              {kind: "ControllerRevision", do: refuse, told: true},
		"the hashes are taken away": {kind: "SidecarSet", do: func(ctx context.Context, s *shell, _ testutil.Write, forward func() error) error {
			if err := forward(); err != nil {
				return err
			}
			set := s.stored("logs")
			set.Annotations = nil
			return s.server.Update(ctx, set)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			old := newSet()
			s := newShell(t, "kruise-system", newSet(), newPod(t, "a", "shop", old))
			s.passes("logs")
			tries := 0
			s.server.SetFault(func(ctx context.Context, w testutil.Write, forward func() error) error {
				if w.Verb != "patch" || w.Subresource != "" || w.Object.GetObjectKind().GroupVersionKind().Kind != tc.kind {
					return forward()
				}
				tries++
				return tc.do(ctx, s, w, forward)
			})
			s.change(func(set *appsv1beta1.SidecarSet) { set.Spec.Containers[0].Image = "agent:2" })
			s.passes("logs")
			s.change(func(set *appsv1beta1.SidecarSet) { set.Spec.CustomVersion = "1.5" })
			s.passes("logs")
			if got := s.images()["a"]; got != "agent:2" {
				t.Errorf("the pod has %s", got)
			}
			if status := s.stored("logs").Status; status.UpdatedPods != 1 || status.ObservedGeneration != 3 {
				t.Errorf("status %+v", status)
			}
			if tries == 0 || tries > 2 {
				t.Errorf("it was tried %d times", tries)
			}
			told := 0
			for len(s.events.Events) > 0 {
				if event := <-s.events.Events; strings.Contains(event, "FailedUpdate") && strings.Contains(event, "a policy of others refuses it") {
					told++
				}
			}
			if (told > 0) != tc.told {
				t.Errorf("it was told %d times", told)
			}
		})
	}
}

// Pods keep records of deleted sets: each change triggered a pass
// for these, and a pod can name as many as its annotations hold.
func TestPodsThatNameASetThatIsGoneTriggerNoPass(t *testing.T) {
	s := newShell(t, "kruise-system", newSet())
	pod := newPod(t, "a", "shop", newSet())
	pod.Annotations[shared.AnnotationSidecarSetInjectedList] = "gone,logs,other"
	if got := s.injected(t.Context(), pod); len(got) != 1 || got[0].Name != "logs" {
		t.Errorf("enqueued are %v", got)
	}
}

// Above the history limit, each pass looks for revisions on pods: it decoded every pod's annotations.
func TestPodsThatSayMuchOfTheirSetsCostAPassLittle(t *testing.T) {
	var text strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&text, `"s%d":{"hash":"h","controllerRevision":"r%d"},`, i, i)
	}
	observed := observation{}
	for _, name := range []string{"logs-1", "logs-2", "logs-3"} {
		observed.stored = append(observed.stored, recorded{Name: name, Object: &appsv1.ControllerRevision{}})
	}
	observed.snapshot.Update = observed.stored[2]
	for _, name := range []string{"logs-1", "logs-12"} {
		pod := newPod(t, "a", "shop", newSet())
		pod.Annotations[shared.AnnotationSidecarSetHash] = `{` + text.String() + `"logs":{"hash":"h","controllerRevision":"` + name + `"}}`
		observed.objects = append(observed.objects, pod)
	}
	var live sets.Set[string]
	allocated := testing.AllocsPerRun(1, func() { live = liveRevisions(newSet(), &observed) })
	if got := sets.List(live); !slices.Equal(got, []string{"logs-1", "logs-3"}) {
		t.Errorf("live are %v", got)
	}
	if allocated > 100 {
		t.Errorf("%v allocations", allocated)
	}
}
