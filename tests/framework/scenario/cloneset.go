// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
)

// Clones is one CloneSet in a namespace of its own. Its pods have random names, so statements about them are about how many there are of
// a sort.
type Clones struct {
	*environment.Namespace
	// Limits watches the set from before its creation; the test fails when a limit is broken.
	Limits *limits.Watcher
	t      testing.TB
}

// CloneChange changes a CloneSet.
type CloneChange = func(*v1beta1.CloneSet)

// Rolling changes the rolling update of a CloneSet.
type Rolling = v1beta1.RollingUpdateCloneSetStrategy

// StartClones creates a set updated in place if possible, one pod at a time, and returns at
// once.
func StartClones(t testing.TB, e *environment.Environment, replicas int32, rules limits.Rules, changes ...CloneChange) *Clones {
	t.Helper()
	return StartClonesIn(t, e.Namespace(t), replicas, rules, changes...)
}

// StartClonesIn is StartClones in an existing namespace.
func StartClonesIn(t testing.TB, n *environment.Namespace, replicas int32, rules limits.Rules, changes ...CloneChange) *Clones {
	t.Helper()
	e := n.Environment
	c := &Clones{Namespace: n, t: t}
	c.Limits = limits.WatchCloneSetFlow(t, e.Client, c.Name(), Name, rules)
	t.Cleanup(func() { c.explain() })
	set := CloneSet(replicas, changes...)
	set.Namespace = c.Name()
	if err := e.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the CloneSet: %v", err)
	}
	return c
}

// CloneSet builds StartClones' set.
func CloneSet(replicas int32, changes ...CloneChange) *v1beta1.CloneSet {
	set := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: template(),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &Rolling{
				PodUpdatePolicy: shared.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			}},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

// CloneTemplate is a change of the template.
func CloneTemplate(change func(*corev1.PodTemplateSpec)) CloneChange {
	return func(set *v1beta1.CloneSet) { change(&set.Spec.Template) }
}

// CloneImage is a change of the first container.
func CloneImage(image string) CloneChange {
	return CloneTemplate(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = image })
}

// CloneSim is a change: an annotation of the template for the simulated nodes.
func CloneSim(key, value string) CloneChange {
	return CloneTemplate(func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value) })
}

// CloneReplicas is a change.
func CloneReplicas(n int32) CloneChange {
	return func(set *v1beta1.CloneSet) { set.Spec.Replicas = &n }
}

// CloneRolling is a change of the rolling update.
func CloneRolling(change func(*Rolling)) CloneChange {
	return func(set *v1beta1.CloneSet) { change(set.Spec.UpdateStrategy.RollingUpdate) }
}

// CloneLimits is a change of maxUnavailable and maxSurge: numbers or percentages.
func CloneLimits(maxUnavailable, maxSurge string) CloneChange {
	return CloneRolling(func(r *Rolling) {
		r.MaxUnavailable, r.MaxSurge = ptr.To(intstr.Parse(maxUnavailable)), ptr.To(intstr.Parse(maxSurge))
	})
}

// ClonePartition is a change: a number or a percentage.
func ClonePartition(partition string) CloneChange {
	return CloneRolling(func(r *Rolling) { r.Partition = ptr.To(intstr.Parse(partition)) })
}

// ClonePolicy is a change of podUpdatePolicy.
func ClonePolicy(policy shared.PodUpdatePolicy) CloneChange {
	return CloneRolling(func(r *Rolling) { r.PodUpdatePolicy = policy })
}

// ClonePaused is a change.
func ClonePaused(on bool) CloneChange { return CloneRolling(func(r *Rolling) { r.Paused = on }) }

// CloneClaims is a change: one claim template of a storage class, named "data".
func CloneClaims(class, size string) CloneChange {
	return func(set *v1beta1.CloneSet) { set.Spec.VolumeClaimTemplates = claims(class, size) }
}

// Name is the namespace.
func (c *Clones) Name() string { return c.Namespace.Name }

