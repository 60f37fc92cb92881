// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/launchpriority"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// refusal is the policy against impossible orders, compiled as by an API server.
type refusal struct {
	compiler    *plugincel.CompositedCompiler
	matcher     matchconditions.Matcher
	validations plugincel.ConditionEvaluator
	messages    plugincel.ConditionEvaluator
	fixed       []string
}

func launchPolicies(t *testing.T) (*evaluator, *refusal) {
	t.Helper()
	policies, err := launchpriority.Policies(nil)
	if err != nil {
		t.Fatal(err)
	}
	changing, refusing := &admissionv1.MutatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicy{}
	for from, to := range map[int]any{0: changing, 1: refusing} {
		object := policies[from].Objects[0]
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, to, true); err != nil {
			t.Fatal(err)
		}
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	r := &refusal{compiler: compiler}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range refusing.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions, expressions, messages []plugincel.ExpressionAccessor
	for i := range refusing.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(refusing.Spec.MatchConditions[i])
		conditions = append(conditions, &condition)
	}
	r.matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.StoredExpressions), ptr.To(admissionv1.Fail), "policy", "validate", "launch")
	for _, v := range refusing.Spec.Validations {
		expressions = append(expressions, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		r.fixed = append(r.fixed, v.Message)
	}
	r.validations = compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	r.messages = compiler.CompileCondition(messages, options, environment.StoredExpressions)
	return compiled(t, changing.Spec.Variables, changing.Spec.Mutations[0].JSONPatch.Expression), r
}

// of is why the policy refuses a pod; empty when it does not.
func (r *refusal) of(t *testing.T, pod *corev1.Pod, namespace *corev1.Namespace) string {
	t.Helper()
	versioned := attributesOf(pod, namespace)
	ctx := r.compiler.CreateContext(t.Context())
	if result := r.matcher.Match(ctx, versioned, nil, nil); result.Error != nil {
		t.Fatal(result.Error)
	} else if !result.Matches {
		return ""
	}
	request := plugincel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.VersionedKind))
	ns := plugincel.CreateNamespaceObject(namespace)
	results, left, err := r.validations.ForInput(ctx, versioned, request, plugincel.OptionalVariableBindings{}, ns, cel.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Error != nil {
			t.Fatal(result.Error)
		}
		if result.EvalResult.Value() == true {
			continue
		}
		if r.fixed[i] != "" {
			return r.fixed[i]
		}
		texts, _, err := r.messages.ForInput(ctx, versioned, request, plugincel.OptionalVariableBindings{}, ns, left)
		if err != nil || texts[i].Error != nil {
			t.Fatal(err, texts[i].Error)
		}
		return fmt.Sprint(texts[i].EvalResult.Value())
	}
	return ""
}

