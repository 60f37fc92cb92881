// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package helm_test installs, changes and removes the chart with Helm itself, on a real API server without nodes.
package helm_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
	"github.com/kruise-operator/kruise-operator/tests/framework/chart"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	system  = "kruise-system"
	manager = "kruise-operator-manager"
	// releaseName is Helm's annotation for an object's release.
	releaseName, releaseNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
)

// helm runs Helm against one cluster.
type helm struct {
	*testing.T
	client  client.Client
	program string
	config  string
	chart   string
}

func start(t *testing.T) helm {
	t.Helper()
	c := cluster.StartForTest(t, cluster.Options{})
	scheme := environment.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := offline(t)
	h.client, h.config = direct, c.AdminKubeconfig()
	return h
}

// offline is Helm without a cluster.
func offline(t *testing.T) helm {
	t.Helper()
	programs, err := binaries.Ensure(t.Context(), binaries.Options{Progress: os.Stderr}, binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	return helm{T: t, program: programs.Path(binaries.Helm), chart: filepath.Join(root, chart.Folder)}
}

// authority is the CA of the cluster.
func (h helm) authority() []byte {
	h.Helper()
	config := &corev1.ConfigMap{}
	h.get(config, metav1.NamespaceSystem, "extension-apiserver-authentication")
	return []byte(config.Data["client-ca-file"])
}

// run runs Helm and returns its output.
func (h helm) run(args ...string) (string, error) {
	cmd := exec.CommandContext(h.Context(), h.program, append(args, "--namespace=default")...)
	home := h.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.config, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (h helm) must(args ...string) string {
	h.Helper()
	output, err := h.run(args...)
	if err != nil {
		h.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// args are the arguments of the manager.
func (h helm) args() []string {
	h.Helper()
	deployment := &appsv1.Deployment{}
	h.get(deployment, system, manager)
	return deployment.Spec.Template.Spec.Containers[0].Args
}

func (h helm) get(object client.Object, namespace, name string) {
	h.Helper()
	if err := h.client.Get(h.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		h.Fatal(err)
	}
}

// served waits until the kinds can be listed: the API server serves a definition a moment after it took it.
func (h helm) served(lists ...client.ObjectList) {
	h.Helper()
	for _, list := range lists {
		var last error
		if wait.PollUntilContextTimeout(h.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			last = h.client.List(ctx, list)
			return last == nil, nil
		}) != nil {
			h.Fatal(last)
		}
	}
}

func TestInstallChangeAndUninstall(t *testing.T) {
	h := start(t)
	authority := h.authority()
	notes := h.must("install", "kruise", h.chart, "--set=manager.image.repository=registry.example/kruise", "--set=daemon.port=10221", "--set=shade=blue")
	for _, ignored := range []string{"daemon.port", "shade"} {
		if !strings.Contains(notes, "\n  "+ignored+"\n") {
			t.Errorf("the notes do not name %s:\n%s", ignored, notes)
		}
	}
	if strings.Contains(notes, "manager.") {
		t.Errorf("the notes name values that have an effect:\n%s", notes)
	}
	h.served(&operatorv1alpha1.KruiseList{}, &v1beta1.CloneSetList{})
	deployment := &appsv1.Deployment{}
	h.get(deployment, system, manager)
	if image := deployment.Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(image, "registry.example/kruise:v") {
		t.Errorf("the image is %s", image)
	}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &operatorv1alpha1.Kruise{}); !apierrors.IsNotFound(err) {
		t.Errorf("without a value for it there is a Kruise object: %v", err)
	}

	// The operator fills in the authority; an upgrade leaves it.
	config := &admissionv1.ValidatingWebhookConfiguration{}
	h.get(config, "", "kruise-operator-validating")
	config.Webhooks[0].ClientConfig.CABundle = authority
	if err := h.client.Update(t.Context(), config, client.FieldOwner("kruise-operator")); err != nil {
		t.Fatal(err)
	}

	h.must("upgrade", "kruise", h.chart, "--set=manager.replicas=3", "--set=manager.custom_resource_enable=CloneSet\\,StatefulSet",
		"--set=featureGates=SidecarTerminator=true", "--set=manager.log.level=4", "--set=daemon.socketLocation=/run/k3s/containerd", "--set=manager.metrics.port=9090")
	for _, want := range []string{"--kinds=CloneSet,StatefulSet", "--feature-gates=SidecarTerminator=true", "--log-level=4", "--metrics-bind-address=:9090", "--leader-elect"} {
		if args := h.args(); !slices.Contains(args, want) {
			t.Errorf("the manager's arguments lack %s: %v", want, args)
		}
	}
	h.get(config, "", config.Name)
	if !bytes.Equal(config.Webhooks[0].ClientConfig.CABundle, authority) {
		t.Error("the upgrade has taken away the authority of the webhooks")
	}
	kruise := &operatorv1alpha1.Kruise{}
	h.get(kruise, "", "cluster")
	if path := kruise.Spec.NodeDaemon.CRISocketPath; path != "/run/k3s/containerd/containerd.sock" {
		t.Errorf("the node daemon looks for the runtime at %s", path)
	}

	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	h.withoutWebhooks()
	if err := h.client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	h.must("uninstall", "kruise")
	h.get(&v1beta1.CloneSet{}, "default", "web")
	h.get(&corev1.Namespace{}, "", system)
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: manager}, deployment); !apierrors.IsNotFound(err) {
		t.Errorf("the manager stays: %v", err)
	}
	h.must("install", "again", h.chart, "--take-ownership")
}