// explain shows the set and its pods after a failed test.
func (c *Clones) explain() {
	if !c.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(c.t.Context())
	set := &v1beta1.CloneSet{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Name(), Name: Name}, set); err != nil {
		c.t.Logf("reading the set of the failed test: %v", err)
	}
	for _, condition := range set.Status.Conditions {
		c.t.Logf("%s is %s: %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	set.Status.Conditions = nil
	c.t.Logf("the status is %+v", set.Status)
	pods, err := c.ListPods(ctx, "app="+Name)
	if err != nil {
		c.t.Log(err)
	}
	for i := range pods {
		p := &pods[i]
		c.t.Logf("pod %s: image %s, ready %t, gate open %t, going %t, labels %v, annotations %v, finalizers %v", p.Name, p.Spec.Containers[0].Image,
			environment.IsReady(p), GateOpen(p), p.DeletionTimestamp != nil, p.Labels, p.Annotations, p.Finalizers)
	}
}

// Set reads the set.
func (c *Clones) Set() *v1beta1.CloneSet { c.t.Helper(); return c.CloneSet(Name) }

// Update changes the set.
func (c *Clones) Update(changes ...CloneChange) {
	c.t.Helper()
	c.ChangeCloneSet(Name, func(set *v1beta1.CloneSet) {
		for _, change := range changes {
			change(set)
		}
	})
}

// Done waits until every pod is available at the update revision.
func (c *Clones) Done() *v1beta1.CloneSet { c.t.Helper(); return c.SettledCloneSet(Name) }

// Observed waits until the status is about the present spec and the statement holds of it.
func (c *Clones) Observed(what string, check func(v1beta1.CloneSetStatus) error) *v1beta1.CloneSet {
	c.t.Helper()
	var set *v1beta1.CloneSet
	c.Eventually(what, func(ctx context.Context) error {
		set = &v1beta1.CloneSet{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Name(), Name: Name}, set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == "" {
			return fmt.Errorf("generation %d is not observed: %+v", set.Generation, set.Status)
		}
		return check(set.Status)
	})
	return set
}

// AwaitCondition waits until a condition of the set is there with the status and the reason; any reason when it is empty.
func (c *Clones) AwaitCondition(kind v1beta1.CloneSetConditionType, status corev1.ConditionStatus, reason string) v1beta1.CloneSetCondition {
	c.t.Helper()
	var found v1beta1.CloneSetCondition
	c.Observed(fmt.Sprintf("condition %s is %s %s", kind, status, reason), func(s v1beta1.CloneSetStatus) error {
		for _, condition := range s.Conditions {
			if condition.Type == kind && condition.Status == status && (reason == "" || condition.Reason == reason) {
				found = condition
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", s.Conditions)
	})
	return found
}

// Sort is a kind of pods.
type Sort = func(*corev1.Pod) bool

// Of is the sort of pods of all these sorts.
func Of(sorts ...Sort) Sort {
	return func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(sorts, func(is Sort) bool { return !is(p) })
	}
}

// Not is the sort of pods not of this one.
func Not(is Sort) Sort { return func(p *corev1.Pod) bool { return !is(p) } }

// Staying is the sort of pods nobody has deleted.
func Staying(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }

// WithImage is the sort of staying pods with the image in their first container's spec.
func WithImage(image string) Sort {
	return func(p *corev1.Pod) bool { return Staying(p) && p.Spec.Containers[0].Image == image }
}

// InState is the sort of pods in a lifecycle state.
func InState(state shared.LifecycleState) Sort {
	return func(p *corev1.Pod) bool { return p.Labels[shared.LabelLifecycleState] == string(state) }
}

// Named is the sort of pods with these names.
func Named(names ...string) Sort {
	return func(p *corev1.Pod) bool { return slices.Contains(names, p.Name) }
}

// Edited is the sort of pods just being changed to an image in place.
func Edited(image string) Sort { return Of(WithImage(image), Not(GateOpen)) }

// Number is a statement: so many pods are of a sort.
func Number(want int, what string, is Sort) func([]corev1.Pod) error {
	return func(pods []corev1.Pod) error {
		if got := pick(pods, is); len(got) != want {
			return fmt.Errorf("%d of %d pods are %s, want %d: %v", len(got), len(pods), what, want, environment.Names(got))
		}
		return nil
	}
}

// All is a statement: all of these hold.
func All(checks ...func([]corev1.Pod) error) func([]corev1.Pod) error {
	return func(pods []corev1.Pod) error {
		var faults []error
		for _, check := range checks {
			faults = append(faults, check(pods))
		}
		return errors.Join(faults...)
	}
}

func pick(pods []corev1.Pod, is Sort) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !is(&p) })
}

