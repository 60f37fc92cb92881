// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
)

const (
	// countEvery is how often pods without sidecars are looked for: a pod that does not name a set triggers no pass over it.
	countEvery = time.Minute
	// namedPods is how many of them a condition names.
	namedPods = 5
	// maxPages is how many pages of them are read at most in one namespace, or in all.
	maxPages = 20
	// askedSingly is how many pods are asked for one by one, where there are more than are read and none of those that were read is without sidecars.
	askedSingly = 20
	// askedNamespaces is up to how many namespaces are asked one by one. With more, all are asked at once.
	askedNamespaces = 10
)

// lacking are the pods that were found of a set without its sidecars.
type lacking struct {
	// pods is how many there are, or at least are, condition says it; nil: there are none.
	pods      int
	condition *metav1.Condition
}

// without looks for pods that a set selects and that do not have its sidecars. With an error it returns what was found last. It is called without the lock.
func (i *Injection) without(ctx context.Context, set *injectedSet) (lacking, error) {
	if i.options.Pods == nil || set.fault != nil || set.parsed.Paused {
		i.noteFound(set.name, time.Time{}, "", lacking{})
		return lacking{}, nil
	}
	now := i.options.Clock.Now()
	last, known := i.counted(set, now)
	if known {
		return last, nil
	}
	names, all, err := i.podsWithout(ctx, set)
	if err != nil {
		return last, fmt.Errorf("looking for pods without the sidecars of SidecarSet %s: %w", set.name, err)
	}
	found := lacking{pods: len(names)}
	if len(names) > 0 {
		count := strconv.Itoa(len(names))
		if !all {
			count = "at least " + count
		}
		found.condition = &metav1.Condition{
			Type: string(appsv1beta1.SidecarSetPodsWithoutSidecar), Status: metav1.ConditionTrue, Reason: appsv1beta1.ReasonCreatedWithout,
			Message: fmt.Sprintf("pods that the set selects were created without its sidecars, and get them when they are re-created: %s: %s", count, conditions.First(names, namedPods, ", ")),
		}
	}
	i.noteFound(set.name, now, set.shown, found)
	return found, nil
}

// noteFound notes what was found when pods were looked at, for which shown.
func (i *Injection) noteFound(name string, at time.Time, shown string, found lacking) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	of := i.knownOf(name)
	of.counted, of.countedFor, of.found = at, shown, found
}

// counted is what was found last. known says that this was a short while ago.
func (i *Injection) counted(set *injectedSet, now time.Time) (found lacking, known bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	of := i.knownOf(set.name)
	return of.found, of.countedFor == set.shown && now.Sub(of.counted) < countEvery
}

// lastFound is what was found last, if the set is still there.
func (i *Injection) lastFound(name string) lacking {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if known := i.known[name]; known != nil {
		return known.found
	}
	return lacking{}
}

// podsWithout are the names of such pods, sorted; all says that there are no more. The cache is asked first; the server only when there is a candidate.
func (i *Injection) podsWithout(ctx context.Context, set *injectedSet) (names []string, all bool, err error) {
	selector, err := metav1.LabelSelectorAsSelector(podentry.Selector(append(slices.Clone(set.parsed.Match.Labels), podentry.Bypass())))
	if err != nil {
		return nil, false, err
	}
	pods := &corev1.PodList{}
	if err := i.options.Pods.List(ctx, pods, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, err
	}
	var lacking []*corev1.Pod
	places := sets.New[string]()
	for at := range pods.Items {
		if pod := &pods.Items[at]; set.compiled.Lacks(pod) {
			lacking = append(lacking, pod)
			places.Insert(pod.Namespace)
		}
	}
	if len(places) == 0 {
		return nil, true, nil
	}
	namespaces, err := i.selectedNamespaces(ctx, set.parsed.Match.Namespace, places)
	if err != nil {
		return nil, false, err
	}
	candidates := map[string][]*corev1.Pod{}
	for _, pod := range lacking {
		if namespace, selected := namespaces[pod.Namespace]; selected && set.compiled.InjectsInto(pod.Labels, namespace) {
			candidates[pod.Namespace] = append(candidates[pod.Namespace], pod)
		}
	}
	return i.unfinished(ctx, selector, candidates)
}

