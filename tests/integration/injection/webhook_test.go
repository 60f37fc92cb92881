// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
)

const shop = `
metadata: {generateName: shop-, labels: {app: shop}}
spec: {containers: [{name: web, image: example/web}]}
`

func TestByWebhook(t *testing.T) {
	w := shared
	namespace, other := w.namespace(t, map[string]string{"team": "a"}), w.namespace(t, nil)
	i := w.injection(false)
	if _, err := i.Reconcile(t.Context(), "none", sidecarset.Latest{}); err != nil {
		t.Fatal(err)
	}
	if w.registered(t) {
		t.Fatal("without a SidecarSet, pods are matched")
	}
	log := w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: shop}}
  namespaceSelector: {matchLabels: {team: a}}
  containers:
  - {name: agent, image: "example/agent:v1", futureField: 1, shareVolumePolicy: {type: enabled}, volumeMounts: [{name: spool, mountPath: /spool}]}
  volumes: [{name: spool, emptyDir: {}}]
`)
	trace := w.apply(t, `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: trace, annotations: {operator.kruise.io/injection-failure-policy: Ignore}}
spec:
  selector: {matchLabels: {app: shop}}
  containers:
  - {name: before, image: "example/trace:v1"}
  - {name: after, image: "example/trace:v1", podInjectPolicy: AfterAppContainer}
`)
	w.inForce(t, i, "log", sidecarset.PathWebhook)
	state := w.inForce(t, i, "trace", sidecarset.PathWebhook)
	t.Log(state.Condition.Message)
	wants := func(namespace, pod, want string) {
		t.Helper()
		created, err := w.pod(t, namespace, pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := containers(created); got != want {
			t.Errorf("containers: %s, want %s", got, want)
		}
	}
	wants(namespace, shop, "agent before web after")
	wants(other, shop, "before web after")
	wants(namespace, `{metadata: {name: other, labels: {app: other}}, spec: {containers: [{name: web, image: w}]}}`, "web")
	wants(namespace, `{metadata: {name: b, labels: {app: shop, operator.kruise.io/admission: bypass}}, spec: {containers: [{name: web, image: w}]}}`, "web")
	created, err := w.pod(t, namespace, shop)
	if err != nil {
		t.Fatal(err)
	}
	if got := created.Annotations["kruise.io/sidecarset-injected-list"]; got != "log,trace" {
		t.Errorf("injected list: %s", got)
	}

	t.Run("a new spec replaces the old one, and its revision goes", func(t *testing.T) {
		log.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "example/agent:v2"
		if err := w.client.Update(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		w.inForce(t, i, "log", sidecarset.PathWebhook)
		created, err := w.pod(t, namespace, shop)
		if err != nil {
			t.Fatal(err)
		}
		if got := created.Spec.Containers[0].Image; got != "example/agent:v2" {
			t.Errorf("the image is %s", got)
		}
	})
	t.Run("with the operator dead, its failure policy decides, and pods of others come up", func(t *testing.T) {
		w.stop()
		defer w.serve(t.Context())
		if _, err := w.pod(t, namespace, shop); err == nil || !strings.Contains(err.Error(), `failed calling webhook "sidecarset-log.operator.kruise.io"`) {
			t.Errorf("creating a pod of a set that fails closed: %v", err)
		}
		wants(other, shop, "web") // only the set that fails open selects it
		wants(namespace, `{metadata: {name: other, labels: {app: other}}, spec: {containers: [{name: web, image: w}]}}`, "web")
	})
	t.Run("the last set takes everything with it", func(t *testing.T) {
		for _, set := range []client.Object{log, trace} {
			w.remove(t, set)
			if _, err := i.Reconcile(t.Context(), set.GetName(), sidecarset.Latest{}); err != nil {
				t.Fatal(err)
			}
		}
		if w.registered(t) {
			t.Error("pods are still matched")
		}
		w.eventually(t, "a pod as if there was no operator", func(context.Context) error {
			created, err := w.pod(t, namespace, shop)
			if err == nil && len(created.Spec.Containers) != 1 {
				err = fmt.Errorf("containers: %s", containers(created))
			}
			return err
		})
	})
}
