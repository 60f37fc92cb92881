// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package olm_test installs, upgrades and removes the operator through the Operator
// Lifecycle Manager, on a real control plane with simulated nodes: the manager's pods are
// reported as running, and if its actions matter it runs beside the cluster with OLM's
// rights. `make test-olm` covers its real pods.
package olm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	system  = "kruise-system"
	manager = "kruise-operator-manager"
	service = manager + "-service"
	// operatorUser is who the manager's pods are.
	operatorUser = "system:serviceaccount:" + system + ":" + manager
	// users is the namespace of the workloads.
	users = "shop"
	// converted is a kind with conversion by the operator.
	converted = "clonesets.apps.kruise.io"
	// definitionsWebhook asks about CRDs while they are written.
	definitionsWebhook = "keep.conversion.operator.kruise.io"
)

// versions are builds of this tree under three numbers: enough for a graph with a middle.
func versions() []string { return []string{"v0.0.1", "v0.0.2", "v0.0.3"} }

// fixture is the cluster of the test.
type fixture struct {
	*olm.OLM
	t       *testing.T
	cluster *cluster.Cluster
	root    string
	// bundles is where the bundle of each version is.
	bundles string
	// port is the webhook port of the manager beside the cluster, served its certificate.
	port   int
	served webhookserving.Bundle
	// replaced are OLM's admissionv1.WebhookClientConfigs, by the UID of a configuration
	// changed by askManager.
	replaced sync.Map
}

// start brings up the control plane, OLM and a catalog with three versions of this tree.
func start(t *testing.T) *fixture {
	t.Helper()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, root: root, bundles: t.TempDir()}
	w.cluster = cluster.StartForTest(t, cluster.Options{})
	nodes, err := simnode.Start(t.Context(), w.cluster.Config(), simnode.Options{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nodes.Stop)
	if w.OLM, err = olm.Start(t.Context(), w.cluster, olm.Options{}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	return w
}

// catalog renders the bundles of all versions from this tree and serves them.
func (w *fixture) catalog() {
	w.t.Helper()
	releases := packaging.Releases{}
	for i, version := range versions() {
		released := packaging.Version{Version: version, Channels: packaging.Channels()}
		if i > 0 {
			released.Replaces = versions()[i-1]
		}
		releases.Versions = append(releases.Versions, released)
		b := packaging.Bundle{
			Root: w.root, Output: w.bundle(version), Version: version, Replaces: released.Replaces,
			Image: "registry.example.com/kruise-operator/manager:" + version, Created: "2026-01-01T00:00:00Z", Progress: os.Stderr,
		}
		if err := b.Write(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	icon, err := os.ReadFile(filepath.Join(w.root, "config", "manifests", "icon.svg"))
	if err != nil {
		w.t.Fatal(err)
	}
	c := packaging.Catalog{
		Releases: releases, Bundle: w.bundle, Output: filepath.Join(w.t.TempDir(), "catalog"), Icon: icon, Inline: true, Progress: os.Stderr,
	}
	if err := c.Write(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.ServeCatalog(w.t.Context(), c.Output); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) bundle(version string) string { return filepath.Join(w.bundles, version) }

// definitions reads the CRDs of a bundle.
func (w *fixture) definitions(version string) []*apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.bundle(version), "manifests", "*.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err == nil && definition.Kind == "CustomResourceDefinition" {
			found = append(found, definition)
		}
	}
	if len(found) == 0 {
		w.t.Fatalf("the bundle of %s has no CRD", version)
	}
	return found
}

func (w *fixture) apply(manifest string) {
	w.t.Helper()
	if err := w.Apply(w.t.Context(), manifest); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) get(object client.Object, namespace, name string) {
	w.t.Helper()
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		w.t.Fatalf("reading %T %s: %v", object, name, err)
	}
}

func (w *fixture) until(what string, check func(context.Context) error) {
	w.t.Helper()
	if err := olm.Until(w.t.Context(), 90*time.Second, what, check); err != nil {
		w.t.Fatal(err)
	}
}

// gone waits until an object does not exist.
func (w *fixture) gone(object client.Object, namespace, name string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%T %s is gone", object, name), func(ctx context.Context) error {
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it exists"), err)
	})
}

// succeeded waits until the version's ClusterServiceVersion has succeeded and stays so: OLM goes back once while it adds the
// certificates.
func (w *fixture) succeeded(version string) {
	w.t.Helper()
	const looks = 40
	in := 0
	w.until(packaging.CSVName(version)+" has succeeded for good", func(ctx context.Context) error {
		phase, reason, err := w.CSV(ctx, system, packaging.CSVName(version))
		if err != nil || phase != "Succeeded" {
			in = 0
			return errors.Join(fmt.Errorf("phase %q, reason %q", phase, reason), err)
		}
		if in++; in < looks {
			return fmt.Errorf("seen %d times", in)
		}
		return nil
	})
}

