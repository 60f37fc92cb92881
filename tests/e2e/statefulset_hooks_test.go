// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// edit changes pods by their ordinals.
func edit(t *testing.T, s *scenario.Scenario, change func(*corev1.Pod), ordinals ...int) {
	t.Helper()
	for _, o := range ordinals {
		editPod(t, s.Namespace, change, fmt.Sprintf("web-%d", o))
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

				// A pod to be replaced at its user's wish waits, too.
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

// serving are the ordinals ready while some wait at the hook: these, too, unless the hook
// marks them.
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
