// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// A faulty configuration is refused at its writing, and reported if it got in all the same.
func TestWrongConfiguration(t *testing.T) {
	e := take(t)
	o := e.start(operator.Options{Name: "wrong"})
	n := e.Namespace(t)
	for spec, part := range map[string]string{
		"{featureGates: [{name: Nonsense, state: Enabled}]}": `Unsupported value: "Nonsense": supported values: "AdvancedDeployment", `,
		"{kinds: [Nonsense]}":                                `supported values: "` + strings.Join(controllers.Table().Switchable().Names(), `", "`) + `"`,
		"{workers: 0}":                                       "greater than or equal to 1",
		"{logLevel: loud}":                                   `supported values: "Error", "Info", "Debug", "Trace"`,
		"{metrics: {bindAddress: nowhere}}":                  "must be an address with a port",
		"{nodeDaemon: {criSocketPath: run/x}}":               "must be an absolute path",
		"{nodeDaemon: {seLinuxOptions: {}}}":                 "must have a user, role, type or level",
		"{nodeDaemon: {seLinuxOptions: {type: ''}}}":         "must have 1 to 256 characters",
		"{nodeDaemon: {credentialProviders: {configPath: /x.yaml, pluginFolder: /opt/bin}}}": "must be the absolute path of a file in a folder",
		"{nodeDaemon: {credentialProviders: {configPath: /etc/x.yaml, pluginFolder: /}}}":    "must be the absolute path of a folder",
	} {
		if err := e.configure(spec); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", spec, err, part)
		}
	}
	other := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if err := e.Client.Create(t.Context(), other); err == nil || !strings.Contains(err.Error(), "its name is cluster") {
		t.Errorf("a second Kruise: %v", err)
	}

	// Another version's CRD may admit names unknown to this operator.
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	crd.SetName("kruises.operator.kruise.io")
	const at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/featureGates/items/properties/name/enum"
	if err := e.Client.Patch(t.Context(), crd, client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"`+at+`"}]`))); err != nil {
		t.Fatal(err)
	}
	const spec = "{featureGates: [{name: Nonsense, state: Enabled}, {name: StatefulSetStartOrdinal, state: Enabled}]}"
	n.Eventually("the API server lets the name in", func(context.Context) error { return e.configure(spec) })
	kruise := e.mustConfigure(n, spec)
	degraded := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != operatorv1alpha1.ReasonInvalidConfiguration ||
		!strings.Contains(degraded.Message, "spec.featureGates[Nonsense]: unknown feature gate: know AdvancedDeployment, ") {
		t.Errorf("the condition is %+v", degraded)
	}
	if !is(kruise, operatorv1alpha1.KruiseStalled, true) || !slices.Contains(kruise.Status.FeatureGates, "StatefulSetStartOrdinal") {
		t.Errorf("the rest is not in force: %+v", kruise.Status)
	}
	if err := o.Install(t.Context()); err != nil { // the CRD as it was
		t.Fatal(err)
	}
	if kruise = e.mustConfigure(n, "{logLevel: Info}"); !is(kruise, operatorv1alpha1.KruiseDegraded, false) {
		t.Errorf("the status is %+v", kruise.Status)
	}
}

// Inside of a cluster the operator deploys Prometheus's objects for itself, once the CRDs
// are there, and leaves its own Deployment alone.
func TestOperands(t *testing.T) {
	e := take(t)
	n := e.Namespace(t)
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
		plural := strings.ToLower(kind) + "s"
		e.create(fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.monitoring.coreos.com},
			spec: {group: monitoring.coreos.com, scope: Namespaced, names: {plural: %[1]s, singular: %[2]s, kind: %[3]s, listKind: %[3]sList},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
			plural, strings.ToLower(kind), kind))
	}
	if err := e.start(operator.Options{Name: "installed"}).Stop(); err != nil { // for the namespace
		t.Fatal(err)
	}
	deployment := e.create(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: kruise-system, name: kruise-operator-manager},
		spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}},
		spec: {containers: [{name: manager, image: example/manager, resources: {limits: {memory: 512Mi}}}]}}}}`)
	e.start(operator.Options{Name: "deployed", Args: []string{"--deployment=kruise-operator-manager"}})
	kruise := e.mustConfigure(n, "{logLevel: Info, manager: {resources: {limits: {memory: 1Gi}}}}")
	if ignored := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseFieldsIgnored); ignored == nil || ignored.Reason != operatorv1alpha1.ReasonDeprecated {
		t.Errorf("the status does not say that spec.manager has no effect: %+v", kruise.Status.Conditions)
	}
	n.Eventually("what is deployed is applied", func(ctx context.Context) error {
		return e.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-operator-metrics"}, &networkingv1.NetworkPolicy{})
	})
	for _, id := range []string{"networking.k8s.io/v1 NetworkPolicy kruise-operator-metrics", "v1 Service kruise-operator-metrics",
		"monitoring.coreos.com/v1 ServiceMonitor kruise-operator-metrics", "monitoring.coreos.com/v1 PodMonitor kruise-daemon-metrics", "monitoring.coreos.com/v1 PrometheusRule kruise-operator-alerts"} {
		words := strings.Fields(id)
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": words[0], "kind": words[1]}}
		if err := e.Client.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: words[2]}, object); err != nil {
			t.Error(err)
			continue
		}
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != deployment.GetUID() {
			t.Errorf("%s has the owners %v", id, owners)
		}
		if managers := object.GetManagedFields(); len(managers) == 0 || managers[0].Manager != "kruise-operator" || managers[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%s is managed by %v", id, managers)
		}
	}
	e.mustConfigure(n, "{metrics: {bindAddress: '0'}}")
	n.Eventually("nothing leads to metrics that are not served", func(ctx context.Context) error {
		policy := &networkingv1.NetworkPolicy{}
		err := e.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-operator-metrics"}, policy)
		if err == nil {
			return errors.New("the NetworkPolicy exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// A setting without effect causes a warning.
func TestWhatHasNoEffectIsWarnedOf(t *testing.T) {
	e := take(t)
	e.start(operator.Options{Name: "warned"})
	manifest := filepath.Join(t.TempDir(), "kruise.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: operator.kruise.io/v1alpha1\nkind: Kruise\nmetadata: {name: cluster}\nspec: {manager: {priorityClassName: high}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := e.Namespace(t).Kubectl("apply", "--dry-run=server", "-f", manifest)
	if err != nil || !strings.Contains(out, "Warning: spec.manager: deprecated, it has no effect") {
		t.Errorf("kubectl apply: %v\n%s", err, out)
	}
}

// The sample is taken without a warning.
func TestTheSampleIsAcceptedWithoutAWarning(t *testing.T) {
	e := take(t)
	e.start(operator.Options{Name: "sample"})
	out, err := e.Namespace(t).Kubectl("apply", "--dry-run=server", "-f", "../../../config/samples/operator_v1alpha1_kruise.yaml")
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("kubectl apply: %v\n%s", err, out)
	}
}

// While OpenKruise acts, a takeover is under way, and the operator should not be replaced by another version.
func TestTakeoverHoldsUpgradesUp(t *testing.T) {
	e := take(t)
	e.start(operator.Options{Name: "takeover"})
	n := e.Namespace(t)
	if kruise := e.mustConfigure(n, "{logLevel: Info}"); !is(kruise, operatorv1alpha1.KruiseUpgradeable, true) {
		t.Errorf("at rest, the status is %+v", kruise.Status)
	}
	upgradeable := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		n.Eventually("Upgradeable is "+string(status), func(ctx context.Context) error {
			kruise := &operatorv1alpha1.Kruise{}
			if err := e.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
				return err
			}
			c := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseUpgradeable)
			if c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
	}
	lease := e.create(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: kruise-system, name: kruise-manager},
		spec: {holderIdentity: openkruise, leaseDurationSeconds: 200}}`)
	upgradeable(metav1.ConditionFalse, operatorv1alpha1.ReasonTakingOver)
	if err := e.Client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	upgradeable(metav1.ConditionTrue, operatorv1alpha1.ReasonAsExpected)
}
