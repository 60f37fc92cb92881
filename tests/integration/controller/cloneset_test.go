// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// clones is a test's view of the CloneSet web.
type clones struct {
	*environment.Namespace
	t *testing.T
}

// newClones creates the set and waits until it is settled. The changes are made before.
func newClones(t *testing.T, replicas int32, changes ...func(*v1beta1.CloneSet)) *clones {
	t.Helper()
	c := &clones{env.Namespace(t), t}
	set := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					Containers:                    []corev1.Container{{Name: "main", Image: "example/web:v1"}},
				},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: shared.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			}},
		},
	}
	for _, change := range changes {
		change(set)
	}
	if err := c.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the CloneSet: %v", err)
	}
	c.settled()
	return c
}

func (c *clones) set() *v1beta1.CloneSet {
	c.t.Helper()
	set := &v1beta1.CloneSet{}
	if err := c.Client.Get(c.t.Context(), types.NamespacedName{Namespace: c.Name, Name: "web"}, set); err != nil {
		c.t.Fatalf("reading the CloneSet: %v", err)
	}
	return set
}

// change reads the set, changes it and writes it back, again after a conflict.
func (c *clones) change(change func(*v1beta1.CloneSet)) {
	c.t.Helper()
	for {
		set := c.set()
		change(set)
		err := c.Client.Update(c.t.Context(), set)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatalf("updating the CloneSet: %v", err)
		}
	}
}

// settled waits until as many pods as wanted exist, all of them available at the update revision.
func (c *clones) settled() []corev1.Pod {
	c.t.Helper()
	var pods []corev1.Pod
	c.Eventually("the CloneSet is settled", func(ctx context.Context) error {
		set := c.set()
		s, replicas := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration != set.Generation || s.Replicas != replicas || s.UpdatedAvailableReplicas != replicas || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("the status is %+v", s)
		}
		var err error
		if pods, err = c.ListPods(ctx, "app=web"); err != nil {
			return err
		}
		if len(pods) != int(replicas) {
			return fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		return nil
	})
	return pods
}

// claims lists the claims of the namespace, by instance ID.
func (c *clones) claims(ctx context.Context) (map[string]corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.Name)); err != nil {
		return nil, err
	}
	byID := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		byID[claim.Labels[shared.LabelInstanceID]] = claim
	}
	return byID, nil
}

