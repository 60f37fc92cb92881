// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

const (
	// countEvery is the interval of the search for pods without sidecars: they trigger no pass over the set.
	countEvery = time.Minute
	// namedPods is how many of them a condition names.
	namedPods = 5
	// maxAsked limits how many pods and namespaces are read from the API server.
	maxAsked = 50
)

// search is one for pods of a revision without sidecars.
type search struct {
	at       time.Time
	revision string
	// pods is how many there are at least; condition says it, and is empty without any.
	pods      int
	condition conditions.Condition
}

// without finds selected pods without the sidecars. On error it returns the last result.
func (i *Injection) without(ctx context.Context, set *injectedSet) (conditions.Condition, error) {
	known, now := i.knownOf(set), i.options.Clock.Now()
	switch {
	case i.options.Pods == nil || set.fault != nil || set.parsed.Paused:
		known.found = search{}
	case known.found.revision != set.shown || now.Sub(known.found.at) >= countEvery:
		var names []string
		var all bool
		var err error
		i.unlocked(func() { names, all, err = i.podsWithout(ctx, set) })
		if err != nil {
			return known.found.condition, fmt.Errorf("looking for pods without the sidecars of SidecarSet %s: %w", set.name, err)
		}
		known.found = search{at: now, revision: set.shown, pods: len(names), condition: conditionOf(names, all)}
	}
	return known.found.condition, nil
}

// conditionOf names pods without sidecars; all: there are no more.
func conditionOf(names []string, all bool) conditions.Condition {
	if len(names) == 0 {
		return conditions.Condition{}
	}
	count := strconv.Itoa(len(names))
	if !all {
		count = "at least " + count
	}
	return conditions.New(appsv1beta1.SidecarSetPodsWithoutSidecar, true, appsv1beta1.ReasonCreatedWithout,
		"pods that the set selects were created without its sidecars, and get them when they are re-created: "+count+": "+conditions.First(names, namedPods, ", "))
}

// lastFound is how many pods lack the sidecars of a set, as far as known.
func (i *Injection) lastFound(name string) int {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return ptr.Deref(i.states[name], setState{}).found.pods
}

// podsWithout returns their names, sorted; all: the list is complete. It asks
// the server only about candidates: the cache has no phases of foreign pods.
func (i *Injection) podsWithout(ctx context.Context, set *injectedSet) (names []string, all bool, err error) {
	candidates, err := i.candidates(ctx, set)
	if err != nil {
		return nil, false, err
	}
	namespaces, asked := map[string]map[string]string{}, 0
	for _, pod := range candidates {
		labels, known := namespaces[pod.Namespace]
		if asked == maxAsked || !known && len(namespaces) == maxAsked {
			return names, false, nil
		}
		if !known {
			if labels, err = i.labelsOf(ctx, pod.Namespace); err != nil {
				return nil, false, err
			}
			namespaces[pod.Namespace] = labels
		}
		if !i.selects(set, pod, labels) {
			continue
		}
		asked++
		unended, err := i.isUnended(ctx, pod)
		if err != nil {
			return nil, false, err
		}
		if unended {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names, true, nil
}

// candidates returns matching pods without the sidecars, by name.
func (i *Injection) candidates(ctx context.Context, set *injectedSet) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(podentry.Selector(append(slices.Clone(set.parsed.Match.Labels), podentry.Bypass())))
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := i.options.Pods.List(ctx, pods, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var lacking []*corev1.Pod
	for at := range pods.Items {
		if pod := &pods.Items[at]; set.compiled.Lacks(pod) {
			lacking = append(lacking, pod)
		}
	}
	slices.SortFunc(lacking, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return lacking, nil
}

// labelsOf are the labels of a namespace; nil: it is not there.
func (i *Injection) labelsOf(ctx context.Context, name string) (map[string]string, error) {
	namespace := namespaces()
	if err := i.options.Live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return namespace.Labels, nil
}

func (i *Injection) selects(set *injectedSet, pod *corev1.Pod, namespace map[string]string) bool {
	exempt := func(r podentry.Requirement) bool { return !r.Holds(namespace) }
	return namespace != nil && !slices.ContainsFunc(podentry.NamespaceExclusions(i.options.Namespace), exempt) &&
		set.parsed.Match.Selects(pod.Labels, namespace) && set.compiled.InjectsInto(pod.Labels, namespace)
}

// isUnended asks the server for a pod still running.
func (i *Injection) isUnended(ctx context.Context, pod *corev1.Pod) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	selector := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name),
	)
	if err := i.options.Live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: selector}); err != nil {
		return false, fmt.Errorf("reading whether a pod has ended: %w", err)
	}
	return len(list.Items) > 0 && list.Items[0].UID == pod.UID, nil
}
