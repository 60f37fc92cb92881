// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestCloneSetVictims scales in without names: unavailable pods go first, then the lowest
// deletion costs, then pods sharing a node.
func TestCloneSetVictims(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 7, limits.Rules{}, scenario.CloneLimits("100%", "0"), scenario.CloneTemplate(func(t *corev1.PodTemplateSpec) {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: t.Labels},
		}}
	}))
	s.Done()
	names := s.Names(scenario.Staying)
	broken, cheap, dear := names[2], names[4], names[0]
	s.Annotate("controller.kubernetes.io/pod-deletion-cost", "-5", scenario.Named(cheap))
	s.Annotate("controller.kubernetes.io/pod-deletion-cost", "100", scenario.Named(dear))
	s.Annotate(simnode.NotReady, "true", scenario.Named(broken))
	s.Observed("one is broken", func(is v1beta1.CloneSetStatus) error {
		if is.ReadyReplicas != 6 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
	s.Update(scenario.CloneReplicas(6))
	s.Rests("the broken one has gone", scenario.Number(6, "there", scenario.Staying), scenario.Number(0, "broken", scenario.Named(broken)))
	s.Update(scenario.CloneReplicas(5))
	s.Rests("the cheap one has gone", scenario.Number(5, "there", scenario.Staying), scenario.Number(0, "cheap", scenario.Named(cheap)))
	crowd := func() int {
		on := map[string]int{}
		for _, p := range s.All(scenario.Staying) {
			on[p.Spec.NodeName]++
		}
		return slices.Max(slices.Collect(maps.Values(on)))
	}
	s.Update(scenario.CloneReplicas(4))
	s.Rests("four are left, the dear one among them", scenario.Number(4, "there", scenario.Staying), scenario.Number(1, "dear", scenario.Named(dear)))
	if got := crowd(); got != 1 {
		t.Errorf("%d pods share a node, though only two of seven did", got)
	}
	s.Update(scenario.CloneReplicas(0))
	s.Rests("nobody is left", scenario.Number(0, "there", scenario.Staying))
}

// TestCloneSetNamedAndReplaced names pods without lowering replicas: they are replaced under maxUnavailable, and the list is emptied.
func TestCloneSetNamedAndReplaced(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 4, limits.Rules{})
	before := identitiesWhenDone(s)
	named := s.Names(scenario.Staying)[1:3]
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"scaleStrategy": map[string]any{"podsToDelete": named}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Kubectl("patch", "clone", "web", "--type=merge", "--patch", string(patch)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Await("both are replaced", scenario.Number(2, "new", newComers(before)), scenario.Number(4, "there", scenario.Staying))
	s.Observed("the list is empty again", func(v1beta1.CloneSetStatus) error { return listIsEmpty(s) })
	s.Done()
	if out, err := s.Kubectl("patch", "clone", "web", "--type=merge", "--patch", `{"spec":{"scaleStrategy":{"podsToDelete":["web-other"]}}}`); err == nil || !strings.Contains(out, "there is no such pod") {
		t.Errorf("naming a pod that is not there: %v\n%s", err, out)
	}
}

// TestCloneSetGrowthThatIsLimited has pods that never serve: the limit stops creating, not
// deleting.
func TestCloneSetGrowthThatIsLimited(t *testing.T) {
	t.Parallel()
	limit := func(set *v1beta1.CloneSet) { set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(2)) }
	s := scenario.StartClones(t, env, 4, limits.Rules{}, waitToServe, limit)
	s.Rests("two are created", scenario.Number(2, "there", scenario.Staying))
	before := s.Identities()
	s.Label(shared.LabelSpecifiedDelete, "true", scenario.Named(s.Names(scenario.Staying)[0]))
	s.Await("one of them is replaced", scenario.Number(1, "new", newComers(before)), scenario.Number(2, "there", scenario.Staying))
	for range 2 {
		s.Serve(scenario.Staying)
		s.Await("more are created", scenario.Number(4, "there", scenario.Staying))
	}
	s.Serve(scenario.Staying)
	s.Done()
}

