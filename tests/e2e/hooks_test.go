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

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

const hook = "example.io/hook"

// handler is one of the two ways in which a hook finds its pods.
type handler struct {
	name string
	hook func() *shared.LifecycleHook
	// template puts the hook on new pods.
	template func(*corev1.PodTemplateSpec)
	// set and clear put the hook on a pod and take it away.
	set, clear func(*corev1.Pod)
}

func handlers() []handler { return []handler{finalizer(), label()} }

func finalizer() handler {
	return handler{
		name: "finalizer",
		hook: func() *shared.LifecycleHook {
			return &shared.LifecycleHook{FinalizersHandler: []string{hook}, MarkPodNotReady: true}
		},
		template: func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{hook} },
		set: func(p *corev1.Pod) {
			if !slices.Contains(p.Finalizers, hook) {
				p.Finalizers = append(p.Finalizers, hook)
			}
		},
		clear: func(p *corev1.Pod) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == hook })
		},
	}
}

func label() handler {
	return handler{
		name: "label",
		hook: func() *shared.LifecycleHook {
			return &shared.LifecycleHook{LabelsHandler: map[string]string{hook: "true"}}
		},
		template: func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataLabel(&t.ObjectMeta, hook, "true") },
		set:      func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, hook, "true") },
		clear:    func(p *corev1.Pod) { delete(p.Labels, hook) },
	}
}

// forHandlers runs a test for both kinds of handlers.
func forHandlers(t *testing.T, test func(*testing.T, handler)) {
	for _, h := range handlers() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// edit changes pods by their ordinals.
func edit(t *testing.T, s *scenario.Scenario, change func(*corev1.Pod), ordinals ...int) {
	t.Helper()
	for _, o := range ordinals {
		editPod(t, s.Namespace, change, fmt.Sprintf("web-%d", o))
	}
}

// editPod changes a pod, again after a conflict. One that is gone is left out.
func editPod(t *testing.T, n *environment.Namespace, change func(*corev1.Pod), name string) {
	t.Helper()
	for {
		p := n.Pod(name)
		if p == nil {
			return
		}
		change(p)
		err := n.Client.Update(t.Context(), p)
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatalf("changing pod %s: %v", name, err)
		}
	}
}

// template is a change of a set's template.
func template(change func(*corev1.PodTemplateSpec)) scenario.Change {
	return func(set *v1beta1.StatefulSet) { change(&set.Spec.Template) }
}

func lifecycle(change func(*shared.Lifecycle)) scenario.Change {
	return func(set *v1beta1.StatefulSet) {
		if set.Spec.Lifecycle == nil {
			set.Spec.Lifecycle = &shared.Lifecycle{}
		}
		change(set.Spec.Lifecycle)
	}
}

func TestPreDelete(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		for _, policy := range []appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement} {
			t.Run(string(policy[:1]), func(t *testing.T) {
				t.Parallel()
				s := scenario.Start(t, env, 4, limits.Rules{Regret: true}, template(h.template), lifecycle(func(l *shared.Lifecycle) { l.PreDelete = h.hook() }),
					func(set *v1beta1.StatefulSet) { set.Spec.PodManagementPolicy = policy })
				s.Done()
				before := s.ByOrdinal()

				// Scaled in: the pods wait at the hook. Both with Parallel, one after the other in order.
				s.Update(scenario.Replicas(2))
				waiting := []int{2, 3}
				if policy == appsv1.OrderedReadyPodManagement {
					waiting = []int{3}
				}
				s.AwaitState(shared.StatePreparingDelete, waiting...)
				s.AwaitReady(serving(h, 4, waiting)...)
				stays(t, s, "they wait", kept(before, upTo(4)...))

				// Regretted: they go back.
				s.Update(scenario.Replicas(4))
				s.AwaitState(shared.StatePreparingDelete)
				s.AwaitReady(upTo(4)...)
				s.Await("nobody was replaced", kept(before, upTo(4)...))

				// Released: they go.
				s.Update(scenario.Replicas(2))
				s.AwaitState(shared.StatePreparingDelete, waiting...)
				edit(t, s, h.clear, waiting...)
				if policy == appsv1.OrderedReadyPodManagement {
					s.AwaitState(shared.StatePreparingDelete, 2)
					edit(t, s, h.clear, 2)
				}
				s.AwaitOrdinals(0, 1)

				// A pod that its user wants replaced waits, too.
				s.Label(shared.LabelSpecifiedDelete, "true", 0)
				s.AwaitState(shared.StatePreparingDelete, 0)
				edit(t, s, h.clear, 0)
				s.Await("pod 0 is replaced", replaced(before, 0))
				s.AwaitReady(0, 1)

				// The set is deleted: nobody waits for the hook. A finalizer holds its pod, as any finalizer does.
				if err := s.Client.Delete(t.Context(), s.Set()); err != nil {
					t.Fatal(err)
				}
				s.Await("all pods are going", func(pods map[int]corev1.Pod) error {
					for o, p := range pods {
						if p.DeletionTimestamp == nil {
							return fmt.Errorf("pod %d stays", o)
						}
					}
					return nil
				})
				edit(t, s, h.clear, 0, 1)
				s.AwaitOrdinals()
			})
		}
	})
}

