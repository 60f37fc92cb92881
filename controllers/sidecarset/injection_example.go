// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// example is a pod as it should come out.
func example(compiled sidecar.Injection, pod *corev1.Pod, namespace *corev1.Namespace) (map[string]any, error) {
	want, err := objectOf(pod)
	if err != nil {
		return nil, err
	}
	changed, err := compiled.Inject(sidecar.Pod{Object: want, Namespace: namespace.Labels, Draw: 99})
	if err != nil {
		return nil, refusedError{err}
	}
	if !changed {
		return nil, errors.New("the pod that was made up: this set does not inject it")
	}
	return want, nil
}

// amounts are what the container of a pod for a dry run has of each resource, the least first.
func amounts() []corev1.ResourceList {
	var all []corev1.ResourceList
	for _, of := range [][2]string{{"1m", "4Mi"}, {"100m", "128Mi"}, {"1", "1Gi"}, {"16", "64Gi"}} {
		all = append(all, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(of[0]), corev1.ResourceMemory: resource.MustParse(of[1])})
	}
	return all
}

// expected is a pod for a dry run, and how it should come out.
type expected struct {
	pod  *corev1.Pod
	want map[string]any
}

// examplesOf are pods for dry runs, of which a namespace may refuse the first ones: they are in the order of what they request. Where resources of sidecars are
// computed from those of their container, no sidecar requests more than its limit, if that can be avoided: a server would refuse it. A set that refuses such a
// pod does so with the error, and one pod is returned.
func examplesOf(compiled sidecar.Injection, namespace *corev1.Namespace, labels map[string]string, way string) (all []expected, err error) {
	var least expected
	for _, amount := range amounts() {
		tried := expected{pod: examplePod(namespace.Name, labels, way, amount)}
		if tried.want, err = example(compiled, tried.pod, namespace); err != nil {
			return []expected{tried}, err
		}
		if least.pod == nil {
			least = tried
		}
		if withinLimits(tried.want) {
			all = append(all, tried)
		}
	}
	if len(all) == 0 {
		all = []expected{least}
	}
	return all, nil
}

// withinLimits says that no container requests more than its limit.
func withinLimits(pod map[string]any) bool {
	known := &corev1.Pod{}
	if err := quantity.FromUnstructured(pod, known); err != nil {
		return true // The dry run says what is wrong.
	}
	return !slices.ContainsFunc(slices.Concat(known.Spec.InitContainers, known.Spec.Containers), func(c corev1.Container) bool {
		for name, requested := range c.Resources.Requests {
			if limit, limited := c.Resources.Limits[name]; limited && requested.Cmp(limit) > 0 {
				return true
			}
		}
		return false
	})
}

// examplePod is one that strict namespaces admit, too. It is for dry runs only.
func examplePod(namespace string, labels map[string]string, way string, amount corev1.ResourceList) *corev1.Pod {
	all := map[string]string{sidecar.ProofLabel: way}
	for key, value := range labels {
		all[key] = value
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-operator-injection-proof", Labels: all},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "dry-run-only", Image: "example.com/dry-run-only", Resources: corev1.ResourceRequirements{Limits: amount, Requests: amount},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// place is where a pod for a dry run is tried, and with which labels.
type place struct {
	namespace *corev1.Namespace
	labels    map[string]string
}

// examplePlaces are some namespaces in which the set injects into pods with certain labels, at least one: a canary may take those of some namespaces, or with some
// labels. None is the operator's own, and those of the cluster come last.
func (i *Injection) examplePlaces(ctx context.Context, set *injectedSet) ([]place, error) {
	examples := sidecar.Examples(set.parsed.Match.Labels)
	if len(examples) == 0 {
		return nil, errors.New("no labels could be made up that the selector matches")
	}
	requirements := append(slices.Clone(set.parsed.Match.Namespace), podentry.NamespaceExclusions(i.options.Namespace)...)
	selector, err := metav1.LabelSelectorAsSelector(podentry.Selector(requirements))
	if err != nil {
		return nil, err
	}
	list := &corev1.NamespaceList{}
	if err := i.options.Live.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}, client.Limit(someNamespaces)); err != nil {
		return nil, fmt.Errorf("looking for a namespace: %w", err)
	}
	var found, last []place
	canaries := false
	for at := range list.Items {
		namespace := &list.Items[at]
		ours := slices.IndexFunc(examples, func(labels map[string]string) bool { return set.compiled.InjectsInto(labels, namespace.Labels) })
		switch {
		case namespace.DeletionTimestamp != nil:
		case ours < 0:
			canaries = true
		case strings.HasPrefix(namespace.Name, "kube-"):
			last = append(last, place{namespace, examples[ours]})
		default:
			found = append(found, place{namespace, examples[ours]})
		}
	}
	found = append(found, last...)
	switch {
	case len(found) > 0:
	case canaries:
		return nil, errors.New("there is no namespace in which no canary takes its pods")
	default:
		return nil, errors.New("there is no namespace in which it selects pods")
	}
	return found[:min(len(found), triedNamespaces)], nil
}

// objectOf is anything as JSON.
func objectOf(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	return object, kjson.Unmarshal(data, &object)
}

// asKnown is a pod without the fields that this program does not know: nobody can say what a server makes of them.
func asKnown(pod map[string]any) (map[string]any, error) {
	known := &corev1.Pod{}
	if err := quantity.FromUnstructured(pod, known); err != nil {
		return nil, fmt.Errorf("decoding the pod with the sidecars: %w", err)
	}
	return objectOf(known)
}
