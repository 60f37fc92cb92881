// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// isOurs says whether a workload's revisions follow the rules of CloneSet and StatefulSet.
func isOurs(apiVersion, kind string) bool {
	return apiVersion == "apps.kruise.io/v1beta1" && (kind == "CloneSet" || kind == "StatefulSet")
}

func TestHashOfStoredBytesIsTheRecordedOne(t *testing.T) {
	tested := 0
	for _, r := range fixtures.Hashes(t) {
		if !isOurs(r.OwnerAPI, r.OwnerKind) {
			continue
		}
		tested++
		raw := fixtures.Raw(t, r.Case, r.Revision)
		hash := Hash(raw, nil)
		if hash != r.Hash {
			t.Errorf("%s: the hash of %s is %s, recorded is %s", r.Case, r.Revision, hash, r.Hash)
		}
		if name := Name(r.OwnerName, hash); name != r.Revision {
			t.Errorf("%s: the name is %s, recorded is %s", r.Case, name, r.Revision)
		}
		var zero int32
		if Hash(raw, &zero) != hash {
			t.Errorf("%s: an absent collision count and 0 differ", r.Case)
		}
	}
	if tested < 20 {
		t.Fatalf("only %d revisions tested", tested)
	}
}

func TestEncodeGivesTheStoredBytes(t *testing.T) {
	tested := 0
	for _, r := range fixtures.Hashes(t) {
		if !isOurs(r.OwnerAPI, r.OwnerKind) && r.OwnerKind != "DaemonSet" {
			continue
		}
		tested++
		raw := fixtures.Raw(t, r.Case, r.Revision)
		cr := &appsv1.ControllerRevision{}
		cr.Data.Raw = raw
		decoded, err := Decode(cr)
		if err != nil {
			t.Fatalf("%s: %v", r.Case, err)
		}
		encoded, err := Encode(decoded.Template)
		if err != nil {
			t.Fatalf("%s: %v", r.Case, err)
		}
		if !bytes.Equal(encoded, raw) {
			t.Errorf("%s: %s is encoded differently:\n%s\n%s", r.Case, r.Revision, encoded, raw)
		}
	}
	if tested < 20 {
		t.Fatalf("only %d revisions tested", tested)
	}
}

// workload is a stored CloneSet or StatefulSet with its revisions.
type workload struct {
	object    *unstructured.Unstructured
	revisions []Revision
	update    string
}

func workloads(t *testing.T, name string) []workload {
	t.Helper()
	objects := fixtures.Objects(t, name+"/state.yaml")
	stored := fixtures.Revisions(t, name, objects)
	var all []workload
	for _, o := range objects {
		if !isOurs(o.GetAPIVersion(), o.GetKind()) {
			continue
		}
		w := workload{object: o}
		w.update, _, _ = unstructured.NestedString(o.Object, "status", "updateRevision")
		for _, cr := range stored {
			if !metav1.IsControlledBy(cr, o) {
				continue
			}
			r, err := Decode(cr)
			if err != nil {
				t.Fatal(err)
			}
			w.revisions = append(w.revisions, r)
		}
		all = append(all, w)
	}
	return all
}

// TestTakeoverKeepsTheRevision is the promise that taking over a cluster rolls nothing: whether the template is the stored
// one, which OpenKruise filled with defaults, or the one that the user applied, it is the recorded update revision.
func TestTakeoverKeepsTheRevision(t *testing.T) {
	tested, reapplied := 0, 0
	for _, name := range fixtures.Cases(t) {
		for _, w := range workloads(t, name) {
			tested++
			about := name + ": " + w.object.GetKind() + " " + w.object.GetName()
			expectRevision(t, about+" as stored", w, fixtures.Template(t, w.object))
			for _, manifest := range lastApplied(t, name) {
				if manifest.GetKind() == w.object.GetKind() && manifest.GetName() == w.object.GetName() && isKruise(manifest) {
					reapplied++
					expectRevision(t, about+" as applied", w, fixtures.Template(t, manifest))
				}
			}
		}
	}
	if tested < 20 || reapplied < 15 {
		t.Fatalf("only %d workloads tested, %d of them reapplied", tested, reapplied)
	}
}

