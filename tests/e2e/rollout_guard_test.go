// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

const typeLabel = "rollouts.kruise.io/workload-type"

// kubectl runs a command that has to succeed.
func (r *rolled) kubectl(args ...string) {
	r.t.Helper()
	if out, err := r.Kubectl(args...); err != nil {
		r.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}

// takenOver waits until the release ends because somebody took the label away.
func (r *rolled) takenOver() {
	r.t.Helper()
	r.until("it was taken over", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && condition(o, v1beta1.RolloutConditionSucceeded).Reason == v1beta1.ReasonTakenOver
	})
}

// A workload that is created after its Rollout is found. A change is caught as soon as the Rollout says that it is guarded.
func TestAWorkloadAfterItsRollout(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "CloneSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			apiVersion := map[string]string{"Deployment": "apps/v1", "CloneSet": "apps.kruise.io/v1beta1"}[kind]
			workload := environment.Edited(shopOf(apiVersion, kind), "    metadata: {labels: {app: shop}}", "    metadata: {labels: {app: shop}, annotations: {"+simnode.ReadyDelay+": 1s}}")
			r := unrolled(t, env, apiVersion, kind, workload)
			r.Apply(environment.Edited(rolloutOfShop, "apps/v1", apiVersion, "Deployment", kind))
			r.until("there is no workload", func(o *v1beta1.Rollout) bool {
				return condition(o, v1beta1.RolloutConditionGuarded).Reason == v1beta1.ReasonWorkloadNotFound
			})
			r.Apply(workload)
			r.isGuarded()
			r.image("v2")
			r.waits(1)
			r.has("v2", 1, 6)
			r.approve()
			r.ends("True")
			r.clean()
		})
	}
}

// One file has the Rollout first and then a change of the workload: nothing of it is uncontrolled.
func TestARolloutAndAChangeInOneFile(t *testing.T) {
	t.Parallel()
	for _, apiVersion := range []string{"apps/v1", "apps.kruise.io/v1beta1"} {
		t.Run(apiVersion, func(t *testing.T) {
			t.Parallel()
			r := unrolled(t, env, apiVersion, "StatefulSet", shopOf(apiVersion, "StatefulSet"))
			r.Apply(shopOf(apiVersion, "StatefulSet"))
			r.has("v1", 6, 6)
			file := filepath.Join(t.TempDir(), "shop.yaml")
			if err := os.WriteFile(file, []byte(environment.Edited(r.manifest, "shop:v1", "shop:v2")), 0o600); err != nil {
				t.Fatal(err)
			}
			r.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
			r.waits(1)
			r.has("v2", 1, 6)
			if events := r.lateEvents(t.Context()); len(events) > 0 {
				t.Errorf("the change went through: %v", events)
			}
		})
	}
}

// lateEvents are those that say that a change went through.
func (r *rolled) lateEvents(ctx context.Context) (notes []string) {
	r.t.Helper()
	events := &eventsv1.EventList{}
	if err := r.Client.List(ctx, events, client.InNamespace(r.Name)); err != nil {
		r.t.Fatal(err)
	}
	for i := range events.Items {
		if events.Items[i].Reason == v1beta1.ReasonCaughtLate {
			notes = append(notes, events.Items[i].Note)
		}
	}
	return notes
}

// Who takes the label away in a release takes over: the rest is replaced as by Kubernetes alone, and the Rollout says so. The next change is caught.
func TestAWorkloadIsTakenOver(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.waits(1)
	r.kubectl("label", "deployment", "shop", typeLabel+"-")
	r.takenOver()
	r.has("v2", 6, 6)
	r.labeled()
	r.clean()
	r.image("v3")
	r.waits(1)
	r.has("v3", 1, 6)
}

// labeled waits until the label is on the workload: at rest it is put back.
func (r *rolled) labeled() {
	r.t.Helper()
	r.Eventually("the label is there", func(ctx context.Context) error {
		w, err := r.stored(ctx, r.kind)
		if err != nil || w.GetLabels()[typeLabel] == "" {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
}

// A label that is removed at rest is put back.
func TestALabelAtRestIsPutBack(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.kubectl("label", "deployment", "shop", typeLabel+"-")
	r.labeled()
	r.isGuarded()
	r.image("v2")
	r.waits(1)
	r.has("v2", 1, 6)
}
