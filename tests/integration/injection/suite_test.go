// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package injection_test shows the pods SidecarSets make on a real API server, by each way
// of injection.
package injection_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// fixture is a cluster with our kinds, and with our webhooks served by this process while serve has been called.
type fixture struct {
	cluster *cluster.Cluster
	client  client.Client
	port    int
	serving *webhookserving.Serving
	stop    func()
	// more are further handlers, by path.
	more map[string]http.Handler
}

// shared is the cluster of all tests here. They use it one after the other, since a webhook configuration is everybody's.
var shared *fixture

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	os.Exit(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr})
		if err != nil {
			klog.Background().Error(err, "starting the cluster")
			return 1
		}
		defer func() { _ = c.Stop() }()
		if shared, err = installed(ctx, c); err != nil {
			klog.Background().Error(err, "installing")
			return 1
		}
		defer func() { shared.stop() }()
		return m.Run()
	}())
}

func installed(ctx context.Context, c *cluster.Cluster) (*fixture, error) {
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		return nil, err
	}
	w := &fixture{cluster: c, client: direct}
	if w.port, err = c.FreePort(); err != nil {
		return nil, err
	}
	url := "https://127.0.0.1:" + strconv.Itoa(w.port)
	if err := install.Install(ctx, direct, install.Options{WebhookURL: url}); err != nil {
		return nil, err
	}
	w.serving, err = webhookserving.Open(ctx, webhookserving.Options{
		Client: direct, Endpoint: webhookserving.Endpoint{Namespace: install.Namespace, URL: url}, Kinds: controllers.Table(), Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	w.serve(ctx)
	return w, nil
}

// serve answers the API server until stop.
func (w *fixture) serve(ctx context.Context) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: w.port, TLSOpts: []func(*tls.Config){w.serving.TLS}})
	webhook.Register(server, controllers.All(), admit.Deps{
		Client: w.client, Namespace: install.Namespace, Gates: features.Set{features.SidecarSetPatchPodMetadataDefaultsAllowed: true, features.WorkloadSpread: true, features.PodUnavailableBudgetDelete: true},
	})
	for path, handler := range w.more {
		server.Register(path, handler)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- server.Start(ctx)
	}()
	listens := func(context.Context) (bool, error) { return server.StartedChecker()(nil) == nil, nil }
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, listens); err != nil {
		fmt.Fprintln(os.Stderr, "the server of the webhook does not listen:", err)
	}
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "the server of the webhook:", err)
		}
	}
}

// injecting is an Injection with its registrar, as they are on a leader.
type injecting struct {
	*sidecarset.Injection
	registrar *hooks.Registrar
}

// Reconcile makes a pass over a set, or over none, and one of the registrar.
func (i *injecting) Reconcile(ctx context.Context, set string, latest sidecarset.Latest) (state sidecarset.InjectionState, err error) {
	switch {
	case i.Injection == nil:
	case set == "":
		err = i.Refresh(ctx)
	default:
		state, err = i.Injection.Reconcile(ctx, set, latest)
	}
	if err == nil {
		_, err = i.registrar.Reconcile(ctx, ctrl.Request{})
	}
	return state, err
}

// hooks is a registrar with the policy of SidecarSets.
func (w *fixture) hooks(preferPolicy bool, more ...*hooks.Policy) *hooks.Registrar {
	policy, err := sidecarset.Policy(install.Namespace)
	if err != nil {
		panic(err) // It is in the binary.
	}
	return hooks.New(hooks.Options{
		Client: w.client, Live: w.client, Namespace: install.Namespace, PreferPolicy: preferPolicy, Call: w.serving.Call, Policies: append(more, policy), Clock: clock.RealClock{},
	})
}

// injection reads the cluster's SidecarSets.
func (w *fixture) injection(preferPolicy bool) *injecting {
	return w.injectionBy(w.hooks(preferPolicy), preferPolicy)
}