func isKruise(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().Group == "apps.kruise.io"
}

// lastApplied are the manifests of a case, of each object only the last.
func lastApplied(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	last := map[string]*unstructured.Unstructured{}
	var keys []string
	for _, step := range fixtures.Applied(t, name) {
		for _, o := range step {
			key := o.GetKind() + "/" + o.GetName()
			if last[key] == nil {
				keys = append(keys, key)
			}
			last[key] = o
		}
	}
	var all []*unstructured.Unstructured
	for _, key := range keys {
		all = append(all, last[key])
	}
	return all
}

func expectRevision(t *testing.T, about string, w workload, template *corev1.PodTemplateSpec) {
	t.Helper()
	collisions, _, _ := unstructured.NestedInt64(w.object.Object, "status", "collisionCount")
	count := int32(collisions)
	owner := Owner{Namespace: w.object.GetNamespace(), Name: w.object.GetName(), Annotations: w.object.GetAnnotations()}
	decision, err := DecideOf(PodTemplates(false), owner, template, w.revisions, &count)
	if err != nil {
		t.Errorf("%s: %v", about, err)
		return
	}
	if decision.Update.Name != w.update || decision.Create != nil || decision.Bump != nil || *decision.CollisionCount != count {
		t.Errorf("%s: revision %s, create %v, bump %v, want only %s", about, decision.Update.Name,
			decision.Create != nil, decision.Bump != nil, w.update)
		for _, r := range w.revisions {
			if r.Name == w.update {
				t.Log(cmp.Diff(r.Template, template))
			}
		}
	}
}

func TestTakeoverPrunesNothing(t *testing.T) {
	tested := 0
	for _, name := range fixtures.Cases(t) {
		for _, w := range workloads(t, name) {
			tested++
			limit, found, _ := unstructured.NestedInt64(w.object.Object, "spec", "revisionHistoryLimit")
			if !found {
				t.Fatalf("%s has no history limit", name)
			}
			if len(w.revisions) == 0 {
				t.Errorf("%s: no revision of %s was read", name, w.object.GetName())
			}
			if surplus := Surplus(w.revisions, sets.New(w.update), int(limit)); len(surplus) > 0 {
				t.Errorf("%s: %d revisions would be deleted", name, len(surplus))
			}
		}
	}
	if tested < 20 {
		t.Fatalf("only %d workloads tested", tested)
	}
}

// TestNewRevisionLooksLikeOpenKruisesOwn creates the newest recorded revision again and compares everything that is stored.
func TestNewRevisionLooksLikeOpenKruisesOwn(t *testing.T) {
	tested := 0
	for _, name := range fixtures.Cases(t) {
		for _, w := range workloads(t, name) {
			var older []Revision
			var want Revision
			for _, r := range w.revisions {
				if r.Name == w.update {
					want = r
				} else {
					older = append(older, r)
				}
			}
			annotations := want.Object.Annotations
			owner := Owner{
				Namespace: want.Object.Namespace, Name: w.object.GetName(), Annotations: annotations, Reference: want.Object.OwnerReferences[0],
			}
			decision, err := DecideOf(PodTemplates(false), owner, fixtures.Template(t, w.object), older, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if decision.Create == nil {
				t.Errorf("%s: nothing to create", name)
				continue
			}
			tested++
			recorded := want.Object.DeepCopy()
			recorded.ObjectMeta = metav1.ObjectMeta{
				Name: recorded.Name, Namespace: recorded.Namespace, Labels: recorded.Labels,
				Annotations: recorded.Annotations, OwnerReferences: recorded.OwnerReferences,
			}
			recorded.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(recorded, decision.Create); diff != "" {
				t.Errorf("%s: the new revision differs from the recorded one (-recorded +ours):\n%s", name, diff)
			}
			if recorded.Labels[shared.LabelRevisionHash] == "" {
				t.Errorf("%s: the recorded revision has no hash label", name)
			}
		}
	}
	if tested < 20 {
		t.Fatalf("only %d revisions tested", tested)
	}
}
