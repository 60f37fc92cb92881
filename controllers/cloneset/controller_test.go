// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// shell is a Reconciler on a fake server whose cache is never behind.
type shell struct {
	*Reconciler
	t      *testing.T
	server *testutil.Client
	events *events.FakeRecorder
	set    *appsv1beta1.CloneSet
}

func newShell(t *testing.T, set *appsv1beta1.CloneSet, objects ...client.Object) *shell {
	t.Helper()
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.CloneSet{}, Stored: append(objects, set)})
	return &shell{t: t, server: fake.Server, events: fake.Events, set: set, Reconciler: New(fake.Dependencies, plan.Options{})}
}

// newSet is a set named web.
func newSet(replicas int32) *appsv1beta1.CloneSet {
	labels := map[string]string{"app": "web"}
	return &appsv1beta1.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: plan.Kind().GroupVersion().String(), Kind: plan.Kind().Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: "web", UID: "set"},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
			},
		},
	}
}

// ownPod is a pod of the set.
func ownPod(set *appsv1beta1.CloneSet, id string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name + "-" + id, UID: types.UID("uid-" + id), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, plan.Kind())},
		},
		Spec: set.Spec.Template.Spec,
	}
}

func (s *shell) pass() ctrl.Result {
	s.t.Helper()
	key := client.ObjectKeyFromObject(s.set)
	s.Remembered(s.set).Pace = pacing.Pace{}
	result, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		s.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// until reconciles until done says so.
func (s *shell) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(reconcilertest.Limit); !done(); {
		if time.Now().After(end) {
			s.t.Fatalf("not reached: %s", what)
		}
		s.pass()
	}
}

func (s *shell) pods() map[string]*corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := s.server.List(s.t.Context(), &list); err != nil {
		s.t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

func (s *shell) stored() *appsv1beta1.CloneSet {
	s.t.Helper()
	got := &appsv1beta1.CloneSet{}
	if err := s.server.Get(s.t.Context(), client.ObjectKeyFromObject(s.set), got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

func TestReconcileCreatesPodsAndRests(t *testing.T) {
	s := newShell(t, newSet(5))
	s.until("five pods and a status", func() bool { return len(s.pods()) == 5 && s.stored().Status.UpdateRevision != "" })
	for range 10 {
		s.pass()
	}
	before := len(s.server.Writes())
	for range 3 {
		s.pass()
	}
	if got := s.server.Writes()[before:]; len(got) > 0 {
		t.Errorf("writes at rest: %+v", got)
	}
	for name, pod := range s.pods() {
		if id := pod.Labels[shared.LabelInstanceID]; name != "web-"+id || len(id) != lengthOfID || !metav1.IsControlledBy(pod, s.set) {
			t.Errorf("pod %s has labels %v and owners %v", name, pod.Labels, pod.OwnerReferences)
		}
	}
}

func TestRefusedCreationKeepsItsName(t *testing.T) {
	s := newShell(t, newSet(1))
	names := map[string]int{}
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if _, pod := w.Object.(*corev1.Pod); pod && w.Verb == "create" {
			names[w.Object.GetName()]++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, w.Object.GetName(), fmt.Errorf("exceeded quota"))
		}
		return forward()
	})
	s.until("the creation was tried twice", func() bool {
		return len(names) > 1 || slices.ContainsFunc(slices.Collect(maps.Values(names)), func(n int) bool { return n > 1 })
	})
	if len(names) != 1 {
		t.Errorf("tried the names %v, want one alone", names)
	}
	s.until("the status says so", func() bool {
		return slices.ContainsFunc(s.stored().Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool {
			return c.Type == appsv1beta1.CloneSetFailedScale && strings.Contains(c.Message, "exceeded quota")
		})
	})
}

func TestFreshSlotsAreOfferedUntilTheyAreUsed(t *testing.T) {
	m := &memory{}
	draw := func(n int, pods ...podset.Pod) []planning.Slot {
		var slots []planning.Slot
		for slot := range m.freshSlots(pods) {
			if slots = append(slots, slot); len(slots) == n {
				break
			}
		}
		return slots
	}
	first := draw(3)
	if diff := cmp.Diff(first, draw(3)); diff != "" {
		t.Errorf("another offer (-first +second):\n%s", diff)
	}
	if got := draw(4, podset.Pod{Slot: first[1]}); got[0] != first[0] || got[1] != first[2] || slices.Contains(got, first[1]) {
		t.Errorf("with %s used the offer is %v, was %v", first[1], got, first)
	}
	if got := draw(4); slices.Contains(got, first[1]) {
		t.Errorf("%s is offered again: %v", first[1], got)
	}
}

