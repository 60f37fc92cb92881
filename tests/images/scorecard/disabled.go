// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restore is how long it may take to bring the operator's configuration back when a test is cut off.
const restore = 30 * time.Second

// quiet is how long an object of a disabled kind must stay untouched.
const quiet = 3 * time.Second

// disabledKindsCostNothing switches off every kind but one through the Kruise object, and
// checks that the operator stops watching the others and leaves their objects alone; then
// it restores the configuration, and checks that the kinds come back.
//
// The API server counts watches without their owners. So the operator's are the ones coming
// back with the kinds: one for each replica. A cluster in which others begin or end watches
// of our kinds meanwhile, or with several API servers behind one address, can fail the
// test.
func disabledKindsCostNothing(ctx context.Context, w *fixture) (err error) {
	examples, err := w.examples()
	if err != nil {
		return err
	}
	configured, err := w.configured(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restore)
		defer cancel()
		err = errors.Join(err, configured.restore(ctx))
	}()
	status, err := configured.settled(ctx)
	if err != nil {
		return err
	}
	var on []string
	for _, kind := range slices.Sorted(maps.Keys(examples)) {
		if status.kinds[kind] == "Ready" {
			on = append(on, kind)
		}
	}
	if len(on) < 2 {
		return fmt.Errorf("of the kinds with examples %v are on: none can be switched off and another one stay", on)
	}
	kept, off := on[len(on)-1], on[:len(on)-1]
	if err := configured.set(ctx, []any{kept}); err != nil {
		return err
	}
	if status, err = configured.settled(ctx); err != nil {
		return err
	}
	for _, kind := range off {
		if status.kinds[kind] != "Disabled" {
			return fmt.Errorf("%s is off, and the status says %q", kind, status.kinds[kind])
		}
	}
	for _, kind := range off {
		if err := w.leftAlone(ctx, examples[kind]); err != nil {
			return err
		}
	}
	without, err := w.watches(ctx)
	if err != nil {
		return err
	}
	if err := configured.restore(ctx); err != nil {
		return err
	}
	for _, kind := range off {
		if err := w.comesBack(ctx, examples[kind], without, status.replicas); err != nil {
			return err
		}
	}
	w.notes = append(w.notes, fmt.Sprintf("with %s alone, the %d replicas did not watch %s and wrote nothing to an example",
		kept, status.replicas, strings.Join(off, ", ")))
	return nil
}

// examples are one for each kind with pods, without volumes.
func (w *fixture) examples() (map[string]*unstructured.Unstructured, error) {
	samples, err := w.samples()
	if err != nil {
		return nil, err
	}
	found := map[string]*unstructured.Unstructured{}
	for _, sample := range samples {
		_, claims, err := unstructured.NestedSlice(sample.Object, "spec", "volumeClaimTemplates")
		if err != nil {
			return nil, err
		}
		if !claims && found[sample.GetKind()] == nil {
			sample.SetNamespace(w.namespace)
			found[sample.GetKind()] = sample
		}
	}
	return found, nil
}

// configuration is the Kruise object and its earlier content.
type configuration struct {
	client client.Client
	object *unstructured.Unstructured
	// existed: there was one; kinds was its list of kinds, if any.
	existed, named bool
	kinds          []any
}

