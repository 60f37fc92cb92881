// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package operatorconfig_test changes how the operator runs while it runs, through the Kruise object.
package operatorconfig_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

// environments is how many tests run at the same time. The configuration is one object for a whole cluster, so each of them has one to itself.
const environments = 2

// free are environments without a test.
var free = make(chan *environment.Environment, environments)

func TestMain(m *testing.M) {
	environment.MainOfSeveral(m, environments, environment.Options{
		// Volumes are bound without events, every 15 seconds by default.
		Cluster:    cluster.Options{Audit: &cluster.Audit{}, Flags: map[string][]string{cluster.ControllerManager: {"--pvclaimbinder-sync-period=1s"}}},
		Nodes:      &simnode.Options{},
		NoOperator: true,
	}, func(all []*environment.Environment) {
		for _, e := range all {
			free <- e
		}
	}, rightsAreNeeded)
}

// testEnv is an environment while a test has it. The test runs the operators it needs and stops them.
type testEnv struct {
	*environment.Environment
	t *testing.T
}

// take gives the test an environment until it ends.
func take(t *testing.T) *testEnv {
	t.Helper()
	t.Parallel()
	e := <-free
	t.Cleanup(func() { free <- e })
	return &testEnv{Environment: e, t: t}
}

// start runs an operator until the test ends.
func (e *testEnv) start(options operator.Options) *operator.Operator {
	e.t.Helper()
	options.LeaderElect = true
	return operator.StartForTest(e.t, e.Cluster, options)
}

// configure applies a Kruise with the fields of spec, and deletes it when the test ends.
func (e *testEnv) configure(spec string) error {
	e.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: operator.kruise.io/v1alpha1\nkind: Kruise\nmetadata: {name: cluster}\nspec: "+spec), &object.Object); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.t.Context()), &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})); err != nil {
			e.t.Error(err)
		}
	})
	return e.Client.Apply(e.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
}

// create creates an object and deletes it when the test ends.
func (e *testEnv) create(manifest string) *unstructured.Unstructured {
	e.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		e.t.Fatal(err)
	}
	if err := e.Client.Create(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.t.Context()), object)); err != nil {
			e.t.Error(err)
		}
	})
	return object
}

// mustConfigure applies a Kruise and waits until the operator runs with it and says so.
func (e *testEnv) mustConfigure(n *environment.Namespace, spec string) *operatorv1alpha1.Kruise {
	e.t.Helper()
	if err := e.configure(spec); err != nil {
		e.t.Fatal(err)
	}
	kruise := &operatorv1alpha1.Kruise{}
	n.Eventually("the operator runs as the Kruise says", func(ctx context.Context) error {
		if err := e.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
			return err
		}
		if kruise.Status.ObservedGeneration != kruise.Generation || !is(kruise, operatorv1alpha1.KruiseAvailable, true) || !is(kruise, operatorv1alpha1.KruiseProgressing, false) {
			return fmt.Errorf("generation %d, status %+v", kruise.Generation, kruise.Status)
		}
		return nil
	})
	return kruise
}

func is(kruise *operatorv1alpha1.Kruise, kind string, want bool) bool {
	c := meta.FindStatusCondition(kruise.Status.Conditions, kind)
	return c != nil && (c.Status == metav1.ConditionTrue) == want
}

// logged are a log's lines with all parts.
func logged(t *testing.T, o *operator.Operator, parts ...string) []string {
	t.Helper()
	text, err := os.ReadFile(o.Log())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// rightsAreNeeded checks, after all tests, that they needed every right for the operator's
// own configuration, and no other.
func rightsAreNeeded(_ context.Context, all []*environment.Environment) error {
	given, err := rights.Of("../../../config/rbac")
	if err != nil {
		return err
	}
	own := rights.With("kruises", "kruises/status", "deployments", "networkpolicies", "services", "servicemonitors", "podmonitors", "prometheusrules",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "clusterrolebindings")
	given = slices.DeleteFunc(given, func(r rights.Right) bool {
		return !own(r) || r.Resource == "services" && !r.Namespaced // of Rollouts
	})
	if len(given) < 15 {
		return fmt.Errorf("only %d rights were read", len(given))
	}
	if flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String() != "" {
		fmt.Println("only some tests ran: not checked that each right is needed")
		return nil
	}
	var events []auditv1.Event
	for _, e := range all {
		some, err := audit.Begin(e.Cluster.AuditLog()).Next(audit.ByUser(operator.ServiceAccountUser))
		if err != nil {
			return err
		}
		// Any kind can be protected by counting, and a test covers one the operator has no
		// right to list.
		events = append(events, slices.DeleteFunc(some, func(event auditv1.Event) bool { return strings.HasPrefix(event.RequestURI, "/apis/example.com/") })...)
	}
	return rights.Check(given, events, "kruise-system", rights.Excuse{
		Why: "informers list where the API server does not stream what is there at the beginning of a watch; this one does",
		Covers: func(r rights.Right) bool {
			return r.Verb == "list" && (r.Resource == "kruises" || r.Name == "kruise-operator-deletion-protection")
		},
	}, rights.Excuse{
		Why:    "the Deployment is watched where its certificate is mounted; tests/node/incluster mounts one",
		Covers: rights.To("list watch", "deployments"),
	}, rights.Excuse{
		Why:    "workloads of UnitedDeployments; tests/e2e/zones has some",
		Covers: func(r rights.Right) bool { return r.Resource == "deployments" && r.Name == "" },
	}, rights.Excuse{
		Why:    "launch priorities of all pods, which a gate turns on; tests/e2e/gates and tests/integration/injection have some",
		Covers: func(r rights.Right) bool { return r.Name == "kruise-operator-launch-priority" },
	}, rights.Excuse{
		Why:    "the Operator Lifecycle Manager makes this binding; tests/olm has it",
		Covers: func(r rights.Right) bool { return strings.HasSuffix(r.Name, ":auth-delegator") },
	}, rights.Excuse{
		Why: "the policy of the node daemon goes with the daemon, which no test removes here once it is registered",
		Covers: func(r rights.Right) bool {
			return r.Name == "kruise-daemon-own-node" && (r.Verb == "list" || r.Verb == "delete")
		},
	})
}
