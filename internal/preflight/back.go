// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// goingBack returns the command for going back. OpenKruise's webhook fills templates with
// defaults at their first write. This would recreate pods, so we write the defaults before,
// into revisions, too.
func goingBack(namespace *string) *cobra.Command {
	return &cobra.Command{
		Use:   "going-back",
		Short: "Write OpenKruise's defaults into CloneSets and StatefulSets that were applied without it. Refused while a manager runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reading, err := connected(cmd, *namespace, nil)
			if err != nil {
				return err
			}
			for _, name := range []client.ObjectKey{reading.Lease, takeover.Lease()} {
				lease, err := reading.readLease(cmd.Context(), name)
				if err != nil {
					return err
				}
				if lease.Status == takeover.Renewed {
					return fmt.Errorf("%s still renews Lease %s: stop it first", lease.Holder, name)
				}
			}
			return GoBack(cmd.Context(), reading.Client, reading.Progress)
		},
	}
}

// GoBack writes OpenKruise's defaults into all CloneSets and StatefulSets. It may be repeated.
func GoBack(ctx context.Context, c client.Client, report func(string)) error {
	for _, kind := range []string{"CloneSet", "StatefulSet"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1beta1.GroupVersion().WithKind(kind + "List"))
		for page, err := range pages.All(ctx, c, list) {
			if err != nil {
				return fmt.Errorf("listing objects of %s: %w", kind, err)
			}
			for i := range page.Items {
				if err := fill(ctx, c, &page.Items[i], report); err != nil {
					return fmt.Errorf("writing the defaults of %s %s: %w", kind, nameOf(&page.Items[i]), err)
				}
			}
		}
	}
	return nil
}

// fill fills the templates of a workload and its revisions.
func fill(ctx context.Context, c client.Client, set *unstructured.Unstructured, report func(string)) error {
	revisions := &appsv1.ControllerRevisionList{}
	if err := c.List(ctx, revisions, client.InNamespace(set.GetNamespace())); err != nil {
		return err
	}
	for i := range revisions.Items {
		if stored := &revisions.Items[i]; metav1.IsControlledBy(stored, set) {
			if err := refill(ctx, c, stored); err != nil {
				return fmt.Errorf("revision %s: %w", stored.Name, err)
			}
		}
	}
	content, found, _ := unstructured.NestedMap(set.Object, "spec", "template")
	template := &corev1.PodTemplateSpec{}
	if !found {
		return nil
	}
	if err := quantity.FromUnstructured(content, template); err != nil {
		return err
	}
	filled := defaulted(template)
	if equality.Semantic.DeepEqual(template, filled) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(filled)
	if err != nil {
		return err
	}
	set.Object["spec"].(map[string]any)["template"] = content //nolint:forcetypeassert // it has a template
	report(set.GetKind() + " " + nameOf(set) + " gets OpenKruise's defaults")
	return c.Update(ctx, set)
}

// defaulted fills in OpenKruise's defaults, without those of pods alone.
func defaulted(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	filled := podtemplate.Defaulted(t)
	filled.Spec.EnableServiceLinks = t.Spec.EnableServiceLinks
	before := slices.Concat(t.Spec.InitContainers, t.Spec.Containers)
	for _, containers := range [][]corev1.Container{filled.Spec.InitContainers, filled.Spec.Containers} {
		for i := range containers {
			containers[i].Resources.Requests = before[i].Resources.Requests
			for port := range containers[i].Ports {
				containers[i].Ports[port].HostPort = before[i].Ports[port].HostPort
			}
		}
		before = before[len(containers):]
	}
	return filled
}

// refill makes a revision again, since its data is immutable. Pods carry its name.
func refill(ctx context.Context, c client.Client, stored *appsv1.ControllerRevision) error {
	decoded, err := revision.Decode(stored)
	if err != nil {
		return err
	}
	data, err := revision.Encode(defaulted(decoded.Template))
	if err != nil || bytes.Equal(data, stored.Data.Raw) {
		return err
	}
	filled := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: stored.Namespace, Name: stored.Name, Labels: stored.Labels, Annotations: stored.Annotations, OwnerReferences: stored.OwnerReferences,
		},
		Data: runtime.RawExtension{Raw: data}, Revision: stored.Revision,
	}
	metav1.SetMetaDataLabel(&filled.ObjectMeta, shared.LabelRevisionHash, revision.Hash(data, nil))
	if err := c.Delete(ctx, stored); err != nil {
		return err
	}
	return retry.OnError(retry.DefaultBackoff, func(error) bool { return true }, func() error { return c.Create(ctx, filled) })
}
