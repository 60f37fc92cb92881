// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// The scenarios of a SidecarSet.
const (
	sidecarUpgradeScenario  = "sidecar upgrade"
	sidecarMemoryScenario   = "sidecar memory"
	sidecarCreationScenario = "pod creation"
)

// The images of sidecars. A pair that is upgraded hot runs the idle one in the container that does not work.
const (
	agentBefore = "example/agent:v1"
	agentAfter  = "example/agent:v2"
	agentLatest = "example/agent:v3"
	agentIdle   = "example/idle:v1"
)

// sidecarSet is the kind whose sidecars come before the containers of a pod, so that bare clients count pods by the image of the first one.
var sidecarSet = workload{
	kind: "SidecarSet",
	settled: func(object client.Object) (bool, string) {
		set, ok := object.(*v1beta1.SidecarSet)
		if !ok {
			return false, ""
		}
		s := set.Status
		c := meta.FindStatusCondition(s.Conditions, string(v1beta1.SidecarSetReconciling))
		return c != nil && c.Reason == v1beta1.ReasonComplete && s.ObservedGeneration == set.Generation && s.ReadyPods == s.MatchedPods && s.UpdatedPods == s.MatchedPods,
			fmt.Sprintf("%+v", s)
	},
}

// sidecarSetOf selects the pods of one namespace.
func sidecarSetOf(name, namespace string, hot bool, unavailable int) *v1beta1.SidecarSet {
	container := v1beta1.SidecarContainer{Container: corev1.Container{Name: "agent", Image: agentBefore}}
	if hot {
		container.UpgradeStrategy = v1beta1.SidecarUpgradeStrategy{UpgradeType: v1beta1.HotUpgrade, HotUpgradeEmptyImage: agentIdle}
	}
	return &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Containers:        []v1beta1.SidecarContainer{container},
			UpdateStrategy:    v1beta1.SidecarSetUpdateStrategy{MaxUnavailable: ptr.To(intstr.FromString(fmt.Sprintf("%d%%", unavailable)))},
		},
	}
}

// plainTemplate is a pod of somebody who knows nothing of this operator.
func plainTemplate() corev1.PodTemplateSpec {
	template := podTemplate("bench", imageBefore)
	template.Spec.ReadinessGates = nil
	return template
}

// createPlain creates n pods, each with one write, and returns when the first container of all has the image and all are ready.
func (r *raw) createPlain(ctx context.Context, n int, template corev1.PodTemplateSpec, first string) error {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("plain-%d", i)
	}
	err := parallel(ctx, names, func(ctx context.Context, name string) error {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = name, r.namespace
		_, err := r.client.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating pods: %w", err)
	}
	_, err = r.awaitReady(ctx, n, first)
	return err
}

// awaitInForce returns when the pods of a set are injected by a way, proven.
func (b *run) awaitInForce(ctx context.Context, name, way string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	set := &v1beta1.SidecarSet{}
	for {
		if err := b.client.Get(ctx, types.NamespacedName{Name: name}, set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetInjectionPath))
		if c != nil && c.Status == metav1.ConditionTrue && c.Reason == way && set.Status.ObservedGeneration == set.Generation {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("SidecarSet %s is not injected by %s: %+v", name, way, c)
		}
	}
}

// awaitRest returns when nothing is left to be done for the injection of the only set: it is proven, and earlier revisions are gone.
func (b *run) awaitRest(ctx context.Context, name string) error {
	if err := b.awaitInForce(ctx, name, "Policy"); err != nil {
		return err
	}
	for {
		list, err := b.core.AppsV1().ControllerRevisions(install.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "operator.kruise.io/injection"})
		if err != nil {
			return err
		}
		if len(list.Items) <= 2 { // that of the set, and that of the anchor
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("there are still %d revisions: %w", len(list.Items), ctx.Err())
		}
	}
}

// injected makes a SidecarSet and pods that have its sidecar, in a namespace of their own.
func (b *run) injected(ctx context.Context, name string, hot bool, pods int) (*subject, error) {
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	watch, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return nil, err
	}
	s := &subject{workload: sidecarSet, object: sidecarSetOf(name, namespace, hot, b.options.unavailable), pods: pods, watch: watch}
	if err := b.client.Create(ctx, s.object); err != nil {
		return nil, err
	}
	if err := b.awaitInForce(ctx, name, "Policy"); err != nil {
		return nil, err
	}
	if err := watch.createPlain(ctx, pods, plainTemplate(), agentBefore); err != nil {
		return nil, err
	}
	return s, b.settled(ctx, s)
}