// TestCloneSetClaims gives each pod its claim. They go with pods the set deletes; claims of
// pods others delete are kept if the set says so, for a pod of the same name.
func TestCloneSetClaims(t *testing.T) {
	t.Parallel()
	class := storageClass(t)
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("reuse %t", reuse), func(t *testing.T) {
			t.Parallel()
			s := scenario.StartClones(t, env, 3, limits.Rules{}, scenario.CloneClaims(class, "1Gi"), func(set *v1beta1.CloneSet) {
				set.Spec.ScaleStrategy.EnablePVCReuse = reuse
			})
			s.Done()
			before := claimsOf(t, s)
			s.Eventually("each pod has its claim", func(context.Context) error { return claimsFit(t, s) })

			lost := s.All(scenario.Staying)[0]
			claim := "data-" + lost.Name
			s.Delete(scenario.Named(lost.Name))
			s.Eventually("the pod is replaced and its claim "+map[bool]string{true: "kept", false: "gone"}[reuse], func(context.Context) error {
				now := claimsOf(t, s)
				again := s.Pod(lost.Name)
				if kept := now[claim] == before[claim]; kept != reuse {
					return fmt.Errorf("the claims were %v and are %v", before, now)
				}
				if same := again != nil && again.UID != lost.UID; same != reuse {
					return fmt.Errorf("the pod of the same name is %v", again)
				}
				return claimsFit(t, s)
			})
			s.Done()

			// In place nothing happens to claims; a replaced pod takes its claim along.
			kept := claimsOf(t, s)
			s.Update(scenario.CloneImage(scenario.V2))
			s.Done()
			if now := claimsOf(t, s); !maps.Equal(now, kept) {
				t.Errorf("an update in place changed the claims from %v to %v", kept, now)
			}
			s.Update(scenario.ClonePolicy(shared.RecreatePods), scenario.CloneImage(scenario.V3))
			s.Done()
			s.Eventually("all claims are new", func(context.Context) error {
				for name := range claimsOf(t, s) {
					if _, old := kept[name]; old {
						return fmt.Errorf("claim %s is still there", name)
					}
				}
				return claimsFit(t, s)
			})
			s.Update(scenario.CloneReplicas(1))
			s.Eventually("claims go with the pods", func(context.Context) error {
				if n := len(claimsOf(t, s)); n != 1 {
					return fmt.Errorf("there are %d", n)
				}
				return claimsFit(t, s)
			})
			deleteSet(t, s)
			s.Eventually("everything has gone", func(context.Context) error {
				if n, pods := len(claimsOf(t, s)), s.Pods(); n+len(pods) > 0 {
					return fmt.Errorf("there are %d claims and %d pods", n, len(pods))
				}
				return nil
			})
		})
	}
}

// claimsOf are the claims of a set by name.
func claimsOf(t *testing.T, s *scenario.Clones) map[string]types.UID {
	t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := s.Client.List(t.Context(), list, client.InNamespace(s.Name())); err != nil {
		t.Fatal(err)
	}
	all := map[string]types.UID{}
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].UID
	}
	return all
}

// claimsFit: there is exactly one claim for each pod, with its instance ID.
func claimsFit(t *testing.T, s *scenario.Clones) error {
	t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := s.Client.List(t.Context(), list, client.InNamespace(s.Name())); err != nil {
		return err
	}
	pods := s.Pods()
	if len(list.Items) != len(pods) {
		return fmt.Errorf("there are %d claims for %d pods", len(list.Items), len(pods))
	}
	for _, p := range pods {
		id := p.Labels[shared.LabelInstanceID]
		if p.Name != "web-"+id || !slices.ContainsFunc(list.Items, func(c corev1.PersistentVolumeClaim) bool {
			return c.Name == "data-"+p.Name && c.Labels[shared.LabelInstanceID] == id
		}) {
			return fmt.Errorf("pod %s with instance ID %q has no claim", p.Name, id)
		}
	}
	return nil
}
