// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestCloneSetsKilledAnywhere kills the operator while two CloneSets of 50 pods are moved: one in place, one by new pods beside
// the old ones. The limits hold; in place every pod keeps its identity and restarts once; of new pods there are as many as needed.
func TestCloneSetsKilledAnywhere(t *testing.T) {
	const replicas = 50
	kills := sample.Number(4, 12)
	seed := int64(sample.Day())
	t.Logf("%s=%d", sample.DayVariable, seed)
	random := rand.New(rand.NewSource(seed))
	n := env.Namespace(t)

	cases := []struct {
		name    string
		rolling v1beta1.RollingUpdateCloneSetStrategy
		// created is how many pods the rollout may create, peak how many may be out of service at once.
		created, peak int
		kept          bool
	}{
		{
			name: "inplace", created: 0, peak: 2, kept: true,
			rolling: v1beta1.RollingUpdateCloneSetStrategy{PodUpdatePolicy: shared.InPlaceOnly, MaxUnavailable: ptr.To(intstr.FromInt32(2))},
		},
		{
			name: "surge", created: replicas, peak: 1,
			rolling: v1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: shared.RecreatePods, MaxUnavailable: ptr.To(intstr.FromInt32(1)), MaxSurge: ptr.To(intstr.FromString("5%")),
			},
		},
	}
	watchers, before := map[string]*limits.Watcher{}, map[string]map[types.UID]corev1.Pod{}
	for _, tc := range cases {
		set := cloneSet(n.Name, tc.name, replicas, tc.rolling)
		if err := n.Client.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		watchers[tc.name] = limits.WatchCloneSet(t, n.Client, set)
	}
	for _, tc := range cases {
		n.SettledCloneSet(tc.name)
		before[tc.name] = map[types.UID]corev1.Pod{}
		for _, p := range n.Pods("app=" + tc.name) {
			before[tc.name][p.UID] = p
		}
	}
	began := time.Now()
	for _, tc := range cases {
		n.ChangeCloneSet(tc.name, func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = scenario.V2 })
	}
	down := killAt(t, n, random, random.Perm(2*replicas - 1)[:kills], func(ctx context.Context) (int, error) {
		pods, err := n.ListPods(ctx)
		return moved(pods), err
	})
	for _, tc := range cases {
		set := n.SettledCloneSet(tc.name)
		pods := n.Pods("app=" + tc.name)
		checkMoved(t, set, pods)
		if tc.kept {
			checkKept(t, before[tc.name], pods)
		}
		verdict := watchers[tc.name].Verify()
		if verdict.Taken != replicas || verdict.Peak > tc.peak || verdict.Created != tc.created {
			t.Errorf("%s: %d pods were taken out of service, at most %d at once, and %d created; want %d, at most %d, and %d",
				tc.name, verdict.Taken, verdict.Peak, verdict.Created, replicas, tc.peak, tc.created)
		}
		t.Logf("measured: %s: %d pods taken out of service, at most %d at once, %d created", tc.name, verdict.Taken, verdict.Peak, verdict.Created)
	}
	t.Logf("measured: two CloneSets of 50 pods moved with %d kills in %.1f s, %.1f s of which the operator was starting",
		kills, time.Since(began).Seconds(), down.Seconds())
}

func cloneSet(namespace, name string, replicas int32, rolling v1beta1.RollingUpdateCloneSetStrategy) *v1beta1.CloneSet {
	labels := func() map[string]string { return map[string]string{"app": name} }
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(), Annotations: map[string]string{simnode.RestartDelay: "20ms"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					Containers:                    []corev1.Container{{Name: "main", Image: scenario.V1}},
				},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &rolling},
		},
	}
}

// checkMoved finds every pod at the update revision, and nothing of the update left on it.
func checkMoved(t *testing.T, set *v1beta1.CloneSet, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		fault := func() error {
			var faults []error
			if got := p.Spec.Containers[0].Image; got != scenario.V2 {
				faults = append(faults, fmt.Errorf("its image is %s", got))
			}
			if got := p.Labels[shared.LabelControllerRevisionHash]; got != set.Status.UpdateRevision {
				faults = append(faults, fmt.Errorf("its revision is %s", got))
			}
			if got := p.Labels[shared.LabelLifecycleState]; got != string(shared.StateNormal) {
				faults = append(faults, fmt.Errorf("its state is %q", got))
			}
			if !environment.IsReady(p) || !scenario.GateOpen(p) {
				faults = append(faults, fmt.Errorf("its conditions are %+v", p.Status.Conditions))
			}
			return errors.Join(faults...)
		}()
		if fault != nil {
			t.Errorf("pod %s: %v", p.Name, fault)
		}
	}
}

// checkKept finds the earlier pods, each restarted once.
func checkKept(t *testing.T, before map[types.UID]corev1.Pod, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		p := &pods[i]
		was, found := before[p.UID]
		if !found {
			t.Errorf("pod %s is new", p.Name)
			continue
		}
		restarts := p.Status.ContainerStatuses[0].RestartCount - was.Status.ContainerStatuses[0].RestartCount
		if restarts != 1 || p.Spec.NodeName != was.Spec.NodeName || p.Status.PodIP != was.Status.PodIP {
			t.Errorf("pod %s restarted %d times, moved from %s to %s", p.Name, restarts, was.Spec.NodeName, p.Spec.NodeName)
		}
	}
	if len(pods) != len(before) {
		t.Errorf("there are %d pods, were %d", len(pods), len(before))
	}
}
