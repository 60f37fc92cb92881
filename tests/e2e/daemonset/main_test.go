// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package daemonset_test has the flows of DaemonSets on its own cluster: other tests would
// feel the changes of nodes. The tests run in sequence.
package daemonset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

// nodes is how many nodes every test begins and ends with: node-0 and so on.
const nodes = 4

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Nodes:    &simnode.Options{Nodes: nodes, NodeName: func(i int) string { return fmt.Sprintf("node-%d", i) }},
		Operator: operator.Options{Args: []string{"--feature-gates=ResourcesDeletionProtection=true"}},
	}, func(e *environment.Environment) { env = e })
}

// name is the set's, and its pods' label app.
const name = "agent"

// daemons is a namespace with one DaemonSet.
type daemons struct {
	*environment.Namespace
	t *testing.T
}

type change = func(*v1beta1.DaemonSet)

// start creates a set.
func start(t *testing.T, changes ...change) *daemons {
	t.Helper()
	d := &daemons{env.Namespace(t), t}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Name, Name: name},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					Containers:                    []corev1.Container{{Name: "main", Image: scenario.V1}},
				},
			},
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateDaemonSet{}},
		},
	}
	for _, change := range changes {
		change(set)
	}
	if err := d.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return d
}

func inPlace(set *v1beta1.DaemonSet) {
	set.Spec.UpdateStrategy.RollingUpdate.Type = v1beta1.InplaceRollingUpdateType
}

func image(to string) change {
	return func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = to }
}

func sim(key, value string) change {
	return func(set *v1beta1.DaemonSet) {
		metav1.SetMetaDataAnnotation(&set.Spec.Template.ObjectMeta, key, value)
	}
}

func partition(n int) change {
	return func(set *v1beta1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt(n))
	}
}

// surge replaces maxUnavailable.
func surge(n int) change {
	return func(set *v1beta1.DaemonSet) {
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		rolling.MaxUnavailable, rolling.MaxSurge = nil, ptr.To(intstr.FromInt(n))
	}
}

func (d *daemons) set() *v1beta1.DaemonSet {
	d.t.Helper()
	set := &v1beta1.DaemonSet{}
	if err := d.Client.Get(d.t.Context(), d.key(), set); err != nil {
		d.t.Fatal(err)
	}
	return set
}

func (d *daemons) key() types.NamespacedName {
	return types.NamespacedName{Namespace: d.Name, Name: name}
}

// update changes the set, as often as somebody else is faster.
func (d *daemons) update(changes ...change) {
	d.t.Helper()
	d.Eventually("the set is changed", func(ctx context.Context) error {
		set := &v1beta1.DaemonSet{}
		if err := d.Client.Get(ctx, d.key(), set); err != nil {
			return err
		}
		for _, change := range changes {
			change(set)
		}
		return d.Client.Update(ctx, set)
	})
}

// settled waits until as many nodes have an available pod of the present template, and no other pods are left.
func (d *daemons) settled(want int) *v1beta1.DaemonSet {
	d.t.Helper()
	var set *v1beta1.DaemonSet
	d.EventuallyWithin(2*time.Minute, fmt.Sprintf("%d nodes are settled", want), func(ctx context.Context) error {
		set = &v1beta1.DaemonSet{}
		if err := d.Client.Get(ctx, d.key(), set); err != nil {
			return err
		}
		s, n := set.Status, int32(want)
		if s.ObservedGeneration != set.Generation || s.DesiredNumberScheduled != n || s.UpdatedNumberScheduled != n || s.NumberAvailable != n ||
			s.NumberMisscheduled != 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		pods, err := d.ListPods(ctx)
		if err != nil {
			return err
		}
		if len(pods) != want {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
	return set
}

// byNode are the nodes of a sort's pods, sorted and with spaces between.
func byNode(pods []corev1.Pod, is func(*corev1.Pod) bool) string {
	var found []string
	for i := range pods {
		if pods[i].DeletionTimestamp == nil && is(&pods[i]) {
			found = append(found, nodefit.NodeOf(&pods[i]))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

func withImage(to string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == to }
}

// await waits until the nodes of the pods of a sort are these.
func (d *daemons) await(what, want string, is func(*corev1.Pod) bool) {
	d.t.Helper()
	d.Eventually(what, func(ctx context.Context) error {
		pods, err := d.ListPods(ctx)
		if err != nil {
			return err
		}
		if got := byNode(pods, is); got != want {
			return fmt.Errorf("they are on %q, want %q", got, want)
		}
		return nil
	})
}

// rests looks on for a moment: the nodes of the pods of a sort stay these.
func (d *daemons) rests(what, want string, is func(*corev1.Pod) bool) {
	d.t.Helper()
	d.await(what, want, is)
	d.Consistently(time.Second, what, func(ctx context.Context) error {
		pods, err := d.ListPods(ctx)
		if err != nil {
			return err
		}
		if got := byNode(pods, is); got != want {
			return fmt.Errorf("they are on %q, want %q", got, want)
		}
		return nil
	})
}

// awaitCondition waits until a condition has a status and a reason.
func (d *daemons) awaitCondition(kind v1beta1.DaemonSetConditionType, status corev1.ConditionStatus, reason string) v1beta1.DaemonSetCondition {
	d.t.Helper()
	var found v1beta1.DaemonSetCondition
	d.Eventually(fmt.Sprintf("%s is %s for %s", kind, status, reason), func(ctx context.Context) error {
		set := &v1beta1.DaemonSet{}
		if err := d.Client.Get(ctx, d.key(), set); err != nil {
			return err
		}
		for _, c := range set.Status.Conditions {
			if found = c; c.Type == kind && c.Status == status && c.Reason == reason && set.Status.ObservedGeneration == set.Generation {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
	})
	return found
}

// identities are UID and restarts of the pods by node.
func (d *daemons) identities() map[string]string {
	d.t.Helper()
	found := map[string]string{}
	for _, pod := range d.Pods() {
		found[pod.Spec.NodeName] = string(pod.UID)
	}
	return found
}

// changeNode patches a node; its state before comes back at the end of the test.
func changeNode(t *testing.T, node, patch, back string) {
	t.Helper()
	send := func(ctx context.Context, body string) error {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return client.IgnoreNotFound(env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(body))))
	}
	if err := send(t.Context(), patch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := send(context.WithoutCancel(t.Context()), back); err != nil {
			t.Error(err)
		}
	})
}

const revisionLabel = shared.LabelControllerRevisionHash
