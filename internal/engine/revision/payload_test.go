// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// sidecars is a payload that is no pod template.
type sidecars struct {
	Images []string `json:"images"`
	// Paused is no part of what is recorded.
	Paused bool `json:"paused,omitempty"`
}

func sidecarCodec() Codec[sidecars] {
	return Codec[sidecars]{
		Encode: func(s *sidecars) ([]byte, error) { return Replacement(map[string]any{"images": s.Images}, "spec") },
		Decode: func(data []byte) (*sidecars, error) {
			var patch struct{ Spec sidecars }
			err := json.Unmarshal(data, &patch)
			return &patch.Spec, err
		},
		Same: func(a, b *sidecars) bool { return cmp.Equal(a.Images, b.Images) },
	}
}

// TestRevisionsOfAnyPayload records the spec of a cluster-scoped object in a namespace that is not its own.
func TestRevisionsOfAnyPayload(t *testing.T) {
	owner := Owner{
		Namespace: "operator", Name: "logs", Labels: map[string]string{"example.io/owner": "logs"},
		Reference: metav1.OwnerReference{Kind: "SidecarSet", Name: "logs", UID: "uid-logs"},
	}
	var stored []Of[sidecars]
	decide := func(s sidecars) DecisionOf[sidecars] {
		t.Helper()
		decision, err := DecideOf(sidecarCodec(), owner, &s, stored, nil)
		if err != nil {
			t.Fatal(err)
		}
		return decision
	}
	store := func(cr *appsv1.ControllerRevision) {
		t.Helper()
		decoded, err := DecodeOf(sidecarCodec(), cr)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, decoded)
	}

	first := decide(sidecars{Images: []string{"logger:1"}}).Create
	if first == nil {
		t.Fatal("no revision is created")
	}
	if got, want := string(first.Data.Raw), `{"spec":{"$patch":"replace","images":["logger:1"]}}`; got != want {
		t.Errorf("data is %s, want %s", got, want)
	}
	if first.Namespace != "operator" || first.Labels["example.io/owner"] != "logs" || len(first.OwnerReferences) != 1 {
		t.Errorf("metadata is %+v", first.ObjectMeta)
	}
	store(first)
	if again := decide(sidecars{Images: []string{"logger:1"}, Paused: true}); again.Create != nil || again.Update.Name != first.Name {
		t.Errorf("what is no part of the payload makes another revision: %+v", again)
	}
	second := decide(sidecars{Images: []string{"logger:2"}}).Create
	store(second)
	back := decide(sidecars{Images: []string{"logger:1"}})
	if back.Bump == nil || back.Bump.Name != first.Name || back.Bump.Revision != 3 {
		t.Errorf("going back makes %+v", back)
	}
	if surplus := Surplus(stored, sets.New(second.Name), 0); len(surplus) != 1 || surplus[0].Name != first.Name {
		t.Errorf("surplus are %v", surplus)
	}

	owner.Reference = metav1.OwnerReference{}
	if free := decide(sidecars{Images: []string{"logger:3"}}).Create; len(free.OwnerReferences) != 0 {
		t.Errorf("an owner in another namespace cannot own: %+v", free.OwnerReferences)
	}
}
