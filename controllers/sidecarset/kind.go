// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/convert"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/podinject"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value describes SidecarSets to the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others, found by the annotation of their sets.
		Entry: kinds.Kind{
			Name: "SidecarSet", Plural: "sidecarsets", Group: "apps.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "sidecarset-workers", Users: kinds.View,
			Needs: kinds.Needs{PodAnnotation: "kruise.io/sidecarset-injected-list", OwnsRevisions: true},
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(admission.Others{
				Reader: d.Client, Namespace: d.Namespace, AnyMetadata: d.Gates.Enabled(features.SidecarSetPatchPodMetadataDefaultsAllowed), Named: d.ClientCA != "",
			}, announcing(d))
		},
		Convert:  convert.Converter,
		Policies: policies,
		Serve: func(d admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{podinject.Path: &podinject.Handler{Reader: d.Client, Namespace: d.Namespace, Known: d.KnownRevision}}
		},
	}
}

// announcing injects SidecarSets before they are stored, on every replica. It returns warnings.
func announcing(d admit.Deps) func(context.Context, *unstructured.Unstructured) []string {
	if d.Hooks == nil {
		return nil
	}
	i := NewInjection(InjectionOptions{
		Live: d.Client, Namespace: d.Namespace, Clock: clock.RealClock{}, Servers: d.Servers, SortByName: d.Gates.Enabled(features.EnableSortSidecarContainerByName),
	})
	return func(ctx context.Context, object *unstructured.Unstructured) []string {
		if d.Acts != nil && !d.Acts() {
			return nil
		}
		if err := i.Announce(ctx, d.Hooks, object); err != nil {
			return []string{"spec: pods that are created within the next seconds may not get the sidecars: " + err.Error()}
		}
		return nil
	}
}