// Await waits until the statements about the pods hold at the same time.
func (c *Clones) Await(what string, checks ...func([]corev1.Pod) error) {
	c.t.Helper()
	c.Eventually(what, c.check(checks))
}

func (c *Clones) check(checks []func([]corev1.Pod) error) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := c.ListPods(ctx, "app="+Name)
		if err != nil {
			return err
		}
		return All(checks...)(pods)
	}
}

// Rests waits until the statements hold, and fails the test if they stop within the
// following look.
func (c *Clones) Rests(what string, checks ...func([]corev1.Pod) error) {
	c.t.Helper()
	c.Await(what, checks...)
	c.Consistently(Quiet, what, c.check(checks))
}

// All are the pods of a sort, by name.
func (c *Clones) All(is Sort) []corev1.Pod { c.t.Helper(); return pick(c.Pods("app="+Name), is) }

// Names are the names of a sort's pods, in order.
func (c *Clones) Names(is Sort) []string { c.t.Helper(); return environment.Names(c.All(is)) }

// Annotate sets an annotation of the pods of a sort.
func (c *Clones) Annotate(key, value string, is Sort) {
	c.t.Helper()
	c.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value), is)
}

// Unannotate removes an annotation of the pods of a sort.
func (c *Clones) Unannotate(key string, is Sort) {
	c.t.Helper()
	c.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key), is)
}

// Label sets a label of the pods of a sort.
func (c *Clones) Label(key, value string, is Sort) {
	c.t.Helper()
	c.patch(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value), is)
}

// patch skips missing pods.
func (c *Clones) patch(patch string, is Sort) {
	c.t.Helper()
	for _, p := range c.All(is) {
		err := c.Client.Patch(c.t.Context(), &p, client.RawPatch("application/merge-patch+json", []byte(patch)))
		if err != nil && !apierrors.IsNotFound(err) {
			c.t.Fatalf("patching pod %s: %v", p.Name, err)
		}
	}
}

// Release lets the changed containers of held pods start.
func (c *Clones) Release(is Sort) { c.t.Helper(); c.Annotate(simnode.RestartDelay, "0s", is) }

// Serve lets waiting pods become ready.
func (c *Clones) Serve(is Sort) { c.t.Helper(); c.Annotate(simnode.ReadyDelay, "0s", is) }

// Delete deletes the pods of a sort as a user does.
func (c *Clones) Delete(is Sort) {
	c.t.Helper()
	for _, p := range c.All(is) {
		c.Limits.Foreign(p.UID)
		if err := c.Client.Delete(c.t.Context(), &p); err != nil && !apierrors.IsNotFound(err) {
			c.t.Fatalf("deleting pod %s: %v", p.Name, err)
		}
	}
}

// Identities are the staying pods', by name.
func (c *Clones) Identities() map[string]Identity { c.t.Helper(); return IdentitiesOf(c.All(Staying)) }

// Kept fails the test unless all pods are the same, with so many restarts since.
func (c *Clones) Kept(before map[string]Identity, restarts int32) {
	c.t.Helper()
	CheckKept(c.t, before, c.Identities(), restarts)
}
