// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package selecting

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server lists one workload of each kind, and counts the lists.
type server struct {
	client.Reader
	lists int
	err   error
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.lists++
	all := list.(*unstructured.UnstructuredList)
	selector := map[string]any{"matchLabels": map[string]any{"app": "web"}, "matchExpressions": []any{map[string]any{"key": "tier", "operator": "Exists"}}}
	if all.GetKind() == "ReplicationControllerList" {
		selector = map[string]any{"app": "web"}
	}
	workload := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": selector}}}
	gvk := all.GroupVersionKind()
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	workload.SetGroupVersionKind(gvk)
	all.Items = append(all.Items, workload)
	return s.err
}

func podOf(apiVersion, kind string) *corev1.Pod {
	controller := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "uid", Controller: &controller}}}}
}

func TestTheLabelsOfAController(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"native":                   {podOf("apps/v1", "ReplicaSet"), []string{"app", "tier"}},
		"ours":                     {podOf("apps.kruise.io/v1alpha1", "CloneSet"), []string{"app", "tier"}},
		"of the core":              {podOf("v1", "ReplicationController"), []string{"app"}},
		"one of another kind":      {podOf("example.com/v1", "Game"), nil},
		"a pod without controller": {&corev1.Pod{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewControllers(&server{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)))
			got, err := c.Keys(t.Context(), tc.pod)
			if err != nil || !slices.Equal(sets.List(got), tc.want) && len(got)+len(tc.want) > 0 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestAControllerIsAskedForSeldom(t *testing.T) {
	s, now := &server{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := NewControllers(s, now)
	keys := func() error {
		_, err := c.Keys(t.Context(), podOf("apps/v1", "ReplicaSet"))
		return err
	}
	for range 100 {
		if err := keys(); err != nil {
			t.Fatal(err)
		}
	}
	if s.lists != 1 {
		t.Errorf("%d lists", s.lists)
	}
	now.SetTime(now.Now().Add(believed + time.Second))
	s.err = errors.New("later")
	if err := keys(); err == nil || s.lists != 2 {
		t.Errorf("after a while: %d lists, %v", s.lists, err)
	}
}
