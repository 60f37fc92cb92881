// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/controllers/rollout"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
)

// brakePolicy is the policy of the brake as an API server has compiled it.
type brakePolicy struct {
	compiler *plugincel.CompositedCompiler
	patcher  patch.Patcher
	matcher  matchconditions.Matcher
}

func compileBrake(t *testing.T) brakePolicy {
	t.Helper()
	objects, err := manifests.Decode([]byte(brake.Policy))
	if err != nil {
		t.Fatal(err)
	}
	policy := &admissionv1.MutatingAdmissionPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, policy); err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: false, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions []plugincel.ExpressionAccessor
	for _, c := range policy.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(c)
		conditions = append(conditions, &condition)
	}
	p := brakePolicy{compiler: compiler, matcher: matchconditions.NewMatcher(
		compiler.CompileCondition(conditions, options, environment.StoredExpressions), ptr.To(admissionv1.Fail), "policy", "mutate", "brake",
	)}
	options.HasPatchTypes = true
	mutating := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: policy.Spec.Mutations[0].JSONPatch.Expression}, options, environment.StoredExpressions)
	if errs := mutating.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	p.patcher = patch.NewJSONPatcher(mutating)
	return p
}

// compileHook has the conditions of the hook as an API server of a version compiles them.
func compileHook(t *testing.T, minor uint) matchconditions.Matcher {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	if err != nil {
		t.Fatal(err)
	}
	var conditions []plugincel.ExpressionAccessor
	for _, c := range rollout.Hook().Conditions {
		condition := matchconditions.MatchCondition(c)
		conditions = append(conditions, &condition)
	}
	evaluator := compiler.CompileCondition(conditions, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	if errs := evaluator.CompilationErrors(); len(errs) > 0 {
		t.Fatalf("Kubernetes 1.%d: %v", minor, errs)
	}
	return matchconditions.NewMatcher(evaluator, ptr.To(admissionv1.Fail), "webhook", "admit", "brake")
}

// updateOf is an update as a policy or webhook sees it.
func updateOf(resource string, old, object runtime.Object) *admission.VersionedAttributes {
	kind := object.GetObjectKind().GroupVersionKind()
	at := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource}
	return &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(object, old, kind, "shop", "web", at, "", admission.Update, &metav1.UpdateOptions{}, false, nil),
		VersionedKind: kind, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old),
	}
}

// calls is whether the API server calls the hook for an update.
func calls(t *testing.T, matcher matchconditions.Matcher, resource string, old, object runtime.Object) bool {
	t.Helper()
	if !labeled(old) && !labeled(object) {
		return false // by its objectSelector
	}
	result := matcher.Match(t.Context(), updateOf(resource, old, object), nil, nil)
	if result.Error != nil {
		t.Fatal(result.Error)
	}
	return result.Matches
}

// apply evaluates the policy for an update.
func (p brakePolicy) apply(ctx context.Context, resource string, old, object runtime.Object) (runtime.Object, error) {
	versioned := updateOf(resource, old, object)
	if !labeled(old) && !labeled(object) {
		return object, nil // by its objectSelector
	}
	ctx = p.compiler.CreateContext(ctx)
	if result := p.matcher.Match(ctx, versioned, nil, nil); result.Error != nil || !result.Matches {
		return object, result.Error
	}
	return p.patcher.Patch(ctx, patch.Request{
		MatchedResource: versioned.GetResource(), VersionedAttributes: versioned, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme),
	}, cel.RuntimeCELCostBudget)
}

func labeled(object runtime.Object) bool {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	_, found := accessor.GetLabels()["rollouts.kruise.io/workload-type"]
	return found
}

// updates are how many are compared.
const updates = 600

// The policy and the function brake every update in the same way, and the hook is called for each of them.
func TestTheBrakeIsTheSameInThePolicyAndInTheOperator(t *testing.T) {
	p, hook := compileBrake(t), map[uint]matchconditions.Matcher{34: compileHook(t, 34), 35: compileHook(t, 35)}
	braked, ids, asked, left := map[string]int{}, map[string]int{}, 0, 0
	for seed := range uint64(updates) {
		random := rand.New(rand.NewPCG(seed, 3))
		resource, empty := kindOf(random)
		old, object := workloadOf(random, resource), workloadOf(random, resource)
		if seed%2 == 0 {
			object = edited(random, old, object)
		}
		got, err := p.apply(t.Context(), resource, typed(t, old, empty()), typed(t, object, empty()))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := &unstructured.Unstructured{Object: normalized(t, object, empty())}
		before := want.DeepCopy()
		brake.Brake(&unstructured.Unstructured{Object: normalized(t, old, empty())}, want)
		want.Object = normalized(t, want.Object, empty())
		if diff := cmp.Diff(want.Object, toJSON(t, got)); diff != "" {
			t.Fatalf("seed %d, %s: (-function +policy)\n%s\nold %v\nnew %v", seed, resource, diff, old, object)
		}
		changes := cmp.Diff(before.Object, want.Object) != ""
		if changes {
			braked[resource]++
			ids[idOf("labels", old, object)+" "+idOf("annotations", old, object)]++
		}
		for minor, matcher := range hook {
			switch called := calls(t, matcher, resource, typed(t, old, empty()), typed(t, object, empty())); {
			case called:
				asked++
			case changes:
				t.Fatalf("seed %d, %s: Kubernetes 1.%d does not call the hook\nold %v\nnew %v", seed, resource, minor, old, object)
			default:
				left++
			}
		}
	}
	t.Logf("of %d updates, these were changed: %v; the hook was called %d times in two versions, and left out %d times", updates, braked, asked, left)
	for _, resource := range []string{"deployments", "statefulsets", "daemonsets"} {
		if braked[resource] < updates/20 {
			t.Errorf("only %d updates of %s were changed", braked[resource], resource)
		}
	}
	if len(ids) < 16 {
		t.Errorf("rollout-ids differ in %d ways only: %v", len(ids), ids)
	}
	if left < updates/5 {
		t.Errorf("the hook was left out only %d times", left)
	}
}

