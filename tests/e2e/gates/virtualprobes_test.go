// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// serverless is a marker whose probes the provider of a virtual node carries out.
const serverless = `
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: game}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - name: idle
    containerName: game
    podConditionType: game.example/idle
    probe: {exec: {command: [/idle.sh]}}
    markerPolicy:
    - {state: Succeeded, labels: {idle: "true"}}
    - {state: Failed, annotations: {controller.kubernetes.io/pod-deletion-cost: "10"}}
`

func server(name, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "game"}}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: "game", Image: "example/game:v1"}}
	return pod
}

// namespacesOfProbes are those for whose pods the API server asks the operator.
func namespacesOfProbes(ctx context.Context) ([]string, error) {
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	err := env.Client.Get(ctx, client.ObjectKey{Name: probing.WebhookConfiguration}, configuration)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, e := range configuration.Webhooks[0].NamespaceSelector.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn {
			return e.Values, nil
		}
	}
	return nil, fmt.Errorf("the webhook names no namespaces: %+v", configuration.Webhooks[0].NamespaceSelector)
}

// provider writes the condition of a probe, as whoever runs the pods of a virtual node does.
func provider(t *testing.T, n *environment.Namespace, name string, status corev1.ConditionStatus) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name}}
	body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"game.example/idle","status":%q}]}}`, status)
	if err := env.Client.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
		t.Fatal(err)
	}
}

func markerIs(n *environment.Namespace, reason string) {
	n.Eventually("the marker says "+reason, func(ctx context.Context) error {
		m := &v1alpha1.PodProbeMarker{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "game"}, m); err != nil {
			return err
		}
		if !slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == reason }) {
			return fmt.Errorf("its conditions are %+v", m.Status.Conditions)
		}
		return nil
	})
}

// TestProbesOnVirtualNodes follows a probe from its marker to a pod on a virtual node, to its provider, and back to the pod's labels.
func TestProbesOnVirtualNodes(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := n.OwnNode(n.Name+"-virtual", map[string]string{"type": "virtual-kubelet"})
	create := func(pod *corev1.Pod) {
		pod.Namespace = n.Name
		if err := n.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	create(server("early", node))
	n.Apply(serverless)
	n.Eventually("new pods ask for probes", func(ctx context.Context) error {
		pod := server("asks", node)
		pod.Namespace = n.Name
		if err := n.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Annotations[v1alpha1.AnnotationPodProbeMarkers] != "game" {
			return errors.New("it does not")
		}
		return nil
	})
	markerIs(n, v1alpha1.ReasonVirtualNodes) // of the pod that was created before
	if err := n.Client.Delete(t.Context(), n.Pod("early"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	create(server("late", node))
	markerIs(n, v1alpha1.ReasonWaitingForResults)
	provider(t, n, "late", corev1.ConditionTrue)
	podIs(n, "late", "is marked as idle", func(p *corev1.Pod) bool { return p.Labels["idle"] == "true" })
	markerIs(n, v1alpha1.ReasonProbing)
	provider(t, n, "late", corev1.ConditionFalse)
	podIs(n, "late", "is marked as busy", func(p *corev1.Pod) bool {
		_, idle := p.Labels["idle"]
		return !idle && p.Annotations["controller.kubernetes.io/pod-deletion-cost"] == "10"
	})

	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "game"}}
	if err := n.Client.Delete(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the marker is gone", func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKeyFromObject(marker), marker)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if pod := n.Pod("late"); pod.Annotations["controller.kubernetes.io/pod-deletion-cost"] != "" {
		t.Errorf("a mark is left: %v", pod.Annotations)
	}
	n.Eventually("no pod of the namespace is asked about any more", func(ctx context.Context) error {
		namespaces, err := namespacesOfProbes(ctx)
		if slices.Contains(namespaces, n.Name) {
			err = fmt.Errorf("the webhook is for %v", namespaces)
		}
		return err
	})
}