// configured reads the Kruise object, or makes one: it lists the enabled kinds.
func (w *fixture) configured(ctx context.Context) (*configuration, error) {
	c := &configuration{client: w.client, object: &unstructured.Unstructured{}}
	c.object.SetGroupVersionKind(schema.GroupVersionKind{Group: "operator.kruise.io", Version: "v1alpha1", Kind: "Kruise"})
	c.object.SetName("cluster")
	err := w.client.Get(ctx, client.ObjectKeyFromObject(c.object), c.object)
	switch {
	case apierrors.IsNotFound(err):
		if err := unstructured.SetNestedMap(c.object.Object, map[string]any{}, "spec"); err != nil {
			return nil, err
		}
		if err := w.client.Create(ctx, c.object); err != nil {
			return nil, fmt.Errorf("creating the Kruise: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("reading the Kruise: %w", err)
	default:
		c.existed = true
		if c.kinds, c.named, err = unstructured.NestedSlice(c.object.Object, "spec", "kinds"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// set changes the enabled kinds; nil leaves it to the operator.
func (c *configuration) set(ctx context.Context, kinds []any) error {
	before := c.object.DeepCopy()
	unstructured.RemoveNestedField(c.object.Object, "spec", "kinds")
	if kinds != nil {
		if err := unstructured.SetNestedSlice(c.object.Object, kinds, "spec", "kinds"); err != nil {
			return err
		}
	}
	if err := c.client.Patch(ctx, c.object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the Kruise: %w", err)
	}
	return nil
}

// restore restores the earlier configuration.
func (c *configuration) restore(ctx context.Context) error {
	switch {
	case !c.existed:
		return client.IgnoreNotFound(c.client.Delete(ctx, c.object))
	case c.named && c.kinds == nil:
		return c.set(ctx, []any{})
	default:
		return c.set(ctx, c.kinds)
	}
}

// state is the Kruise object's status.
type state struct {
	// kinds are the reasons of kinds.
	kinds map[string]string
	// replicas is how many processes report.
	replicas int
}

// settled waits until the operator runs as the object says.
func (c *configuration) settled(ctx context.Context) (state, error) {
	s := state{kinds: map[string]string{}}
	err := until(ctx, "the operator runs as its configuration says", func() error {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(c.object), c.object); err != nil {
			return err
		}
		status, _, err := unstructured.NestedMap(c.object.Object, "status")
		if err != nil {
			return err
		}
		conditions := conditionsOf(status)
		if status["observedGeneration"] != c.object.GetGeneration() || conditions["Available"] != "True" || conditions["Progressing"] != "False" {
			return fmt.Errorf("generation %d, status %v", c.object.GetGeneration(), status)
		}
		kinds, _, err := unstructured.NestedSlice(status, "kinds")
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if kind, ok := kind.(map[string]any); ok {
				s.kinds[fmt.Sprint(kind["kind"])] = fmt.Sprint(kind["reason"])
			}
		}
		replicas, _, err := unstructured.NestedSlice(status, "replicas")
		s.replicas = len(replicas)
		return err
	})
	return s, err
}

// leftAlone creates an object of a disabled kind and checks that it stays as created,
// without pods.
func (w *fixture) leftAlone(ctx context.Context, example *unstructured.Unstructured) error {
	if err := w.noWebhooks(ctx, example); err != nil {
		return err
	}
	if err := w.create(ctx, example); err != nil {
		return err
	}
	created := example.DeepCopy()
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(created), created); err != nil {
		return err
	}
	end := time.After(quiet)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		is := created.DeepCopy()
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(is), is); err != nil {
			return err
		}
		if is.GetResourceVersion() != created.GetResourceVersion() {
			return fmt.Errorf("%s %s was written although its kind is off: %v", is.GetKind(), is.GetName(), is.Object["status"])
		}
		pods := &corev1.PodList{}
		labels, _, err := unstructured.NestedStringMap(is.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return err
		}
		if err := w.client.List(ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%s %s has %d pods although its kind is off", is.GetKind(), is.GetName(), len(pods.Items))
		}
		select {
		case <-tick.C:
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noWebhooks checks that writes of a disabled kind do not call the operator. Under the
// Operator Lifecycle Manager they do: it reinstalls an operator with missing webhooks.
func (w *fixture) noWebhooks(ctx context.Context, example *unstructured.Unstructured) error {
	mapping, err := w.mapping(example)
	if err != nil {
		return err
	}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(
		client.IgnoreNotFound(w.client.Get(ctx, client.ObjectKey{Name: "kruise-operator-mutating"}, mutating)),
		client.IgnoreNotFound(w.client.Get(ctx, client.ObjectKey{Name: "kruise-operator-validating"}, validating)),
	); err != nil {
		return err
	}
	var rules []admissionregistrationv1.RuleWithOperations
	for _, webhook := range mutating.Webhooks {
		rules = append(rules, webhook.Rules...)
	}
	for _, webhook := range validating.Webhooks {
		rules = append(rules, webhook.Rules...)
	}
	for _, rule := range rules {
		if slices.Contains(rule.APIGroups, mapping.Resource.Group) && slices.Contains(rule.Resources, mapping.Resource.Resource) {
			return fmt.Errorf("writes of %s call a webhook although the kind is off", example.GetKind())
		}
	}
	return nil
}

// comesBack checks that the operator watches a kind again and reconciles its objects.
func (w *fixture) comesBack(ctx context.Context, example *unstructured.Unstructured, without map[string]int, replicas int) error {
	mapping, err := w.mapping(example)
	if err != nil {
		return err
	}
	resource := mapping.Resource.GroupResource().String()
	if err := until(ctx, "the operator watches "+resource+" again", func() error {
		now, err := w.watches(ctx)
		if err == nil && now[resource] < without[resource]+replicas {
			err = fmt.Errorf("there are %d watches, there were %d while the kind was off, and the operator has %d replicas",
				now[resource], without[resource], replicas)
		}
		return err
	}); err != nil {
		return err
	}
	return w.ready(ctx, example)
}

func (w *fixture) mapping(object *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := object.GroupVersionKind()
	return w.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
}

// running matches how many watches of a resource the API server serves.
var running = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{(\S*verb="WATCH"\S*)\} (\d+)$`)

// label matches one label of a metric.
var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// watches counts the API server's watches, by resource and group, in every version.
func (w *fixture) watches(ctx context.Context) (map[string]int, error) {
	asking, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	text, err := asking.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	counts := map[string]int{}
	for _, match := range running.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(match[1], -1) {
			labels[pair[1]] = pair[2]
		}
		count, err := strconv.Atoi(match[2])
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
		}
		counts[schema.GroupResource{Group: labels["group"], Resource: labels["resource"]}.String()] += count
	}
	if len(counts) == 0 {
		return nil, errors.New("the API server does not say how many watches it serves")
	}
	return counts, nil
}