// events counts the events about the set, by reason.
func (c *clones) events() map[string]int {
	c.t.Helper()
	list := &eventsv1.EventList{}
	if err := c.Client.List(c.t.Context(), list, client.InNamespace(c.Name)); err != nil {
		c.t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range list.Items {
		if e.Regarding.Kind == "CloneSet" && e.Regarding.Name == "web" && e.ReportingController == "cloneset-controller" {
			count[e.Reason]++
		}
	}
	return count
}

func setImage(image string) func(*v1beta1.CloneSet) {
	return func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

// missing returns the names of pods whose UID is not among the others.
func missing(before, after []corev1.Pod) []string {
	var names []string
	for i := range before {
		if !slices.ContainsFunc(after, func(p corev1.Pod) bool { return p.UID == before[i].UID }) {
			names = append(names, before[i].Name)
		}
	}
	return names
}

func TestCloneSetCreatesPodsWithTwoWritesEachAndRests(t *testing.T) {
	log := openLog(t)
	c := newClones(t, 20)
	set := c.set()
	for _, pod := range c.settled() {
		id := pod.Labels[shared.LabelInstanceID]
		if len(id) != 5 || pod.Name != "web-"+id || controllerOf(&pod) != set.UID {
			t.Errorf("pod %s has the instance ID %q and the controller %q", pod.Name, id, controllerOf(&pod))
		}
		if pod.Labels[shared.LabelControllerRevisionHash] != set.Status.UpdateRevision || pod.Labels[shared.LabelLifecycleState] != "Normal" {
			t.Errorf("pod %s has the labels %v", pod.Name, pod.Labels)
		}
	}
	mine := func(e *auditv1.Event) bool {
		return audit.ByUser(operator.ServiceAccountUser)(e) && e.ObjectRef != nil && e.ObjectRef.Namespace == c.Name
	}
	requests, err := log.Next(mine)
	if err != nil {
		t.Fatal(err)
	}
	onPods := audit.Count(requests).Sum(func(r audit.Request) bool { return r.IsWrite() && strings.HasPrefix(r.Resource, "pods") })
	if onPods != 2*20 {
		t.Errorf("%d writes to 20 pods:\n%s", onPods, audit.Count(requests))
	}

	c.Eventually("the set rests", func(context.Context) error {
		requests, err := log.Next(mine)
		if err == nil && len(requests) > 0 {
			err = fmt.Errorf("%s", audit.Count(requests))
		}
		return err
	})
	c.Consistently(2*time.Second, "the set rests", func(context.Context) error {
		requests, err := log.Next(mine)
		if writes := audit.Count(requests).Writes(); err == nil && writes > 0 {
			err = fmt.Errorf("%d writes at rest: %s", writes, audit.Count(requests))
		}
		return err
	})
	if got := c.events()["SuccessfulCreate"]; got == 0 {
		t.Errorf("no event tells of a creation: %v", c.events())
	}
}

func TestCloneSetScalesInByTheNamesOfItsUser(t *testing.T) {
	c := newClones(t, 5)
	before := c.settled()
	victim := before[2].Name
	c.change(func(set *v1beta1.CloneSet) {
		set.Spec.Replicas = ptr.To[int32](4)
		set.Spec.ScaleStrategy.PodsToDelete = []string{victim}
	})
	c.Eventually("the list is done", func(context.Context) error {
		if left := c.set().Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
			return fmt.Errorf("podsToDelete is %v", left)
		}
		return nil
	})
	after := c.settled()
	if gone := missing(before, after); len(gone) != 1 || gone[0] != victim {
		t.Errorf("%v are gone, want %s alone", gone, victim)
	}

	// Without a smaller number a named pod is replaced.
	c.change(func(set *v1beta1.CloneSet) { set.Spec.ScaleStrategy.PodsToDelete = []string{after[0].Name} })
	c.Eventually("the list is done", func(context.Context) error {
		if left := c.set().Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
			return fmt.Errorf("podsToDelete is %v", left)
		}
		return nil
	})
	if gone := missing(after, c.settled()); len(gone) != 1 || gone[0] != after[0].Name {
		t.Errorf("%v are gone, want %s alone", gone, after[0].Name)
	}
}

func TestCloneSetReplacesPodsThatAreLabeledOneAtATime(t *testing.T) {
	c := newClones(t, 4)
	before := c.settled()
	watcher := limits.WatchCloneSet(t, c.Client, c.set())
	for _, pod := range before[:2] {
		c.PatchPod(pod.Name, `{"metadata":{"labels":{"apps.kruise.io/specified-delete":"true"}}}`)
	}
	c.Eventually("both are replaced", func(ctx context.Context) error {
		pods, err := c.ListPods(ctx, "app=web")
		if err != nil {
			return err
		}
		if gone := missing(before, pods); len(gone) != 2 {
			return fmt.Errorf("%v are gone", gone)
		}
		return nil
	})
	if gone := missing(before, c.settled()); !slices.Equal(gone, []string{before[0].Name, before[1].Name}) {
		t.Errorf("%v are gone, want the labeled ones", gone)
	}
	if verdict := watcher.Verify(); verdict.Taken != 2 || verdict.Peak != 1 {
		t.Errorf("%d pods were taken out of service, at most %d at once; want 2 and 1", verdict.Taken, verdict.Peak)
	}
}

