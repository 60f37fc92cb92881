// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// announceTimeout leaves time to answer the request for the Rollout.
const announceTimeout = 5 * time.Second

// announcer is what admission has for it. Without Hooks and Servers controllers register the brake.
type announcer struct {
	client  client.Client
	hooks   *hooks.Registrar
	servers *apiservers.Servers
	acts    func() bool
}

// announcing puts the workload of a new Rollout under the brake before that is stored. So what the same client changes next is held.
func announcing(d announcer) func(context.Context, *unstructured.Unstructured) []string {
	return func(ctx context.Context, object *unstructured.Unstructured) []string {
		if d.acts != nil && !d.acts() {
			return nil
		}
		ref, _, _ := unstructured.NestedStringMap(object.Object, "spec", "workloadRef")
		disabled, _, _ := unstructured.NestedBool(object.Object, "spec", "disabled")
		row, known := rollable.Of(ref["apiVersion"], ref["kind"])
		if !known || disabled {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, announceTimeout)
		defer cancel()
		if err := announce(ctx, d, row, types.NamespacedName{Namespace: object.GetNamespace(), Name: ref["name"]}, object.GetName()); err != nil {
			return []string{"spec: a change of the workload within the next seconds may go on without steps: " + err.Error()}
		}
		return nil
	}
}

func announce(ctx context.Context, d announcer, row rollable.Workload, key types.NamespacedName, rollout string) error {
	// A new Deployment is written by its controller, too.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored := workload.Object(row.Kind)
		if err := d.client.Get(ctx, key, stored); err != nil {
			return err
		}
		if stored.GetAnnotations()[shared.AnnotationRollout] == rollout && stored.GetLabels()[shared.LabelWorkloadType] != "" {
			return nil
		}
		fields := guarding(row, stored, rollout, false)[0]
		return d.client.Patch(ctx, stored.DeepCopy(), client.RawPatch(types.MergePatchType, planning.MergePatch(stored, fields).Body))
	})
	if err != nil || !row.Native { // its own admission holds it
		return client.IgnoreNotFound(err)
	}
	holds := func(ctx context.Context, c client.Client) error {
		return held(ctx, client.NewDryRunClient(c), row.Kind, key, nil)
	}
	if holds(ctx, d.client) == nil || d.hooks == nil {
		return nil
	}
	if err := d.hooks.Announce(ctx, Hook()); err != nil {
		return err
	}
	if d.servers == nil {
		return nil
	}
	return d.servers.Until(ctx, holds)
}
