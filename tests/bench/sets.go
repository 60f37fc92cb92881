// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

const group = "apps.kruise.io"

// strategies are set specs beside replicas, selector and template: by kind and version, the
// preferred one first.
var strategies = map[string][]struct {
	version string
	spec    map[string]any
}{
	"CloneSet": {
		{"v1beta1", map[string]any{"updateStrategy": map[string]any{"rollingUpdate": inPlace("podUpdatePolicy")}}},
		{"v1alpha1", map[string]any{"updateStrategy": inPlace("type")}},
	},
	"StatefulSet": {
		{"v1beta1", map[string]any{
			"updateStrategy": map[string]any{"rollingUpdate": inPlace("podUpdatePolicy")}, "podManagementPolicy": "Parallel", "serviceName": "bench",
		}},
	},
}

func inPlace(field string) map[string]any {
	return map[string]any{field: "InPlaceIfPossible", "maxUnavailable": fmt.Sprintf("%d%%", unavailable)}
}

func knows(kind string) bool { return strategies[kind] != nil }

// sets brings pods about through sets, whoever serves them.
type sets struct {
	bench    *bench
	resource dynamic.ResourceInterface
	kind     schema.GroupVersionKind
	spec     map[string]any

	// process is the operator of a tree of ours; nil is an installed one.
	process *operator.Operator
	program string
	// answered is set when an operator was seen to act.
	answered bool
}

// discover finds the served version of the kind.
func (b *bench) discover() (*sets, error) {
	client, err := discovery.NewDiscoveryClientForConfig(b.config)
	if err != nil {
		return nil, err
	}
	dynamics, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return nil, err
	}
	for _, s := range strategies[b.kind] {
		version := schema.GroupVersion{Group: group, Version: s.version}
		served, err := client.ServerResourcesForGroupVersion(version.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, resource := range served.APIResources {
			if resource.Kind == b.kind {
				resources := dynamics.Resource(version.WithResource(resource.Name)).Namespace(b.namespace)
				return &sets{bench: b, resource: resources, kind: version.WithKind(b.kind), spec: s.spec}, nil
			}
		}
	}
	return nil, fmt.Errorf("%s does not serve the kind %s of %s: no operator is installed there", b.config.Host, b.kind, group)
}

func (s *sets) begin(ctx context.Context) error {
	if s.process == nil {
		return nil
	}
	s.process.SetProgram(s.program)
	return s.process.Run(ctx)
}

// end deletes the sets before their operator stops: it may have finalizers.
func (s *sets) end(ctx context.Context) error {
	err := s.resource.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, metav1.ListOptions{})
	if s.process != nil {
		err = errors.Join(err, s.process.Stop())
	}
	return err
}

func (s *sets) used() (cpu, peak float64, err error) {
	if s.process == nil {
		return math.NaN(), math.NaN(), nil
	}
	usage, err := operator.UsageOf(s.process.PID())
	return usage.CPU.Seconds(), float64(usage.PeakRSS) / (1 << 20), err
}

func (s *sets) act(ctx context.Context, step, pods int) error {
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := range s.bench.sets {
		writers.Go(func() error {
			name := fmt.Sprintf("bench-%d", i)
			if step == start {
				return s.create(ctx, name, pods/s.bench.sets)
			}
			patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, s.bench.images[step])
			_, err := s.resource.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil || s.answered {
		return err
	}
	return s.answer(ctx)
}

func (s *sets) create(ctx context.Context, name string, replicas int) error {
	template := s.bench.template(name)
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	if err != nil {
		return err
	}
	spec := map[string]any{
		"replicas": int64(replicas), "template": pod, "selector": map[string]any{"matchLabels": map[string]any{"app": name}},
	}
	maps.Copy(spec, s.spec)
	set := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}}
	set.SetGroupVersionKind(s.kind)
	_, err = s.resource.Create(ctx, set, metav1.CreateOptions{})
	return err
}

// answer returns when an operator has taken note of the first set.
func (s *sets) answer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := s.await(ctx, "bench-0", func(set *unstructured.Unstructured, status map[string]int64) bool {
		return status["observedGeneration"] >= set.GetGeneration()
	})
	if err != nil {
		return fmt.Errorf("no operator answers to a %s in this cluster: %w", s.kind.Kind, err)
	}
	s.answered = true
	return nil
}

// settle returns when all sets' statuses report the end of the update.
func (s *sets) settle(ctx context.Context, pods int) error {
	each := int64(pods / s.bench.sets)
	for i := range s.bench.sets {
		err := s.await(ctx, fmt.Sprintf("bench-%d", i), func(set *unstructured.Unstructured, status map[string]int64) bool {
			return status["observedGeneration"] >= set.GetGeneration() && status["updatedReplicas"] == each && status["readyReplicas"] == each
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// await reads a set until the condition holds for its status.
func (s *sets) await(ctx context.Context, name string, holds func(*unstructured.Unstructured, map[string]int64) bool) error {
	for {
		set, err := s.resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		numbers := map[string]int64{}
		status, _, _ := unstructured.NestedMap(set.Object, "status")
		for field, value := range status {
			if n, is := value.(int64); is {
				numbers[field] = n
			}
		}
		if holds(set, numbers) {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("the status of %s is %v: %w", name, numbers, err)
		}
	}
}

// template is the pod of operators and bare client alike.
func (b *bench) template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}, {ConditionType: "KruisePodReady"}},
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers:                    []corev1.Container{{Name: "main", Image: b.images[start]}},
		},
	}
}
