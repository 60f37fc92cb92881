// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

const sharedGate = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: gate}
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: gate, port: {number: 80}}}}]}}]}
---
apiVersion: rollouts.kruise.io/v1alpha1
kind: TrafficRouting
metadata: {name: gate}
spec:
  objectRef: [{service: gate, gracePeriodSeconds: 1, ingress: {name: gate, classType: mse}}]
  strategy: {matches: [{headers: [{name: user, value: a}]}]}
---
`

// gate: the TrafficRouting is in a phase, and so is its second Ingress.
func gate(phase string, routed bool) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		stored, err := read(ctx, w, "TrafficRouting", "gate")
		if err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(stored.Object, "status", "phase"); is != phase || (len(stored.GetFinalizers()) == 2) != routed {
			return fmt.Errorf("it is %s with %v", is, stored.GetFinalizers())
		}
		err = w.Client.Get(ctx, types.NamespacedName{Namespace: w.Name, Name: "gate-canary"}, &networkingv1.Ingress{})
		if (err == nil) != routed || err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("the second Ingress: %w", err)
		}
		return nil
	}
}

// trafficRoutings are scenarios of a TrafficRouting whose Rollout has a release.
func trafficRoutings() []chaos.Scenario {
	waits := is(func(s *rolloutsv1beta1.RolloutStatus, _ string) bool {
		return s.Phase == rolloutsv1beta1.RolloutPhaseProgressing && s.CurrentStepState == rolloutsv1beta1.CanaryStepStatePaused
	})
	completed := is(func(s *rolloutsv1beta1.RolloutStatus, _ string) bool {
		return s.CurrentStepState == rolloutsv1beta1.CanaryStepStateCompleted
	})
	var all []chaos.Scenario
	for _, name := range []string{"used", "deleted"} {
		kind := v1beta1.GroupVersion().WithKind("CloneSet")
		r := &rolled{kind: kind}
		version, of := kind.ToAPIVersionAndKind()
		steps := []chaos.Step{
			apply(sharedGate+rolledOut, both(both(both(has(0), r.labeled), completed), gate("Healthy", false)), "VERSION", version, "KIND", of, "SHARED", "trafficRoutingRef: gate, "),
			r.image(scenario.V2, 1, both(both(has(1), waits), gate("Progressing", true))),
		}
		if name == "used" {
			steps = append(steps, r.approve(both(both(has(3), ends("True")), gate("Healthy", false))))
		} else {
			steps = append(steps, r.remove(both(has(3), gate("Healthy", false))))
		}
		all = append(all, chaos.Scenario{
			Kind: "TrafficRouting", Name: name, Kinds: []string{"TrafficRouting", "Rollout", "BatchRelease", "CloneSet"}, Steps: steps, RandomNames: true, Trailing: 11 * time.Second, // as with Rollouts
			Made:    []string{"rollouts.rollouts.kruise.io", "trafficroutings.rollouts.kruise.io", "clonesets.apps.kruise.io", "ingresses.networking.k8s.io"},
			Observe: r.within,
		})
	}
	return all
}