func (w *fixture) approve(version string) {
	w.t.Helper()
	if err := w.Approve(w.t.Context(), system, "kruise-operator", packaging.CSVName(version)); err != nil {
		w.t.Fatal(err)
	}
}

// uid returns the UID of an object.
func (w *fixture) uid(object client.Object, namespace, name string) types.UID {
	w.t.Helper()
	w.get(object, namespace, name)
	return object.GetUID()
}

// runManager runs the manager beside the cluster with the rights of OLM's account. The API
// server cannot call the Service, which has no endpoints; askManager leads questions about
// CRDs to the process.
func (w *fixture) runManager() *cluster.Process {
	w.t.Helper()
	program, err := operator.Build(w.t.Context(), w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.port, err = w.cluster.FreePort(); err != nil {
		w.t.Fatal(err)
	}
	if w.served, err = webhookserving.Issue(webhookserving.Bundle{}, []string{"127.0.0.1"}, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	mounted := w.t.TempDir()
	for name, content := range map[string][]byte{corev1.TLSCertKey: w.served.Cert, corev1.TLSPrivateKeyKey: w.served.Key} {
		if err := os.WriteFile(filepath.Join(mounted, name), content, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	process, err := w.cluster.StartProcess("operator", program, []string{
		"run", "--service-account=" + system + "/" + manager, "--namespace=" + system, "--leader-elect=true",
		"--webhook-port=" + strconv.Itoa(w.port), "--webhook-cert-dir=" + mounted,
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, []string{"KUBECONFIG=" + w.cluster.AdminKubeconfig()})
	if err != nil {
		w.t.Fatal(err)
	}
	return process
}

// askManager leads the API server's questions about written CRDs, from now on and wherever
// OLM names the Service, to the manager beside the cluster. OLM may write CRDs at any
// moment of an upgrade, even after deleting the earlier version's configuration: so each
// configuration is changed when OLM makes it.
func (w *fixture) askManager() {
	w.t.Helper()
	made := client.MatchingLabels{"olm.webhook-description-generate-name": definitionsWebhook}
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	w.t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			list := &admissionv1.MutatingWebhookConfigurationList{}
			if err := w.Client.List(ctx, list, made); err != nil {
				return // asked again at once
			}
			for i := range list.Items {
				configuration := &list.Items[i]
				calls := &configuration.Webhooks[0].ClientConfig
				if calls.Service == nil {
					continue
				}
				w.replaced.Store(configuration.UID, *calls)
				url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)) + ptr.Deref(calls.Service.Path, "")
				*calls = admissionv1.WebhookClientConfig{URL: &url, CABundle: w.served.CA}
				// After a conflict, OLM wrote it, too: the next round looks again.
				err := w.Client.Update(ctx, configuration)
				if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					w.t.Errorf("leading %s to the manager: %v", configuration.Name, err)
				}
			}
		}, 100*time.Millisecond)
	}()
}

// mutating returns OLM's configurations of mutating webhooks, without askManager's changes.
func (w *fixture) mutating(ctx context.Context) ([]admissionv1.MutatingWebhookConfiguration, error) {
	list := &admissionv1.MutatingWebhookConfigurationList{}
	if err := w.Client.List(ctx, list); err != nil {
		return nil, err
	}
	for _, configuration := range list.Items {
		for i := range configuration.Webhooks {
			if made, ok := w.replaced.Load(configuration.UID); ok && configuration.Webhooks[i].ClientConfig.Service == nil {
				configuration.Webhooks[i].ClientConfig = made.(admissionv1.WebhookClientConfig)
			}
		}
	}
	return list.Items, nil
}

// answered is true if removing a converted kind's authority, as an upgrade's plan does,
// works.
func (w *fixture) answered(ctx context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: converted}, definition); err != nil {
		return err
	}
	definition.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	if err := w.Client.Update(ctx, definition, client.DryRunAll); err != nil {
		return err
	}
	if len(definition.Spec.Conversion.Webhook.ClientConfig.CABundle) == 0 {
		return fmt.Errorf("%s would lose its authority", converted)
	}
	return nil
}

// pods returns the UIDs of the running pods of a workload, by name.
func (w *fixture) pods(app string) map[string]types.UID {
	w.t.Helper()
	list := &corev1.PodList{}
	if err := w.Client.List(w.t.Context(), list, client.InNamespace(users), client.MatchingLabels{"app": app}); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		if environment.IsReady(&list.Items[i]) {
			found[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return found
}

// allowed checks the operator's account for a right.
func (w *fixture) allowed(namespace, verb, group, resource, subresource, name string) bool {
	w.t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: operatorUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
		},
	}}
	if err := w.Client.Create(w.t.Context(), review); err != nil {
		w.t.Fatal(err)
	}
	return review.Status.Allowed
}
