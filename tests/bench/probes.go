// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

const (
	probesScenario = "probes"
	// probedCondition is the condition that tells the results.
	probedCondition corev1.PodConditionType = "bench.example/probed"
)

var probeMarker = workload{kind: "PodProbeMarker"}

// probes has a PodProbeMarker probe many pods on a few nodes, and then watches it at rest: probes go on, and nobody may write. The bare client writes
// a condition to each of the same pods.
func (b *run) probes(ctx context.Context) (figures []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	nodes := b.nodes.Names()
	nodes = nodes[:min(restarting, len(nodes))]
	pods, err := b.bare(ctx, "probes")
	if err != nil {
		return nil, err
	}
	names := make([]string, b.options.probed)
	for i := range names {
		names[i] = fmt.Sprintf("raw-%d", i)
	}
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		at := slices.Index(names, name) % len(nodes)
		if err := pods.createOn(ctx, nodes[at], name, podTemplate("probed", imageBefore)); err != nil {
			return err
		}
		return pods.patchConditions(ctx, name, corev1.ConditionTrue, "", "InPlaceUpdateReady", "KruisePodReady")
	})
	if err != nil {
		return nil, err
	}
	if _, err := pods.awaitReady(ctx, len(names), imageBefore); err != nil {
		return nil, err
	}
	b.progress(probeMarker.kind, probesScenario, 0, "the bare client")
	began := time.Now()
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		return pods.patchConditions(ctx, name, corev1.ConditionTrue, "", "bench.example/raw")
	})
	if err != nil {
		return nil, err
	}
	raw := time.Since(began)

	var commands atomic.Int64
	stop, err := b.runDaemonsCounting(ctx, nodes, &commands)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := b.pretendDeployed(ctx); err != nil {
		return nil, err
	}
	b.progress(probeMarker.kind, probesScenario, 0, "the operator")
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: pods.namespace, Name: "probed"}}
	body := fmt.Sprintf(`{"spec":{"selector":{"matchLabels":{"app":"probed"}},"probes":[{"name":"up","containerName":"main","podConditionType":%q,`+
		`"probe":{"exec":{"command":["/up"]},"periodSeconds":10},"markerPolicy":[{"state":"Succeeded","labels":{"up":"true"}}]}]}}`, probedCondition)
	if err := json.Unmarshal([]byte(body), marker); err != nil {
		return nil, err
	}
	first, err := b.measure(ctx, "first results", len(names), func() (took, error) {
		began := time.Now()
		if err := b.client.Create(ctx, marker); err != nil {
			return took{}, err
		}
		if err := pods.awaitTold(ctx, len(names)); err != nil {
			return took{}, fmt.Errorf("waiting for the results: %w", err)
		}
		all := time.Since(began)
		return took{all: all}, b.poll(ctx, func() (bool, error) {
			err := b.client.Get(ctx, client.ObjectKeyFromObject(marker), marker)
			return int(marker.Status.MatchedPods) == len(names) && slices.ContainsFunc(marker.Status.Conditions, func(c metav1.Condition) bool {
				return c.Reason == v1alpha1.ReasonProbing
			}), err
		})
	})
	if err != nil {
		return nil, err
	}
	first.Note = "raw: one condition written to each pod; probes begin at a random time of their period"
	rest, err := b.probedAtRest(ctx, pods, nodes, &commands)
	if err != nil {
		return nil, err
	}
	if err := b.client.Delete(ctx, marker); err != nil {
		return nil, err
	}
	err = b.poll(ctx, func() (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(marker), marker)
		return err != nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until the marker is gone: %w", err)
	}
	return []figure{beside(first, raw), rest}, pods.clear(ctx)
}

// pretendDeployed makes a DaemonSet of the node daemon without pods: the daemons are in this process, and the operator would say that there is none.
func (b *run) pretendDeployed(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operands.DaemonNamespace}}
	if err := client.IgnoreAlreadyExists(b.client.Create(ctx, namespace)); err != nil {
		return err
	}
	labels := map[string]string{"app": "daemon"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: operands.DaemonName}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{"bench.example/none": "true"}, Containers: []corev1.Container{{Name: "daemon", Image: "example/daemon:v1"}},
	}
	return client.IgnoreAlreadyExists(b.client.Create(ctx, set))
}

// awaitTold waits until n pods tell the results: the condition, and the label.
func (r *raw) awaitTold(ctx context.Context, n int) error {
	return r.await(ctx, func(int, map[string]int) bool {
		told := 0
		for _, pod := range r.pods {
			if c := podstate.Condition(pod, probedCondition); c != nil && c.Status == corev1.ConditionTrue && pod.Labels["up"] == "true" {
				told++
			}
		}
		return told == n
	})
}

// probedAtRest watches probed pods while nothing changes, and fails when somebody has written to a pod or to a list of a node.
func (b *run) probedAtRest(ctx context.Context, pods *raw, nodes []string, commands *atomic.Int64) (figure, error) {
	versions := func() (map[string]string, error) {
		at := map[string]string{}
		list := &corev1.PodList{}
		if err := b.client.List(ctx, list, client.InNamespace(pods.namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			at["pod "+list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		for _, node := range nodes {
			probes := &v1alpha1.NodePodProbe{}
			if err := b.client.Get(ctx, client.ObjectKey{Name: node}, probes); err != nil {
				return nil, err
			}
			at["NodePodProbe "+node] = probes.ResourceVersion
		}
		return at, nil
	}
	before, err := versions()
	if err != nil {
		return figure{}, err
	}
	if _, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser)); err != nil {
		return figure{}, err
	}
	used, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	executed := commands.Load()
	select {
	case <-time.After(b.options.idle):
	case <-ctx.Done():
		return figure{}, context.Cause(ctx)
	}
	executed = commands.Load() - executed
	after, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	f, err := b.requests(figure{Scenario: "probed, at rest", Pods: b.options.probed, Seconds: b.options.idle.Seconds()})
	if err != nil {
		return figure{}, err
	}
	f.CPUMillisPod = float64((after.CPU - used.CPU).Milliseconds()) / float64(f.Pods)
	f.PeakRSSMiB = float64(after.PeakRSS) / (1 << 20)
	now, err := versions()
	if err != nil {
		return figure{}, err
	}
	changed := 0
	for name, version := range before {
		if now[name] != version {
			changed++
		}
	}
	f.Note = fmt.Sprintf("%d probes carried out meanwhile; %d writes of the operator; %d of %d pods and lists of nodes changed", executed, f.Writes, changed, len(before))
	switch {
	case executed == 0:
		return f, fmt.Errorf("at rest: no probe was carried out")
	case f.Writes > 0 || changed > 0:
		return f, fmt.Errorf("at rest: %s: %v", f.Note, f.Requests)
	}
	return f, nil
}
