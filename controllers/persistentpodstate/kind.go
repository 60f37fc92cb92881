// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/admission"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/convert"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// Value is the kind PersistentPodState for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others, or of our StatefulSets.
		Entry: kinds.Kind{
			Name: "PersistentPodState", Plural: "persistentpodstates", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "persistentpodstate-workers", Users: kinds.Edit,
			Needs: kinds.Needs{ReadsNodes: true, PodFacts: true},
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(admission.Others{Reader: d.Client, Namespace: d.Namespace})
		},
		Convert: convert.Converter,
		Serve:   func(d admit.Deps) map[string]http.Handler { return serve(d.Client) },
	}
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list

// serve makes new pods of others return to their places. The reader asks the API server, not a cache.
func serve(reader client.Reader) map[string]http.Handler {
	return map[string]http.Handler{Path: newpods.Handler{Path: Path, Change: func(ctx context.Context, asked newpods.Asked) ([]string, error) {
		state := &appsv1beta1.PersistentPodState{}
		if err := reader.Get(ctx, asked.Of, state); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		kind := schema.FromAPIVersionAndKind(asked.Owner.APIVersion, asked.Owner.Kind).GroupKind()
		if state.DeletionTimestamp == nil && place.Targets(state, kind, asked.Owner.Name) {
			place.Return(asked.Pod, state, sticky.Nodes(ctx, reader))
		}
		return nil, nil
	}}}
}
