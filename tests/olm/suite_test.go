// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package olm_test installs, upgrades and removes the operator through the Operator Lifecycle Manager, on a real control plane
// with simulated nodes: the manager's pods are said to run, and where its actions matter it runs beside the cluster with the rights
// that OLM gave it. What only its real pods can show is in the suite that `make test-olm` runs.
package olm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

const (
	system  = "kruise-system"
	manager = "kruise-operator-manager"
	service = manager + "-service"
	// operatorUser is who the manager's pods are.
	operatorUser = "system:serviceaccount:" + system + ":" + manager
	// users is the namespace of the workloads.
	users = "shop"
)

// versions are builds of this tree under three numbers: enough for a graph with a middle.
func versions() []string { return []string{"v0.0.1", "v0.0.2", "v0.0.3"} }

// world is the cluster of the test.
type world struct {
	*olm.OLM
	t       *testing.T
	cluster *cluster.Cluster
	root    string
	// bundles is where the bundle of each version is.
	bundles string
}

// start brings up the control plane, OLM and a catalog with three versions of this tree.
func start(t *testing.T) *world {
	t.Helper()
	root, err := binaries.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, bundles: t.TempDir()}
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
func (w *world) catalog() {
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

func (w *world) bundle(version string) string { return filepath.Join(w.bundles, version) }

// definitions reads the CRDs of a bundle.
func (w *world) definitions(version string) []*apiextensionsv1.CustomResourceDefinition {
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

func (w *world) apply(manifest string) {
	w.t.Helper()
	if err := w.Apply(w.t.Context(), manifest); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(object client.Object, namespace, name string) {
	w.t.Helper()
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		w.t.Fatalf("reading %T %s: %v", object, name, err)
	}
}

func (w *world) until(what string, check func(context.Context) error) {
	w.t.Helper()
	if err := olm.Until(w.t.Context(), 90*time.Second, what, check); err != nil {
		w.t.Fatal(err)
	}
}

// gone waits until an object does not exist.
func (w *world) gone(object client.Object, namespace, name string) {
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
func (w *world) succeeded(version string) {
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

func (w *world) approve(version string) {
	w.t.Helper()
	if err := w.Approve(w.t.Context(), system, "kruise-operator", packaging.CSVName(version)); err != nil {
		w.t.Fatal(err)
	}
}

// uid returns the UID of an object.
func (w *world) uid(object client.Object, namespace, name string) types.UID {
	w.t.Helper()
	w.get(object, namespace, name)
	return object.GetUID()
}

// runManager runs the manager beside the cluster with the rights of the account that OLM made, and without webhooks.
func (w *world) runManager() *cluster.Process {
	w.t.Helper()
	program, err := operator.Build(w.t.Context(), w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	process, err := w.cluster.StartProcess("operator", program, []string{
		"run", "--service-account=" + system + "/" + manager, "--webhook-port=0", "--leader-elect=true",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, []string{"KUBECONFIG=" + w.cluster.AdminKubeconfig()})
	if err != nil {
		w.t.Fatal(err)
	}
	return process
}

// pods returns the UIDs of the running pods of a workload, by name.
func (w *world) pods(app string) map[string]types.UID {
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

// allowed asks whether the operator's account may do something.
func (w *world) allowed(namespace, verb, group, resource, subresource, name string) bool {
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
