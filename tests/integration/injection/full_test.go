// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

// More sets than one webhook configuration holds: the last ones report the lack of room,
// and the others are injected. Their long selectors fill it quickly; with short ones it
// holds about 400.
func TestMoreSetsThanTheWebhookConfigurationHolds(t *testing.T) {
	w := shared
	namespace := w.namespace(t, nil)
	const sets = 20
	name := func(n int) string { return fmt.Sprintf("many-%02d", n) }
	for n := range sets {
		values := []string{name(n)}
		for value := range 990 {
			values = append(values, fmt.Sprintf("%s-%054d", name(n), value))
		}
		w.apply(t, strings.NewReplacer("NAME", name(n), "VALUES", strings.Join(values, ", ")).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: NAME}
spec:
  selector: {matchExpressions: [{key: many, operator: In, values: [VALUES]}]}
  containers: [{name: agent, image: "example/agent:v1"}]
`))
	}
	i := w.injection(false)
	t.Cleanup(func() { // after the sets are gone
		if _, err := w.off().Reconcile(context.Background(), "", sidecarset.Latest{}); err != nil {
			t.Error(err)
		}
	})
	w.inForce(t, i, name(0), sidecarset.PathWebhook)
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: hooks.MutatingConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	fit := len(configuration.Webhooks)
	t.Logf("measured: %d entries with %d bytes", fit, configuration.Size())
	if fit < 10 || fit == sets {
		t.Fatalf("%d of %d sets have an entry", fit, sets)
	}
	w.inForce(t, i, name(fit-1), sidecarset.PathWebhook)
	for n := fit; n < sets; n++ {
		state, err := i.Reconcile(t.Context(), name(n), sidecarset.Latest{})
		if err != nil || state.Condition.Status != corev1.ConditionFalse || state.Condition.Reason != "WebhookFull" || !state.Stalled {
			t.Errorf("set %d: %+v, %v", n, state, err)
		}
	}
	for n, want := range map[int]string{0: "agent web", fit - 1: "agent web", fit: "web", sets - 1: "web"} {
		pod, err := w.pod(t, namespace, `{metadata: {generateName: many-, labels: {many: `+name(n)+`}}, spec: {containers: [{name: web, image: w}]}}`)
		if err != nil || containers(pod) != want {
			t.Errorf("a pod of set %d has %s, want %s: %v", n, containers(pod), want, err)
		}
	}
}
