// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
)

// maxPods limits what is read to find one that is ready.
const maxPods = 1000

// AnyPod says whether a ready pod behind a Service has these labels, too.
func AnyPod(ctx context.Context, live client.Reader, service map[string]any, labels map[string]string) (found bool, err error) {
	selector := tree.Texts(service, "spec", "selector")
	if len(selector) == 0 {
		return false, nil
	}
	maps.Copy(selector, labels)
	_, err = pages.Read(ctx, live, &corev1.PodList{}, pages.Limits{Objects: maxPods, Bytes: 32 << 20}, func(page *corev1.PodList) bool {
		found = slices.ContainsFunc(page.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && podstate.Ready(&p) })
		return !found
	}, client.InNamespace(tree.Text(service, "metadata", "namespace")), client.MatchingLabels(selector))
	if err != nil {
		return false, fmt.Errorf("listing pods behind the Service: %w", err)
	}
	return found, nil
}
