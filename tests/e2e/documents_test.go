// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// TestSamples applies every sample as a user does, and waits until its sets are available.
func TestSamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			applied(t, file)
		})
	}
	t.Run("all of them", func(t *testing.T) {
		t.Parallel()
		applied(t, "-k", "../../config/samples")
	})
}

// TestDocumentedManifests applies every manifest of the pages in docs/kinds.
func TestDocumentedManifests(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/kinds/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := manifests(string(text))
		if len(blocks) == 0 {
			t.Errorf("%s has no manifest", page)
		}
		for i, block := range blocks {
			t.Run(fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(page), ".md"), i+1), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "manifest.yaml")
				if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
				applied(t, file)
			})
		}
	}
}

// manifests are the fenced YAML blocks of a page.
func manifests(page string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(page, "\n```yaml\n")
		if !found {
			return blocks
		}
		var block string
		block, page, _ = strings.Cut(rest, "\n```")
		blocks = append(blocks, block+"\n")
	}
}

// applied applies a file with kubectl and waits until every set in it is available, with all of its pods.
func applied(t *testing.T, file ...string) {
	t.Helper()
	defaultStorageClass(t)
	n := env.Namespace(t)
	if len(file) == 1 {
		file = []string{"-f", file[0]}
	}
	out, err := n.Kubectl(append([]string{"apply"}, file...)...)
	if err != nil || strings.Contains(out, "Warning") {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	sets := &v1beta1.StatefulSetList{}
	if err := n.Client.List(t.Context(), sets, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	if len(sets.Items) == 0 {
		t.Fatalf("no set was applied:\n%s", out)
	}
	for _, set := range sets.Items {
		n.EventuallyWithin(2*time.Minute, "the set "+set.Name+" is available", func(ctx context.Context) error {
			is := &v1beta1.StatefulSet{}
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(&set), is); err != nil {
				return err
			}
			if is.Status.AvailableReplicas != *is.Spec.Replicas || !isTrue(is, v1beta1.StatefulSetAvailable) || isTrue(is, v1beta1.StatefulSetStalled) {
				return fmt.Errorf("the status is %+v", is.Status)
			}
			return nil
		})
		if out, err := n.Kubectl("wait", "--for=condition=Available", "--timeout=5s", "asts/"+set.Name); err != nil {
			t.Errorf("kubectl wait: %v\n%s", err, out)
		}
	}
	// Pods with finalizers would hold the namespace.
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		pods, err := n.ListPods(ctx)
		if err != nil {
			t.Error(err)
		}
		for i := range pods {
			if len(pods[i].Finalizers) > 0 {
				if err := n.Client.Patch(ctx, &pods[i], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func isTrue(set *v1beta1.StatefulSet, kind appsv1.StatefulSetConditionType) bool {
	for _, c := range set.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// defaultStorageClass makes the class for claims that name none, as clusters have one.
func defaultStorageClass(t *testing.T) {
	t.Helper()
	class := simnode.StorageClass("standard", storagev1.VolumeBindingWaitForFirstConsumer, true)
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), class)); err != nil {
		t.Fatal(err)
	}
}