func TestClaimsOfPodsThatLostTheirOwnerOrInstanceIDAreTaken(t *testing.T) {
	set := newSet(1)
	orphan := ownPod(set, "aaaaa", map[string]string{"app": "web", shared.LabelInstanceID: "aaaaa"})
	orphan.OwnerReferences = nil
	renamed := ownPod(set, "bbbbb", map[string]string{"app": "web", shared.LabelInstanceID: "other"})
	known := ownPod(set, "ccccc", map[string]string{"app": "web", shared.LabelInstanceID: "ccccc"})
	found := claimsByName{}
	for _, id := range []string{"aaaaa", "bbbbb", "ccccc", "ddddd"} {
		found["data-web-"+id] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-" + id, Labels: map[string]string{shared.LabelInstanceID: id}}}
	}
	s := newShell(t, set, orphan, renamed, known)
	pods := plan.Pods(plan.Parse(set, plan.Options{}), []*corev1.Pod{renamed, known}, nil, time.Now())
	taken, err := s.takenSlots(t.Context(), set, pods, found)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[planning.Slot]bool{"aaaaa": true, "bbbbb": true}, taken); diff != "" {
		t.Errorf("slots whose pods exist (-want +got):\n%s", diff)
	}
}

func TestReconcileReleasesPodsAndNeverAdopts(t *testing.T) {
	set := newSet(1)
	released := ownPod(set, "aaaaa", map[string]string{"app": "debugged", shared.LabelInstanceID: "aaaaa"})
	orphan := testutil.Pod("web-zzzzz").UID("z").Labels(map[string]string{"app": "web", shared.LabelInstanceID: "zzzzz"}).Obj()
	s := newShell(t, set, released, orphan)
	s.until("a replacement", func() bool { return len(s.pods()) == 3 })
	for name, pod := range s.pods() {
		want := name != released.Name && name != orphan.Name
		if got := metav1.IsControlledBy(pod, set); got != want {
			t.Errorf("pod %s is controlled: %v, want %v", name, got, want)
		}
	}
}

func TestReconcileOnlyReportsASetThatIsBeingDeleted(t *testing.T) {
	set := newSet(3)
	set.DeletionTimestamp, set.Finalizers = ptr.To(metav1.Unix(1e9, 0)), []string{metav1.FinalizerDeleteDependents}
	set.Spec.ScaleStrategy.PodsToDelete = []string{"web-gone"}
	stranger := ownPod(set, "aaaaa", map[string]string{"app": "debugged"})
	s := newShell(t, set, stranger)
	s.until("the status says so", func() bool { return len(s.stored().Status.Conditions) > 0 })
	for range 3 {
		s.pass()
	}
	for _, w := range s.server.Writes() {
		if w.Object.GetName() != "web" || w.Subresource != "status" {
			t.Errorf("wrote %s %s/%s", w.Verb, w.Object.GetName(), w.Subresource)
		}
	}
	if c, ok := conditions.Find(conditions.From(s.stored().Status.Conditions), "Reconciling"); !ok || c.Reason != appsv1beta1.ReasonDeleting {
		t.Errorf("Reconciling is %+v", c)
	}
}

