// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// evictionsCommand evicts the pods of a Deployment at a rate, without a budget and with one.
func evictionsCommand() *cobra.Command {
	o := options{kind: "CloneSet", sets: 1, images: []string{"registry.k8s.io/pause:3.10", ""}, writers: []int{1}}
	rate := 0
	cmd := &cobra.Command{
		Use: "evictions", Short: "Evict pods at a rate, without a PodUnavailableBudget and with one for all of them", Args: cobra.NoArgs,
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
			return b.evictions(cmd.Context(), rate)
		},
	}
	cmd.Flags().IntVar(&o.pods, "pods", 1000, "how many pods there are; each is evicted once in a turn")
	cmd.Flags().IntVar(&rate, "rate", 200, "how many are evicted in a second")
	return cmd
}

// evictions measures both turns.
func (b *bench) evictions(ctx context.Context, rate int) error {
	operator := b.contenders[1]
	if err := operator.begin(ctx); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	defer func() { _ = operator.end(context.WithoutCancel(ctx)) }() // close removes what is left
	template := b.template("evicted")
	template.Spec.ReadinessGates = nil
	if _, err := b.core.AppsV1().Deployments(b.namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(b.pods)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template, //nolint:gosec // it is a number of pods
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, with := range []string{"without", "with"} {
		if err := b.observer.allReady(ctx, b.pods, b.images[start]); err != nil {
			return err
		}
		if with == "with" {
			if err := b.budget(ctx); err != nil {
				return err
			}
		}
		if err := b.evictAll(ctx, rate, with); err != nil {
			return err
		}
	}
	return nil
}

// budget creates a budget that every pod but one may leave, and waits until all are counted.
func (b *bench) budget(ctx context.Context) error {
	dynamics, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	resource := dynamics.Resource(schema.GroupVersionResource{Group: "policy.kruise.io", Version: "v1beta1", Resource: "podunavailablebudgets"}).Namespace(b.namespace)
	if _, err := resource.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": map[string]any{"name": "evicted"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "evicted"}}, "minAvailable": int64(1)},
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for {
		stored, err := resource.Get(ctx, "evicted", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current, _, _ := unstructured.NestedInt64(stored.Object, "status", "currentAvailable")
		if observed, _, _ := unstructured.NestedInt64(stored.Object, "status", "observedGeneration"); observed > 0 && current == int64(b.pods) {
			return nil
		}
		if err := pause(ctx, time.Second/4); err != nil {
			return err
		}
	}
}

// evictAll evicts each pod once, and prints how long the answers took.
func (b *bench) evictAll(ctx context.Context, rate int, with string) error {
	pods, err := b.core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=evicted"})
	if err != nil {
		return err
	}
	calls, conflicts, err := b.counters(ctx)
	if err != nil {
		return err
	}
	var mutex sync.Mutex
	var took []time.Duration
	var failed []error
	var group sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	began := time.Now()
	for i := range pods.Items {
		<-ticker.C
		group.Go(func() {
			asked := time.Now()
			err := b.core.CoreV1().Pods(b.namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[i].Name}})
			mutex.Lock()
			defer mutex.Unlock()
			took = append(took, time.Since(asked))
			if err != nil {
				failed = append(failed, err)
			}
		})
	}
	group.Wait()
	spent := time.Since(began)
	callsAfter, conflictsAfter, err := b.counters(ctx)
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(part int) time.Duration { return took[(len(took)-1)*part/100].Round(time.Millisecond / 10) }
	fmt.Fprintf(os.Stdout, "%s a budget: %d evictions in %.1f s, %d refused; p50 %s, p99 %s; %d calls of the operator, %d conflicts of the budget\n",
		with, len(took), spent.Seconds(), len(failed), at(50), at(99), callsAfter-calls, conflictsAfter-conflicts)
	if len(failed) > 0 {
		fmt.Fprintln(os.Stdout, "  the first refusal:", failed[0])
	}
	return nil
}

// counters are the API server's: how often it has called the operator about disruptions, and how often a write to a budget conflicted.
func (b *bench) counters(ctx context.Context) (calls, conflicts int, err error) {
	text, err := b.core.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		var count float64
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "%g", &count); err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(line, "apiserver_admission_webhook_request_total{") && strings.Contains(line, ".disruption.operator.kruise.io"):
			calls += int(count)
		case strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="409"`) && strings.Contains(line, `"podunavailablebudgets"`):
			conflicts += int(count)
		}
	}
	return calls, conflicts, nil
}
