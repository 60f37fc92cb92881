// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func kindPod() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

// apply carries out changes on a server with the objects.
func apply(t *testing.T, set *appsv1beta1.StatefulSet, fault testutil.Fault, objects []client.Object, changes func(*testutil.Client) Changes) (*testutil.Client, int, error) {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server := testutil.NewClient(types, nil, objects...)
	wanted := changes(server)
	server.SetFault(fault)
	c := &Adopter{
		Writer: &writer.Writer{Client: server, Live: server},
	}
	n, err := c.Apply(t.Context(), freshness.OwnerOf(set), *metav1.NewControllerRef(set, appsv1beta1.GroupVersion().WithKind("StatefulSet")), wanted)
	return server, n, err
}

func get(t *testing.T, server client.Client, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := server.Get(t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func adopt(t *testing.T, names ...string) func(*testutil.Client) Changes {
	return func(server *testutil.Client) Changes {
		c := Changes{Kind: kindPod()}
		for _, name := range names {
			c.Adopt = append(c.Adopt, get(t, server, name))
		}
		return c
	}
}

func TestApplyAdopts(t *testing.T) {
	live := testutil.StatefulSet("web").UID("set")
	helper := testutil.Pod("web-0").UID("a").Obj()
	helper.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "note", UID: "note"}}
	cases := map[string]struct {
		live    client.Object
		want    bool
		wantErr bool
		fault   testutil.Fault
	}{
		"when the set lives":                 {live: live.Obj(), want: true},
		"not when it is being deleted":       {live: testutil.StatefulSet("web").UID("set").Deleting(time.Unix(1e9, 0)).Obj()},
		"not when it was created again":      {live: testutil.StatefulSet("web").UID("another").Obj()},
		"not when it is gone":                {live: testutil.StatefulSet("other").Obj()},
		"not when the server refuses":        {live: live.Obj(), wantErr: true, fault: always(apierrors.NewForbidden(schema.GroupResource{}, "web-0", nil))},
		"quietly not when it has a newcomer": {live: live.Obj(), fault: always(apierrors.NewConflict(schema.GroupResource{}, "web-0", errors.New("changed")))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server, n, err := apply(t, live.Obj(), tc.fault, []client.Object{tc.live, helper.DeepCopy()}, adopt(t, "web-0"))
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v", err)
			}
			pod := get(t, server, "web-0")
			if got := metav1.IsControlledBy(pod, live.Obj()); got != tc.want || (n == 1) != tc.want {
				t.Errorf("adopted: %v (%d changed), want %v", got, n, tc.want)
			}
			if tc.want && len(pod.OwnerReferences) != 2 {
				t.Errorf("owners %v, want the other one kept", pod.OwnerReferences)
			}
		})
	}
}

func always(err error) testutil.Fault {
	return func(context.Context, testutil.Write, func() error) error { return err }
}

func TestApplyReleases(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "note", UID: "note"}
	owned := testutil.Pod("web-0").UID("a").ControlledBy(set).Obj()
	owned.OwnerReferences = append(owned.OwnerReferences, other)
	server, n, err := apply(t, set, nil, []client.Object{set, owned}, func(server *testutil.Client) Changes {
		return Changes{Kind: kindPod(), Release: []client.Object{get(t, server, "web-0")}}
	})
	if n != 1 || err != nil {
		t.Fatalf("%d changed, error %v", n, err)
	}
	if got := get(t, server, "web-0").OwnerReferences; len(got) != 1 || got[0].UID != other.UID {
		t.Errorf("owners %v, want only the other one", got)
	}
}

func TestApplyGoesOnAfterAFailure(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	fault := func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "web-0" {
			return apierrors.NewForbidden(schema.GroupResource{}, "web-0", nil)
		}
		return forward()
	}
	server, n, err := apply(t, set, fault, []client.Object{set, testutil.Pod("web-0").Obj(), testutil.Pod("web-1").Obj()}, adopt(t, "web-0", "web-1"))
	if n != 1 || err == nil {
		t.Errorf("%d changed, error %v; want one and the other's error", n, err)
	}
	if !metav1.IsControlledBy(get(t, server, "web-1"), set) {
		t.Error("one pod that cannot be adopted holds back another")
	}
}