func TestPodsToDeleteIsShortened(t *testing.T) {
	cases := map[string]struct {
		list, meanwhile, want []string
	}{
		"to nothing":           {list: []string{"web-gone"}},
		"to the pods left":     {list: []string{"web-gone", "web-aaaaa"}, want: []string{"web-aaaaa"}},
		"not at all":           {list: []string{"web-aaaaa"}, want: []string{"web-aaaaa"}},
		"not while it changes": {list: []string{"web-gone"}, meanwhile: []string{"web-gone", "web-bbbbb"}, want: []string{"web-gone", "web-bbbbb"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := newSet(1)
			set.Spec.ScaleStrategy.PodsToDelete = tc.list
			s := newShell(t, set)
			if tc.meanwhile != nil {
				now := s.stored()
				now.Spec.ScaleStrategy.PodsToDelete = tc.meanwhile
				if err := s.server.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			pods := []podset.Pod{{Object: ownPod(set, "aaaaa", nil)}}
			if err := s.prune(t.Context(), plan.Parse(set, plan.Options{}), pods); err != nil && tc.meanwhile == nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, s.stored().Spec.ScaleStrategy.PodsToDelete); diff != "" {
				t.Errorf("podsToDelete (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileForgetsASetThatIsGone(t *testing.T) {
	s := newShell(t, newSet(1))
	s.until("a pod", func() bool { return len(s.pods()) == 1 })
	before := s.Remembered(s.set)
	if before.Own == nil {
		t.Fatal("nothing is remembered of a set that exists")
	}
	if err := s.server.Delete(t.Context(), s.set); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if after := s.Remembered(s.set); after == before || after.Own != nil {
		t.Errorf("it is remembered: %v", after.Own)
	}
}

func TestOwnersOfClaim(t *testing.T) {
	set := newSet(1)
	member, stranger := ownPod(set, "aaaaa", nil), testutil.Pod("other").UID("other").Obj()
	s := newShell(t, set, member, stranger)
	claim := func(owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "data-web-aaaaa", OwnerReferences: owners}}
	}
	ofPod := func(pod *corev1.Pod) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	earlier := ofPod(member)
	earlier.UID = "earlier"
	for name, tc := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		"the set's":                      {claim(*metav1.NewControllerRef(set, plan.Kind())), "web"},
		"of a pod of the set":            {claim(ofPod(member)), "web"},
		"of an earlier pod of that name": {claim(earlier), ""},
		"of somebody else's pod":         {claim(ofPod(stranger)), ""},
		"of a pod that is gone":          {claim(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "gone", UID: "gone"}), ""},
		"nobody's":                       {claim(), ""},
	} {
		if got := names(s.ownersOfClaim(t.Context(), tc.claim)); got != tc.want {
			t.Errorf("%s enqueues %q, want %q", name, got, tc.want)
		}
	}
}

// names joins the names of the sets that are enqueued.
func names(sets []types.NamespacedName) string {
	var all []string
	for _, set := range sets {
		all = append(all, set.Name)
	}
	return strings.Join(all, ",")
}

func TestPodsThatWaitToBeCreatedAreAnnouncedOnce(t *testing.T) {
	set := newSet(3)
	set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	s := newShell(t, set)
	s.until("a pod", func() bool { return len(s.pods()) == 1 })
	for range 5 {
		s.pass()
	}
	told := 0
	for len(s.events.Events) > 0 {
		if strings.Contains(<-s.events.Events, "ScaleUpLimited") {
			told++
		}
	}
	if got := len(s.pods()); got != 1 || told != 1 {
		t.Errorf("%d pods and %d events, want one of each", got, told)
	}
}

// Where a webhook of others refused to change the owners of a claim, no pod was released that had left the set, whoever's the claim was.
func TestAPodIsReleasedAlthoughTheClaimOfAnotherIsRefused(t *testing.T) {
	set := newSet(1)
	labels := func(id string) map[string]string {
		return map[string]string{"app": "debugged", shared.LabelInstanceID: id}
	}
	kept, other := ownPod(set, "aaaaa", labels("aaaaa")), ownPod(set, "bbbbb", labels("bbbbb"))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: "data-web-aaaaa", UID: "claim-aaaaa", Labels: map[string]string{shared.LabelInstanceID: "aaaaa"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, plan.Kind())},
	}}
	s := newShell(t, set, kept, other, claim)
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == claim.Name {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, claim.Name, nil)
		}
		return forward()
	})
	pods := s.pods()
	changed, err := s.release(t.Context(), set, []client.Object{pods[kept.Name], pods[other.Name]}, map[string]*corev1.PersistentVolumeClaim{claim.Name: claim})
	if !changed || err == nil {
		t.Errorf("changed %v, error %v", changed, err)
	}
	pods = s.pods()
	if !metav1.IsControlledBy(pods[kept.Name], set) || metav1.IsControlledBy(pods[other.Name], set) {
		t.Errorf("owners %v and %v, want that the second pod alone is released", pods[kept.Name].OwnerReferences, pods[other.Name].OwnerReferences)
	}
}

// A claim of the set without a pod of the set would be deleted.
func TestClaimsAreReleasedBeforeTheirPod(t *testing.T) {
	for name, refuse := range map[string]bool{"both": false, "the claim is refused": true} {
		t.Run(name, func(t *testing.T) {
			set := newSet(1)
			stranger := ownPod(set, "aaaaa", map[string]string{"app": "debugged", shared.LabelInstanceID: "aaaaa"})
			claim := func(id string) *corev1.PersistentVolumeClaim {
				return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
					Namespace: set.Namespace, Name: "data-web-" + id, UID: types.UID("claim-" + id), Labels: map[string]string{shared.LabelInstanceID: id},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, plan.Kind())},
				}}
			}
			s := newShell(t, set, stranger, claim("aaaaa"), claim("bbbbb"))
			if refuse {
				s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
					if strings.HasPrefix(w.Object.GetName(), "data-") {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, w.Object.GetName(), nil)
					}
					return forward()
				})
			}
			claims := map[string]*corev1.PersistentVolumeClaim{}
			var list corev1.PersistentVolumeClaimList
			if err := s.server.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				claims[list.Items[i].Name] = &list.Items[i]
			}
			pod := s.pods()[stranger.Name]
			changed, err := s.release(t.Context(), set, []client.Object{pod}, claims)
			if changed == refuse || (err != nil) != refuse {
				t.Errorf("changed %v, error %v", changed, err)
			}
			if len(claims) != 1 || claims["data-web-bbbbb"] == nil {
				t.Errorf("the plan is about the claims %v, want that of the other pod alone", slices.Collect(maps.Keys(claims)))
			}
			if got := metav1.IsControlledBy(s.pods()[stranger.Name], set); got != refuse {
				t.Errorf("the pod is the set's: %v", got)
			}
			for id, want := range map[string]bool{"aaaaa": refuse, "bbbbb": true} {
				got := &corev1.PersistentVolumeClaim{}
				if err := s.server.Get(t.Context(), client.ObjectKeyFromObject(claim(id)), got); err != nil {
					t.Fatal(err)
				}
				if metav1.IsControlledBy(got, set) != want {
					t.Errorf("claim %s has the owners %v", got.Name, got.OwnerReferences)
				}
			}
		})
	}
}
