// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// ownNodes adds nodes with the label crash, whose value is the name of the namespace, until the test ends.
func ownNodes(t *testing.T, n *environment.Namespace, count int) {
	t.Helper()
	for i := range count {
		name := fmt.Sprintf("%s-%d", n.Name, i)
		if err := env.Nodes.Add(t.Context(), name, map[string]string{"crash": n.Name}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Nodes.Remove(context.WithoutCancel(t.Context()), name); err != nil {
				t.Log(err)
			}
		})
	}
}

// lookout gathers what is ever seen of the pods of a DaemonSet.
type lookout struct {
	// uids are those of the pods by node.
	uids map[string]map[types.UID]bool
	// surging is the highest number of nodes at a time that had an old pod, and a new one that was not ready: what maxSurge limits.
	surging int
}

// look reads the pods of a set, and returns how many have the new image.
func (l *lookout) look(ctx context.Context, n *environment.Namespace, name string) (int, error) {
	pods, err := n.ListPods(ctx, "app="+name)
	if err != nil {
		return 0, err
	}
	starting, old := map[string]bool{}, map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		node := nodefit.NodeOf(pod)
		if l.uids[node] == nil {
			l.uids[node] = map[types.UID]bool{}
		}
		l.uids[node][pod.UID] = true
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Spec.Containers[0].Image == scenario.V1:
			old[node] = true
		case !environment.IsReady(pod):
			starting[node] = true
		}
	}
	surging := 0
	for node := range starting {
		if old[node] {
			surging++
		}
	}
	l.surging = max(l.surging, surging)
	return moved(pods), nil
}

// TestDaemonSetsKilledAnywhere kills the operator while two DaemonSets on 20 nodes are moved: one in place, one by a second pod on each node. In place every
// pod stays; else each node gets one new pod, and no more nodes wait for theirs beside the
// old one than maxSurge allows.
func TestDaemonSetsKilledAnywhere(t *testing.T) {
	const nodes, surge, killed = 20, 3, 10
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	n := env.Namespace(t)
	ownNodes(t, n, nodes)
	seen := map[string]*lookout{}
	for name, rolling := range map[string]v1beta1.RollingUpdateDaemonSet{
		"inplace": {Type: v1beta1.InplaceRollingUpdateType, MaxUnavailable: ptr.To(intstr.FromInt32(2))},
		"surge":   {MaxSurge: ptr.To(intstr.FromInt32(surge))},
	} {
		seen[name] = &lookout{uids: map[string]map[types.UID]bool{}}
		if err := n.Client.Create(t.Context(), daemonSet(n.Name, name, rolling)); err != nil {
			t.Fatal(err)
		}
	}
	settled := func(image string) {
		t.Helper()
		for name := range seen {
			n.EventuallyWithin(2*time.Minute, name+" is settled", func(ctx context.Context) error {
				at, err := seen[name].look(ctx, n, name)
				if err != nil {
					return err
				}
				set := &v1beta1.DaemonSet{}
				if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, set); err != nil {
					return err
				}
				s := set.Status
				if s.ObservedGeneration != set.Generation || s.UpdatedNumberScheduled != nodes || s.NumberAvailable != nodes || image == scenario.V2 && at != nodes {
					return fmt.Errorf("%d pods are moved, the status is %+v", at, s)
				}
				if pods, err := n.ListPods(ctx, "app="+name); err != nil || len(pods) != nodes {
					return fmt.Errorf("there are %d pods, %w", len(pods), err)
				}
				return nil
			})
		}
	}
	settled(scenario.V1)
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"`+scenario.V2+`"}]`))
	for name := range seen {
		if err := n.Client.Patch(t.Context(), &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	killAt(t, n, random, random.Perm(2*nodes - 4)[:killed], func(ctx context.Context) (int, error) {
		all := 0
		for name, at := range seen {
			count, err := at.look(ctx, n, name)
			if err != nil {
				return 0, err
			}
			all += count
		}
		return all, nil
	})
	settled(scenario.V2)
	for name, want := range map[string]int{"inplace": 1, "surge": 2} {
		if len(seen[name].uids) != nodes {
			t.Errorf("%s: pods were on %d nodes, want %d", name, len(seen[name].uids), nodes)
		}
		for node, uids := range seen[name].uids {
			if len(uids) != want {
				t.Errorf("%s: node %s had %d pods in all, want %d", name, node, len(uids), want)
			}
		}
	}
	if got := seen["surge"].surging; got > surge || got == 0 {
		t.Errorf("up to %d nodes waited for their second pod at a time, want at least one and at most %d", got, surge)
	}
	for _, pod := range n.Pods("app=inplace") {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 1 {
			t.Errorf("pod %s has restarted %d times, want once", pod.Name, restarts)
		}
	}
}

func daemonSet(namespace, name string, rolling v1beta1.RollingUpdateDaemonSet) *v1beta1.DaemonSet {
	labels := func() map[string]string { return map[string]string{"app": name} }
	return &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(), Annotations: map[string]string{simnode.RestartDelay: "20ms"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					NodeSelector:                  map[string]string{"crash": namespace},
					Containers:                    []corev1.Container{{Name: "main", Image: scenario.V1}},
				},
			},
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &rolling},
		},
	}
}
