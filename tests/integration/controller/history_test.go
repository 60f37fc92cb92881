// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

func TestHistoryIsKeptToItsLimit(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 1, "  serviceName: web\n", "  serviceName: web\n  revisionHistoryLimit: 2\n"))
	n.Settled("web")
	for i := 2; i <= 6; i++ {
		n.SetImage("web", fmt.Sprintf("example/web:v%d", i))
		n.Settled("web")
	}
	set := n.StatefulSet("web")
	n.Eventually("two unused revisions are left beside the present one", func(context.Context) error {
		got := revisions(t, n)
		if len(got) != 3 || got[0].Revision != 4 || got[2].Revision != 6 || got[2].Name != set.Status.UpdateRevision {
			return fmt.Errorf("there are %d revisions: %+v", len(got), numbers(got))
		}
		return nil
	})

	// Going back uses the old revision, under a new number.
	old := revisions(t, n)[0]
	n.SetImage("web", "example/web:v4")
	set = n.Settled("web")
	got := revisions(t, n)
	if set.Status.UpdateRevision != old.Name || len(got) != 3 || got[2].Name != old.Name || got[2].Revision != 7 {
		t.Errorf("after rolling back the set is at %s, and the revisions are %v; want %s as number 7", set.Status.UpdateRevision, numbers(got), old.Name)
	}
}

func numbers(list []appsv1.ControllerRevision) map[string]int64 {
	numbers := map[string]int64{}
	for _, r := range list {
		numbers[r.Name] = r.Revision
	}
	return numbers
}

func TestRevisionWhoseNameIsTakenGetsAnother(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 1))
	set := n.Settled("web")
	name := set.Status.UpdateRevision
	if err := n.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	n.Eventually("set, pods and revisions are gone", nothingLeft(t, n, "web"))

	squatter := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name},
		Data:       runtime.RawExtension{Raw: []byte(`{"not":"ours"}`)},
	}
	if err := n.Client.Create(t.Context(), squatter); err != nil {
		t.Fatal(err)
	}
	n.Apply(environment.StatefulSetManifest("web", 1))
	set = n.Settled("web")
	if set.Status.UpdateRevision == name || ptr.Deref(set.Status.CollisionCount, 0) != 1 {
		t.Errorf("the set is at %s with %d collisions, want another name than %s and 1", set.Status.UpdateRevision, ptr.Deref(set.Status.CollisionCount, 0), name)
	}
	if got := revisions(t, n); len(got) != 2 {
		t.Errorf("the revisions are %v, want the taken one and ours", numbers(got))
	}
}
