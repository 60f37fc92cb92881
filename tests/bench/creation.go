// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// creation is how fast pods are created.
type creation struct {
	// p50 and p99 are of one create after the other, without keeping the pods, perSecond of many at once that are kept.
	p50, p99 time.Duration
	// plain is the p50 of pods that nothing selects, each created in between: what a machine does that is faster or slower for a while, it does to both.
	plain     time.Duration
	perSecond float64
	seconds   float64
}

func (c creation) String() string {
	return fmt.Sprintf("p50 %.2f ms, %.2f times that of pods that nothing selects, created in turn; p99 %.2f ms, %.0f pods/s",
		c.p50.Seconds()*1000, c.ratio(), c.p99.Seconds()*1000, c.perSecond)
}

func (c creation) ratio() float64 { return c.p50.Seconds() / c.plain.Seconds() }

// podCreation measures how fast pods are created: without this operator, alone and with a policy of one line; with it but without SidecarSets, with
// 1 that selects them, with 20 of which 1 does, and with 20 that all do; by the policy and by the webhook, with the operator up and killed.
func (b *run) podCreation(ctx context.Context) (figures []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	var order []string
	measured := map[string][]creation{}
	for i := range b.options.runs {
		note := func(name string, c creation, err error) error {
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if len(measured[name]) == 0 {
				order = append(order, name)
			}
			measured[name] = append(measured[name], c)
			return nil
		}
		if err := b.creations(ctx, i, note); err != nil {
			return nil, err
		}
	}
	base := middle(measured[withoutOperator])
	for _, name := range order {
		m := middle(measured[name])
		low, high := spread(measured[name])
		f := figure{Scenario: name, Pods: b.options.creations, Runs: len(measured[name]), Seconds: m.seconds, RawSeconds: base.seconds, Ratio: m.seconds / base.seconds}
		f.Note = fmt.Sprintf("%s; p50 is %.2f times that without the operator; in turn the runs came to %.2f to %.2f times",
			m, m.p50.Seconds()/base.p50.Seconds(), low, high)
		figures = append(figures, f)
	}
	return figures, nil
}

// withoutOperator is the name of what all others are compared with.
const withoutOperator = "pods without this operator"

// creations measures everything once.
func (b *run) creations(ctx context.Context, i int, note func(string, creation, error) error) error {
	b.progress(sidecarSet.kind, sidecarCreationScenario, i, "without the operator")
	if err := errors.Join(b.operator.Stop(), b.operator.Uninstall(ctx)); err != nil {
		return err
	}
	// An API server that has seen the policy deleted does not watch the revisions of the next one: it asks for one at each pod, which took 1.2 pods' time.
	if err := b.cluster.RestartAPIServer(ctx); err != nil {
		return err
	}
	c, err := b.create(ctx, fmt.Sprintf("creation-%d-none", i))
	if err := note(withoutOperator, c, err); err != nil {
		return err
	}
	b.progress(sidecarSet.kind, sidecarCreationScenario, i, "a policy of one line")
	c, err = b.besideConstant(ctx, fmt.Sprintf("creation-%d-constant", i))
	if err := note("without this operator, a policy of one line adds a container", c, err); err != nil {
		return err
	}
	if err := b.operator.Install(ctx); err != nil {
		return err
	}
	for _, way := range b.options.ways {
		b.progress(sidecarSet.kind, sidecarCreationScenario, i, way)
		b.operator.SetArgs(b.options.args...)
		if way == "Webhook" {
			b.operator.SetArgs(append(slices.Clone(b.options.args), "--admission-mode=Webhook")...)
		}
		if err := b.operator.Run(ctx); err != nil {
			return err
		}
		for _, beside := range []struct{ sets, selecting int }{{0, 0}, {1, 1}, {20, 1}, {20, 20}} {
			if beside.selecting > b.options.selecting {
				continue
			}
			if err := b.creationsBeside(ctx, i, way, beside.sets, beside.selecting, note); err != nil {
				return err
			}
		}
		if err := b.operator.Stop(); err != nil {
			return err
		}
	}
	b.operator.SetArgs(b.options.args...)
	return b.operator.Run(ctx)
}

// besideConstant measures with a policy that adds one constant container to each pod of a namespace: what the API server takes for any policy
// that changes a pod.
func (b *run) besideConstant(ctx context.Context, name string) (c creation, err error) {
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return creation{}, err
	}
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
				Expression: `[JSONPatch{op: "add", path: "/spec/containers/-", value: {"name": dyn("constant"), "image": dyn("agent:1")}}]`,
			}}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}
	if err := errors.Join(b.client.Create(ctx, policy), b.client.Create(ctx, binding)); err != nil {
		return creation{}, err
	}
	if err := b.awaitContainers(ctx, namespace, 2); err != nil {
		return creation{}, err
	}
	if c, err = b.createIn(ctx, namespace, "bench", 1); err != nil {
		return c, err
	}
	if err := errors.Join(b.client.Delete(ctx, binding), b.client.Delete(ctx, policy)); err != nil {
		return c, err
	}
	if err := b.awaitContainers(ctx, namespace, 1); err != nil {
		return c, err
	}
	return c, b.core.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}

