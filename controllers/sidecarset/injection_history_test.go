// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
)

// A revision left by OpenKruise is injected, even with this operator in another namespace.
// Revisions of no set, of a namesake, or of a namespace others can write to are not.
func TestPinnedRevisionsOfAnotherNamespace(t *testing.T) {
	set := strings.Replace(plain, "containers:", "injectionStrategy: {revision: {customVersion: '1'}}, containers:", 1)
	for name, tc := range map[string]struct {
		namespace, owner     string
		found, forged, older bool
	}{
		"its own, in the operator's namespace":               {namespace: "operators", owner: "uid-of-log", found: true},
		"its own, beside one that somebody forged":           {namespace: "operators", owner: "uid-of-log", found: true, forged: true},
		"its own, beside older ones of the same version":     {namespace: "operators", owner: "uid-of-log", found: true, older: true},
		"its own, in the namespace of OpenKruise":            {namespace: "kruise-system", owner: "uid-of-log", found: true},
		"of a set that is gone, in that namespace":           {namespace: "kruise-system", owner: "uid-of-another"},
		"nobody's, in that namespace":                        {namespace: "kruise-system"},
		"somebody says that it is its own, in his namespace": {namespace: "anybodys", owner: "uid-of-log"},
	} {
		t.Run(name, func(t *testing.T) {
			revision := &appsv1.ControllerRevision{Revision: 5}
			revision.Namespace, revision.Name = tc.namespace, "log-5"
			revision.Labels = map[string]string{shared.LabelSidecarSetName: "log", shared.LabelSidecarSetCustomVersion: "1"}
			revision.Data.Raw = []byte(`{"spec":{"$patch":"replace","containers":[{"name":"agent","image":"pinned"}],"volumes":null,"initContainers":null,"imagePullSecrets":null,"patchPodMetadata":null}}`)
			if tc.owner != "" {
				revision.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "SidecarSet", Name: "log", UID: types.UID(tc.owner), Controller: ptr.To(true)}}
			}
			objects := []client.Object{revision}
			if tc.forged {
				theirs := revision.DeepCopy()
				theirs.Namespace, theirs.Revision = "anybodys", 99
				theirs.Data.Raw = []byte(`{"spec":{"containers":[{"name":"agent","image":"forged"}]}}`)
				objects = append(objects, theirs)
			}
			if tc.older {
				for name, number := range map[string]int64{"log-3": 3, "log-9": 4} { // one is listed before it, one after it
					older := revision.DeepCopy()
					older.Name, older.Revision = name, number
					older.Data.Raw = bytes.Replace(revision.Data.Raw, []byte("pinned"), []byte("older"), 1)
					objects = append(objects, older)
				}
			}
			r := newRig(t, true, objects...)
			r.options.Namespace = "operators"
			r.everywhere(r.byPolicies)
			r.set(set)
			state := r.pass("log", time.Minute)
			if !tc.found {
				if state.Condition.Reason != "RevisionNotFound" {
					t.Errorf("%+v", state)
				}
				return
			}
			if state.Path != PathPolicy || state.Condition.Status != corev1.ConditionTrue {
				t.Errorf("%+v", state)
			}
			v := r.compiled.sets["log"].compiled.Variants[0]
			if len(v.Containers) != 1 || v.Containers[0].Value["image"] != "pinned" {
				t.Errorf("injected: %+v", v.Containers)
			}
			// The revision lacks hashes: they are computed from it.
			pinned := &appsv1beta1.SidecarSetSpec{Containers: []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: "pinned"}}}}
			want, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(pinned, nil))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(v.Entry, `"hash":"`+want.Hash+`"`) || !strings.Contains(v.EntryWithoutImage, `"hash":"`+want.WithoutImage+`"`) {
				t.Errorf("pods say %s and %s, want %+v", v.Entry, v.EntryWithoutImage, want)
			}
		})
	}
}

// inNamespaces is a server recording the namespaces searched for revisions, "" for all.
type inNamespaces struct {
	client.Client
	asked sets.Set[string]
}

func (s inNamespaces) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, whole := list.(*appsv1.ControllerRevisionList); whole || list.GetObjectKind().GroupVersionKind().Kind == "ControllerRevisionList" {
		s.asked.Insert((&client.ListOptions{}).ApplyOptions(options).Namespace)
	}
	return s.Client.List(ctx, list, options...)
}

// Users can write any number of revisions in their namespaces, each above a megabyte. They are not read.
func TestRevisionsOfOtherNamespacesAreNotRead(t *testing.T) {
	r := newRig(t, true)
	r.options.Namespace = "operators"
	server := inNamespaces{Client: r.client, asked: sets.New[string]()}
	r.options.Live = server
	r.set(strings.Replace(plain, "containers:", "injectionStrategy: {revision: {customVersion: '1'}}, containers:", 1))
	r.sets[0].Object["status"] = map[string]any{"observedGeneration": r.sets[0].GetGeneration(), "latestRevision": "log-5"}
	r.pass("log", time.Minute)
	if got := sets.List(server.asked); !slices.Equal(got, []string{"kruise-system", "operators"}) {
		t.Errorf("revisions were looked for in %q", got)
	}
}

// A history may have many revisions above a megabyte. With a known name, one is read alone.
func TestARevisionIsReadByItsName(t *testing.T) {
	revision := &appsv1.ControllerRevision{Revision: 5}
	revision.Namespace, revision.Name, revision.Labels = "kruise-system", "log-5", map[string]string{shared.LabelSidecarSetName: "log"}
	revision.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "SidecarSet", Name: "log", UID: "uid-of-log", Controller: ptr.To(true)}}
	revision.Data.Raw = []byte(`{"spec":{"$patch":"replace","containers":[{"name":"agent","image":"pinned"}],"volumes":null,"initContainers":null,"imagePullSecrets":null,"patchPodMetadata":null}}`)
	for name, want := range map[string]string{"log-5": "Policy", "log-6": "RevisionNotFound"} {
		r := newRig(t, true, revision)
		r.options.Namespace = "operators"
		server := inNamespaces{Client: r.client, asked: sets.New[string]()}
		r.options.Live = server
		r.everywhere(r.byPolicies)
		r.set(strings.Replace(plain, "containers:", "injectionStrategy: {revision: {revisionName: "+name+"}}, containers:", 1))
		r.sets[0].Object["status"] = map[string]any{"observedGeneration": r.sets[0].GetGeneration(), "latestRevision": name}
		if state := r.pass("log", time.Minute); state.Condition.Reason != want {
			t.Errorf("%s: %+v", name, state.Condition)
		}
		if server.asked.Has("kruise-system") {
			t.Errorf("%s: the history was read", name)
		}
	}
}
