// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package deploy puts the operator into a test cluster with real nodes as its users do,
// with pulled images and `make deploy`. Then only the operator's own pods act for it.
package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	// Namespace is where the operator runs.
	Namespace = "kruise-system"
	// Manager is the name of its Deployment.
	Manager = "kruise-operator-manager"
	// Repository is where clusters are told to find the manager's image. Nodes get it from the registry of their network.
	Repository = "registry.example.com/kruise-operator"
)

// Need skips a test, with the reason, on a machine without real nodes. It fails the test if
// [cluster.Required].
func Need(t cluster.TB, unavailable error) {
	t.Helper()
	if unavailable == nil {
		return
	}
	if cluster.Required() {
		t.Fatalf("%v", unavailable)
	}
	t.Skipf("skipped, %v", unavailable)
}

// Push makes an image, built for this machine, available to all nodes and returns its name by digest. The reference has a tag.
func Push(ctx context.Context, c *cluster.Cluster, reference string, content images.Image) (string, error) {
	network, err := c.NodeNetwork(ctx)
	if err != nil {
		return "", err
	}
	image, err := content.For(ctx, images.Host())
	if err != nil {
		return "", err
	}
	if err := network.Push(ctx, reference, image); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of %s: %w", reference, err)
	}
	name, _, _ := strings.Cut(reference, ":")
	return name + "@" + digest.String(), nil
}

// PushManager pushes the manager of this tree.
func PushManager(ctx context.Context, c *cluster.Cluster, reference, version string) error {
	_, err := Push(ctx, c, reference, images.Image{Programs: images.Operator(version), User: images.NonRoot})
	return err
}

// PushGuestbook pushes versions of the guestbook as openkruise/guestbook.
func PushGuestbook(ctx context.Context, c *cluster.Cluster, versions ...string) error {
	for _, version := range versions {
		content := images.Image{Programs: []images.Program{images.Guestbook(version)}, User: images.NonRoot}
		if _, err := Push(ctx, c, "openkruise/guestbook:"+version, content); err != nil {
			return err
		}
	}
	return nil
}

// Make runs a target of this tree's Makefile against the cluster, with variables such as
// IMAGE_REPO=registry.example.com/kruise-operator, and returns its output.
func Make(ctx context.Context, c *cluster.Cluster, args ...string) (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	// The cluster's own kubectl, not this machine's.
	programs := filepath.Dir(c.Kubectl(ctx).Path)
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PWD="+root, "KUBECONFIG="+c.AdminKubeconfig(),
		"PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("make %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Managers returns the operator's pods, and an error unless there are exactly so many, all
// ready, and none terminating: these serve for a while.
func Managers(ctx context.Context, reader client.Reader, want int) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := reader.List(ctx, list, client.InNamespace(Namespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != want {
		return nil, fmt.Errorf("there are %v", environment.Names(list.Items))
	}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp != nil || !environment.IsReady(pod) {
			return nil, fmt.Errorf("%s: %+v", pod.Name, pod.Status.ContainerStatuses)
		}
	}
	return list.Items, nil
}

// Report shows the managers' logs and the state of their pods, for a failed run. More
// commands of kubectl can be added.
func Report(c *cluster.Cluster, logf func(string, ...any), more ...[]string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, args := range append([][]string{
		{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-n", Namespace},
		{"logs", "-n", Namespace, "-l", "app.kubernetes.io/component=manager", "--tail=60", "--prefix"},
	}, more...) {
		output, err := c.Kubectl(ctx, args...).CombinedOutput()
		logf("kubectl %s (%v)\n%s", strings.Join(args, " "), err, output)
	}
}
