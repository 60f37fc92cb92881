// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

// checkInstalled checks OLM's objects of a version's bundle.
func (w *fixture) checkInstalled(version string) {
	w.t.Helper()
	deployment := &appsv1.Deployment{}
	w.until("the manager is the version's", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, deployment); err != nil {
			return err
		}
		if image := deployment.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) {
			return fmt.Errorf("it runs %s", image)
		}
		if deployment.Status.AvailableReplicas != 2 || deployment.Status.UpdatedReplicas != 2 {
			return fmt.Errorf("%d of 2 are available", deployment.Status.AvailableReplicas)
		}
		return nil
	})
	variables := map[string]string{}
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		variables[variable.Name] = variable.Value
	}
	if got := variables["OPERATOR_CONDITION_NAME"]; got != packaging.CSVName(version) {
		w.t.Errorf("the manager is told to report to OperatorCondition %q", got)
	}
	budget := &policyv1.PodDisruptionBudget{}
	w.get(budget, system, manager)
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		w.t.Errorf("the disruption budget is %+v", budget.Spec)
	}

	authority := w.checkCertificate()
	w.checkWebhooks(version, authority)
	for _, definition := range w.definitions(version) {
		w.checkConversion(definition, authority)
	}
}

// checkCertificate returns the authority of OLM's certificate for the webhooks.
func (w *fixture) checkCertificate() []byte {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.get(secret, system, service+"-cert")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["olmCAKey"]) {
		w.t.Fatal("the Secret holds no authority")
	}
	block, _ := pem.Decode(secret.Data["tls.crt"])
	if block == nil {
		w.t.Fatal("the Secret holds no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: service + "." + system + ".svc"}); err != nil {
		w.t.Errorf("the certificate does not serve the webhooks' Service: %v", err)
	}
	return secret.Data["olmCAKey"]
}

// checkWebhooks compares the cluster's configurations with the ClusterServiceVersion's.
func (w *fixture) checkWebhooks(version string, authority []byte) {
	w.t.Helper()
	csv := olm.Object("ClusterServiceVersion", system, "")
	w.get(csv, system, packaging.CSVName(version))
	definitions, _, err := unstructured.NestedSlice(csv.Object, "spec", "webhookdefinitions")
	if err != nil {
		w.t.Fatal(err)
	}
	var want []string
	for _, definition := range definitions {
		definition, ok := definition.(map[string]any)
		if !ok || definition["type"] == "ConversionWebhook" {
			continue
		}
		want = append(want, fmt.Sprint(definition["generateName"]))
	}
	slices.Sort(want)
	w.until("the webhooks of "+version+" alone lead to the operator, by its certificate", func(ctx context.Context) error {
		got, err := w.webhooks(ctx)
		if err != nil {
			return err
		}
		got = slices.DeleteFunc(got, func(name string) bool { return name == sample })
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("webhooks (-want +got):\n%s", diff)
		}
		mutating, err := w.mutating(ctx)
		if err != nil {
			return err
		}
		for _, configuration := range mutating {
			for _, hook := range configuration.Webhooks {
				if hook.ClientConfig.Service == nil || hook.ClientConfig.Service.Name != service {
					continue
				}
				if string(hook.ClientConfig.CABundle) != string(authority) {
					return fmt.Errorf("%s trusts another authority", hook.Name)
				}
				policy, groups := admissionv1.Fail, []string{"apps.kruise.io", "policy.kruise.io", "rollouts.kruise.io"}
				if hook.Name == definitionsWebhook {
					policy, groups = admissionv1.Ignore, []string{apiextensionsv1.GroupName}
				}
				if *hook.FailurePolicy != policy || !slices.Contains(groups, hook.Rules[0].APIGroups[0]) {
					return fmt.Errorf("%s is %+v", hook.Name, hook)
				}
			}
		}
		return nil
	})
}

// checkConversion holds a served CRD to its bundle: where versions are translated, the API server must know whom to ask.
func (w *fixture) checkConversion(definition *apiextensionsv1.CustomResourceDefinition, authority []byte) {
	w.t.Helper()
	if definition.Spec.Conversion == nil || definition.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		return
	}
	served := &apiextensionsv1.CustomResourceDefinition{}
	w.until(definition.Name+" is converted by the operator", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(definition), served); err != nil {
			return err
		}
		conversion := served.Spec.Conversion
		if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || conversion.Webhook == nil {
			return fmt.Errorf("conversion is %+v", conversion)
		}
		config := conversion.Webhook.ClientConfig
		if config.Service == nil || config.Service.Name != service || config.Service.Namespace != system {
			return fmt.Errorf("it leads to %+v", config.Service)
		}
		if string(config.CABundle) != string(authority) {
			return errors.New("it trusts another authority")
		}
		return nil
	})
}

