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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

const (
	// firstTry and lastTry bound the time between two tries of a proof: what is registered acts about a second later.
	firstTry = 500 * time.Millisecond
	lastTry  = 30 * time.Second
	// patience is how long a policy may take to act. After that the webhook injects.
	patience = 8 * time.Second
	// tryPolicyAgain is when a policy that had no effect is tried again.
	tryPolicyAgain = 10 * time.Minute
	// proofTimeout is how long one try may take.
	proofTimeout = 5 * time.Second
	// someNamespaces is how many namespaces are looked at to find one for a proof.
	someNamespaces = 100
)

// proofs are what is known of the two ways of a set.
type proofs struct {
	policy, webhook proof
	rehearsal       rehearsal
	// counted is when pods without sidecars were looked for at that revision, and what was found.
	counted         time.Time
	countedRevision string
	found           *metav1.Condition
}

// rehearsal is whether the server takes what a policy would make.
type rehearsal struct {
	revision string
	done     bool
	// refused is why it does not.
	refused string
}

// proof is what dry runs showed of one way.
type proof struct {
	// revision is what was looked for, tried how often, first and last when.
	revision    string
	tries       int
	first, last time.Time
	// injected says that the last try found everything in the pod; refuted that it found a pod without.
	injected, refuted bool
	message           string
}

func (p *proof) holds(revision string) bool { return p.injected && p.revision == revision }

// failedFor says whether pods have been seen without the sidecars for so long that another way is needed.
func (p *proof) failedFor(now time.Time) bool {
	return p.refuted && p.last.Sub(p.first) >= patience && now.Sub(p.last) < tryPolicyAgain
}

// verdict is what a condition says.
func (p *proof) verdict(revision string) (metav1.ConditionStatus, string) {
	switch {
	case p.revision != revision || p.tries == 0:
		return metav1.ConditionUnknown, "whether it does was not tried yet"
	case p.injected:
		return metav1.ConditionTrue, "a dry run has shown it"
	case p.refuted:
		return metav1.ConditionFalse, "a dry run made a pod without all of it: " + p.message
	default:
		return metav1.ConditionUnknown, "it could not be tried: " + p.message
	}
}

// due is when to try next.
func (p *proof) due(revision string) time.Time {
	switch {
	case p.revision != revision:
		return time.Time{}
	case p.injected:
		return p.last.Add(proveEvery)
	default:
		return p.last.Add(min(firstTry<<min(p.tries, 10), lastTry))
	}
}

func (p *proof) recheck(revision string, now time.Time) time.Duration {
	return max(p.due(revision).Sub(now), firstTry)
}

// prove tries the ways of a set that are due.
func (i *Injection) prove(ctx context.Context, one *injected) {
	for _, way := range []struct {
		wanted bool
		name   string
		proof  *proof
	}{
		{one.wantBinding, sidecar.ProofPolicy, &i.proofsOf(one.name).policy}, {one.wantEntry, sidecar.ProofWebhook, &i.proofsOf(one.name).webhook},
	} {
		now := i.options.Clock.Now()
		if !way.wanted || now.Before(way.proof.due(one.revision)) {
			continue
		}
		if way.proof.revision != one.revision {
			*way.proof = proof{revision: one.revision, first: now}
		}
		way.proof.tries++
		missing, err := i.try(ctx, one, way.name)
		way.proof.last = i.options.Clock.Now()
		way.proof.injected, way.proof.refuted = err == nil && missing == "", err == nil && missing != ""
		way.proof.message = missing
		if err != nil {
			way.proof.message = err.Error()
		}
		if way.proof.injected {
			way.proof.tries = 1
		}
	}
}

func (i *Injection) proofsOf(name string) *proofs {
	if i.proofs[name] == nil {
		i.proofs[name] = &proofs{}
	}
	return i.proofs[name]
}