// withoutWebhooks removes calls of the operator, which does not run here.
func (h helm) withoutWebhooks() {
	h.Helper()
	objects, err := kustomized.Render("webhook")
	if err != nil {
		h.Fatal(err)
	}
	for _, object := range objects {
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			if err := h.client.Delete(h.Context(), object); err != nil {
				h.Fatal(err)
			}
		}
	}
}

// OpenKruise's chart owns the Namespace and the CRDs of its release.
func TestInstallOverOpenKruisesRelease(t *testing.T) {
	h := start(t)
	others := map[string]string{releaseName: "kruise", releaseNamespace: "default"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, Annotations: others, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}}
	if err := h.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	objects, err := kustomized.Render("crd")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		object.SetAnnotations(others)
		if err := h.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := h.run("install", "ours", h.chart); err == nil || !strings.Contains(output, "invalid ownership metadata") {
		t.Errorf("the CRDs of another release were taken without being asked: %v\n%s", err, output)
	}
	h.must("install", "ours", h.chart, "--take-ownership", "--force-conflicts")
	h.get(namespace, "", system)
	if owner := namespace.Annotations[releaseName]; owner != "kruise" {
		t.Errorf("the namespace was taken over by %s: removing ours would be up to Helm", owner)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	h.get(definition, "", "clonesets.apps.kruise.io")
	if owner := definition.Annotations[releaseName]; owner != "ours" {
		t.Errorf("the CRD belongs to %s", owner)
	}
}

func TestWrongValuesAreNamed(t *testing.T) {
	h := offline(t)
	h.must("lint", h.chart, "--strict")
	for set, want := range map[string]string{
		"manager.replicas=many":                  "/manager/replicas",
		"featureGates=Sidecar":                   "/featureGates",
		"manager.log.level=loud":                 "/manager/log/level",
		"webhookConfiguration.timeoutSeconds=31": "/webhookConfiguration/timeoutSeconds",
		"daemon.socketLocation=run":              "/daemon/socketLocation",
	} {
		if output, err := h.run("template", "kruise", h.chart, "--set="+set); err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v, %s", set, err, output)
		}
	}
}

// Values the notes do not name are values.yaml's.
func TestKnownValuesAreThoseOfTheChart(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	decode(t, filepath.Join(root, chart.Folder, "values.yaml"), "", &values)
	known := map[string][]string{}
	decode(t, filepath.Join(root, chart.Folder, "templates", "_helpers.tpl"), `{{- define "kruise-operator.known" -}}`, &known)
	for name, value := range values {
		if !slices.Contains(known[""], name) {
			t.Errorf("the notes would name %s", name)
		}
		group, is := value.(map[string]any)
		if !is {
			continue
		}
		for key := range group {
			if !slices.Contains(known[name], key) {
				t.Errorf("the notes would name %s.%s", name, key)
			}
		}
		if len(known[name]) != len(group) {
			t.Errorf("the notes know %v below %s, values.yaml has %v", known[name], name, group)
		}
	}
}

// decode reads YAML from a file, from after a line to the end of a template.
func decode(t *testing.T, file, after string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(content), after)
	text, _, _ = strings.Cut(text, "{{-")
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
