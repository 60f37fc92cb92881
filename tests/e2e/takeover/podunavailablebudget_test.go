// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// TestTakeoverOfPodUnavailableBudgets: budgets of OpenKruise are in force as they were, without a write to any pod. While the operator is dead, pods of
// one that fails are kept, and those of one that ignores this go.
func TestTakeoverOfPodUnavailableBudgets(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(t.Context(), "../../../config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	fixtures.Restore(t.Context(), t, client.WithFieldOwner(direct, "manager"), "podunavailablebudget/state.yaml")
	before := read(t, direct).pods
	o, err := operator.New(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	const namespace = "podunavailablebudget"
	inForce := func(name string, want string) {
		t.Helper()
		n.EventuallyWithin(time.Minute, name+" is in force", func(ctx context.Context) error {
			b := &v1beta1.PodUnavailableBudget{}
			if err := direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b); err != nil {
				return err
			}
			is := meta.FindStatusCondition(b.Status.Conditions, v1beta1.PodUnavailableBudgetReconciling)
			got := fmt.Sprint("allowed ", b.Status.UnavailableAllowed, " current ", b.Status.CurrentAvailable, " desired ", b.Status.DesiredAvailable, " total ", b.Status.TotalReplicas)
			if is == nil || is.Reason != v1beta1.ReasonBudgetInForce || got != want {
				return fmt.Errorf("it has %s, %+v", got, b.Status.Conditions)
			}
			return nil
		})
	}
	inForce("front-pub", "allowed 1 current 4 desired 3 total 5")
	inForce("side-pub", "allowed 1 current 3 desired 2 total 3")
	n.Consistently(quiet, "no pod is written", func(context.Context) error {
		for name, pod := range read(t, direct).pods {
			if was := before[name]; was.ResourceVersion != pod.ResourceVersion {
				return fmt.Errorf("pod %s was written", name)
			}
		}
		return nil
	})
	gone := func(name string) error {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = namespace, name
		return direct.Delete(t.Context(), pod, client.GracePeriodSeconds(0))
	}
	if out, err := c.Kubectl(t.Context(), "annotate", "pub", "side-pub", "--namespace="+namespace, v1beta1.AnnotationBudgetFailurePolicy+"=Ignore").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	n.EventuallyWithin(time.Minute, "a pod of the other policy is asked about", func(context.Context) error {
		out, err := c.Kubectl(t.Context(), "get", "validatingwebhookconfigurations", "--output=jsonpath={.items[*].webhooks[*].name}").CombinedOutput()
		pod := read(t, direct).pods[client.ObjectKey{Namespace: namespace, Name: "side-657ff87467-hfqhc"}]
		if policy := pod.Annotations[v1beta1.AnnotationBudgetFailurePolicy]; err == nil && (policy != "Ignore" || !strings.Contains(string(out), "pods-ignore.disruption.operator.kruise.io")) {
			err = fmt.Errorf("the pod has %q, there are %s", policy, out)
		}
		return err
	})
	if err := gone("side-657ff87467-dncr5"); err != nil {
		t.Errorf("with room: %v", err)
	}
	inForce("side-pub", "allowed 0 current 2 desired 2 total 3")
	if err := gone("side-657ff87467-hfqhc"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodUnavailableBudget side-pub") {
		t.Errorf("without room: %v", err)
	}

	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := gone("side-657ff87467-hfqhc"); err != nil {
		t.Errorf("a pod of a budget that ignores failures: %v", err)
	}
	if err := gone("front-6l755"); err == nil || !strings.Contains(err.Error(), "disruption.operator.kruise.io") {
		t.Errorf("a pod of a budget that fails: %v", err)
	}
	if err := gone("front-5zvnj"); err != nil {
		t.Errorf("a pod that is not ready: %v", err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, "front-76r89"
	if err := direct.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); err == nil || !strings.Contains(err.Error(), "disruption.operator.kruise.io") {
		t.Errorf("an eviction: %v", err)
	}
	if out, err := c.Kubectl(t.Context(), "label", "pod", "front-6l755", "--namespace="+namespace, "operator.kruise.io/admission=bypass").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	if err := gone("front-6l755"); err != nil {
		t.Errorf("a pod with the label of last resort: %v", err)
	}
}
