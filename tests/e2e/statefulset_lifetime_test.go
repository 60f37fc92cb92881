// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestSetIsDeleted deletes a set in the middle of a rollout.
func TestSetIsDeleted(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	s := scenario.Start(t, env, 4, limits.Rules{}, scenario.Held, scenario.MaxUnavailable("2"), scenario.Claims(class, "1Gi"),
		retention(appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	s.Done()
	s.Update(scenario.Image(scenario.V2))
	s.AwaitUpdating(scenario.V2, 2, 3)
	if err := s.Client.Delete(t.Context(), s.Set(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.AwaitOrdinals()
	s.Eventually("set, claims and revisions are gone", func(ctx context.Context) error {
		for _, list := range []client.ObjectList{&v1beta1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.ControllerRevisionList{}} {
			if err := s.Client.List(ctx, list, client.InNamespace(s.Name())); err != nil {
				return err
			}
			if n := metaLen(list); n > 0 {
				return fmt.Errorf("%T has %d", list, n)
			}
		}
		return nil
	})
}

// TestOrphans leaves the pods of a deleted set, and a new set adopts them without touching them.
func TestOrphans(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{})
	s.Done()
	before := s.Identities()
	old := s.Set()
	if err := s.Client.Delete(t.Context(), old, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the set is gone", func(ctx context.Context) error {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(old), &v1beta1.StatefulSet{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", errors.Join(err, errors.New("found")))
		}
		return nil
	})
	again := scenario.Set(3)
	again.Namespace = s.Name()
	if err := s.Client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	s.Done()
	s.Kept(before, 0)
	s.Update(scenario.Image(scenario.V2))
	s.Done()
	s.Kept(before, 1)
}

func TestClaimPolicies(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for name, tc := range map[string]struct {
		deleted, scaled         appsv1.PersistentVolumeClaimRetentionPolicyType
		afterScale, afterDelete []string
	}{
		"keep keep": {keep, keep, []string{"data-web-0", "data-web-1"}, []string{"data-web-0", "data-web-1"}},
		"drop keep": {drop, keep, []string{"data-web-0", "data-web-1"}, nil},
		"keep drop": {keep, drop, []string{"data-web-0"}, []string{"data-web-0"}},
		"drop drop": {drop, drop, []string{"data-web-0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario.Start(t, env, 2, limits.Rules{}, scenario.Claims(class, "1Gi"), retention(tc.deleted, tc.scaled))
			s.Done()
			// A lost pod keeps its claim.
			claim, before := s.Claim("data-web-1"), s.ByOrdinal()
			s.Delete(1)
			s.Await("pod 1 is replaced", replaced(before, 1))
			s.Done()
			if now := s.Claim("data-web-1"); now == nil || now.UID != claim.UID || now.DeletionTimestamp != nil {
				t.Errorf("the claim of a lost pod is %+v", now)
			}
			claims := func(want []string) func(context.Context) error {
				return func(ctx context.Context) error {
					list := &corev1.PersistentVolumeClaimList{}
					if err := s.Client.List(ctx, list, client.InNamespace(s.Name())); err != nil {
						return err
					}
					var got []string
					for i := range list.Items {
						got = append(got, list.Items[i].Name)
					}
					slices.Sort(got)
					if !slices.Equal(got, want) {
						return fmt.Errorf("the claims are %v, want %v", got, want)
					}
					return nil
				}
			}
			s.Update(scenario.Replicas(1))
			s.AwaitOrdinals(0)
			s.Eventually("claims after scaling in", claims(tc.afterScale))
			s.Consistently(scenario.Quiet, "claims after scaling in", claims(tc.afterScale))
			if err := s.Client.Delete(t.Context(), s.Set()); err != nil {
				t.Fatal(err)
			}
			s.AwaitOrdinals()
			s.Eventually("claims after deleting", claims(tc.afterDelete))
			s.Consistently(scenario.Quiet, "claims after deleting", claims(tc.afterDelete))
		})
	}
}

// TestNodeDown loses a node: its pods count as unavailable, and the rollout continues with
// the rest of the limit. It does not run beside other tests with pods on the node.
func TestNodeDown(t *testing.T) {
	const replicas = 6
	s := scenario.Start(t, env, replicas, limits.Rules{}, scenario.MaxUnavailable("3"), scenario.Sim(simnode.RestartDelay, "30ms"), func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: set.Spec.Selector,
		}}
	})
	s.Done()
	before := s.Identities()
	pods := s.ByOrdinal()
	node := pods[0].Spec.NodeName
	var lost, others []int
	for o, p := range pods {
		if p.Spec.NodeName == node {
			lost = append(lost, o)
		} else {
			others = append(others, o)
		}
	}
	if len(lost) != 1 {
		t.Fatalf("%d pods are on %s", len(lost), node)
	}
	if err := env.Nodes.SetDown(t.Context(), node, true); err != nil {
		t.Fatal(err)
	}
	up := func() error { return env.Nodes.SetDown(context.WithoutCancel(t.Context()), node, false) }
	t.Cleanup(func() {
		if err := up(); err != nil {
			t.Error(err)
		}
	})
	s.AwaitReady(others...)
	s.Eventually("the set knows", func(context.Context) error {
		if got := s.Set().Status.ReadyReplicas; got != int32(len(others)) {
			return fmt.Errorf("%d pods are ready", got)
		}
		return nil
	})
	s.Update(scenario.Image(scenario.V2))
	s.AwaitImage(scenario.V2, upTo(replicas)...)
	s.AwaitReady(others...)
	if err := up(); err != nil {
		t.Fatal(err)
	}
	s.Done()
	s.Kept(before, 1)
}

func metaLen(list client.ObjectList) int {
	switch l := list.(type) {
	case *v1beta1.StatefulSetList:
		return len(l.Items)
	case *corev1.PersistentVolumeClaimList:
		return len(l.Items)
	case *appsv1.ControllerRevisionList:
		return len(l.Items)
	}
	return -1
}
