// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package scenario has the verbs of flows: a set to begin with, changes to its pods, and
// statements about the world to become true.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
)

// Name is the set's name, V1 to V3 are images of its only container, "main".
const (
	Name = "web"
	V1   = "example/web:v1"
	V2   = "example/web:v2"
	V3   = "example/web:v3"
)

// Quiet is how long a test looks on to see nothing happen.
const Quiet = 2 * time.Second

// ReadyFor is true if all pods have been ready for so long. Ask it when they count as
// available: however late the test looks, a pod counted too soon would have been ready for
// less.
func ReadyFor(pods []corev1.Pod, least time.Duration) error {
	now := time.Now()
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type != corev1.PodReady {
				continue
			}
			if since := now.Sub(c.LastTransitionTime.Time); c.Status != corev1.ConditionTrue || since < least {
				return fmt.Errorf("pod %s: Ready is %s for %s, want True for %s", pods[i].Name, c.Status, since, least)
			}
		}
	}
	return nil
}

// Scenario is one set in a namespace of its own.
type Scenario struct {
	*environment.Namespace
	// Limits watches the set from before its creation; the test fails when a limit is broken.
	Limits *limits.Watcher
	t      testing.TB
}

// Change changes a set for creation or update.
type Change = func(*v1beta1.StatefulSet)

// Start creates a Parallel set updated in place, one pod at a time, and returns at once.
func Start(t testing.TB, e *environment.Environment, replicas int32, rules limits.Rules, changes ...Change) *Scenario {
	t.Helper()
	s := &Scenario{Namespace: e.Namespace(t), t: t}
	s.Limits = limits.Watch(t, e.Client, s.Name(), Name, rules)
	t.Cleanup(func() { s.explain() })
	set := Set(replicas, changes...)
	set.Namespace = s.Name()
	if err := e.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the set: %v", err)
	}
	return s
}

// explain logs the status of the set when the test has failed.
func (s *Scenario) explain() {
	if !s.t.Failed() {
		return
	}
	set := &v1beta1.StatefulSet{}
	err := s.Client.Get(context.WithoutCancel(s.t.Context()), client.ObjectKey{Namespace: s.Name(), Name: Name}, set)
	if err != nil {
		s.t.Logf("reading the set of the failed test: %v", err)
		return
	}
	for _, c := range set.Status.Conditions {
		s.t.Logf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
}

// Name is the namespace.
func (s *Scenario) Name() string { return s.Namespace.Name }

// Set builds Start's set.
func Set(replicas int32, changes ...Change) *v1beta1.StatefulSet {
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: v1beta1.StatefulSetSpec{
			Replicas:            &replicas,
			Selector:            &metav1.LabelSelector{MatchLabels: labels()},
			ServiceName:         Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:            template(),
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateStatefulSetStrategy{
					PodUpdatePolicy: shared.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
				},
			},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

// labels are the pods', a new map for each user.
func labels() map[string]string { return map[string]string{"app": Name} }

// template is the pod of a set to begin with.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels()},
		Spec: corev1.PodSpec{
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}},
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers:                    []corev1.Container{{Name: "main", Image: V1}},
		},
	}
}

// MaxUnavailable sets rollingUpdate.maxUnavailable, a number or a percentage.
func MaxUnavailable(limit string) Change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.Parse(limit))
	}
}

// Partition sets rollingUpdate.partition.
func Partition(n int32) Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

// Image sets the image of the first container of the template.
func Image(image string) Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

// Replicas sets spec.replicas.
func Replicas(n int32) Change { return func(set *v1beta1.StatefulSet) { set.Spec.Replicas = &n } }

// Policy sets rollingUpdate.podUpdatePolicy.
func Policy(policy shared.PodUpdatePolicy) Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = policy }
}

// OrderedReady sets podManagementPolicy of a set not created yet.
func OrderedReady(set *v1beta1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
}

// Sim sets a template's annotation for the simulated nodes.
func Sim(key, value string) Change {
	return func(set *v1beta1.StatefulSet) {
		metav1.SetMetaDataAnnotation(&set.Spec.Template.ObjectMeta, key, value)
	}
}

// Held makes the containers of an update in place wait until the test lets them start: see Release.
func Held(set *v1beta1.StatefulSet) { Sim(simnode.RestartDelay, "never")(set) }