func (w *fixture) injectionBy(registrar *hooks.Registrar, preferPolicy bool) *injecting {
	return &injecting{registrar: registrar, Injection: sidecarset.NewInjection(sidecarset.InjectionOptions{
		Live: w.client, Namespace: install.Namespace, PreferPolicy: preferPolicy, Clock: clock.RealClock{}, Hooks: registrar.Owner("SidecarSet", nil),
		Servers: apiservers.New(w.client, w.cluster.Config(), client.Options{Scheme: environment.Scheme()}),
		Sets: func(ctx context.Context) ([]unstructured.Unstructured, error) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("apps.kruise.io/v1beta1")
			list.SetKind("SidecarSetList")
			err := w.client.List(ctx, list)
			return list.Items, err
		},
	})}
}

// apply creates an object from YAML; it is deleted with the test.
func (w *fixture) apply(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	if err := w.client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %s: %v", text, err)
	}
	t.Cleanup(func() { w.remove(t, object) })
	return object
}

func (w *fixture) remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := client.IgnoreNotFound(w.client.Delete(context.Background(), object)); err != nil {
		t.Errorf("deleting %s: %v", object.GetName(), err)
	}
}

// namespace makes one with the service account pods need. A test asks for it before it
// makes sets: API servers apply a deleted policy for a moment.
func (w *fixture) namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "injection-", Labels: labels}}
	if err := w.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.remove(t, namespace) })
	w.eventually(t, "the service account", func(ctx context.Context) error {
		return w.client.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	w.eventually(t, "nothing is injected any more for the test before", func(context.Context) error {
		pod, err := w.pod(t, namespace.Name, namedShop)
		if apierrors.IsForbidden(err) {
			return nil // a namespace that does not take such pods
		}
		if err == nil && containers(pod) != "web" {
			err = fmt.Errorf("a pod gets %s", containers(pod))
		}
		return err
	})
	return namespace.Name
}

// keep creates a pod; it goes with its namespace.
func (w *fixture) keep(t *testing.T, namespace, text string) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	pod.Namespace = namespace
	return pod, w.client.Create(t.Context(), pod)
}

// pod creates one without keeping it.
func (w *fixture) pod(t *testing.T, namespace, text string) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	pod.Namespace = namespace
	return pod, w.client.Create(t.Context(), pod, client.DryRunAll)
}

func (w *fixture) eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// inForce reconciles until a set is injected by a way, proven.
func (w *fixture) inForce(t *testing.T, i *injecting, set string, path sidecarset.Path) sidecarset.InjectionState {
	t.Helper()
	var state sidecarset.InjectionState
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 45*time.Second, true, func(ctx context.Context) (bool, error) {
		now, err := i.Reconcile(ctx, set, sidecarset.Latest{})
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		state = now
		return state.Path == path && state.Condition.Status == corev1.ConditionTrue, nil
	})
	if err != nil {
		t.Fatalf("SidecarSet %s is not injected by %s: %v, %+v", set, path, err, state)
	}
	return state
}

func containers(pod *corev1.Pod) string {
	names := make([]string, len(pod.Spec.Containers))
	for i := range names {
		names[i] = pod.Spec.Containers[i].Name
	}
	return strings.Join(names, " ")
}

// registered is true if the webhook configuration on pods exists.
func (w *fixture) registered(t *testing.T) bool {
	t.Helper()
	err := w.client.Get(t.Context(), client.ObjectKey{Name: "kruise-operator-pods"}, &admissionv1.MutatingWebhookConfiguration{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// servesPolicies is true if the API server knows policies that change objects, as from
// Kubernetes 1.36 on.
func (w *fixture) servesPolicies(t *testing.T) bool {
	t.Helper()
	_, err := w.client.RESTMapper().RESTMapping(admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy").GroupKind(), admissionv1.SchemeGroupVersion.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	return err == nil
}

// needsPolicies skips a test where there are none.
func (w *fixture) needsPolicies(t *testing.T) {
	t.Helper()
	if !w.servesPolicies(t) {
		t.Skip("this API server does not serve MutatingAdmissionPolicy v1")
	}
}
