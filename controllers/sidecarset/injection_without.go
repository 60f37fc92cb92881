// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

const (
	// countEvery is how often pods without sidecars are looked for: nothing wakes a set because of a pod that does not name it.
	countEvery = time.Minute
	// namedPods is how many of them a condition names.
	namedPods = 5
	// page is how many finished pods or namespaces are read at once.
	page = 500
	// mostPages is how many pages of them are read at most in one namespace, or in all.
	mostPages = 20
	// askedNamespaces is up to how many namespaces are asked one by one. With more, all are asked at once.
	askedNamespaces = 10
)

// without looks for pods that a set selects and that do not have its sidecars. It is called without the lock.
func (i *Injection) without(ctx context.Context, one *injected) (*metav1.Condition, error) {
	if i.options.Pods == nil || one.fault != nil || one.set.Paused {
		return nil, nil
	}
	now := i.options.Clock.Now()
	if found, known := i.counted(one, now); known {
		return found, nil
	}
	names, err := i.podsWithout(ctx, one)
	if err != nil {
		return nil, one.errorf(fmt.Errorf("looking for pods without the sidecars: %w", err))
	}
	var found *metav1.Condition
	if len(names) > 0 {
		found = &metav1.Condition{
			Type: string(appsv1beta1.SidecarSetPodsWithoutSidecar), Status: metav1.ConditionTrue, Reason: appsv1beta1.ReasonCreatedWithout,
			Message: fmt.Sprintf("pods that the set selects were created without its sidecars, and get them when they are re-created: %d: %s", len(names), conditions.First(names, namedPods, ", ")),
		}
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known := i.proofsOf(one.name)
	known.counted, known.countedFor, known.found = now, one.shown, found
	return found, nil
}

// counted is what was found a short while ago, if the pods were looked at then.
func (i *Injection) counted(one *injected, now time.Time) (*metav1.Condition, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known := i.proofsOf(one.name)
	return known.found, known.countedFor == one.shown && now.Sub(known.counted) < countEvery
}

// podsWithout are the names of such pods, sorted. The cache is asked first; the server only when there is a candidate.
func (i *Injection) podsWithout(ctx context.Context, one *injected) ([]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(sidecar.Selector(append(slices.Clone(one.set.Match.Labels), sidecar.Bypass())))
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := i.options.Pods.List(ctx, pods, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var lacking []*corev1.Pod
	places := sets.New[string]()
	for at := range pods.Items {
		if pod := &pods.Items[at]; one.compiled.Lacks(pod) {
			lacking = append(lacking, pod)
			places.Insert(pod.Namespace)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	namespaces, err := i.selectedNamespaces(ctx, one.set.Match.Namespace, places)
	if err != nil {
		return nil, err
	}
	candidates := map[string][]*corev1.Pod{}
	for _, pod := range lacking {
		if namespace, selected := namespaces[pod.Namespace]; selected && one.compiled.Concerns(pod.Labels, namespace) {
			candidates[pod.Namespace] = append(candidates[pod.Namespace], pod)
		}
	}
	return i.unfinished(ctx, selector, candidates)
}

// unfinished are the names of the pods that are not through, sorted. pods are by namespace. Of pods that the operator does not control the cache has
// no status, so the server is asked, for names alone.
func (i *Injection) unfinished(ctx context.Context, selector labels.Selector, pods map[string][]*corev1.Pod) ([]string, error) {
	var names []string
	var through map[types.UID]bool
	whole, everywhere := true, len(pods) > askedNamespaces
	for at, namespace := range slices.Sorted(maps.Keys(pods)) {
		if at == 0 || !everywhere {
			within := namespace
			if everywhere {
				within = metav1.NamespaceAll
			}
			var err error
			if through, whole, err = i.finished(ctx, selector, within); err != nil {
				return nil, err
			}
		}
		for _, pod := range pods[namespace] {
			// Rather too few are named than pods that have ended.
			if whole && !through[pod.UID] {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// finished are the pods of a namespace, or of all, that are through, of those that a selector matches. whole is false when there are too many to
// be read.
func (i *Injection) finished(ctx context.Context, selector labels.Selector, namespace string) (uids map[types.UID]bool, whole bool, err error) {
	uids = map[types.UID]bool{}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		for pages := 0; pages == 0 || list.Continue != ""; pages++ {
			if pages == mostPages {
				return nil, false, nil
			}
			options := []client.ListOption{
				client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}, client.MatchingFields{"status.phase": string(phase)},
				client.Limit(page), client.Continue(list.Continue),
			}
			if err := i.options.Live.List(ctx, list, options...); err != nil {
				return nil, false, fmt.Errorf("reading which pods are finished: %w", err)
			}
			for at := range list.Items {
				uids[list.Items[at].UID] = true
			}
		}
	}
	return uids, true, nil
}

// selectedNamespaces are the labels of those of the places in which a set injects. Namespaces are read by pages: there may be thousands.
func (i *Injection) selectedNamespaces(ctx context.Context, requirements []sidecar.Requirement, places sets.Set[string]) (map[string]map[string]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(sidecar.Selector(append(slices.Clone(requirements), sidecar.NamespaceExclusions(i.options.Namespace)...)))
	if err != nil {
		return nil, err
	}
	byName := make(map[string]map[string]string, len(places))
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	for first := true; first || list.Continue != ""; first = false {
		options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}, client.Limit(page), client.Continue(list.Continue)}
		if err := i.options.Live.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("reading namespaces: %w", err)
		}
		for at := range list.Items {
			if name := list.Items[at].Name; places.Has(name) {
				byName[name] = list.Items[at].Labels
			}
		}
	}
	return byName, nil
}