// sidecarUpgrade gives the sidecar of many pods another image, cold and hot, twice each: the first time pods get the condition
// SidecarSetUpgradable. A bare client does the same, with the same writes, to as many equal pods. All pods are there before, and each upgrade follows
// that of the bare client within seconds, since the speed of a shared machine changes by the minute. Then the operator is started again and watched
// at rest.
func (b *run) sidecarUpgrade(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	var figures []figure
	for _, hot := range []bool{false, true} {
		kind := map[bool]string{false: "cold", true: "hot"}[hot]
		var first, next []figure
		for i := range b.options.runs {
			b.progress(sidecarSet.kind, kind+" upgrade", i, "the bare client and the operator in turn")
			s, err := b.injected(ctx, fmt.Sprintf("sidecars-%s-%d", kind, i), hot, b.options.sidecarPods)
			if err != nil {
				return figures, err
			}
			bare, err := b.rawInjected(ctx, fmt.Sprintf("sidecars-raw-%s-%d", kind, i), s.watch.any())
			if err != nil {
				return figures, fmt.Errorf("the bare client: %w", err)
			}
			for _, step := range []struct {
				name, image, done string
				into              *[]figure
			}{
				{kind + ", with the first SidecarSetUpgradable", agentAfter, map[bool]string{false: agentAfter, true: agentIdle}[hot], &first},
				{kind, agentLatest, agentLatest, &next},
			} {
				took, err := bare.upgradeSidecars(ctx, max(b.options.sidecarPods*b.options.unavailable/100, 1), hot, step.image)
				if err != nil {
					return figures, fmt.Errorf("the bare client: %s: %w", step.name, err)
				}
				f, err := b.upgradeSidecars(ctx, s, step.name, step.image, step.done)
				if err != nil {
					return figures, fmt.Errorf("%s: %w", step.name, err)
				}
				*step.into = append(*step.into, beside(f, took))
			}
			if err := bare.clear(ctx); err != nil {
				return figures, err
			}
			if !hot && i == b.options.runs-1 {
				if err := b.awaitRest(ctx, s.object.GetName()); err != nil {
					return figures, err
				}
				idle, err := b.idle(ctx, s)
				if err != nil {
					return figures, err
				}
				figures = append(figures, idle)
			}
			if err := b.remove(ctx, s); err != nil {
				return figures, err
			}
		}
		figures = append(figures, median(first), median(next))
	}
	return figures, nil
}

// upgradeSidecars changes the image of a set and waits until the first container of all pods has the one that it has in the end, and the status
// says so.
func (b *run) upgradeSidecars(ctx context.Context, s *subject, name, image, done string) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var flow progress
	f, err := b.measure(ctx, name, s.pods, func() (took, error) {
		began := time.Now()
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/containers/0/image","value":%q}]`, image)
		if err := b.client.Patch(ctx, s.object, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return took{}, err
		}
		var err error
		if flow, err = s.watch.followUpgrade(ctx, s.pods, done); err != nil {
			return took{}, err
		}
		// Of a pair the second container may have to become idle yet, which the status counts.
		if err = b.settled(ctx, s); err != nil {
			return took{}, err
		}
		all := time.Since(began)
		return took{all: all}, nil
	}, s)
	if err != nil {
		return f, err
	}
	statuses := 0
	for request, n := range f.Requests {
		if strings.Contains(request, " sidecarsets/status ") {
			statuses += n
		}
	}
	f.Note = fmt.Sprintf("%d writes of the status in %.1f s; first pod after %.2f s, last after %.2f s; "+
		"longest time without progress %.2f s; at most %d of %d allowed pods in flight at a time",
		statuses, f.Seconds, flow.first.Seconds(), flow.last.Seconds(), flow.stall.Seconds(), flow.flying, max(s.pods*b.options.unavailable/100, 1))
	return f, nil
}

// progress is how an upgrade went.
type progress struct {
	// stall is the longest time in which no pod got on, flying the most pods at once whose node had not done what was written, as far as they
	// were seen.
	stall  time.Duration
	flying int
	// first is when the first pod had moved, last when all pods had, since the change of the set.
	first, last time.Duration
}

// followUpgrade returns when n pods are ready whose first container has the image.
func (r *raw) followUpgrade(ctx context.Context, n int, image string) (progress, error) {
	var p progress
	began := time.Now()
	last, at := -1, began
	err := r.await(ctx, func(pods int, ready map[string]int) bool {
		// Pods that begin are progress, too.
		if now := ready[image]*(n+1) + r.flying; now != last {
			last, at = now, time.Now()
			if now > 0 && p.first == 0 {
				p.first = time.Since(began)
			}
		}
		p.stall = max(p.stall, time.Since(at))
		p.flying = max(p.flying, r.flying)
		return pods == n && ready[image] == n
	})
	p.last = time.Since(began)
	return p, err
}