// unfinished are the names of the pods that have not ended, sorted; all says that there are no more. pods are by namespace. The cache
// has no status of pods that the operator does not control, so the server is asked, for names alone.
func (i *Injection) unfinished(ctx context.Context, selector labels.Selector, pods map[string][]*corev1.Pod) (names []string, all bool, err error) {
	places := pods
	if len(pods) > askedNamespaces {
		places = map[string][]*corev1.Pod{metav1.NamespaceAll: slices.Concat(slices.Collect(maps.Values(pods))...)}
	}
	all = true
	for namespace, there := range places {
		more, whole, err := i.running(ctx, selector, namespace, there)
		if err != nil {
			return nil, false, err
		}
		names, all = append(names, more...), all && whole
	}
	slices.Sort(names)
	return names, all, nil
}

// running are the names of those of the pods of a namespace, or of all, that have not ended. Pods that have are not read: there may be very many. whole is false
// when there are more than are read of the others; those that were found have not ended all the same. When none was found by then, some are asked for by name:
// ten thousand pods with sidecars would hide all that come after them and have none.
func (i *Injection) running(ctx context.Context, selector labels.Selector, namespace string, pods []*corev1.Pod) (names []string, whole bool, err error) {
	wanted := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		wanted[pod.UID] = pod
	}
	unended := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	like := &metav1.PartialObjectMetadataList{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	options := []client.ListOption{
		client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}, client.MatchingFieldsSelector{Selector: unended},
	}
	read := 0
	for list, err := range pages.All(ctx, i.options.Live, like, options...) {
		if err != nil {
			return nil, false, fmt.Errorf("reading which pods have not ended: %w", err)
		}
		for at := range list.Items {
			if pod := wanted[list.Items[at].UID]; pod != nil {
				names = append(names, pod.Namespace+"/"+pod.Name)
				delete(wanted, pod.UID)
			}
		}
		if len(wanted) == 0 || list.Continue == "" {
			break
		}
		if read++; read < maxPages {
			continue
		}
		if len(names) == 0 {
			names, err = i.runningSingly(ctx, unended, wanted)
		}
		return names, false, err
	}
	return names, true, nil
}

// runningSingly are the names of those of some pods, the last by name, that have not ended.
func (i *Injection) runningSingly(ctx context.Context, unended fields.Selector, pods map[types.UID]*corev1.Pod) ([]string, error) {
	last := slices.SortedFunc(maps.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(b.Namespace, a.Namespace), cmp.Compare(b.Name, a.Name))
	})
	var names []string
	for _, pod := range last[:min(len(last), askedSingly)] {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		selector := fields.AndSelectors(unended, fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name))
		if err := i.options.Live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: selector}); err != nil {
			return nil, fmt.Errorf("reading whether a pod has ended: %w", err)
		}
		if len(list.Items) > 0 && list.Items[0].UID == pod.UID {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names, nil
}

// selectedNamespaces are the labels of those of the places in which a set injects. Namespaces are read by pages: there may be thousands.
func (i *Injection) selectedNamespaces(ctx context.Context, requirements []podentry.Requirement, places sets.Set[string]) (map[string]map[string]string, error) {
	selector, err := metav1.LabelSelectorAsSelector(podentry.Selector(append(slices.Clone(requirements), podentry.NamespaceExclusions(i.options.Namespace)...)))
	if err != nil {
		return nil, err
	}
	byName := make(map[string]map[string]string, len(places))
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	for list, err := range pages.All(ctx, i.options.Live, namespaces, client.MatchingLabelsSelector{Selector: selector}) {
		if err != nil {
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
