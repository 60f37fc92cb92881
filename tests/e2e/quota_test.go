// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// limit gives a namespace a ResourceQuota and waits until the API server knows it.
func limit(n *environment.Namespace, name, hard string) {
	n.Apply(fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: %s}\nspec:\n  hard: {%s}\n", name, hard))
	n.Eventually("quota "+name+" is known", func(context.Context) error {
		out, err := n.Kubectl("get", "resourcequota", name, "-o", "jsonpath={.status.used}")
		if err == nil && out == "" {
			err = fmt.Errorf("its status is %q", out)
		}
		return err
	})
}

// TestWorkloadsSayThatAQuotaIsUsedUp: what a user does not learn from pods, since there are none. Nothing but the user can help: the sets are
// stalled, until the quota is raised.
func TestWorkloadsSayThatAQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	limit(n, "few", `pods: "2"`)
	n.Apply(environment.StatefulSetManifest("web", 3))
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers: [{name: main, image: "example/api:v1"}]
`)
	sets := []string{"statefulsets.apps.kruise.io/web", "clonesets.apps.kruise.io/api"}
	for _, set := range sets {
		if out, err := n.Kubectl("wait", "--for=condition=Stalled=True", "--timeout=90s", set); err != nil {
			t.Fatalf("%s: %v\n%s", set, err, out)
		}
		out, err := n.Kubectl("get", set, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`)
		if err != nil || !strings.Contains(out, "Stalled=True RequestFailed: creating the pod") || !strings.Contains(out, "exceeded quota: few") ||
			!strings.Contains(out, "Reconciling=False") {
			t.Errorf("%s says (%v):\n%s", set, err, out)
		}
	}
	n.Apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec:\n  hard: {pods: \"6\"}\n")
	n.Settled("web")
	n.SettledCloneSet("api")
	for _, set := range sets {
		if out, err := n.Kubectl("wait", "--for=condition=Stalled=False", "--timeout=30s", set); err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}