// idOf is how the rollout-id differs between two workloads.
func idOf(field string, old, object map[string]any) string {
	was, before, _ := unstructured.NestedString(old, "metadata", field, "rollouts.kruise.io/rollout-id")
	now, after, _ := unstructured.NestedString(object, "metadata", field, "rollouts.kruise.io/rollout-id")
	return fmt.Sprint(before, after, was == now)
}

// edited is a workload with one part of another.
func edited(random *rand.Rand, old, other map[string]any) map[string]any {
	parts := []string{"labels", "annotations", "template", "strategy", "updateStrategy", "replicas"}
	part, object := parts[random.IntN(len(parts))], maps.Clone(old)
	for _, in := range []string{"metadata", "spec"} {
		fields := maps.Clone(old[in].(map[string]any))
		if value, found := other[in].(map[string]any)[part]; found {
			fields[part] = value
		}
		object[in] = fields
	}
	return object
}

func kindOf(random *rand.Rand) (resource string, empty func() runtime.Object) {
	switch random.IntN(3) {
	case 0:
		return "deployments", func() runtime.Object { return &appsv1.Deployment{} }
	case 1:
		return "statefulsets", func() runtime.Object { return &appsv1.StatefulSet{} }
	}
	return "daemonsets", func() runtime.Object { return &appsv1.DaemonSet{} }
}

// workloadOf is a workload as the API server stores it, with its defaults.
func workloadOf(random *rand.Rand, resource string) map[string]any {
	kinds := map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"}
	spec := map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": texts(random, "app", "pod-template-hash"), "annotations": texts(random, "restarted")},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "web:" + fmt.Sprint(random.IntN(2))}}},
	}}
	switch resource {
	case "deployments":
		spec["replicas"], spec["progressDeadlineSeconds"], spec["minReadySeconds"], spec["paused"] = random.IntN(3), 600+random.IntN(2), random.IntN(2), random.IntN(2) == 0
		strategy := map[string]any{"type": "Recreate"}
		if random.IntN(4) > 0 {
			strategy = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
				"maxSurge": []any{"25%", "300%", "1000%", 0, 2, -1, `1","x":"`}[random.IntN(7)], "maxUnavailable": []any{0, 1, 2, "100%", "101%"}[random.IntN(5)],
			}}
		}
		spec["strategy"] = strategy
	case "statefulsets":
		spec["replicas"], spec["updateStrategy"] = random.IntN(3), rolling(random, map[string]any{"partition": random.IntN(4)})
	default:
		spec["updateStrategy"] = rolling(random, map[string]any{"maxUnavailable": 1, "maxSurge": 0})
	}
	metadata := map[string]any{"name": "web", "namespace": "shop", "resourceVersion": []any{"7", "8"}[random.IntN(2)]}
	for field, keys := range map[string][]string{
		"labels": {"app", "rollouts.kruise.io/workload-type", "rollouts.kruise.io/workload-type", "rollouts.kruise.io/rollout-id"},
		"annotations": {
			"note", "rollouts.kruise.io/rollout", "rollouts.kruise.io/rollout", "rollouts.kruise.io/in-progressing", "rollouts.kruise.io/control-sequence",
			"rollouts.kruise.io/rollout-id", "rollouts.kruise.io/original-deployment-strategy",
		},
	} {
		if all := texts(random, keys...); len(all) > 0 {
			metadata[field] = all
		}
	}
	if random.IntN(2) == 0 {
		metadata["annotations"] = more(metadata["annotations"], "rollouts.kruise.io/original-deployment-strategy")
		metadata["annotations"].(map[string]any)["rollouts.kruise.io/original-deployment-strategy"] = []any{
			`{"maxSurge":"25%","maxUnavailable":1,"minReadySeconds":0,"progressDeadlineSeconds":600}`, `{"maxSurge":2,"at":"7"}`, `{"maxSurge":0,"at":""}`,
		}[random.IntN(3)]
	}
	if random.IntN(3) > 0 {
		metadata["labels"], metadata["annotations"] = more(metadata["labels"], "rollouts.kruise.io/workload-type"), more(metadata["annotations"], "rollouts.kruise.io/rollout")
	}
	return map[string]any{"apiVersion": "apps/v1", "kind": kinds[resource], "metadata": metadata, "spec": spec}
}

func rolling(random *rand.Rand, numbers map[string]any) map[string]any {
	if random.IntN(4) == 0 {
		return map[string]any{"type": "OnDelete"}
	}
	return map[string]any{"type": "RollingUpdate", "rollingUpdate": numbers}
}

func more(of any, key string) map[string]any {
	all, _ := of.(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	all[key] = "x"
	return all
}

// texts are some of these keys, with a number as text.
func texts(random *rand.Rand, keys ...string) map[string]any {
	all := map[string]any{}
	for _, key := range keys {
		if random.IntN(2) == 0 {
			all[key] = fmt.Sprint(random.IntN(3))
		}
	}
	return all
}

func typed(t *testing.T, object map[string]any, into runtime.Object) runtime.Object {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// normalized is an object after its type.
func normalized(t *testing.T, object map[string]any, through runtime.Object) map[string]any {
	t.Helper()
	return toJSON(t, typed(t, object, through))
}

func toJSON(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