// checkPermissions checks rights the manager needs and some it must not have.
func (w *fixture) checkPermissions() {
	w.t.Helper()
	for _, tc := range []struct {
		what                                                string
		namespace, verb, group, resource, subresource, name string
		want                                                bool
	}{
		{what: "create pods anywhere", namespace: users, verb: "create", resource: "pods", want: true},
		{what: "resize pods", namespace: users, verb: "patch", resource: "pods", subresource: "resize", want: true},
		{what: "report on StatefulSets", namespace: users, verb: "patch", group: "apps.kruise.io", resource: "statefulsets", subresource: "status", want: true},
		{what: "hold its lease", namespace: system, verb: "update", group: "coordination.k8s.io", resource: "leases", name: manager, want: true},
		{what: "report to OLM", namespace: system, verb: "update", group: "operators.coreos.com", resource: "operatorconditions", name: packaging.CSVName(versions()[0]), want: true},
		{what: "read the Secret of its certificate", namespace: system, verb: "get", resource: "secrets", name: service + "-cert", want: true},

		{what: "keep the Secret of its certificate", namespace: system, verb: "patch", resource: "secrets", name: service + "-cert", want: true},
		{what: "watch its Deployment", namespace: system, verb: "watch", group: "apps", resource: "deployments", name: manager, want: true},

		{what: "change other Secrets", namespace: system, verb: "patch", resource: "secrets", name: "any"},
		{what: "watch ReplicaSets", namespace: users, verb: "watch", group: "apps", resource: "replicasets"},
		{what: "read other Secrets", namespace: users, verb: "get", resource: "secrets", name: "any"},
		{what: "list Secrets", verb: "list", resource: "secrets"},
		{what: "list Services", namespace: users, verb: "list", resource: "services"},
		{what: "create CRDs", verb: "create", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"},
		{what: "bind roles", verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
		{what: "run commands in pods", namespace: users, verb: "create", resource: "pods", subresource: "exec"},
	} {
		if got := w.allowed(tc.namespace, tc.verb, tc.group, tc.resource, tc.subresource, tc.name); got != tc.want {
			w.t.Errorf("may the manager %s? %t, want %t", tc.what, got, tc.want)
		}
	}
}

// checkSubscriptionConfig changes users' settings of the Subscription, looks at the
// manager, and reverts them.
func (w *fixture) checkSubscriptionConfig() {
	w.t.Helper()
	subscription := olm.Object("Subscription", system, "kruise-operator")
	patch := func(config string) {
		w.t.Helper()
		if err := w.Client.Patch(w.t.Context(), subscription, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":`+config+`}}`))); err != nil {
			w.t.Fatal(err)
		}
	}
	patch(`{"env":[{"name":"HTTPS_PROXY","value":"http://proxy.example.com:3128"}],"nodeSelector":{"kubernetes.io/os":"linux"},
		"resources":{"requests":{"cpu":"200m","memory":"96Mi"}},"tolerations":[{"key":"infra","operator":"Exists"}]}`)
	deployment := &appsv1.Deployment{}
	w.until("the manager is configured by the Subscription", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, deployment); err != nil {
			return err
		}
		pod := deployment.Spec.Template.Spec
		container := pod.Containers[0]
		proxy := slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool {
			return v.Name == "HTTPS_PROXY" && v.Value == "http://proxy.example.com:3128"
		})
		tolerated := slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.Key == "infra" })
		if !proxy || !tolerated || pod.NodeSelector["kubernetes.io/os"] != "linux" || container.Resources.Requests.Cpu().String() != "200m" {
			return fmt.Errorf("env %v, tolerations %v, nodeSelector %v, resources %v", container.Env, pod.Tolerations, pod.NodeSelector, container.Resources)
		}
		if deployment.Status.ObservedGeneration != deployment.Generation || deployment.Status.UpdatedReplicas != 2 || deployment.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d of 2 are available", deployment.Status.AvailableReplicas)
		}
		return nil
	})
	patch(`null`)
	w.until("the manager is as in the bundle again", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, deployment); err != nil {
			return err
		}
		if cpu := deployment.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "100m" {
			return fmt.Errorf("it requests %s", cpu)
		}
		return nil
	})
}

// setUpgradeable marks the operator upgradeable or not in the OperatorCondition, as it
// would itself.
func (w *fixture) setUpgradeable(version string, status metav1.ConditionStatus) {
	w.t.Helper()
	name := packaging.CSVName(version)
	w.until("OLM has seen Upgradeable="+string(status), func(ctx context.Context) error {
		condition := olm.Object("OperatorCondition", system, name)
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(condition), condition); err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"spec":{"conditions":[{"type":"Upgradeable","status":%q,"reason":"Test","message":"a test","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)
		if err := w.Client.Patch(ctx, condition, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
		reported, _, err := unstructured.NestedSlice(condition.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, condition := range reported {
			if condition, ok := condition.(map[string]any); ok && condition["type"] == "Upgradeable" && condition["status"] == string(status) {
				return nil
			}
		}
		return fmt.Errorf("reported: %v", reported)
	})
}

const (
	// binding is the cluster-scoped object with the installation's lifetime; see
	// docs/adr/0008-installation-owner.md.
	binding = service + "-system:auth-delegator"
	sample  = "pods.sample.operator.kruise.io"
)

// sampleConfiguration makes a webhook configuration on pods as later kinds will: it would refuse every pod of its namespace once
// nobody answers. Its only owner is the installation owner.
func (w *fixture) sampleConfiguration() {
	w.t.Helper()
	owner, err := installowner.Find(w.t.Context(), w.Client)
	if err != nil {
		w.t.Fatal(err)
	}
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: sample, OwnerReferences: []metav1.OwnerReference{owner}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: sample,
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: system, Name: service, Path: ptr.To("/validate-pods")},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": users}},
			// The workload's own are in its scope, so they cannot come back while nobody
			// answers.
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"scoped": "true"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			FailurePolicy:           ptr.To(admissionv1.Fail),
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds:          ptr.To(int32(1)),
		}},
	}
	if err := w.Client.Create(w.t.Context(), configuration); err != nil {
		w.t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: users, Name: "scoped", Labels: map[string]string{"scoped": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	w.until("the configuration refuses pods in its scope", func(ctx context.Context) error {
		err := w.Client.Create(ctx, pod.DeepCopy(), client.DryRunAll)
		if err == nil {
			return errors.New("a pod was admitted")
		}
		if !strings.Contains(err.Error(), sample) {
			return err
		}
		return nil
	})
}