// try has the API server create a pod, without keeping it, and returns what the pod lacks. An error says why nothing is known.
func (i *Injection) try(ctx context.Context, one *injected, way string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	labels, possible := sidecar.ExampleLabels(one.set.Match.Labels)
	if !possible {
		return "", errors.New("no labels could be made up that the selector matches")
	}
	namespace, err := i.exampleNamespace(ctx, one.set.Match.Namespace)
	if err != nil {
		return "", err
	}
	pod := examplePod(namespace.Name, labels, way)
	want, err := example(one.compiled, pod, namespace)
	if refusal := (refusedError{}); errors.As(err, &refusal) {
		return i.tryRefusal(ctx, pod, refusal.Error())
	}
	if err != nil {
		return "", err
	}
	if want, err = asKnown(want); err != nil {
		return "", err
	}
	if err := i.options.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return "", fmt.Errorf("namespace %s: %s", namespace.Name, strings.TrimSpace(err.Error()))
	}
	have, err := objectOf(pod)
	if err != nil {
		return "", err
	}
	if guard := one.compiled.Guard; way == sidecar.ProofPolicy && guard != nil && guard.Token && !slices.ContainsFunc(pod.Spec.Volumes, sidecar.IsToken) {
		return "", fmt.Errorf("namespace %s: the pod that was made up has no token", namespace.Name)
	}
	// Which of two revisions a pod gets by a draw is not known before.
	for _, v := range one.compiled.Variants {
		if v.Percent != nil {
			list := pod.Annotations[sidecar.InjectedListAnnotation]
			if slices.Contains(strings.Split(list, ","), one.name) {
				return "", nil
			}
		}
	}
	return one.compiled.Missing(want, have), nil
}

// refusedError is why a set refuses a pod.
type refusedError struct{ error }

// tryRefusal has the API server refuse a pod in the words of the set: that shows as well that it is asked.
func (i *Injection) tryRefusal(ctx context.Context, pod *corev1.Pod, words string) (string, error) {
	err := i.options.Client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil:
		return "the refusal: " + words, nil
	case strings.Contains(err.Error(), words):
		return "", nil
	}
	return "", fmt.Errorf("namespace %s: %s", pod.Namespace, strings.TrimSpace(err.Error()))
}

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

// rehearse asks, once for each revision, whether the server knows all fields of what a set injects. From a webhook it takes those that it
// does not know, and drops them; for a policy that sets one it refuses the pod.
func (i *Injection) rehearse(ctx context.Context, one *injected) {
	known := &i.proofsOf(one.name).rehearsal
	if known.done && known.revision == one.revision {
		return
	}
	*known = rehearsal{revision: one.revision}
	labels, possible := sidecar.ExampleLabels(one.set.Match.Labels)
	namespace, err := i.exampleNamespace(ctx, one.set.Match.Namespace)
	if !possible || err != nil {
		return // Nothing is known; it is asked again in the next pass.
	}
	pod := examplePod(namespace.Name, labels, sidecar.ProofPolicy)
	// What is computed has no fields that could be unknown, and needs containers that the example may not have.
	want, err := example(one.compiled.WithoutResources(), pod, namespace)
	if err != nil {
		return
	}
	asked := &unstructured.Unstructured{Object: want}
	asked.SetAPIVersion("v1")
	asked.SetKind("Pod")
	bypassing := asked.GetLabels()
	bypassing[sidecar.BypassLabel] = sidecar.BypassValue
	asked.SetLabels(bypassing)
	known.done = true
	if err := i.options.Client.Create(ctx, asked, client.DryRunAll, client.FieldValidation("Strict")); apierrors.IsBadRequest(err) {
		known.refused = strings.TrimSpace(err.Error())
	}
}

// examplePod is one that strict namespaces admit, too. It is for dry runs only.
func examplePod(namespace string, labels map[string]string, way string) *corev1.Pod {
	all := map[string]string{sidecar.ProofLabel: way}
	for key, value := range labels {
		all[key] = value
	}
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("4Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-operator-injection-proof", Labels: all},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "dry-run-only", Image: "example.com/dry-run-only", Resources: corev1.ResourceRequirements{Limits: little, Requests: little},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// exampleNamespace is one whose pods the set selects. It is never the operator's own.
func (i *Injection) exampleNamespace(ctx context.Context, requirements []sidecar.Requirement) (*corev1.Namespace, error) {
	selector, err := metav1.LabelSelectorAsSelector(sidecar.Selector(append(slices.Clone(requirements), sidecar.NamespaceExclusions(i.options.Namespace)...)))
	if err != nil {
		return nil, err
	}
	list := &corev1.NamespaceList{}
	if err := i.options.Live.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}, client.Limit(someNamespaces)); err != nil {
		return nil, fmt.Errorf("looking for a namespace: %w", err)
	}
	var fallback *corev1.Namespace
	for at := range list.Items {
		namespace := &list.Items[at]
		switch {
		case namespace.DeletionTimestamp != nil:
		case strings.HasPrefix(namespace.Name, "kube-"):
			fallback = namespace
		default:
			return namespace, nil
		}
	}
	if fallback == nil {
		return nil, errors.New("there is no namespace in which it selects pods")
	}
	return fallback, nil
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
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod, known); err != nil {
		return nil, fmt.Errorf("decoding the pod with the sidecars: %w", err)
	}
	return objectOf(known)
}
