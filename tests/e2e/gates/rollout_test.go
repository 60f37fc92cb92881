// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

const routedBeside = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      patchPodTemplateMetadata: {labels: {gray: "yes"}}
      trafficRoutings: [{service: web, gracePeriodSeconds: 1, ingress: {name: web}}]
      steps: [{replicas: 1, traffic: 20%}, {replicas: 100%}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: ` + scenario.V1 + `}]}
`

// With AppendPodSelector the Service of new pods chooses them by the labels that only they have, too.
func TestLabelsOfNewPodsAreInTheSelectorOfTheirService(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(routedBeside)
	key := types.NamespacedName{Namespace: n.Name, Name: "web"}
	n.Eventually("the next change is caught", func(ctx context.Context) error {
		o := &rolloutsv1beta1.Rollout{}
		if err := n.Client.Get(ctx, key, o); err != nil {
			return err
		}
		for _, c := range o.Status.Conditions {
			if c.Type == rolloutsv1beta1.RolloutConditionGuarded && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", o.Status.Conditions)
	})
	web := &appsv1.Deployment{}
	if err := n.Client.Get(t.Context(), key, web); err != nil {
		t.Fatal(err)
	}
	before := web.DeepCopy()
	web.Spec.Template.Spec.Containers[0].Image = scenario.V2
	if err := n.Client.Patch(t.Context(), web, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the Service of new pods has the label", func(ctx context.Context) error {
		o := &corev1.Service{}
		if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: "web-canary"}, o); err != nil {
			return err
		}
		if s := o.Spec.Selector; s["gray"] != "yes" || s["app"] != "web" || s["pod-template-hash"] == "" {
			return fmt.Errorf("its selector is %v", s)
		}
		return nil
	})
}