// Reserve sets reserveOrdinals, numbers and ranges.
func Reserve(ordinals ...string) Change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.ReserveOrdinals = nil
		for _, o := range ordinals {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.Parse(o))
		}
	}
}

// Claims sets volumeClaimTemplates: one template, named "data", of a storage class.
func Claims(class, size string) Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.VolumeClaimTemplates = claims(class, size) }
}

func claims(class, size string) []corev1.PersistentVolumeClaim {
	return []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}}
}

// Update changes the set.
func (s *Scenario) Update(changes ...Change) {
	s.t.Helper()
	s.Change(Name, func(set *v1beta1.StatefulSet) {
		for _, change := range changes {
			change(set)
		}
	})
}

// Set reads the set.
func (s *Scenario) Set() *v1beta1.StatefulSet { s.t.Helper(); return s.StatefulSet(Name) }

// Done waits until every pod is available at the update revision.
func (s *Scenario) Done() *v1beta1.StatefulSet { s.t.Helper(); return s.Settled(Name) }

// Revision waits until the status has seen the present spec, and returns the update revision.
func (s *Scenario) Revision() string {
	s.t.Helper()
	revision := ""
	s.Eventually("the set is observed", func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.Name(), Name: Name}, set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == "" {
			return fmt.Errorf("generation %d is not observed: %+v", set.Generation, set.Status)
		}
		revision = set.Status.UpdateRevision
		return nil
	})
	return revision
}

// Annotate sets an annotation of pods, by ordinal.
func (s *Scenario) Annotate(key, value string, ordinals ...int) {
	s.t.Helper()
	for _, o := range ordinals {
		s.PatchPod(pod(o), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
	}
}

// Unannotate removes an annotation of pods, by ordinal.
func (s *Scenario) Unannotate(key string, ordinals ...int) {
	s.t.Helper()
	for _, o := range ordinals {
		s.PatchPod(pod(o), fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key))
	}
}

// Label sets a label of pods, by ordinal.
func (s *Scenario) Label(key, value string, ordinals ...int) {
	s.t.Helper()
	for _, o := range ordinals {
		s.PatchPod(pod(o), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
	}
}

// Release lets the changed containers of held pods start.
func (s *Scenario) Release(ordinals ...int) {
	s.t.Helper()
	s.Annotate(simnode.RestartDelay, "0s", ordinals...)
}

// Delete deletes a pod as a user does.
func (s *Scenario) Delete(ordinal int) {
	s.t.Helper()
	found := s.Pod(pod(ordinal))
	if found == nil {
		return
	}
	s.Limits.Foreign(found.UID)
	if err := s.Client.Delete(s.t.Context(), found); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatalf("deleting pod %s: %v", found.Name, err)
	}
}

// Await waits until a statement about the pods, by ordinal, holds.
func (s *Scenario) Await(what string, check func(pods map[int]corev1.Pod) error) {
	s.t.Helper()
	s.Eventually(what, func(ctx context.Context) error {
		pods, err := s.byOrdinal(ctx)
		if err != nil {
			return err
		}
		return check(pods)
	})
}

// byOrdinal lists the pods.
func (s *Scenario) byOrdinal(ctx context.Context) (map[int]corev1.Pod, error) {
	list, err := s.ListPods(ctx, "app="+Name)
	if err != nil {
		return nil, err
	}
	pods := map[int]corev1.Pod{}
	for _, p := range list {
		var o int
		if _, err := fmt.Sscanf(strings.TrimPrefix(p.Name, Name+"-"), "%d", &o); err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		pods[o] = p
	}
	return pods, nil
}

// ByOrdinal lists the pods.
func (s *Scenario) ByOrdinal() map[int]corev1.Pod {
	s.t.Helper()
	pods, err := s.byOrdinal(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return pods
}

// AwaitUpdating waits until exactly these ordinals have the image and are out of service by the operator.
func (s *Scenario) AwaitUpdating(image string, ordinals ...int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("%v are being changed to %s", ordinals, image), func(pods map[int]corev1.Pod) error {
		return same("being changed", ordinals, pods, func(p *corev1.Pod) bool {
			return p.Spec.Containers[0].Image == image && !GateOpen(p)
		})
	})
}