// launchPod makes up a pod asking for an order, or nearly.
func launchPod(g *rand.Rand) *corev1.Pod {
	some := func(words ...string) string { return words[g.IntN(len(words))] }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{}}}
	switch g.IntN(3) {
	case 0:
		pod.Name = "web-0"
	default:
		pod.GenerateName = some("web-", strings.Repeat("long-", 20))
	}
	if g.IntN(4) > 0 {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "kube-api-access-x7k2p"}}
	}
	if value := some("", "", "Ordered", "ordered"); value != "" {
		pod.Annotations[shared.AnnotationLaunchPriority] = value
	}
	if g.IntN(5) == 0 {
		pod.Annotations[shared.AnnotationLaunchPriorityCompleted] = "true"
	}
	if len(pod.Annotations) == 0 {
		pod.Annotations = nil
	}
	for i := range 1 + g.IntN(4) {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "example/a"}
		if g.IntN(3) == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "OTHER", Value: "1"})
		}
		if g.IntN(2) == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: shared.EnvContainerPriority, Value: some("0", "1", "1", "-5", "+7", "007", "2147483647", "-2147483647")})
		}
		if g.IntN(20) == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: shared.EnvContainerPriority, Value: some("", "abc", "1.5", "2147483648", "-2147483648", "99999999999999999999", "1 ")})
		}
		if g.IntN(40) == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: shared.EnvContainerPriority, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
		}
		if g.IntN(8) == 0 {
			c.Env = append(c.Env, launch.Variable("other", 3, ""), corev1.EnvVar{Name: "LAST"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// The policies order the pods they serve as the operator orders its own, even when run
// twice; they leave the rest to the webhook, and all refuse impossible orders.
func TestPoliciesOrderContainersAsTheOperator(t *testing.T) {
	changing, refusing := launchPolicies(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	counts := map[string]int{}
	for round := range *rounds {
		g := rand.New(rand.NewPCG(*seed, uint64(round)))
		pod := launchPod(g)
		typed := g.IntN(2) == 0
		out, err := changing.apply(t.Context(), pod, namespace, nil, typed)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v\n%s", *seed, round, err, text(pod))
		}
		priorities, fault := launch.Priorities(pod.Annotations, pod.Spec.Containers, field.NewPath("spec", "containers"))
		want, word := pod.DeepCopy(), "none"
		switch said := refusing.of(t, out, namespace); {
		case fault != nil:
			word = "refused"
			if !strings.Contains(said, shared.EnvContainerPriority+" must be a decimal integer") || !strings.HasPrefix(said, fault.Field[:len("spec.containers[0].env")]) {
				t.Errorf("seed %d, round %d: the operator says %v, the policy %q", *seed, round, fault, said)
			}
		case said != "":
			t.Errorf("seed %d, round %d: refused: %s\n%s", *seed, round, said, text(out))
		case priorities != nil && pod.Name == "" && len(pod.Spec.Volumes) == 0:
			word = "left to the webhook"
		case priorities != nil:
			word = "ordered"
			if want.Name == "" {
				want.Name = launch.GeneratedName(pod.GenerateName, "x7k2p")
			}
			order(want, priorities)
			again, err := changing.apply(t.Context(), out, namespace, nil, typed)
			if err != nil {
				t.Fatalf("seed %d, round %d: looking twice: %v", *seed, round, err)
			}
			if diff := cmp.Diff(out, again, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("seed %d, round %d: looking twice:\n%s", *seed, round, diff)
			}
		}
		counts[word]++
		if diff := cmp.Diff(want, out, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("seed %d, round %d (-want +policy):\n%s\n%s", *seed, round, diff, text(pod))
		}
		if t.Failed() {
			return
		}
	}
	if len(counts) != 4 {
		t.Errorf("some case is not tried: %v", counts)
	}
	t.Logf("%v", counts)
}

// order is the policy's treatment of existing variables: it replaces them where they stand.
func order(pod *corev1.Pod, priorities []int) {
	delete(pod.Annotations, shared.AnnotationLaunchPriorityCompleted)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		there := false
		for j := range c.Env {
			if c.Env[j].Name == shared.EnvLaunchPriority {
				c.Env[j], there = launch.Variable(pod.Name, priorities[i], launch.Mark(pod)), true
			}
		}
		if !there {
			c.Env = append(c.Env, launch.Variable(pod.Name, priorities[i], launch.Mark(pod)))
		}
	}
}

// The budget of expressions is enough for users' largest pods.
func TestPoliciesOrderLargePods(t *testing.T) {
	changing, refusing := launchPolicies(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "large"}}
	for i := range 40 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "example/a"}
		for j := range 100 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: strings.Repeat("x", 20)})
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: shared.EnvContainerPriority, Value: fmt.Sprint(i)})
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	out, err := changing.apply(t.Context(), pod, namespace, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if said := refusing.of(t, out, namespace); said != "" || len(launch.Containers(out)) != 40 {
		t.Errorf("%q, %d containers are ordered", said, len(launch.Containers(out)))
	}
}
