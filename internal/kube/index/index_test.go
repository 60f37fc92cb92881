// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func kinds() Kinds { return sets.New(schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}) }

// controlledAs returns a full pod whose controller reference has this version and kind.
func controlledAs(name, apiVersion, kind string) *corev1.Pod {
	pod := testutil.Pod(name).UID("pod").Labels(map[string]string{"app": "web"}).ControlledBy(testutil.StatefulSet("web").UID("set").Obj()).Obj()
	pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = apiVersion, kind
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.Annotations = map[string]string{"note": "x"}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func TestPodsAreKeptAsFarAsTheyAreOurs(t *testing.T) {
	orphan := controlledAs("web-0", "", "")
	orphan.OwnerReferences = nil
	cases := map[string]struct {
		pod  *corev1.Pod
		ours bool
	}{
		"of a set":                         {controlledAs("web-0", "apps.kruise.io/v1beta1", "StatefulSet"), true},
		"of a set in the older version":    {controlledAs("web-0", "apps.kruise.io/v1alpha1", "StatefulSet"), true},
		"of a native set":                  {controlledAs("web-0", "apps/v1", "StatefulSet"), false},
		"of a kind that is not looked for": {controlledAs("web-0", "apps.kruise.io/v1beta1", "CloneSet"), false},
		"of nobody":                        {orphan, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := tc.pod.DeepCopy()
			want.ManagedFields = nil
			if !tc.ours {
				want = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: want.Namespace, Name: want.Name, UID: want.UID, Labels: want.Labels, OwnerReferences: want.OwnerReferences,
				}}
			}
			transform := trimPod(kinds())
			object := any(tc.pod)
			for range 2 { // An informer may transform an object again.
				var err error
				if object, err = transform(object); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRevisionsOfOthersLoseTheirData(t *testing.T) {
	revision := func(kind string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: controlledAs("x", "apps.kruise.io/v1beta1", kind).OwnerReferences},
			Data:       runtime.RawExtension{Raw: []byte("{}")}, Revision: 4,
		}
	}
	for kind, want := range map[string]int{"StatefulSet": 2, "CloneSet": 0} {
		got, err := trimRevision(kinds())(revision(kind))
		if err != nil {
			t.Fatal(err)
		}
		if kept := got.(*appsv1.ControllerRevision); len(kept.Data.Raw) != want || kept.Revision != 4 {
			t.Errorf("revision of a %s: %+v", kind, kept)
		}
	}
}

func TestIndexesFindOursAndOrphans(t *testing.T) {
	ours := controlledAs("web-0", "apps.kruise.io/v1alpha1", "StatefulSet")
	native := controlledAs("web-1", "apps/v1", "StatefulSet")
	ours.ManagedFields, native.ManagedFields = nil, nil
	orphan := testutil.Pod("web-2").Obj()
	elsewhere := testutil.Pod("web-3").Namespace("elsewhere").Obj()
	reader, err := testutil.NewIndexedClient(clientgoscheme.Scheme, nil, func(indexer client.FieldIndexer) error {
		return Add(t.Context(), indexer, kinds())
	}, ours, native, orphan, elsewhere)
	if err != nil {
		t.Fatal(err)
	}

	var controlled, orphans corev1.PodList
	if err := Controlled(t.Context(), reader, &controlled, testutil.Namespace, "set"); err != nil {
		t.Fatal(err)
	}
	if err := Orphans(t.Context(), reader, &orphans, testutil.Namespace); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"web-0"}, names(controlled)); diff != "" {
		t.Errorf("controlled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web-2"}, names(orphans)); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
}

func names(list corev1.PodList) []string {
	var all []string
	for _, pod := range list.Items {
		all = append(all, pod.Name)
	}
	return all
}
