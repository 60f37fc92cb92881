// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// The policy of the node daemon, evaluated as an API server does: of pods the daemon writes one annotation, and only on its own node.
func TestWhatTheDaemonMayWriteOfPods(t *testing.T) {
	text, err := os.ReadFile("../../config/operands/daemonpolicy/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := yaml.Unmarshal([]byte(first), policy); err != nil {
		t.Fatal(err)
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var expressions []plugincel.ExpressionAccessor
	for _, v := range policy.Spec.Validations {
		condition := matchconditions.MatchCondition(admissionv1.MatchCondition{Name: v.Message + v.MessageExpression, Expression: v.Expression})
		expressions = append(expressions, &condition)
	}
	compiled := compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	if errs := compiled.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	matcher := matchconditions.NewMatcher(compiled, ptr.To(admissionv1.Fail), "policy", "validate", "daemon")

	annotate := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
	}
	const report = "apps.kruise.io/runtime-containers-meta"
	for what, tc := range map[string]struct {
		before, change func(*corev1.Pod)
		want           bool
	}{
		"the first report": {change: annotate(report, "{}"), want: true},
		"the report of a pod with no annotation or label": {before: func(p *corev1.Pod) { p.Annotations, p.Labels = nil, nil }, change: annotate(report, "{}"), want: true},
		"another report":           {before: annotate(report, "{}"), change: annotate(report, "{1}"), want: true},
		"nothing":                  {change: func(*corev1.Pod) {}, want: true},
		"another annotation":       {change: annotate("x", "y")},
		"a changed annotation":     {change: annotate("c", "other")},
		"an annotation taken away": {change: func(p *corev1.Pod) { delete(p.Annotations, "c") }},
		"a label":                  {change: func(p *corev1.Pod) { p.Labels["x"] = "y" }},
		"all labels taken away":    {change: func(p *corev1.Pod) { p.Labels = nil }},
		"a condition": {change: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}},
		"a report on another node": {before: func(p *corev1.Pod) { p.Spec.NodeName = "other" }, change: annotate(report, "{}")},
	} {
		t.Run(what, func(t *testing.T) {
			old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
			old.Spec.NodeName = "node"
			old.Status.Phase = corev1.PodRunning
			if tc.before != nil {
				tc.before(old)
			}
			pod := old.DeepCopy()
			tc.change(pod)
			who := &user.DefaultInfo{Name: "system:serviceaccount:kruise-daemon-config:kruise-daemon", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node"}}}
			kind := corev1.SchemeGroupVersion.WithKind("Pod")
			attributes := admission.NewAttributesRecord(pod, old, kind, "ns", "web-0", corev1.SchemeGroupVersion.WithResource("pods"), "status", admission.Update, &metav1.PatchOptions{}, false, who)
			versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(pod), VersionedOldObject: admission.NewLazyObject(old)}
			result := matcher.Match(compiler.CreateContext(t.Context()), versioned, nil, nil)
			if result.Error != nil || result.Matches != tc.want {
				t.Errorf("allowed: %v, because of %q, %v; want %v", result.Matches, result.FailedConditionName, result.Error, tc.want)
			}
		})
	}
}
