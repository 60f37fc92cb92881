// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

const (
	// countEvery is how often pods without sidecars are looked for: nothing wakes a set because of a pod that does not name it.
	countEvery = time.Minute
	// namedPods is how many of them a condition names.
	namedPods = 5
	// page is how many of the finished pods are read at once.
	page = 500
)

// without looks for pods that a set selects and that do not have its sidecars.
func (i *Injection) without(ctx context.Context, one *injected) (*metav1.Condition, error) {
	if i.options.Pods == nil || one.fault != nil || one.set.Paused {
		return nil, nil
	}
	known := i.proofsOf(one.name)
	now := i.options.Clock.Now()
	if known.countedRevision == one.revision && now.Sub(known.counted) < countEvery {
		return known.found, nil
	}
	names, err := i.podsWithout(ctx, one)
	if err != nil {
		return nil, one.errorf(fmt.Errorf("looking for pods without the sidecars: %w", err))
	}
	known.counted, known.countedRevision, known.found = now, one.revision, nil
	if len(names) > 0 {
		shown := strings.Join(names[:min(len(names), namedPods)], ", ")
		if len(names) > namedPods {
			shown += fmt.Sprintf(" and %d more", len(names)-namedPods)
		}
		known.found = &metav1.Condition{
			Type: string(appsv1beta1.SidecarSetPodsWithoutSidecar), Status: metav1.ConditionTrue, Reason: "CreatedWithout",
			Message: fmt.Sprintf("pods that the set selects were created without its sidecars, and get them when they are re-created: %d: %s", len(names), shown),
		}
	}
	return known.found, nil
}

// podsWithout are the names of such pods, sorted. The cache is asked first; namespaces are read only when there is a candidate.
func (i *Injection) podsWithout(ctx context.Context, one *injected) ([]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(sidecar.Selector(append(slices.Clone(one.set.Match.Labels), sidecar.Bypass())))
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := i.options.Pods.List(ctx, pods, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var candidates []*corev1.Pod
	for at := range pods.Items {
		if pod := &pods.Items[at]; sidecar.Lacks(pod, one.name) {
			candidates = append(candidates, pod)
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	namespaces, err := i.selectedNamespaces(ctx, one.set.Match.Namespace)
	if err != nil {
		return nil, err
	}
	finished, err := i.finished(ctx, selector)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range candidates {
		if namespace, selected := namespaces[pod.Namespace]; selected && !finished[pod.UID] && one.compiled.Concerns(pod.Labels, namespace) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// finished are the pods that are through, of those that a selector matches. Of pods that the operator does not control the cache has no status, so
// the server is asked, for names alone.
func (i *Injection) finished(ctx context.Context, selector labels.Selector) (map[types.UID]bool, error) {
	uids := map[types.UID]bool{}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		for {
			options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}, client.MatchingFields{"status.phase": string(phase)}, client.Limit(page)}
			if list.Continue != "" {
				options = append(options, client.Continue(list.Continue))
			}
			if err := i.options.Live.List(ctx, list, options...); err != nil {
				return nil, fmt.Errorf("reading which pods are finished: %w", err)
			}
			for at := range list.Items {
				uids[list.Items[at].UID] = true
			}
			if list.Continue == "" {
				break
			}
		}
	}
	return uids, nil
}

// selectedNamespaces are the labels of the namespaces in which a set injects.
func (i *Injection) selectedNamespaces(ctx context.Context, requirements []sidecar.Requirement) (map[string]map[string]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(sidecar.Selector(append(slices.Clone(requirements), sidecar.NamespaceExclusions(i.options.Namespace)...)))
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := i.options.Live.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("reading namespaces: %w", err)
	}
	byName := make(map[string]map[string]string, len(list.Items))
	for at := range list.Items {
		byName[list.Items[at].Name] = list.Items[at].Labels
	}
	return byName, nil
}
