// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
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

func TestCloneSetCreatesPodsWithTwoWritesEachAndRests(t *testing.T) {
	t.Parallel()
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

// withClaim gives every pod a claim of a class with simulated volumes.
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

func TestCloneSetReleasesPodsAndNeverAdopts(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
