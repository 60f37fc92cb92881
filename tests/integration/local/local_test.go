// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package local_test uses the binary as `make install run` does: outside of the cluster, from its installation to its removal.
package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// env is shared by all tests of this package. Each test runs the operators it needs and
// stops them.
var env *environment.Environment

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster:    cluster.Options{Audit: &cluster.Audit{}},
		Nodes:      &simnode.Options{},
		NoOperator: true,
	}, func(e *environment.Environment) { env = e })
}

// start runs an operator until the test ends.
func start(t *testing.T, options operator.Options) *operator.Operator {
	t.Helper()
	return operator.StartForTest(t, env.Cluster, options)
}

func TestAWebhookURLThatLeadsElsewhereIsFound(t *testing.T) {
	port, err := env.Cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	// The process listens at another port than the API server calls.
	o := start(t, operator.Options{Name: "elsewhere", Args: []string{"--webhook-port=" + strconv.Itoa(port)}})
	if err = o.CheckReached(t.Context()); err == nil {
		t.Fatal("the API server is said to reach webhooks that it cannot call")
	}
	for _, part := range []string{"cannot reach the webhooks of this process", o.WebhookURL(), "WEBHOOK_URL", "run `make install` again"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// As `make run`: the operator starts, and ends when the API server does not reach it.
func TestMakeRunEndsWhenTheWebhooksAreNotReached(t *testing.T) {
	right := start(t, operator.Options{Name: "reached"})
	if err := right.CheckReached(t.Context()); err != nil {
		t.Error(err)
	}
	if err := right.Stop(); err != nil {
		t.Fatal(err)
	}
	port, err := env.Cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "../../cmd/dev", "run", "--webhook-url="+right.WebhookURL(), "--",
		"--webhook-port="+strconv.Itoa(port), "--metrics-bind-address=0", "--health-probe-bind-address=0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Cluster.AdminKubeconfig())
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "cannot reach the webhooks of this process") {
		t.Errorf("it ends with %v:\n%s", err, out)
	}
}

func TestRunSaysWhatIsMissingBeforeInstall(t *testing.T) {
	o := start(t, operator.Options{Name: "missing"})
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := o.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := o.Run(t.Context())
	if err == nil {
		t.Fatal("the operator runs without being installed")
	}
	if !strings.Contains(err.Error(), "`make install` creates") {
		t.Errorf("the error does not say to install first: %v", err)
	}
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestKindsThatAreOffCanBeReadAndDeletedInEveryVersion(t *testing.T) {
	start(t, operator.Options{Name: "off", Args: []string{"--kinds=StatefulSet"}})
	n := env.Namespace(t)
	for version, policy := range map[string]string{"v1alpha1": "{.spec.updateStrategy.type}", "v1beta1": "{.spec.updateStrategy.rollingUpdate.podUpdatePolicy}"} {
		n.Apply(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example/web:v1"}]}
  updateStrategy: {type: InPlaceOnly}
`)
		resource := "clonesets." + version + ".apps.kruise.io"
		if out, err := n.Kubectl("get", resource, "web", "--output=jsonpath="+policy); err != nil || out != string(shared.InPlaceOnly) {
			t.Errorf("read in %s, the policy is %q: %v", version, out, err)
		}
		set, key := &v1beta1.CloneSet{}, client.ObjectKey{Namespace: n.Name, Name: "web"}
		if err := n.Client.Get(t.Context(), key, set); err != nil {
			t.Fatal(err)
		}
		if pods := n.Pods(); len(pods) > 0 || set.Status.ObservedGeneration > 0 {
			t.Errorf("a controller manages it: %v, %+v", environment.Names(pods), set.Status)
		}
		if out, err := n.Kubectl("delete", resource, "web"); err != nil {
			t.Errorf("deleting in %s: %v: %s", version, err, out)
		}
		if err := n.Client.Get(t.Context(), key, set); !apierrors.IsNotFound(err) {
			t.Errorf("after its deletion in %s the set is there: %v", version, err)
		}
	}
}

func TestUninstallRefusesWhileSetsExist(t *testing.T) {
	o := start(t, operator.Options{Name: "uninstalled", Args: []string{"--feature-gates=ResourcesDeletionProtection=true"}})
	n := env.Namespace(t)
	policy := client.ObjectKey{Name: "kruise-operator-deletion-protection"}
	n.Eventually("sets are protected from deletion", func(ctx context.Context) error {
		return env.Client.Get(ctx, policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
	})
	n.Apply(environment.StatefulSetManifest("web", 2))
	set := n.Settled("web")
	err := o.Uninstall(t.Context())
	if err == nil {
		t.Fatal("uninstalled while a set exists")
	}
	for _, part := range []string{"not uninstalling", "1 statefulsets.apps.kruise.io exist", n.Name + "/web", "delete these objects first", "--cascade=orphan"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not say %q: %v", part, err)
		}
	}
	if pods := n.Pods(); len(pods) != 2 || pods[0].DeletionTimestamp != nil {
		t.Fatalf("the refusal touched the pods: %v", environment.Names(pods))
	}

	if err := n.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the set is gone", func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKeyFromObject(set), &v1beta1.StatefulSet{})
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})
	if err := o.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []struct {
		kind schema.GroupVersionKind
		name string
	}{
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "clonesets.apps.kruise.io"},
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "statefulsets.apps.kruise.io"},
		{admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), "kruise-operator-mutating"},
		{admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), "kruise-operator-validating"},
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gone.kind)
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: gone.name}, object); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s is left: %v", gone.kind.Kind, gone.name, err)
		}
	}
	n.Eventually("the policy is collected", func(ctx context.Context) error {
		for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
			if err := env.Client.Get(ctx, policy, object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T is left: %w", object, err)
			}
		}
		return nil
	})
}

// reconciles matches the counter of passes without an error.
var reconciles = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="statefulset-controller",result="(success|requeue|requeue_after)"\} (\d+)$`)

func passes(ctx context.Context, o *operator.Operator) (int, error) {
	text, err := o.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, match := range reconciles.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func TestMetrics(t *testing.T) {
	o := start(t, operator.Options{Name: "metrics"})
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Settled("web")
	text, err := o.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{
		`kruise_podset_actions_total{kind="StatefulSet",result="ok",verb="Create"} 2`,
		`controller_runtime_reconcile_total{controller="statefulset-controller"`,
		`rest_client_requests_total{`,
		`workqueue_depth{`,
		`process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, metric) {
			t.Errorf("there is no metric %s in:\n%s", metric, matching(text, metric))
		}
	}
	if strings.Contains(text, n.Name) {
		t.Error("a metric has a namespace among its labels")
	}
}

// matching returns the lines beginning like the metric.
func matching(text, metric string) string {
	name, _, _ := strings.Cut(metric, "{")
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.HasPrefix(line, name) })
	return strings.Join(lines, "\n")
}

func TestRestartAtRestWritesNothing(t *testing.T) {
	o := start(t, operator.Options{Name: "restarted"})
	n := env.Namespace(t)
	const sets = 5
	for i := range sets {
		n.Apply(environment.StatefulSetManifest(fmt.Sprintf("web-%c", 'a'+i), 4))
	}
	for i := range sets {
		n.Settled(fmt.Sprintf("web-%c", 'a'+i))
	}
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("every set was looked at", func(ctx context.Context) error {
		got, err := passes(ctx, o)
		if err == nil && got < sets {
			err = fmt.Errorf("%d passes, want %d", got, sets)
		}
		return err
	})
	n.Consistently(2*time.Second, "the sets stay settled", func(context.Context) error {
		for i := range sets {
			if s := n.StatefulSet(fmt.Sprintf("web-%c", 'a'+i)).Status; s.AvailableReplicas != 4 {
				return fmt.Errorf("the status is %+v", s)
			}
		}
		return nil
	})
	// Namespaces of earlier tests may still be going, with sets and their pods.
	byOperator := audit.ByUser(operator.ServiceAccountUser)
	requests, err := log.Next(func(e *auditv1.Event) bool {
		return byOperator(e) && (e.ObjectRef == nil || slices.Contains([]string{"", n.Name, install.Namespace}, e.ObjectRef.Namespace))
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := audit.Count(requests)
	if counts.Writes() != 0 {
		t.Errorf("a restart at rest made %d writes:\n%s", counts.Writes(), counts)
	}
	events := counts.Sum(func(r audit.Request) bool { return r.Resource == "events" })
	if events != 0 {
		t.Errorf("a restart at rest made %d events", events)
	}
}

func TestStandbyActsAsSoonAsTheLeaderStops(t *testing.T) {
	leader := start(t, operator.Options{Name: "leader", LeaderElect: true})
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Settled("web")
	lease := &coordinationv1.Lease{}
	held := func(ctx context.Context) (string, error) {
		err := n.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-operator-manager"}, lease)
		return ptr.Deref(lease.Spec.HolderIdentity, ""), err
	}
	first, err := held(t.Context())
	if err != nil || first == "" {
		t.Fatalf("the lease is held by %q: %v", first, err)
	}
	standby := start(t, operator.Options{Name: "standby", LeaderElect: true}) // from here on admission is the standby's
	if now, err := held(t.Context()); err != nil || now != first {
		t.Fatalf("a standby that became ready changed the holder from %q to %q: %v", first, now, err)
	}
	if got, err := passes(t.Context(), standby); err != nil || got != 0 {
		t.Fatalf("a standby made %d passes: %v", got, err)
	}

	stopping := time.Now()
	if err := leader.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	n.Change("web", func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](5) })
	n.EventuallyWithin(10*time.Second, "the standby makes the new pods", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx)
		if err == nil && len(pods) != 5 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	took := time.Since(stopped)
	t.Logf("measured: the leader stopped within %s, the standby had made 3 pods %s later",
		stopped.Sub(stopping).Round(time.Millisecond), took.Round(time.Millisecond))
	// The lease would lapse after 15 s; the rest is for a loaded machine.
	if took > 5*time.Second {
		t.Errorf("the standby acted %s after the leader had stopped, want at most 5s", took)
	}
	if now, err := held(t.Context()); err != nil || now == first || now == "" {
		t.Errorf("the lease is held by %q, was held by %q: %v", now, first, err)
	}
	n.Settled("web")
	select {
	case <-standby.Done():
		t.Error("the standby ended")
	default:
	}
}
