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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// distribution measures how long a ConfigMap takes to be in all namespaces.
type distribution struct {
	namespaces, pairs, writers int

	core    *kubernetes.Clientset
	objects dynamic.ResourceInterface
	copies  dynamic.NamespaceableResourceInterface
	process *operator.Operator
	log     *audit.Log
}

const (
	// benchLabel is on the namespaces that get a copy.
	benchLabel = "bench"
	// restTime is how long nothing may be written at rest.
	restTime = 30 * time.Second
)

func distributionCommand() *cobra.Command {
	d := &distribution{}
	cmd := &cobra.Command{
		Use: "distribution", Short: "Copy a ConfigMap to many namespaces, by a ResourceDistribution and by a bare client in turn", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&d.namespaces, "namespaces", 2000, "how many namespaces there are")
	cmd.Flags().IntVar(&d.pairs, "pairs", 3, "how often operator and bare client are measured in turn")
	cmd.Flags().IntVar(&d.writers, "writers", 32, "how many requests the bare client has in flight")
	return cmd
}

func (d *distribution) run(ctx context.Context) (err error) {
	if err := repository.EnterRoot(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr, Audit: &cluster.Audit{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := d.open(ctx, c); err != nil {
		return err
	}
	var bare, ours, ratios []float64
	for round := range d.pairs {
		without, _, err := d.turn(ctx, d.bare)
		if err != nil {
			return fmt.Errorf("bare client: %w", err)
		}
		with, writes, err := d.turn(ctx, d.operator)
		if err != nil {
			return fmt.Errorf("operator: %w", err)
		}
		fmt.Fprintf(os.Stderr, "round %d: bare client %.1f s, operator %.1f s with %d writes\n", round+1, without, with, writes)
		bare, ours, ratios = append(bare, without), append(ours, with), append(ratios, with/without)
	}
	fmt.Printf("%d namespaces: bare client %.1f s, operator %.1f s, %.2f times (%.2f to %.2f)\n", d.namespaces,
		median(bare), median(ours), median(ratios), slices.Min(ratios), slices.Max(ratios))
	return d.rest(ctx)
}

// turn measures how long one takes, and counts the operator's writes in that time. Afterwards there are no copies.
func (d *distribution) turn(ctx context.Context, act func(context.Context) error) (seconds float64, writes int, err error) {
	if _, err := d.written(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := act(ctx); err != nil {
		return 0, 0, err
	}
	seconds = time.Since(began).Seconds()
	if writes, err = d.written(); err != nil {
		return 0, 0, err
	}
	return seconds, writes, d.clear(ctx)
}

// written counts the operator's writes since the last call.
func (d *distribution) written() (int, error) {
	events, err := d.log.Next(audit.ByUser(operator.ServiceAccountUser))
	return audit.Count(events).Writes(), err
}

// rest counts the writes at rest, and prints them with the memory in use and at most.
func (d *distribution) rest(ctx context.Context) error {
	before, err := operator.UsageOf(d.process.PID())
	if err != nil {
		return err
	}
	if err := errors.Join(d.operator(ctx), pause(ctx, quietTime)); err != nil {
		return err
	}
	if _, err := d.written(); err != nil {
		return err
	}
	if err := pause(ctx, restTime); err != nil {
		return err
	}
	writes, err := d.written()
	if err != nil {
		return err
	}
	after, err := operator.UsageOf(d.process.PID())
	fmt.Printf("at rest: %d writes in %s, memory %d MiB without and %d MiB with copies, at most %d MiB\n", writes, restTime, before.RSS>>20, after.RSS>>20, after.PeakRSS>>20)
	return err
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// open starts the operator, and makes the namespaces.
func (d *distribution) open(ctx context.Context, c *cluster.Cluster) (err error) {
	config := rest.CopyConfig(c.Config())
	config.QPS = -1
	if d.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	dynamics, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	d.objects = dynamics.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "resourcedistributions"})
	d.copies = dynamics.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	if d.process, err = operator.New(ctx, c, operator.Options{}); err != nil {
		return err
	}
	if err := d.process.Install(ctx); err != nil {
		return err
	}
	if err := d.process.Run(ctx); err != nil {
		return err
	}
	if d.log, err = audit.Open(c.AuditLog()); err != nil {
		return err
	}
	err = d.each(ctx, func(ctx context.Context, namespace string) error {
		_, err := d.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{benchLabel: "yes"}}}, metav1.CreateOptions{})
		return err
	})
	return errors.Join(err, pause(ctx, quietTime))
}

// each calls do for every namespace, a few at a time.
func (d *distribution) each(ctx context.Context, do func(context.Context, string) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(d.writers)
	for i := range d.namespaces {
		all.Go(func() error { return do(ctx, fmt.Sprintf("bench-%d", i)) })
	}
	return all.Wait()
}

func content() map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "hub"}, "data": map[string]any{"a": "1", "b": "2"}}
}

// bare applies the same objects: metadata makes work for the server and its garbage collector. Their owner has no targets.
func (d *distribution) bare(ctx context.Context) error {
	owner, err := d.objects.Create(ctx, distributionOf("nothing"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return d.each(ctx, func(ctx context.Context, namespace string) error {
		object := &unstructured.Unstructured{Object: content()}
		object.SetNamespace(namespace)
		object.SetLabels(map[string]string{"bench.kruise.io/distributed": "true"})
		object.SetAnnotations(map[string]string{
			"kruise.io/resourcedistribution.resource.from":     "bench",
			"kruise.io/resourcedistribution.resource.hashcode": fmt.Sprintf("%064d", 0),
		})
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
		_, err := d.copies.Namespace(namespace).Apply(ctx, "hub", object, metav1.ApplyOptions{FieldManager: "bench", Force: true})
		return err
	})
}

// distributionOf is a ResourceDistribution for the namespaces with this label.
func distributionOf(label string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1beta1", "kind": "ResourceDistribution", "metadata": map[string]any{"name": "bench"},
		"spec": map[string]any{"resource": content(), "targets": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{benchLabel: label}}}},
	}}
}

// operator creates a ResourceDistribution, and waits until its status says that all is done.
func (d *distribution) operator(ctx context.Context) error {
	if _, err := d.objects.Create(ctx, distributionOf("yes"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for {
		now, err := d.objects.Get(ctx, "bench", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if done, _, _ := unstructured.NestedInt64(now.Object, "status", "succeeded"); done == int64(d.namespaces) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// clear deletes the distribution and all copies.
func (d *distribution) clear(ctx context.Context) error {
	gone := func(err error) error {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if err := gone(d.objects.Delete(ctx, "bench", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})); err != nil {
		return err
	}
	for {
		if _, err := d.objects.Get(ctx, "bench", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	err := d.each(ctx, func(ctx context.Context, namespace string) error {
		return gone(d.copies.Namespace(namespace).Delete(ctx, "hub", metav1.DeleteOptions{}))
	})
	return errors.Join(err, pause(ctx, quietTime))
}