// rawInjected makes as many pods for a client that decides nothing. They have the same sidecars as the injected one, and what it says of them, but
// for the annotation by which the operator knows them.
func (b *run) rawInjected(ctx context.Context, name string, injected *corev1.Pod) (*raw, error) {
	r, err := b.bare(ctx, name)
	if err != nil {
		return nil, err
	}
	template := plainTemplate()
	template.Annotations = maps.Clone(injected.Annotations)
	delete(template.Annotations, shared.AnnotationSidecarSetInjectedList)
	var sidecars []corev1.Container
	for _, c := range injected.Spec.Containers {
		if c.Name != template.Spec.Containers[0].Name {
			c.VolumeMounts = nil // The API server mounts the token of each pod.
			sidecars = append(sidecars, c)
		}
	}
	template.Spec.Containers = append(sidecars, template.Spec.Containers...)
	return r, r.createPlain(ctx, b.options.sidecarPods, template, agentBefore)
}

// upgradeSidecars gives the sidecar of all pods another image, at most window of them at a time: one write for each, or two where a second
// container takes over first. The first time the pods get the condition SidecarSetUpgradable as well, by one more write. It returns how long it took.
func (r *raw) upgradeSidecars(ctx context.Context, window int, hot bool, image string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	first := image == agentAfter
	works, idles := "agent", ""
	switch {
	case hot && first:
		works, idles = "agent-2", "agent-1"
	case hot:
		works, idles = "agent-1", "agent-2"
	}
	began := time.Now()
	err := r.each(ctx, window, func(ctx context.Context, pod string, write func(func() error) error) error {
		if err := r.setImage(ctx, pod, works, image, first, write); err != nil || !hot {
			return err
		}
		return r.setImage(ctx, pod, idles, agentIdle, false, write)
	})
	return time.Since(began), err
}

// setImage changes the image of a container of a pod, with the condition SidecarSetUpgradable if that is wanted, and waits until the node has restarted
// the container and the pod is ready.
func (r *raw) setImage(ctx context.Context, pod, container, image string, condition bool, write func(func() error) error) error {
	status := func(p *corev1.Pod) corev1.ContainerStatus {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == container {
				return c
			}
		}
		return corev1.ContainerStatus{}
	}
	r.mu.Lock()
	old := status(r.pods[pod]).ContainerID
	r.mu.Unlock()
	err := write(func() error {
		patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":%q,"image":%q}]}}`, container, image)
		_, err := r.client.CoreV1().Pods(r.namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil || !condition {
			return err
		}
		return r.patchConditions(ctx, pod, corev1.ConditionTrue, shared.ReasonAllSidecarSetUpgradable, shared.SidecarSetUpgradable)
	})
	if err != nil {
		return err
	}
	return r.awaitPod(ctx, pod, func(p *corev1.Pod) bool {
		now := status(p)
		return p.Status.ObservedGeneration >= p.Generation && now.ContainerID != old && now.State.Running != nil && isReady(p)
	})
}

// sidecarMemory measures the resident memory of a new process beside pods of others and pods with a sidecar.
func (b *run) sidecarMemory(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	without, err := b.atRest(ctx)
	if err != nil {
		return nil, err
	}
	b.progress(sidecarSet.kind, sidecarMemoryScenario, 0, "the operator")
	s, err := b.injected(ctx, "sidecars-memory", false, b.options.sidecarPods)
	if err != nil {
		return nil, err
	}
	foreign, err := b.namespace(ctx, "sidecars-foreign")
	if err != nil {
		return nil, err
	}
	if err := b.createForeign(ctx, foreign, b.options.foreign); err != nil {
		return nil, err
	}
	with, err := b.atRest(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.requests(figure{Scenario: sidecarMemoryScenario, Pods: s.pods + b.options.foreign, Seconds: b.options.idle.Seconds()})
	if err != nil {
		return nil, err
	}
	f.PeakRSSMiB = float64(with) / (1 << 20)
	f.Note = fmt.Sprintf("RSS of a new process after %s beside %d pods of others and %d with a sidecar, not the peak; without any pods it is %.1f MiB",
		b.options.idle, b.options.foreign, s.pods, float64(without)/(1<<20))
	if err := b.core.CoreV1().Namespaces().Delete(ctx, foreign, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	return []figure{f}, b.remove(ctx, s)
}
