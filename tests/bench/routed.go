// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// approvalTime is how long releases wait for a person while requests are counted.
const approvalTime = time.Minute

// routed releases many Deployments with traffic at the same time. In the middle all wait for a person.
func (r *rollouts) routed(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := r.gateway(ctx, config)
	if err != nil {
		return err
	}
	pods := r.routes * r.size
	deploy := func(ctx context.Context, name string) error { return r.deploy(ctx, name, r.size, r.size/2) }
	create := func(ctx context.Context, name string) error { return r.createRouted(ctx, c, name) }
	if err := errors.Join(each(ctx, r.routes, deploy), r.allReady(ctx, pods), each(ctx, r.routes, create), r.until(ctx, "guarded", guarded), pause(ctx, quietTime)); err != nil {
		return err
	}
	if _, err := r.requests(); err != nil {
		return err
	}
	r.version++
	began := time.Now()
	if err := errors.Join(each(ctx, r.routes, r.change), r.until(ctx, "waiting for a person", waiting)); err != nil {
		return err
	}
	up := time.Since(began).Seconds()
	if err := pause(ctx, quietTime); err != nil {
		return err
	}
	first, err := r.requests()
	if err != nil {
		return err
	}
	resting, err := r.unanswered(ctx)
	if err != nil {
		return err
	}
	began = time.Now()
	if err := errors.Join(each(ctx, r.routes, r.approve), r.until(ctx, "over", r.over)); err != nil {
		return err
	}
	down := time.Since(began).Seconds()
	second, err := r.requests()
	if err != nil {
		return err
	}
	fmt.Printf("%d releases of %d pods with traffic at once: %.1f s until all wait at the first step, %.1f s from approval to the end; %d and %d writes for each\n",
		r.routes, r.size, up, down, first.Writes()/r.routes, second.Writes()/r.routes)
	fmt.Printf("  while all wait for a person: %d requests in %s beside watches and the lease\n", resting, approvalTime)
	for _, all := range []audit.Counts{first, second} {
		for line := range strings.Lines(all.String()) {
			fmt.Print("    ", line)
		}
		fmt.Println()
	}
	return errors.Join(r.removed(ctx), each(ctx, r.routes, r.gone))
}

// gateway starts one without network, and waits until its routes are served.
func (r *rollouts) gateway(ctx context.Context, config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	if err := gateway.Install(ctx, c); err != nil {
		return nil, err
	}
	gate := &gateway.Gateway{Client: c, Namespace: r.namespace}
	go gate.Run(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("no routes are served"))
	defer cancel()
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gateway.Kind)
		if c.List(ctx, list, client.InNamespace(r.namespace)) == nil {
			return c, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// unanswered counts the requests of an operator whose releases wait for a person.
func (r *rollouts) unanswered(ctx context.Context) (int, error) {
	if err := pause(ctx, approvalTime); err != nil {
		return 0, err
	}
	all, err := r.requests()
	return all.Sum(func(q audit.Request) bool { return q.Verb != "watch" && q.Resource != "leases" }), err
}

// createRouted makes a Rollout with a step that has traffic and waits, and the Service and route that it needs.
func (r *rollouts) createRouted(ctx context.Context, c client.Client, name string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	service.Spec.Selector, service.Spec.Ports = map[string]string{"app": name}, []corev1.ServicePort{{Port: 80}}
	route := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{map[string]any{"name": "gate"}},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": name, "port": int64(80)}}}},
	}}}
	route.SetGroupVersionKind(gateway.Kind)
	route.SetNamespace(r.namespace)
	route.SetName(name)
	if err := errors.Join(c.Create(ctx, service), c.Create(ctx, route)); err != nil {
		return err
	}
	_, err := r.objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
			"strategy": map[string]any{"canary": map[string]any{
				"trafficRoutings": []any{map[string]any{"service": name, "gateway": map[string]any{"httpRouteName": name}}},
				"steps":           []any{map[string]any{"replicas": "20%", "traffic": "20%"}, map[string]any{"replicas": "100%"}},
			}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// waiting: the first step has its traffic, and waits for a person.
func waiting(o *unstructured.Unstructured) bool {
	state, _, _ := unstructured.NestedString(o.Object, "status", "currentStepState")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase == "Progressing" && state == "StepPaused"
}

// approve is what a person does.
func (r *rollouts) approve(ctx context.Context, name string) error {
	_, err := r.objects.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`), metav1.PatchOptions{}, "status")
	return err
}
