// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

// The status has room for 32 reports. Replicas that could not take theirs out, on nodes that failed for example, would use it up.
func TestReportsOfReplicasThatAreGoneAreTakenOut(t *testing.T) {
	asked := 0
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := New(Dependencies{Clock: clock, Self: "a", Running: "x", Exists: func(_ context.Context, replica string) (bool, error) {
		asked++
		return replica != "gone", nil
	}})
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	kruise.Status.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 3), report("b", 3), report("gone", 3)}
	look := func(want Step) {
		t.Helper()
		view, err := r.view(t.Context(), kruise, "x", true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, Plan(view)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	look(Step{Forget: []string{"gone"}})
	look(Step{})
	if asked != 2 {
		t.Errorf("asked %d times about two replicas", asked)
	}
	clock.SetTime(clock.Now().Add(lookAgain))
	look(Step{Forget: []string{"gone"}})
}

func TestLeavingReplicaTakesItsReportOut(t *testing.T) {
	types := runtime.NewScheme()
	if err := operatorv1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName}}
	kruise.Status.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 1), report("b", 1)}
	conflicts := 2
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(types).WithObjects(kruise).WithStatusSubresource(kruise).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), nil)
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
	if err := Leave(t.Context(), c, "a"); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(kruise), kruise); err != nil {
		t.Fatal(err)
	}
	if left := kruise.Status.Replicas; len(left) != 1 || left[0].Name != "b" {
		t.Errorf("reports that are left: %+v", left)
	}
}
