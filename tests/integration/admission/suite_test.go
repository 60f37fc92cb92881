// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package admission_test shows the answers of an API server with our schema and webhooks:
// every field through the real chain of decoding, mutation, schema and validation, over
// HTTP as clients of both versions send it.
package admission_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
)

// env is an API server with our kinds installed and our webhooks served by this process.
type env struct {
	cluster *cluster.Cluster
	client  client.Client
	url     string
	serving *webhookserving.Serving
	// resource is the one send is about.
	resource string
}

// about returns the same environment; its send is about another resource.
func (e *env) about(resource string) *env {
	other := *e
	other.resource = resource
	return &other
}

func start(t *testing.T) *env {
	t.Helper()
	ctrl.SetLogger(klog.Background())
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	port, err := c.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{cluster: c, client: direct, url: "https://127.0.0.1:" + strconv.Itoa(port), resource: "statefulsets"}

	options := install.Options{WebhookURL: e.url, Report: func(line string) { t.Log(line) }}
	if err := install.Install(t.Context(), e.client, options); err != nil {
		t.Fatal(err)
	}
	e.serving, err = webhookserving.Open(t.Context(), webhookserving.Options{
		Client: e.client, Endpoint: webhookserving.Endpoint{Namespace: install.Namespace, URL: e.url}, Kinds: controllers.Table(), Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){e.serving.TLS}})
	webhook.Register(server, controllers.All(), admit.Deps{
		Client: e.client, Namespace: install.Namespace, Gates: features.Set{features.StatefulSetAutoDeletePVC: true, features.KruiseDaemon: true, features.PodProbeMarker: true, features.WorkloadSpread: true, features.PodUnavailableBudgetDelete: true},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the webhook server failed: %v", err)
		}
	})
	if err := reach.Check(t.Context(), e.client, e.url, reach.Kinds()...); err != nil {
		t.Fatal(err)
	}
	return e
}

// install installs again, as after a removal or change, and has the webhook certificate
// trusted, like a running operator.
func (e *env) install(t *testing.T) {
	t.Helper()
	if err := install.Install(t.Context(), e.client, install.Options{WebhookURL: e.url}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.serving.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// removeWebhooks removes all registrations of webhooks. The API server notices a moment later.
func (e *env) removeWebhooks(t *testing.T) {
	t.Helper()
	for _, object := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		if err := e.client.DeleteAllOf(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// answer is the API server's to one request.
type answer struct {
	err      error
	warnings []string
	body     *unstructured.Unstructured
}

// check compares a refusal's fields, nil for none, and looks for a part of its message.
func (got answer) check(t *testing.T, wantFields []string, wantMessage string) {
	t.Helper()
	if (wantFields != nil) != (got.err != nil) {
		t.Fatalf("refused: %v", got.err)
	}
	if diff := cmp.Diff(wantFields, fields(got.err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
	}
	if got.err != nil && !strings.Contains(got.err.Error(), wantMessage) {
		t.Errorf("message %q does not contain %q", got.err, wantMessage)
	}
}

// checkWarnings compares an admitted request's warnings.
func (got answer) checkWarnings(t *testing.T, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got.warnings); diff != "" && got.err == nil {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// checkPatches compares the refused fields of patches to an object, which stays.
func (e *env) checkPatches(t *testing.T, version, namespace, name string, patches map[string][]string) {
	t.Helper()
	for patch, want := range patches {
		got := e.send(t, http.MethodPatch, version, namespace, name, patch, map[string]string{"dryRun": "All"})
		if diff := cmp.Diff(want, fields(got.err)); diff != "" {
			t.Errorf("%s in %s: fields (-want +got):\n%s\n%v", patch, version, diff, got.err)
		}
	}
}

// checkColumns compares the first line of `kubectl get`, for each name of a resource.
func (e *env) checkColumns(t *testing.T, namespace, want string, resources ...string) {
	t.Helper()
	for _, resource := range resources {
		out, err := e.cluster.Kubectl(t.Context(), "get", resource, "--namespace="+namespace).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		first, _, _ := strings.Cut(string(out), "\n")
		if got := strings.Join(strings.Fields(first), " "); got != want {
			t.Errorf("columns of %s: %s, want %s", resource, got, want)
		}
	}
}

// send makes one request with a body in YAML, as kubectl or a typed client would, and keeps the warnings.
func (e *env) send(t *testing.T, verb, version, namespace, name, body string, parameters map[string]string) answer {
	t.Helper()
	return e.sendContext(t.Context(), t, verb, version, namespace, name, body, parameters)
}

func (e *env) sendContext(ctx context.Context, t *testing.T, verb, version, namespace, name, body string, parameters map[string]string) answer {
	t.Helper()
	warnings := &recorder{}
	config := rest.CopyConfig(e.cluster.Config())
	config.WarningHandlerWithContext = warnings
	config.GroupVersion = ptrTo(appsv1beta1.GroupVersion())
	config.GroupVersion.Version = version
	if e.resource == "podunavailablebudgets" {
		config.GroupVersion.Group = "policy.kruise.io"
	}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		t.Fatalf("reading %s: %v", body, err)
	}
	request := c.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(e.resource).Body(text)
	if verb == http.MethodPatch {
		request = request.SetHeader("Content-Type", "application/merge-patch+json")
	} else {
		request = request.SetHeader("Content-Type", "application/json")
	}
	if name != "" {
		request = request.Name(name)
	}
	if _, set := parameters["fieldValidation"]; !set {
		request = request.Param("fieldValidation", "Warn")
	}
	for key, value := range parameters {
		request = request.Param(key, value)
	}
	raw, err := request.Do(ctx).Raw()
	a := answer{err: err, warnings: warnings.sorted()}
	if err == nil {
		a.body = &unstructured.Unstructured{}
		if err := a.body.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
	} else {
		a.err = statusOf(err, raw)
	}
	return a
}

// statusOf returns the server's own words; a raw request leaves them in the body.
func statusOf(err error, raw []byte) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && len(raw) > 0 {
		var body apierrors.StatusError
		if yaml.Unmarshal(raw, &body.ErrStatus) == nil && body.ErrStatus.Status == "Failure" {
			return &body
		}
	}
	return err
}

func (e *env) namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.GenerateName = "admission-"
	if err := e.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// fields are a refusal's fields. The API server adds, without a field, that it did not run
// all rules, and checks the scale subresource's paths on its own, with a leading dot.
func fields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var names []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "<nil>" {
			names = append(names, strings.TrimPrefix(cause.Field, "."))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

type recorder struct {
	mutex sync.Mutex
	texts []string
}

func (r *recorder) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.texts = append(r.texts, text)
	if code != 299 {
		r.texts = append(r.texts, fmt.Sprintf("unexpected code %d", code))
	}
}

func (r *recorder) sorted() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Sorted(slices.Values(r.texts))
}

// pods are the selector and the template of the manifests here.
const pods = `  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      readinessGates:
      - conditionType: InPlaceUpdateReady
      containers:
      - name: main
        image: example/web:v1
`

// manifest is a good StatefulSet of a version; edits replace text in it, old and new in turns.
func manifest(version, name string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: StatefulSet
metadata:
  name: NAME
spec:
` + pods + `
  serviceName: web
  podManagementPolicy: Parallel
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}
`)
	return environment.Edited(text, edits...)
}

func ptrTo[T any](v T) *T { return &v }