func TestCloneSetUpdatesInPlace(t *testing.T) {
	c := newClones(t, 4)
	before := c.settled()
	old := c.set().Status.UpdateRevision
	c.change(func(set *v1beta1.CloneSet) {
		setImage("example/web:v2")(set)
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromString("50%"))
	})
	c.Eventually("half of the pods are updated", func(context.Context) error {
		if s := c.set().Status; s.UpdatedAvailableReplicas != 2 || s.ExpectedUpdatedReplicas != 2 || s.CurrentRevision != old || s.UpdateRevision == old {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	c.change(func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	after := c.settled()
	if gone := missing(before, after); len(gone) > 0 {
		t.Errorf("%v were replaced", gone)
	}
	for i := range after {
		if image := after[i].Spec.Containers[0].Image; image != "example/web:v2" {
			t.Errorf("pod %s runs %s", after[i].Name, image)
		}
	}
	if got := c.events(); got["SuccessfulUpdatePodInPlace"] == 0 {
		t.Errorf("no event tells of an update in place: %v", got)
	}
}

func TestCloneSetUpdatesWithASurge(t *testing.T) {
	c := newClones(t, 4, func(set *v1beta1.CloneSet) {
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		rolling.PodUpdatePolicy, rolling.MaxUnavailable, rolling.MaxSurge = shared.RecreatePods, ptr.To(intstr.FromInt32(0)), ptr.To(intstr.FromInt32(2))
	})
	before := c.settled()
	most, fewest := 0, len(before)
	c.change(setImage("example/web:v2"))
	c.Eventually("all pods are replaced", func(ctx context.Context) error {
		pods, err := c.ListPods(ctx, "app=web")
		if err != nil {
			return err
		}
		exist, serving := 0, 0
		for i := range pods {
			if pods[i].DeletionTimestamp == nil {
				exist++
				if environment.IsReady(&pods[i]) {
					serving++
				}
			}
		}
		most, fewest = max(most, exist), min(fewest, serving)
		if left := len(before) - len(missing(before, pods)); left > 0 || len(pods) != 4 {
			return fmt.Errorf("%d of the old pods are left of %d", left, len(pods))
		}
		return nil
	})
	c.settled()
	if most > 6 || fewest < 4 {
		t.Errorf("there were up to %d pods, and down to %d served; want at most 6 and at least 4", most, fewest)
	}
}

// withClaim gives every pod a claim of a class whose volumes are simulated.
func withClaim(t *testing.T, reuse bool) func(*v1beta1.CloneSet) {
	t.Helper()
	const class = "simulated"
	if err := env.Nodes.CreateStorageClass(t.Context(), class, storagev1.VolumeBindingWaitForFirstConsumer, false); err != nil {
		t.Fatal(err)
	}
	return func(set *v1beta1.CloneSet) {
		set.Spec.ScaleStrategy.EnablePVCReuse = reuse
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}
}

func TestCloneSetClaimsGoWithTheirPods(t *testing.T) {
	c := newClones(t, 3, withClaim(t, false))
	before := c.settled()
	claims, err := c.claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range before {
		id := pod.Labels[shared.LabelInstanceID]
		if claim := claims[id]; claim.Name != "data-web-"+id || controllerOf(&claim) != c.set().UID {
			t.Errorf("the claim of %s is %+v", pod.Name, claim.ObjectMeta)
		}
	}

	onlyOfPods := func(ctx context.Context) error {
		pods, err := c.ListPods(ctx, "app=web")
		if err != nil {
			return err
		}
		claims, err := c.claims(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if _, ok := claims[pod.Labels[shared.LabelInstanceID]]; !ok {
				return fmt.Errorf("pod %s has no claim", pod.Name)
			}
		}
		if len(claims) != len(pods) {
			return fmt.Errorf("%d claims of %d pods", len(claims), len(pods))
		}
		return nil
	}
	c.change(func(set *v1beta1.CloneSet) { set.Spec.Replicas = ptr.To[int32](2) })
	left := c.settled()
	c.Eventually("the claim of the pod that left is gone", onlyOfPods)

	if err := c.Client.Delete(t.Context(), &left[0]); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the pod is replaced", func(ctx context.Context) error {
		pods, err := c.ListPods(ctx, "app=web")
		if err == nil && (len(missing(left, pods)) != 1 || len(pods) != 2) {
			err = fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		return err
	})
	after := c.settled()
	if after[0].Name == left[0].Name || after[1].Name == left[0].Name {
		t.Errorf("the pods are %v; the ID of %s is used again", environment.Names(after), left[0].Name)
	}
	c.Eventually("the claim of the pod that somebody deleted is gone", onlyOfPods)
}

func TestCloneSetReusesTheClaimsOfPodsThatOthersDeleted(t *testing.T) {
	c := newClones(t, 2, withClaim(t, true))
	before := c.settled()
	claims, err := c.claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(t.Context(), &before[1]); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the pod is replaced under its name", func(context.Context) error {
		if pod := c.Pod(before[1].Name); pod == nil || pod.UID == before[1].UID {
			return errors.New("it is not")
		}
		return nil
	})
	c.settled()
	now, err := c.claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := before[1].Labels[shared.LabelInstanceID]
	if len(now) != 2 || now[id].UID != claims[id].UID {
		t.Errorf("the claims are %v", now)
	}
}

