// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package injection_test compares the two ways of SidecarSets into pods: the static
// policy's expressions, evaluated by the API server's own packages, and the webhook's
// injector. It needs no cluster.
package injection_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// evaluator is the static policy as an API server has compiled it.
type evaluator struct {
	compiler *plugincel.CompositedCompiler
	patcher  patch.Patcher
	// matcher is a condition of some other policy: once it was evaluated, the object is typed for all.
	matcher matchconditions.Matcher
}

func compile(t testing.TB) *evaluator {
	t.Helper()
	policy, err := sidecar.Policy("kruise-system")
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, policy.Spec.Variables, policy.Spec.Mutations[0].JSONPatch.Expression)
}

// compiled is a policy with some variables and one mutation.
func compiled(t testing.TB, all []admissionv1.Variable, mutation string) *evaluator {
	t.Helper()
	options := plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range all {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	condition := matchconditions.MatchCondition(admissionv1.MatchCondition{Name: "typed", Expression: "object.spec.containers.size() >= 0"})
	e := &evaluator{compiler: compiler, matcher: matchconditions.NewMatcher(
		compiler.CompileCondition([]plugincel.ExpressionAccessor{&condition}, options, environment.StoredExpressions), ptr.To(admissionv1.Fail), "policy", "validate", "other",
	)}
	options.HasPatchTypes = true
	mutating := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: mutation}, options, environment.StoredExpressions)
	if errs := mutating.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	e.patcher = patch.NewJSONPatcher(mutating)
	return e
}

// apply evaluates the policy for one pod and one set.
func (e *evaluator) apply(ctx context.Context, pod *corev1.Pod, namespace *corev1.Namespace, revision *appsv1.ControllerRevision, typed bool) (*corev1.Pod, error) {
	return e.applyWithin(ctx, pod, namespace, revision, typed, cel.RuntimeCELCostBudget)
}

// applyWithin is apply with another budget than an API server's.
func (e *evaluator) applyWithin(
	ctx context.Context, pod *corev1.Pod, namespace *corev1.Namespace, revision *appsv1.ControllerRevision, typed bool, budget int64,
) (*corev1.Pod, error) {
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	versioned := attributesOf(pod, namespace)
	ctx = e.compiler.CreateContext(ctx)
	if typed {
		if result := e.matcher.Match(ctx, versioned, nil, nil); result.Error != nil || !result.Matches {
			return nil, fmt.Errorf("the other policy: %v", result)
		}
	}
	out, err := e.patcher.Patch(ctx, patch.Request{
		MatchedResource: resource, VersionedAttributes: versioned, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme),
		OptionalVariables: plugincel.OptionalVariableBindings{VersionedParams: revision}, Namespace: namespace,
	}, budget)
	if err != nil {
		return nil, err
	}
	return out.(*corev1.Pod), nil
}

func attributesOf(pod *corev1.Pod, namespace *corev1.Namespace) *admission.VersionedAttributes {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	pod = pod.DeepCopy()
	pod.SetGroupVersionKind(kind)
	attributes := admission.NewAttributesRecord(pod, nil, kind, namespace.Name, pod.Name, corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create,
		&metav1.CreateOptions{}, false, nil)
	return &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(pod), VersionedOldObject: admission.NewLazyObject(nil),
	}
}

func revisionOf(t testing.TB, i sidecar.Injection) *appsv1.ControllerRevision {
	t.Helper()
	name, data, err := i.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: runtime.RawExtension{Raw: data}}
}

// byReference injects one set as the webhook does.
func byReference(t testing.TB, pod *corev1.Pod, namespace *corev1.Namespace, revision *appsv1.ControllerRevision) (*corev1.Pod, error) {
	t.Helper()
	injection, err := sidecar.Decode(revision.Data.Raw)
	if err != nil {
		t.Fatal(err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := injection.Inject(sidecar.Pod{Object: object, Namespace: namespace.Labels}); err != nil {
		return nil, err
	}
	out := &corev1.Pod{}
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// After another policy's condition, parts of the pod cannot be values of a patch. The
// comparison has to catch this, so it must be so here, too.
func TestOtherPoliciesTypeTheObject(t *testing.T) {
	naive := compiled(t, nil, `[JSONPatch{op: "add", path: "/spec/containers/0/env/-", value: object.spec.containers[0].env[0]}]`)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "A", Value: "a"}}}}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	revision := &appsv1.ControllerRevision{}
	if _, err := naive.apply(t.Context(), pod, namespace, revision, false); err != nil {
		t.Errorf("alone: %v", err)
	}
	const refusal = "could not marshal to JSON"
	if _, err := naive.apply(t.Context(), pod, namespace, revision, true); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("beside a policy with conditions: %v, and not %q", err, refusal)
	}
}