// creationsBeside measures with so many sets, of which so many select the pods, the operator up, and then killed. The webhook's pods are refused then; pods that no set selects
// stand for the others.
func (b *run) creationsBeside(ctx context.Context, i int, way string, sets, selecting int, note func(string, creation, error) error) error {
	namespace := fmt.Sprintf("creation-%d-%s-%d-%d", i, map[string]string{"Policy": "policy", "Webhook": "webhook"}[way], sets, selecting)
	which := fmt.Sprintf("%d sets, %d of them selecting", sets, selecting)
	var all []client.Object
	for at := range sets {
		set := sidecarSetOf(fmt.Sprintf("%s-%02d", namespace, at), "bench-"+namespace, false, 1)
		set.Spec.Containers[0].Name = fmt.Sprintf("agent-%02d", at)
		if at >= selecting {
			set.Spec.Selector.MatchLabels["app"] = fmt.Sprintf("another-%02d", at)
		}
		all = append(all, set)
	}
	ns, err := b.namespace(ctx, namespace) // the proof needs it
	if err != nil {
		return err
	}
	for _, set := range all {
		if err := b.client.Create(ctx, set); err != nil {
			return err
		}
	}
	for _, set := range all {
		if err := b.awaitInForce(ctx, set.GetName(), way); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s, %s, operator up", which, way)
	c, err := b.createIn(ctx, ns, "bench", selecting)
	if err := note(name, c, err); err != nil {
		return err
	}
	if err := b.operator.Kill(); err != nil {
		return err
	}
	name, app, injected := fmt.Sprintf("%s, %s, operator killed", which, way), "bench", selecting
	if way == "Webhook" && sets > 0 {
		name, app, injected = fmt.Sprintf("pods of others beside %s, %s, operator killed", which, way), "other", 0
	}
	c, err = b.createIn(ctx, ns, app, injected)
	if err := note(name, c, err); err != nil {
		return err
	}
	if err := b.operator.Run(ctx); err != nil {
		return err
	}
	for _, set := range all {
		if err := b.client.Delete(ctx, set); err != nil {
			return err
		}
	}
	if err := b.awaitPlain(ctx, ns); err != nil {
		return err
	}
	return b.core.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})
}

// create measures in a namespace of its own.
func (b *run) create(ctx context.Context, name string) (creation, error) {
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return creation{}, err
	}
	c, err := b.createIn(ctx, namespace, "bench", 0)
	if err != nil {
		return c, err
	}
	return c, b.core.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}

// createIn creates pods that have so many sidecars afterwards: one after the other without keeping them, then many at once.
func (b *run) createIn(ctx context.Context, namespace, app string, sidecars int) (creation, error) {
	r, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return creation{}, err
	}
	pod := func(name, app string) *corev1.Pod {
		template := plainTemplate()
		template.Labels = map[string]string{"app": app}
		template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	}
	check := func(made *corev1.Pod, sidecars int, err error) error {
		if err == nil && len(made.Spec.Containers) != 1+sidecars {
			err = fmt.Errorf("it has %d containers, not %d", len(made.Spec.Containers), 1+sidecars)
		}
		return err
	}
	const warm = 20 // connections and caches of the server
	var each, plain []time.Duration
	for at := range warm + b.options.creations {
		for _, one := range []struct {
			app      string
			sidecars int
			into     *[]time.Duration
		}{{"nobody", 0, &plain}, {app, sidecars, &each}} {
			asked := pod("dry", one.app)
			began := time.Now()
			made, err := r.client.CoreV1().Pods(namespace).Create(ctx, asked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err := check(made, one.sidecars, err); err != nil {
				return creation{}, err
			}
			if at >= warm {
				*one.into = append(*one.into, time.Since(began))
			}
		}
	}
	slices.Sort(each)
	slices.Sort(plain)
	names := make([]string, b.options.creations)
	for at := range names {
		names[at] = fmt.Sprintf("pod-%d", at)
	}
	began := time.Now()
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		made, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod(name, app), metav1.CreateOptions{})
		return check(made, sidecars, err)
	})
	seconds := time.Since(began).Seconds()
	c := creation{p50: each[len(each)/2], plain: plain[len(plain)/2], p99: each[len(each)*99/100], perSecond: float64(len(names)) / seconds, seconds: seconds}
	if err != nil {
		return c, err
	}
	return c, r.clear(ctx)
}

// awaitPlain returns when pods are created without sidecars again.
func (b *run) awaitPlain(ctx context.Context, namespace string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		sets := &v1beta1.SidecarSetList{}
		err := b.client.List(ctx, sets)
		return len(sets.Items) == 0, err
	})
	if err != nil {
		return err
	}
	return b.awaitContainers(ctx, namespace, 1)
}

// awaitContainers returns when new pods of the namespace have so many containers.
func (b *run) awaitContainers(ctx context.Context, namespace string, n int) error {
	template := plainTemplate()
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain", Labels: template.Labels}, Spec: template.Spec}
		err := b.client.Create(ctx, pod, client.DryRunAll)
		return err == nil && len(pod.Spec.Containers) == n, nil
	})
}

// middle is the run in the middle, by how many times the p50 is that of the pods created in turn.
func middle(all []creation) creation {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b creation) int { return cmp.Compare(a.ratio(), b.ratio()) })
	return sorted[len(sorted)/2]
}

// spread is how many times it is at least and at most.
func spread(all []creation) (low, high float64) {
	for at, c := range all {
		if at == 0 || c.ratio() < low {
			low = c.ratio()
		}
		high = max(high, c.ratio())
	}
	return low, high
}