// AwaitOrdinals waits until exactly these pods exist and none is going.
func (s *Scenario) AwaitOrdinals(ordinals ...int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("the pods are %v", ordinals), func(pods map[int]corev1.Pod) error {
		return errors.Join(
			same("existing", ordinals, pods, func(*corev1.Pod) bool { return true }),
			same("terminating", nil, pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }),
		)
	})
}

// AwaitReady waits until exactly these pods are ready.
func (s *Scenario) AwaitReady(ordinals ...int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("%v are ready", ordinals), func(pods map[int]corev1.Pod) error { return same("ready", ordinals, pods, environment.IsReady) })
}

// AwaitImage waits until exactly these pods have the image in their spec.
func (s *Scenario) AwaitImage(image string, ordinals ...int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("%v have %s", ordinals, image), func(pods map[int]corev1.Pod) error {
		return same("with "+image, ordinals, pods, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == image })
	})
}

// AwaitState waits until exactly these pods are in the lifecycle state.
func (s *Scenario) AwaitState(state shared.LifecycleState, ordinals ...int) {
	s.t.Helper()
	s.Await(fmt.Sprintf("%v are %s", ordinals, state), func(pods map[int]corev1.Pod) error {
		err := same(string(state), ordinals, pods, func(p *corev1.Pod) bool { return p.Labels[shared.LabelLifecycleState] == string(state) })
		if err != nil {
			for _, o := range slices.Sorted(maps.Keys(pods)) {
				p := pods[o]
				err = fmt.Errorf("%w; pod %d has labels %v and finalizers %v", err, o, p.Labels, p.Finalizers)
			}
		}
		return err
	})
}

// AwaitCondition waits until a condition of the set is there with the status, and returns it.
func (s *Scenario) AwaitCondition(kind appsv1.StatefulSetConditionType, status corev1.ConditionStatus) appsv1.StatefulSetCondition {
	s.t.Helper()
	var found appsv1.StatefulSetCondition
	s.Eventually(fmt.Sprintf("condition %s is %s", kind, status), func(context.Context) error {
		set := s.Set()
		for _, c := range set.Status.Conditions {
			if c.Type == kind && c.Status == status {
				found = c
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
	})
	return found
}

// Identity is kept by a change in place.
type Identity struct {
	UID      types.UID
	IP, Node string
	Restarts int32
}

// Identities are all pods', by name.
func (s *Scenario) Identities() map[string]Identity {
	s.t.Helper()
	return IdentitiesOf(s.Pods("app=" + Name))
}

// IdentitiesOf are the pods', by name.
func IdentitiesOf(pods []corev1.Pod) map[string]Identity {
	all := map[string]Identity{}
	for i := range pods {
		id := Identity{UID: pods[i].UID, IP: pods[i].Status.PodIP, Node: pods[i].Spec.NodeName}
		for _, c := range pods[i].Status.ContainerStatuses {
			id.Restarts += c.RestartCount
		}
		all[pods[i].Name] = id
	}
	return all
}

// Kept fails the test unless all pods are the same, with so many restarts since.
func (s *Scenario) Kept(before map[string]Identity, restarts int32) {
	s.t.Helper()
	CheckKept(s.t, before, s.Identities(), restarts)
}

// CheckKept fails the test unless all pods are the same, with so many restarts in between.
func CheckKept(t testing.TB, before, after map[string]Identity, restarts int32) {
	t.Helper()
	if len(before) != len(after) {
		t.Errorf("%d pods became %d", len(before), len(after))
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		want := before[name]
		want.Restarts += restarts
		if got := after[name]; got != want {
			t.Errorf("pod %s is %+v, want %+v", name, got, want)
		}
	}
}

// GateOpen is true if the operator lets the pod be ready.
func GateOpen(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == shared.GateInPlaceUpdateReady && c.Status == corev1.ConditionTrue
	})
}

// Claim reads a claim; nil when there is none.
func (s *Scenario) Claim(name string) *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.Name(), Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatalf("reading claim %s: %v", name, err)
	}
	return claim
}

// same compares the ordinals of a sort's pods with the wanted ones.
func same(what string, want []int, pods map[int]corev1.Pod, is func(*corev1.Pod) bool) error {
	var got []int
	for o, p := range pods {
		if is(&p) {
			got = append(got, o)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s are %v, want %v", what, got, want)
	}
	return nil
}

func pod(ordinal int) string { return fmt.Sprintf("%s-%d", Name, ordinal) }
