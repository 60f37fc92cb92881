// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// spreadCommand starts a Deployment over three subsets, beside the same one without a WorkloadSpread.
func spreadCommand() *cobra.Command {
	o := options{kind: "CloneSet", sets: 1, images: []string{"registry.k8s.io/pause:3.10", ""}, writers: []int{1}}
	cmd := &cobra.Command{
		Use: "spread", Short: "Compare a Deployment with a WorkloadSpread to one without", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := repository.EnterRoot(); err != nil {
				return err
			}
			b, err := open(cmd.Context(), o)
			if b != nil {
				defer func() { err = errors.Join(err, b.close()) }()
			}
			if err != nil {
				return err
			}
			return b.spreads(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&o.pods, "pods", 1000, "how many pods the Deployment has")
	cmd.Flags().IntVar(&o.pairs, "pairs", 3, "how often both are measured in turn")
	return cmd
}

// spreads measures both in turn, and prints the seconds and their relation.
func (b *bench) spreads(ctx context.Context) error {
	operator := b.contenders[1]
	if err := operator.begin(ctx); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	defer func() { _ = operator.end(context.WithoutCancel(ctx)) }() // close removes what is left
	for pair := range b.pairs {
		var seconds [2]float64
		for i := range seconds {
			with := (pair+i)%2 == 1
			at := 0
			if with {
				at = 1
			}
			var err error
			if seconds[at], err = b.deployment(ctx, with); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stdout, "%d pods: %.1f s without, %.1f s with a WorkloadSpread of 3 subsets, %.2f times\n", b.pods, seconds[0], seconds[1], seconds[1]/seconds[0])
	}
	return nil
}

// deployment starts a Deployment, and returns how long it took.
func (b *bench) deployment(ctx context.Context, spread bool) (seconds float64, err error) {
	dynamics, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return 0, err
	}
	resource := dynamics.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "workloadspreads"}).Namespace(b.namespace)
	if spread {
		if _, err := resource.Create(ctx, b.workloadSpread(), metav1.CreateOptions{}); err != nil {
			return 0, err
		}
		if err := pause(ctx, quietTime); err != nil { // the API server asks about pods from then on
			return 0, err
		}
	}
	template := b.template("spread")
	template.Spec.ReadinessGates = nil
	deployments := b.core.AppsV1().Deployments(b.namespace)
	began := time.Now()
	if _, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "spread"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(b.pods)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template, //nolint:gosec // it is a number of pods
	}}, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := b.observer.allReady(ctx, b.pods, b.images[start]); err != nil {
		return 0, err
	}
	seconds = time.Since(began).Seconds()
	err = deployments.Delete(ctx, "spread", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	if spread {
		err = errors.Join(err, resource.Delete(ctx, "spread", metav1.DeleteOptions{}))
	}
	return seconds, errors.Join(err, b.clear(ctx), pause(ctx, quietTime))
}

// workloadSpread has three subsets of a third each.
func (b *bench) workloadSpread() *unstructured.Unstructured {
	third := int64(b.pods / 3)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1beta1", "kind": "WorkloadSpread", "metadata": map[string]any{"name": "spread"},
		"spec": map[string]any{
			"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "spread"},
			"subsets": []any{
				map[string]any{"name": "a", "maxReplicas": third}, map[string]any{"name": "b", "maxReplicas": third}, map[string]any{"name": "c"},
			},
		},
	}}
}