// serving are the ordinals that are ready while some wait at the hook: those, too, unless the hook marks them.
func serving(h handler, n int, waiting []int) []int {
	if !h.hook().MarkPodNotReady {
		return upTo(n)
	}
	return slices.DeleteFunc(upTo(n), func(o int) bool { return slices.Contains(waiting, o) })
}

func TestInPlaceUpdateHook(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		s := scenario.Start(t, env, 3, limits.Rules{Regret: true}, template(h.template), lifecycle(func(l *shared.Lifecycle) { l.InPlaceUpdate = h.hook() }))
		s.Done()
		before := s.Identities()

		// Regretted while waiting: the pod goes back without a restart.
		s.Update(scenario.Image(scenario.V2))
		s.AwaitState(shared.StatePreparingUpdate, 2)
		s.AwaitImage(scenario.V1, 0, 1, 2)
		s.Update(scenario.Image(scenario.V1))
		s.AwaitState(shared.StatePreparingUpdate)
		s.Done()
		s.Kept(before, 0)

		for i, image := range []string{scenario.V2, scenario.V3} {
			s.Update(scenario.Image(image))
			for _, o := range []int{2, 1, 0} {
				s.AwaitState(shared.StatePreparingUpdate, o)
				edit(t, s, h.clear, o)
				s.AwaitState(shared.StateUpdated, o)
				stays(t, s, "it is not available before the hook is back", func(pods map[int]corev1.Pod) error {
					if p := pods[o]; p.Labels[shared.LabelLifecycleState] != string(shared.StateUpdated) {
						return errors.New("it is " + p.Labels[shared.LabelLifecycleState])
					}
					return nil
				})
				edit(t, s, h.set, o)
			}
			s.Done()
			s.Kept(before, int32(i)+1)
		}
	})
}

func TestPreNormal(t *testing.T) {
	t.Parallel()
	forHandlers(t, func(t *testing.T, h handler) {
		s := scenario.Start(t, env, 2, limits.Rules{}, scenario.OrderedReady, lifecycle(func(l *shared.Lifecycle) { l.PreNormal = h.hook() }))
		for o := range 2 {
			s.AwaitState(shared.StatePreparingNormal, o)
			s.AwaitOrdinals(upTo(o + 1)...)
			stays(t, s, "the next pod waits", func(pods map[int]corev1.Pod) error {
				if len(pods) != o+1 {
					return fmt.Errorf("there are %d pods", len(pods))
				}
				return nil
			})
			if got := s.Set().Status.AvailableReplicas; got != int32(o) {
				t.Errorf("%d pods are available, want %d", got, o)
			}
			edit(t, s, h.set, o)
		}
		s.Done()
		s.AwaitState(shared.StateNormal, 0, 1)
		edit(t, s, h.clear, 0, 1) // so that the namespace can go
	})
}

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
			// A pod that is lost keeps its claim.
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

// TestNodeDown loses a node: its pods count as unavailable, and the rollout goes on with what is left of the limit. It does not run
// beside other tests, whose pods may be on that node.
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
