// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// TestOneWriteAtATime: the workload comes first, and each write names its event when it fails.
func TestOneWriteAtATime(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "Deployment")
	kept := metav1.ObjectMeta{Namespace: "shop", Name: "web", Finalizers: []string{shared.FinalizerRollout}}
	ordered := &v1beta1.BatchReleaseSpec{WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	release := &v1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "7"}}
	for name, tc := range map[string]struct {
		meta     metav1.ObjectMeta
		decision plan.Decision
		release  *v1beta1.BatchRelease
		verb     planning.Verb
		kind     string
		failure  string
	}{
		"a new Rollout":           {metav1.ObjectMeta{Namespace: "shop", Name: "web"}, plan.Decision{Guard: true}, nil, planning.VerbPatch, "Rollout", "FailedFinalizer"},
		"the brake before orders": {kept, plan.Decision{Guard: true, Order: ordered}, nil, planning.VerbPatch, "Deployment", "FailedControl"},
		"out of control":          {kept, plan.Decision{Unguard: true}, nil, planning.VerbPatch, "Deployment", "FailedControl"},
		"a first batch":           {kept, plan.Decision{Order: ordered}, nil, planning.VerbCreate, "BatchRelease", "FailedRelease"},
		"another batch":           {kept, plan.Decision{Order: ordered}, release, planning.VerbPatch, "BatchRelease", "FailedRelease"},
		"the end of a release":    {kept, plan.Decision{Drop: true}, release, planning.VerbDelete, "BatchRelease", "FailedRelease"},
		"the end":                 {kept, plan.Decision{Ended: true}, nil, planning.VerbPatch, "Rollout", "FailedFinalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			workload := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop"}}}
			all := actions(&v1beta1.Rollout{ObjectMeta: tc.meta}, &seen{row: row, workload: workload, Snapshot: plan.Snapshot{Release: tc.release}}, tc.decision)
			if len(all) != 1 {
				t.Fatalf("%d writes", len(all))
			}
			if a := all[0]; a.Verb != tc.verb || a.Kind.Kind != tc.kind || a.Failure.Reason != tc.failure || !a.Failure.Warning {
				t.Errorf("got %v %s with %+v", a.Verb, a.Kind.Kind, a.Failure)
			}
		})
	}
}

// TestTheBrakeIsTakenAwayBeforeItsNotes: without the label nothing braked is left when the second write is lost.
func TestTheBrakeIsTakenAwayBeforeItsNotes(t *testing.T) {
	first, second := unguarding()[0], unguarding()[1]
	metadata, _ := first["metadata"].(map[string]any)
	if _, ok := metadata["labels"]; !ok || len(metadata) != 1 {
		t.Errorf("the first write is %v", first)
	}
	metadata, _ = second["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key := range annotations {
		if !strings.HasPrefix(key, "rollouts.kruise.io/") {
			t.Errorf("the second write removes %s", key)
		}
	}
}