func TestCloneSetReleasesPodsAndNeverAdopts(t *testing.T) {
	c := newClones(t, 2, withClaim(t, false))
	before := c.settled()
	orphan := pod(c.Namespace, "web-zzzzz", map[string]string{"app": "web", shared.LabelInstanceID: "zzzzz"})
	if err := c.Client.Create(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}

	released := before[0]
	c.PatchPod(released.Name, `{"metadata":{"labels":{"app":"debugged"}}}`)
	c.Eventually("the pod is let go of and replaced", func(ctx context.Context) error {
		got := c.Pod(released.Name)
		if got == nil || got.UID != released.UID {
			t.Fatalf("the pod that was relabeled is %+v", got)
		}
		pods, err := c.ListPods(ctx, "app=web")
		if err == nil && (controllerOf(got) != "" || len(pods) != 3) {
			err = fmt.Errorf("its controller is %q, the others are %v", controllerOf(got), environment.Names(pods))
		}
		return err
	})
	c.Consistently(time.Second, "its claim stays, and the orphan stays one", func(ctx context.Context) error {
		claims, err := c.claims(ctx)
		if err != nil {
			return err
		}
		claim, ok := claims[released.Labels[shared.LabelInstanceID]]
		if !ok || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
			return fmt.Errorf("the claim is %+v", claim.ObjectMeta)
		}
		if got := c.Pod(orphan.Name); got == nil || got.UID != orphan.UID || controllerOf(got) != "" {
			return fmt.Errorf("the orphan is %+v", got)
		}
		return nil
	})
}

func TestCloneSetDeletionTakesEverything(t *testing.T) {
	c := newClones(t, 3, withClaim(t, true))
	if err := c.Client.Delete(t.Context(), c.set(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	gone := func(ctx context.Context) error {
		err := c.Client.Get(ctx, types.NamespacedName{Namespace: c.Name, Name: "web"}, &v1beta1.CloneSet{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the set is there: %w", err)
		}
		claims, err := c.claims(ctx)
		if err == nil && len(claims)+len(c.Pods())+len(revisions(t, c.Namespace)) > 0 {
			err = fmt.Errorf("there are %d claims, pods %v and %d revisions", len(claims), environment.Names(c.Pods()), len(revisions(t, c.Namespace)))
		}
		return err
	}
	c.Eventually("set, pods, claims and revisions are gone", gone)
	c.Consistently(time.Second, "nothing comes back", gone)
}

func TestCloneSetSpreadsScaleIn(t *testing.T) {
	c := newClones(t, 6, func(set *v1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(6))
		set.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	})
	before := map[string]int{}
	for _, pod := range c.settled() {
		before[pod.Spec.NodeName]++
	}
	c.change(func(set *v1beta1.CloneSet) { set.Spec.Replicas = ptr.To[int32](3) })
	after := map[string]int{}
	for _, pod := range c.settled() {
		after[pod.Spec.NodeName]++
	}
	most := 0
	for _, n := range after {
		most = max(most, n)
	}
	if want := (3 + len(before) - 1) / len(before); most > want {
		t.Errorf("of %v pods on nodes, %v are left; want no more than %d on one", before, after, want)
	}
}
